//! `hearth evm import`, `export` and `verify`: a chain as a file of consecutive blocks in RLP.
//!
//! reads   the file; the genesis; the chain's folder
//! writes  the chain's folder, block by block; or the file, as a whole
//! memory  one block of the file; for `verify` the chain's state
//! drops   nothing: an error in the file ends the command with its byte, or with the block and the field
//! source  geth's `import` and `export`, which use the same files
//!
//! A block is appended only when every rule holds, so a file with a bad end leaves whole blocks. Blocks that the chain
//! has already are compared and skipped.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use hearth_command::output::{CommandOutput, is_stdout, plural};
use hearth_command::stop::StopSignal;
use hearth_evm::chain::{BlockTime, Chain, ChainConfig, Paths, limits_in_folder};
use hearth_evm::genesis::Genesis;
use hearth_evm::import::{BlockReader, GivenBlock, InvalidBlock, check_genesis};

use super::limits::LimitOptions;
use super::{EvmError, accounts, comet, genesis_file, run};

/// Bytes per read or write of the file.
const CHUNK_BYTES: usize = 1 << 20;
/// Interval between progress reports of a long import.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// Blocks kept in memory without a folder: as many as contracts can refer to.
const RECENT_BLOCKS: u64 = 256;

/// The chain that a file of blocks is of.
#[derive(Args)]
pub struct ChainSource {
    /// The chain's genesis, in geth's JSON form [default: what the folder of --data-dir began with].
    #[arg(long, value_name = "FILE")]
    pub genesis: Option<PathBuf>,
    /// The chain's folder.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// The words of the accounts that the folder's chain began with, where there is no --genesis.
    #[command(flatten)]
    pub words: accounts::MnemonicOptions,
}

/// How given blocks are executed.
#[derive(Args, Default)]
pub struct Execution {
    /// Threads that execute a block's transactions [default: as many as cores, at most four].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Also execute each block in order, and compare.
    #[arg(long)]
    pub both: bool,
    /// Limits under which the blocks were made, where the folder does not say it.
    #[command(flatten)]
    pub limits: LimitOptions,
}

impl Execution {
    fn paths(&self) -> Paths {
        let threads = self.threads.map_or_else(run::default_threads, usize::from);
        match (self.both, threads) {
            // On one thread there would be nothing to compare.
            (true, threads) => Paths::Both(threads.max(2)),
            (false, 1) => Paths::Serial,
            (false, threads) => Paths::Threads(threads),
        }
    }
}

/// The options of `hearth evm import`.
#[derive(Args)]
pub struct EvmImport {
    /// A file of consecutive RLP blocks, as `hearth evm export` and geth write it; `-`: standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The chain that the blocks are of.
    #[command(flatten)]
    pub chain: ChainSource,
    /// How they are executed.
    #[command(flatten)]
    pub execution: Execution,
}

/// The options of `hearth evm verify`.
#[derive(Args)]
pub struct EvmVerify {
    /// A file of RLP blocks from block 1 on, or from block 0; `-`: standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The chain that the blocks are of. The folder is not opened: it only says how its chain began.
    #[command(flatten)]
    pub chain: ChainSource,
    /// How they are executed.
    #[command(flatten)]
    pub execution: Execution,
}

/// The options of `hearth evm export`.
#[derive(Args)]
pub struct EvmExport {
    /// The file to write; an existing one is replaced as a whole.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The folder of the chain, and its genesis.
    #[command(flatten)]
    pub chain: ChainSource,
    /// The first block.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub from: u64,
    /// The last block [default: the newest].
    #[arg(long, value_name = "NUMBER")]
    pub to: Option<u64>,
}

/// Appends the file's blocks to the chain in a folder.
pub fn import(options: &EvmImport, stop: &StopSignal, say: &CommandOutput) -> Result<(), EvmError> {
    let chain = in_folder("hearth evm import", &options.chain, &options.execution)?;
    let fed = feed(&chain, &options.file, options.execution.paths(), stop, say);
    chain.stop();
    run::shorten(&chain, say);
    let head = chain.head();
    let fed =
        fed.map_err(|stopped| stopped.of(&options.file, format!("the chain ends with block {}", head.number())))?;
    say.line(format_args!("imported {}; the newest is block {} ({})", fed.text(), head.number(), head.hash));
    Ok(())
}

/// Executes the file's blocks on a chain in memory.
pub fn verify(options: &EvmVerify, stop: &StopSignal, say: &CommandOutput) -> Result<(), EvmError> {
    let genesis = genesis(&options.chain, &options.execution.limits)?;
    let chain = Chain::open(ChainConfig { retain_blocks: RECENT_BLOCKS, ..config(genesis, &options.execution) })?;
    let fed = feed(&chain, &options.file, options.execution.paths(), stop, say);
    chain.stop();
    let head = chain.head();
    let fed = fed.map_err(|stopped| stopped.of(&options.file, format!("blocks up to {} are valid", head.number())))?;
    say.line(format_args!("valid: {}; the last is block {} ({})", fed.text(), head.number(), head.hash));
    Ok(())
}

/// Writes the chain's blocks to a file.
pub fn export(options: &EvmExport, stop: &StopSignal, say: &CommandOutput) -> Result<(), EvmError> {
    let execution = Execution { threads: Some(1), ..Default::default() };
    let chain = in_folder("hearth evm export", &options.chain, &execution)?;
    let written = write(&chain, options, stop);
    chain.stop();
    let blocks = written?;
    let word = plural(blocks, "block");
    say.line(format_args!("exported {blocks} {word} to {}", options.file.display()));
    Ok(())
}

fn config(genesis: Genesis, execution: &Execution) -> ChainConfig {
    let threads = execution.threads.map_or_else(run::default_threads, usize::from);
    ChainConfig { block_time: BlockTime::Manual, threads, ..ChainConfig::new(genesis) }
}

fn in_folder(command: &'static str, source: &ChainSource, execution: &Execution) -> Result<Chain, EvmError> {
    if source.data_dir.is_none() {
        return Err(EvmError::Idle(command, "without --data-dir: it names the chain's folder"));
    }
    let config = config(genesis(source, &execution.limits)?, execution);
    Ok(Chain::open(ChainConfig { dir: source.data_dir.clone(), ..config })?)
}

/// The genesis of the chain, with the limits that are given, or else those under which its folder's blocks were made.
fn genesis(source: &ChainSource, given: &LimitOptions) -> Result<Genesis, EvmError> {
    let genesis = match (&source.genesis, &source.data_dir) {
        (Some(path), _) => {
            let failed = |what: String| EvmError::File { option: "--genesis", path: path.clone(), what };
            let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
            let text = comet::genesis_text(text);
            // A chain of `hearth evm run` carries the ledger of outputs, whatever its genesis says: without it, blocks
            // would be added that the ledger does not know, and the folder could not be opened again.
            let read = match source.data_dir.as_deref().is_some_and(genesis_file::is_with_outputs) {
                true => hearth_evm_utxo::genesis::from_json(&text),
                false => genesis_file::of_text(&text),
            };
            read.map_err(|error| failed(error.to_string()))?
        }
        (None, Some(dir)) => run::genesis_of_folder(dir, &source.words)?,
        (None, None) => {
            return Err(EvmError::Idle("the command", "without --genesis, or --data-dir with a chain's folder"));
        }
    };
    let in_folder = || source.data_dir.as_deref().map_or_else(Default::default, limits_in_folder);
    let limits = if given.first_given().is_some() { given.limits() } else { in_folder() };
    Ok(Genesis { limits, ..genesis })
}

/// The blocks that were read from a file.
#[derive(Default)]
struct ImportCounts {
    blocks: u64,
    known: u64,
    txs: u64,
    gas: u64,
    time: Duration,
}

impl ImportCounts {
    fn text(&self) -> String {
        let Self { blocks, known, txs, gas, time } = self;
        let seconds = time.as_secs_f64();
        let known = if *known == 0 { String::new() } else { format!(" ({known} more were there already)") };
        format!(
            "{blocks} {}{known} with {txs} {} and {gas} gas in {seconds:.1} s",
            plural(*blocks, "block"),
            plural(*txs, "transaction")
        )
    }
}

/// Why a file was not read to its end.
enum ImportStop {
    /// The file is invalid; says what and where.
    Wrong(String),
    /// The user has asked for the end.
    Asked,
    /// The chain has stopped with an error.
    Chain(EvmError),
}

impl ImportStop {
    /// Returns the error for the user; `kept` describes the blocks that were kept.
    fn of(self, path: &Path, kept: String) -> EvmError {
        match self {
            Self::Wrong(what) => EvmError::BlockFile { path: path.to_owned(), what, kept },
            Self::Asked => EvmError::Interrupted(kept),
            Self::Chain(error) => error,
        }
    }
}

/// Appends the file's blocks to the chain, in order.
fn feed(
    chain: &Chain,
    path: &Path,
    paths: Paths,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<ImportCounts, ImportStop> {
    let cannot = |error: io::Error| ImportStop::Wrong(format!("cannot read it: {error}"));
    let source: Box<dyn Read> =
        if is_stdout(Some(path)) { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(cannot)?) };
    let mut blocks = BlockReader::new(BufReader::with_capacity(CHUNK_BYTES, source));
    let begun = Instant::now();
    let (mut fed, mut said) = (ImportCounts::default(), begun);
    loop {
        if stop.is_set() {
            return Err(ImportStop::Asked);
        }
        let at = blocks.offset();
        let Some(block) = blocks.next() else { break };
        let block = block.map_err(|error| ImportStop::Wrong(error.to_string()))?;
        let place = |what: String| ImportStop::Wrong(format!("byte {at}: {what}"));
        if is_known(chain, &block).map_err(|(number, why)| place(format!("block {number}: {why}")))? {
            fed.known += 1;
            continue;
        }
        let imported = chain.import(block, paths).map_err(|error| match error {
            hearth_evm::chain::ImportError::Chain(error) => ImportStop::Chain(error.into()),
            invalid => place(invalid.to_string()),
        })?;
        fed.blocks += 1;
        fed.txs += imported.block.txs.len() as u64;
        fed.gas += imported.block.header.gas_used;
        if said.elapsed() >= SAY_EVERY {
            said = Instant::now();
            let (number, seconds) = (imported.block.number(), begun.elapsed().as_secs());
            say.line(format_args!("  block {number} after {seconds} s, byte {} of the file", blocks.offset()));
        }
    }
    fed.time = begun.elapsed();
    Ok(fed)
}

/// Returns whether the chain has the block. Fails if it has another one at that height: there are no forks here.
fn is_known(chain: &Chain, block: &GivenBlock) -> Result<bool, (u64, InvalidBlock)> {
    let number = block.header.number;
    if number > chain.head().number() {
        return Ok(false);
    }
    let known = chain.header(number).map(|header| header.hash_slow());
    match known {
        Some(known) if number == 0 => check_genesis(block.hash, known).map_err(|why| (number, why))?,
        Some(known) if known == block.hash => {}
        known => {
            let rule = match known {
                Some(known) => format!("not {known}, which this chain has at that height"),
                None => "of a height at which this chain keeps no blocks any more".to_owned(),
            };
            return Err((number, InvalidBlock::field("hash", format!("hash is {}, {rule}", block.hash))));
        }
    }
    Ok(true)
}

/// Writes the blocks that `options` select; returns how many.
fn write(chain: &Chain, options: &EvmExport, stop: &StopSignal) -> Result<u64, EvmError> {
    let (path, head) = (&options.file, chain.head().number());
    let failed = |what: String| EvmError::File { option: "FILE", path: path.clone(), what };
    let (from, to) = (options.from, options.to.unwrap_or(head));
    if from > to || to > head {
        return Err(failed(format!("there are no blocks {from} to {to}: the newest is block {head}")));
    }
    let first = chain.first_block();
    if to > 0 && from.max(1) < first {
        return Err(failed(format!("blocks before {first} are not kept: give --from {first}")));
    }
    let next = path.with_extension("next");
    let blocks = || -> io::Result<()> {
        let mut out = BufWriter::with_capacity(CHUNK_BYTES, File::create(&next)?);
        let mut bytes = Vec::new();
        for number in from..=to {
            if stop.is_set() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "it was interrupted"));
            }
            let block =
                chain.block(number).ok_or_else(|| io::Error::other(format!("block {number} cannot be read")))?;
            bytes.clear();
            block.encode(&mut bytes);
            out.write_all(&bytes)?;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&next, path)
    };
    if let Err(error) = blocks() {
        // A partial file would be taken for a whole one.
        let _ = fs::remove_file(&next);
        return Err(failed(format!("cannot write it: {error}")));
    }
    Ok(to - from + 1)
}

#[cfg(test)]
mod tests {
    use hearth_evm::builders::{rich, transfer};

    use super::*;

    /// A genesis in JSON that supports files of blocks.
    fn genesis_text() -> String {
        let accounts = rich(1..=2);
        let chain = Chain::open(ChainConfig::new(Genesis::dev(7, &accounts, 30_000_000))).expect("it opens");
        let rules = hearth_evm::genesis::dump::newest_rules(7);
        chain.dump(rules).expect("between blocks").to_string()
    }

    struct Files {
        folder: tempfile::TempDir,
    }

    impl Files {
        /// A folder with a genesis and a chain of `count` blocks.
        fn new(count: u64) -> Self {
            let files = Self { folder: tempfile::tempdir().expect("a folder") };
            fs::write(files.path("genesis.json"), genesis_text()).expect("written");
            let execution = Execution { threads: Some(1), ..Default::default() };
            let chain = in_folder("test", &files.source("made"), &execution).expect("it opens");
            for nonce in 0..count {
                let sent = chain.submit(vec![transfer(7, 1, nonce).raw, transfer(7, 2, nonce).raw]);
                assert!(sent.iter().all(Result::is_ok), "{sent:?}");
                chain.mine().expect("made");
            }
            chain.stop();
            files
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn source(&self, folder: &str) -> ChainSource {
            let words = accounts::MnemonicOptions { mnemonic: None, mnemonic_file: None };
            let genesis = Some(self.path("genesis.json"));
            ChainSource { genesis, data_dir: Some(self.path(folder)), words }
        }

        fn export(&self, name: &str, from: u64, to: Option<u64>) -> Result<(), EvmError> {
            let options = EvmExport { file: self.path(name), chain: self.source("made"), from, to };
            export(&options, &stop(), &CommandOutput::nothing())
        }

        fn import(&self, name: &str, folder: &str) -> Result<(), EvmError> {
            let execution = Execution { threads: Some(2), both: true, ..Default::default() };
            let options = EvmImport { file: self.path(name), chain: self.source(folder), execution };
            import(&options, &stop(), &CommandOutput::nothing())
        }

        fn verify(&self, name: &str) -> Result<(), EvmError> {
            let execution = Execution { threads: Some(1), ..Default::default() };
            let options = EvmVerify { file: self.path(name), chain: self.source("unused"), execution };
            verify(&options, &stop(), &CommandOutput::nothing())
        }
    }

    fn stop() -> StopSignal {
        StopSignal::default()
    }

    #[test]
    fn a_file_makes_the_same_chain() {
        let files = Files::new(3);
        files.export("chain.rlp", 0, None).expect("written");
        files.verify("chain.rlp").expect("valid");
        assert!(!files.path("unused").exists(), "it imports nothing");
        files.import("chain.rlp", "copy").expect("imported");
        // A repetition changes nothing, and a later part continues a first one.
        files.import("chain.rlp", "copy").expect("all is there");
        files.export("first.rlp", 1, Some(1)).expect("written");
        files.export("rest.rlp", 2, None).expect("written");
        files.import("first.rlp", "parts").expect("imported");
        files.import("rest.rlp", "parts").expect("imported");
        assert!(genesis_file::is_without_outputs(&files.path("parts")), "hearth evm run continues it as such");
        let execution = Execution { threads: Some(1), ..Default::default() };
        let hash = |folder| in_folder("test", &files.source(folder), &execution).expect("it opens").head().hash;
        assert_eq!([hash("copy"), hash("parts")], [hash("made"); 2]);
    }

    #[test]
    fn errors_are_named_and_whole_blocks_stay() {
        let files = Files::new(3);
        files.export("chain.rlp", 1, None).expect("written");
        let mut bytes = fs::read(files.path("chain.rlp")).expect("written");
        bytes.truncate(bytes.len() - 1);
        fs::write(files.path("cut.rlp"), &bytes).expect("written");
        let cut = files.import("cut.rlp", "cut").expect_err("a byte is missing").to_string();
        assert!(cut.contains("cut.rlp: byte ") && cut.contains("the chain ends with block 2"), "{cut}");
        let cut = files.verify("cut.rlp").expect_err("a byte is missing").to_string();
        assert!(cut.contains("blocks up to 2 are valid"), "{cut}");
        // A file with a gap before its first block, and one of another chain.
        files.export("rest.rlp", 2, None).expect("written");
        let early = files.import("rest.rlp", "rest").expect_err("block 1 is missing").to_string();
        assert!(early.contains("invalid block number"), "{early}");
        let other = genesis_text().replace("\"timestamp\":\"0x0\"", "\"timestamp\":\"0x1\"");
        files.export("zero.rlp", 0, None).expect("written");
        fs::write(files.path("genesis.json"), other).expect("written");
        let other = files.verify("zero.rlp").expect_err("another genesis").to_string();
        assert!(other.contains("another chain's"), "{other}");
        let missing = files.verify("nowhere.rlp").expect_err("there is none").to_string();
        assert!(missing.contains("nowhere.rlp") && missing.contains("cannot read it"), "{missing}");
    }

    #[test]
    fn a_chain_of_evm_run_takes_no_blocks_of_others() {
        let files = Files::new(3);
        files.export("chain.rlp", 1, None).expect("written");
        // As `hearth evm run --genesis` opens it: the genesis has neither outputs nor their contract.
        let open = || {
            let genesis = hearth_evm_utxo::genesis::from_json(&genesis_text()).expect("it is read");
            let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
            Chain::open(ChainConfig { dir: Some(files.path("ours")), ..config })
        };
        open().expect("it opens").stop();
        assert!(genesis_file::is_with_outputs(&files.path("ours")));
        let refused = files.import("chain.rlp", "ours").expect_err("the blocks commit to no outputs").to_string();
        assert!(refused.contains("invalid parentBeaconRoot") && refused.contains("the ledger of outputs"), "{refused}");
        assert!(refused.contains("the chain ends with block 0"), "{refused}");
        let chain = open().expect("it is as it was");
        assert!(chain.submit(vec![transfer(7, 1, 0).raw]).iter().all(Result::is_ok));
        assert_eq!(chain.mine().expect("made").number(), 1);
    }

    #[test]
    fn a_folder_remembers_raised_limits() {
        let files = Files::new(0);
        let under = |limits| Execution { threads: Some(1), limits, ..Default::default() };
        let raised = LimitOptions { disable_tx_gas_limit: true, ..Default::default() };
        {
            let chain = in_folder("test", &files.source("raised"), &under(raised)).expect("it opens");
            let sent = chain.submit(vec![transfer(7, 1, 0).raw]);
            assert!(sent.iter().all(Result::is_ok), "{sent:?}");
            chain.mine().expect("made");
            chain.stop();
        }
        let limits = |given| genesis(&files.source("raised"), &given).expect("it is read").limits;
        assert_eq!(limits(LimitOptions::default()), raised.limits());
        let other = LimitOptions { code_size_limit: Some(7), ..Default::default() };
        assert_eq!(limits(other), other.limits());
        let refused = in_folder("test", &files.source("raised"), &under(other)).err().expect("made under others");
        assert!(refused.to_string().contains("was made under"), "{refused}");
    }

    #[test]
    fn blocks_that_are_not_there_are_refused() {
        let files = Files::new(1);
        for (from, to) in [(2, None), (0, Some(2)), (1, Some(0))] {
            let refused = files.export("none.rlp", from, to).expect_err("they are not there").to_string();
            assert!(refused.contains("the newest is block 1"), "{refused}");
        }
        assert!(!files.path("none.rlp").exists() && !files.path("none.next").exists());
    }
}

//! The options of `hearth load`.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::etl::Etl;
use crate::ethereum::workload;
use crate::inspect::RANGE_MAX;
use crate::options::Pace;
use crate::solana;
use crate::tx_mix::{Mix, Named, NoMix};

/// `hearth load`
#[derive(Subcommand)]
pub enum Options {
    /// Make accounts, give them money, and keep their keys in a file.
    ///
    /// The money goes as a tree, a level in a few blocks, so that ten thousand accounts take seconds. With `--load` the
    /// accounts are those of the file, and only those that are short get anything: so it goes on after Ctrl-C. With
    /// `--load --count N` the file grows to N accounts first. The file is written before any money goes out, and not
    /// where none does.
    Fund(Fund),
    /// Send transactions and read blocks: how many a second, how late, at what cost, and what became of each.
    ///
    /// Only what is in blocks counts. Without `--rate`, as many are sent as the node takes; with it, each has a time at
    /// which it is due, and latency counts from there. Ctrl-C ends it with the report so far, when what is under way is
    /// in blocks; a second one waits for nothing more.
    Run(Run),
    /// Take a profile of the node while something else loads it: a flame graph, and its stacks as lines.
    ///
    /// A node of ours is asked by its RPC, and needs no restart; a Go server, as geth, by its pprof. A load that takes
    /// one itself: `hearth load run --profile`.
    Profile(Profile),
    /// Draw saved reports as one HTML file; several side by side.
    Report(Report),
    /// Look at a node, or at an account: what it has, what it sent.
    Info(Info),
    /// Look at blocks: their transactions, gas and times, and how many transactions a second they make together.
    Block(Block),
    /// Look at a transaction, and what became of it.
    Tx(Tx),
    /// Collect what logs and nodes tell of blocks: a row for each height, in a database file, Redis, CSV or Parquet.
    ///
    /// Logs are read from where they ended the last time, so the same again changes nothing. Nodes are asked for what
    /// is not stored yet. At the end it sums up what is stored: transactions, rate, block times, stages.
    Etl(Etl),
    /// Compare two loads: what changed beyond the noise.
    ///
    /// Reports are compared in pairs, the first before with the first after and so on. Make the runs in turn, so that
    /// what the machine does to one it does to the other. From six pairs on each ratio has an interval, and all of
    /// these hold together in 95 of 100 comparisons.
    ///
    /// Exit codes: 0 the reports are compared; 1 they cannot be read, or, with --fail-on-worse, there are too few pairs
    /// to say whether a figure is worse; 2 the command line is wrong, or the reports are of different loads; 3 with
    /// --fail-on-worse, a figure is worse, beyond the noise.
    Compare(Compare),
}

/// Which node.
#[derive(Args)]
pub struct Target {
    /// The node's JSON-RPC, Ethereum's or Solana's: the load finds out which. Several, with commas between them, are
    /// sent to in turn, and the first is read from.
    #[arg(short = 'u', long, alias = "network", value_name = "URL", value_delimiter = ',')]
    #[arg(default_value = "http://127.0.0.1:8545")]
    pub url: Vec<String>,
    /// Seconds that an answer may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl Target {
    /// Returns how long an answer may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// Kinds of transactions, parsed only once the node has answered and its chain is known.
#[derive(Clone, Debug)]
pub struct Kinds(String);

impl FromStr for Kinds {
    type Err = NoMix;

    fn from_str(text: &str) -> Result<Self, NoMix> {
        let of_solana = text.parse::<solana::workload::Mix>().is_ok();
        if !of_solana {
            text.parse::<workload::Mix>()?;
        }
        Ok(Self(text.into()))
    }
}

impl Kinds {
    /// Parses the kinds for the chain that the node speaks.
    pub fn of_chain<K: Named>(&self, chain: &str) -> Result<Mix<K>, String> {
        self.0.parse().map_err(|why| format!("--kind: {why}; the node speaks {chain}"))
    }
}

/// `hearth load fund`
#[derive(Args)]
pub struct Fund {
    /// The node.
    #[command(flatten)]
    pub target: Target,
    /// How many accounts to fund [default: 2000; with --load, all that the file has].
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// What each is to have, in ether or SOL.
    #[arg(long, value_name = "AMOUNT", default_value = "1")]
    pub amount: String,
    /// Where the keys are kept.
    #[arg(long, value_name = "FILE", default_value = "load-keys.json")]
    pub keys: PathBuf,
    /// Use the accounts that the file has; where these are fewer than --count, new ones are added to it.
    #[arg(long)]
    pub load: bool,
    /// Pay accounts of the file that are short: the same as --load, and both may be given.
    #[arg(long)]
    pub redeposit: bool,
    /// The account that pays: a file with its secret key, or the key itself, which others on this machine can read from
    /// the command line but not from the variable [default: the first development account of `hearth evm run` and
    /// anvil; a node that signs itself, as `geth --dev`, is asked to give that one its money]. For Solana a key file of
    /// its tools [default: an airdrop].
    #[arg(long, value_name = "FILE_OR_SECRET", env = "HEARTH_FUNDER", hide_env_values = true)]
    pub funder: Option<String>,
    /// A key of the UTXO ledger of a node of ours, as `hearth wallet new` writes it: what is short comes from there, by
    /// a Prism transfer to the first account, or to that of --funder.
    #[arg(long, value_name = "KEY")]
    pub utxo_key: Option<PathBuf>,
}

impl Fund {
    /// Validates the options.
    pub fn check(&self) -> Result<(), String> {
        within(&[("--count", self.count.unwrap_or(1) as u64, 1..=ACCOUNTS_MAX)])
    }

    /// Returns whether the accounts come from the file.
    pub fn uses_file(&self) -> bool {
        self.load || self.redeposit
    }

    /// Returns how many accounts are funded if the file has `there`.
    pub fn count(&self, there: usize) -> usize {
        let all = if self.uses_file() { there } else { COUNT };
        self.count.unwrap_or(all)
    }
}

/// `hearth load run`
#[derive(Args)]
pub struct Run {
    /// The node.
    #[command(flatten)]
    pub target: Target,
    /// What transactions do: `transfer` (one wei from account to account), `erc20` (one unit of a token), `contract`
    /// (one in sixteen creates one, the others call one), `swap` (in a pool of two tokens); on Solana `transfer` and
    /// `token` (of SPL Token). Several with weights: `transfer=8,swap=2`.
    #[arg(long, value_name = "KIND", default_value = "transfer")]
    pub kind: Kinds,
    /// The accounts that send, of `hearth load fund` [default: new ones, funded for this run].
    #[arg(long, value_name = "FILE", conflicts_with = "accounts")]
    pub keys: Option<PathBuf>,
    /// How many new accounts send.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub accounts: usize,
    /// The account that pays for them, as with `hearth load fund`.
    #[arg(long, value_name = "FILE_OR_SECRET", env = "HEARTH_FUNDER", hide_env_values = true)]
    pub funder: Option<String>,
    /// Threads that send, each with a connection.
    #[arg(long, alias = "max-parallelism", value_name = "N", default_value_t = 4)]
    pub threads: usize,
    /// Transactions in a request.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub batch: usize,
    /// Transactions a second, of all threads together [default: as many as the node takes].
    #[arg(long, value_name = "TPS")]
    pub rate: Option<f64>,
    /// Look for the highest rate at which 99 of 100 transactions can be read in a block within so many milliseconds.
    /// It begins with --rate [default: 100], and each step takes --duration.
    #[arg(long, value_name = "MILLISECONDS", conflicts_with = "count")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub ramp: Option<u64>,
    /// The most transactions under way, where no rate is given.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub under_way: usize,
    /// The most that each account sends. There is no warm-up then, and it ends when all are in blocks.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Sign so many of each account before the first is sent, so that signing costs the node nothing meanwhile.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub presign: u64,
    /// Seconds that do not count yet.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub warmup: u64,
    /// Seconds to measure.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub duration: u64,
    /// Solana: send through `sendTransaction` [default: by QUIC, to the leaders' TPUs].
    #[arg(long)]
    pub rpc_send: bool,
    /// Solana: where transactions go [default: where the node says that the leaders take them].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "rpc_send")]
    pub tpu: Option<SocketAddr>,
    /// The node's processes on this machine: their CPU time and memory are reported.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Write the result as JSON to FILE, or to standard output without FILE [default: none is written].
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML file with plots, to be opened in a browser.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Have the node profile itself meanwhile: in all of the measured time, or until its next block. The flame graph is
    /// in the reports, and a file of its own.
    #[arg(long, value_name = "SPAN", num_args = 0..=1, default_missing_value = "run")]
    pub profile: Option<ProfileSpan>,
    /// The pprof of a Go server, as of `geth --pprof`: the profile is taken there.
    #[arg(long, value_name = "URL", requires = "profile")]
    pub pprof: Option<String>,
    /// Where the flame graph goes; its stacks go beside it, `.folded`.
    #[arg(long, value_name = "FILE", default_value = "load-profile.svg")]
    pub flame: PathBuf,
    /// CometBFT's RPC, as http://127.0.0.1:26657: how many transactions wait is asked there.
    #[arg(long, alias = "comet", value_name = "URL")]
    pub comet_rpc: Option<String>,
}

/// How long a node is profiled in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileSpan {
    /// All of the measured time, ten minutes at most.
    Run,
    /// Until its next block.
    NextBlock,
}

/// `hearth load profile`
#[derive(Args)]
pub struct Profile {
    /// The node.
    #[command(flatten)]
    pub target: Target,
    /// For how long.
    #[arg(long, alias = "seconds", value_name = "SECONDS", default_value_t = 10, conflicts_with = "next_block")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=600))]
    pub duration: u64,
    /// Until its next block.
    #[arg(long)]
    pub next_block: bool,
    /// The pprof of a Go server, as http://127.0.0.1:6060.
    #[arg(long, value_name = "URL")]
    pub pprof: Option<String>,
    /// Where the flame graph goes; its stacks go beside it, `.folded`.
    #[arg(long, short = 'o', alias = "output", value_name = "FILE", default_value = "load-profile.svg")]
    pub flame: PathBuf,
}

/// `hearth load report`
#[derive(Args)]
pub struct Report {
    /// Reports of `hearth load run --json`.
    #[arg(value_name = "REPORT", required = true)]
    pub reports: Vec<PathBuf>,
    /// Where the page goes [default: the reports are printed].
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Run {
    /// The pace that the options describe.
    pub fn pace(&self) -> Pace {
        Pace { rate: self.rate, batch: self.batch, under_way: self.under_way, count: self.count, presign: self.presign }
    }

    /// The first given option that only applies to Solana.
    pub fn only_solana(&self) -> Option<&'static str> {
        self.rpc_send.then_some("--rpc-send").or(self.tpu.map(|_| "--tpu"))
    }

    /// Validates the options together.
    pub fn check(&self) -> Result<(), String> {
        within(&[
            ("--threads", self.threads as u64, 1..=SENDERS_MAX),
            ("--batch", self.batch as u64, 1..=BATCH_MAX),
            ("--accounts", self.accounts as u64, 1..=ACCOUNTS_MAX),
            ("--under-way", self.under_way as u64, 1..=UNDER_WAY_MAX),
            ("--count", self.count.unwrap_or(1), 1..=EACH_MAX),
            ("--presign", self.presign, 0..=EACH_MAX),
            ("--warmup", self.warmup, 0..=SECONDS_MAX),
            ("--duration", self.duration, 1..=SECONDS_MAX),
        ])?;
        match self.rate {
            Some(rate) if !RATES.contains(&rate) => {
                let (least, most) = (RATES.start(), RATES.end());
                Err(format!("--rate: {least} to {most}; without it, as many are sent as the node takes"))
            }
            _ => Ok(()),
        }
    }
}

/// Default number of accounts.
const COUNT: usize = 2000;
/// Maximum sending threads, each with a connection.
const SENDERS_MAX: u64 = 1024;
/// Maximum transactions in a request: nodes refuse longer ones.
const BATCH_MAX: u64 = 100_000;
/// Maximum accounts of a load.
const ACCOUNTS_MAX: u64 = 1_000_000;
/// Maximum transactions under way: 10 GB of records.
const UNDER_WAY_MAX: u64 = 100_000_000;
/// Maximum transactions per account.
const EACH_MAX: u64 = 1_000_000_000;
/// Maximum seconds of an option: thirty days.
const SECONDS_MAX: u64 = 30 * 24 * 3600;
/// Transactions per second: from four an hour to more than any machine signs.
const RATES: RangeInclusive<f64> = 0.001..=1_000_000.0;

/// Checks that each option's value is within its bounds.
fn within(options: &[(&str, u64, RangeInclusive<u64>)]) -> Result<(), String> {
    match options.iter().find(|(_, value, bounds)| !bounds.contains(value)) {
        Some((name, _, bounds)) => Err(format!("{name}: {} to {}", bounds.start(), bounds.end())),
        None => Ok(()),
    }
}

/// `hearth load info`
#[derive(Args)]
pub struct Info {
    /// The node.
    #[command(flatten)]
    pub target: Target,
    /// The account [default: the node itself].
    #[arg(value_name = "ADDRESS")]
    pub account: Option<String>,
}

/// `hearth load block`
#[derive(Args)]
pub struct Block {
    /// The node.
    #[command(flatten)]
    pub target: Target,
    /// A block's number (on Solana a slot), or the first and last of several, as 100..200 [default: the newest,
    /// see --last].
    #[arg(value_name = "NUMBER", conflicts_with = "last")]
    pub range: Option<String>,
    /// How many of the newest blocks.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=RANGE_MAX))]
    pub last: u64,
}

impl Block {
    /// Returns the first and the last block to show, if `newest` is the newest.
    pub fn numbers(&self, newest: u64) -> Result<(u64, u64), String> {
        let Some(range) = &self.range else { return Ok((newest.saturating_sub(self.last - 1), newest)) };
        let (from, to) = range.split_once("..").unwrap_or((range, range));
        let numbers = from.parse::<u64>().ok().zip(to.parse::<u64>().ok()).filter(|(from, to)| from <= to);
        let (from, to) =
            numbers.ok_or_else(|| format!("`{range}` is not a range of blocks: expected 100 or 100..200"))?;
        match from > newest {
            true => Err(format!("the newest block is {newest}")),
            false if to.min(newest) - from >= RANGE_MAX => Err(format!("{range}: {RANGE_MAX} blocks at most")),
            false => Ok((from, to.min(newest))),
        }
    }
}

/// `hearth load tx`
#[derive(Args)]
pub struct Tx {
    /// The node.
    #[command(flatten)]
    pub target: Target,
    /// The transaction's hash, or its signature on Solana.
    #[arg(value_name = "HASH")]
    pub hash: String,
}

/// `hearth load compare`
#[derive(Args)]
pub struct Compare {
    /// Reports of `hearth load run --json` before the change, with commas between them.
    #[arg(value_name = "BEFORE", value_parser = files)]
    pub before: Files,
    /// As many after it.
    #[arg(value_name = "AFTER", value_parser = files)]
    pub after: Files,
    /// End with code 3 where a figure is worse, beyond the noise, and with code 1 where the reports cannot show that,
    /// as with fewer than six pairs.
    #[arg(long)]
    pub fail_on_worse: bool,
}

/// Comma-separated files in one argument, so that clap names which of the two lists is missing.
#[derive(Clone)]
pub struct Files(pub Vec<PathBuf>);

fn files(text: &str) -> Result<Files, String> {
    let files: Vec<PathBuf> = text.split(',').map(PathBuf::from).collect();
    match files.iter().any(|file| file.as_os_str().is_empty()) {
        true => Err("they must be files with one comma between each two".into()),
        false => Ok(Files(files)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        options: Options,
    }

    #[test]
    fn a_range_of_blocks_ends_with_the_newest() {
        let numbers = |arguments: &[&str]| {
            let line = Line::try_parse_from(["load", "block"].iter().chain(arguments)).unwrap();
            let Options::Block(block) = line.options else { panic!("another command") };
            block.numbers(50)
        };
        assert_eq!(numbers(&[]), Ok((41, 50)));
        assert_eq!(numbers(&["--last", "100"]), Ok((0, 50)));
        assert_eq!(numbers(&["7"]), Ok((7, 7)));
        assert_eq!(numbers(&["7..99"]), Ok((7, 50)));
        assert!(numbers(&["9..7"]).is_err() && numbers(&["51"]).is_err() && numbers(&["x"]).is_err());
    }

    #[test]
    fn values_beyond_all_bounds_are_refused_in_words() {
        let check = |arguments: &[&str]| {
            let line = Line::try_parse_from(["load", "run"].iter().chain(arguments)).unwrap();
            let Options::Run(run) = line.options else { panic!("another command") };
            run.check()
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&["--rate", "0.001", "--duration", "2592000", "--presign", "1000000000"]), Ok(()));
        for (name, value) in [
            ("--duration", "9223372036854775808"),
            ("--duration", "0"),
            ("--warmup", "9223372036854775808"),
            ("--rate", "1e-20"),
            ("--rate", "1e11"),
            ("--rate", "NaN"),
            ("--rate", "0"),
            ("--presign", "18446744073709551615"),
            ("--count", "0"),
            ("--batch", "0"),
            ("--threads", "100000"),
        ] {
            let why = check(&[name, value]).unwrap_err();
            assert!(why.starts_with(&format!("{name}: ")) && why.contains(" to "), "{why}");
        }
    }

    #[test]
    fn a_key_file_is_used_and_grows() {
        let fund = |arguments: &[&str]| {
            let line = Line::try_parse_from(["load", "fund"].iter().chain(arguments)).unwrap();
            let Options::Fund(fund) = line.options else { panic!("another command") };
            (fund.uses_file(), fund.count(30))
        };
        assert_eq!(fund(&[]), (false, 2000));
        assert_eq!(fund(&["--count", "5"]), (false, 5));
        assert_eq!(fund(&["--load"]), (true, 30));
        assert_eq!(fund(&["--redeposit"]), (true, 30));
        assert_eq!(fund(&["--redeposit", "--load", "--count", "2000"]), (true, 2000));
    }

    #[test]
    fn reports_come_in_two_lists() {
        let line = Line::try_parse_from(["load", "compare", "a.json,b.json", "c.json,d.json"]).unwrap();
        let Options::Compare(compare) = line.options else { panic!("another command") };
        assert_eq!((compare.before.0.len(), compare.after.0.len()), (2, 2));
        assert!(!compare.fail_on_worse);
        // The error names the missing list, not the first.
        let Err(why) = Line::try_parse_from(["load", "compare", "a.json"]) else { panic!("one list is no two") };
        let why = why.to_string();
        assert!(why.contains("<AFTER>") && !why.lines().take(2).any(|line| line.contains("<BEFORE>")), "{why}");
    }
}

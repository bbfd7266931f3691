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
use crate::options::SendOptions;
use crate::solana;
use crate::tx_mix::{Mix, NoMix, TxKinds};

/// The commands of `hearth load`.
#[derive(Subcommand)]
pub enum Options {
    /// Create accounts, fund them, and keep their keys in a file.
    ///
    /// The funds go out as a tree, a level in a few blocks, so that ten thousand accounts take seconds. With `--load`
    /// the accounts are those of the file, and only those that lack funds get some: so it continues after Ctrl-C. With
    /// `--load --count N` the file first grows to N accounts. The file is written before any transfer, and only if
    /// there is one.
    Fund(Fund),
    /// Send transactions and read blocks: throughput, latency, cost, and the outcome of each transaction.
    ///
    /// Only transactions in blocks count. Without `--rate`, the load sends as fast as the node accepts; with it, each
    /// transaction has a scheduled time, from which latency counts. Ctrl-C ends it with the report so far, once pending
    /// transactions are in blocks; a second Ctrl-C ends it at once.
    Run(Run),
    /// Profile the node while something else loads it: a flame graph, and its stacks as lines.
    ///
    /// A Hearth node is profiled through its RPC, without a restart; a Go server such as geth through its pprof. A load
    /// can also profile the node itself: `hearth load run --profile`.
    Profile(Profile),
    /// Draw saved reports as one HTML file, several side by side.
    Report(Report),
    /// Show a node, or an account: its balance and nonce.
    Info(Info),
    /// Show blocks: their transactions, gas and times, and their throughput together.
    Block(Block),
    /// Show a transaction and its outcome.
    Tx(Tx),
    /// Collect data of blocks from logs and nodes: a row for each height, in a database file, Redis, CSV or Parquet.
    ///
    /// Logs are read from where they ended the last time, so a repetition changes nothing. Nodes are asked only for
    /// missing data. The summary at the end covers everything stored: transactions, rate, block times, stages.
    Etl(Etl),
    /// Compare two loads: what changed beyond the noise.
    ///
    /// Reports are compared in pairs, the first before with the first after and so on. Alternate the runs, so that
    /// disturbances of the machine affect both equally. From six pairs on, each ratio has an interval, and all of these
    /// hold together in 95 of 100 comparisons.
    ///
    /// Exit codes: 0 the reports are compared; 1 they cannot be read, or, with --fail-on-worse, there are too few pairs
    /// to say whether a figure is worse; 2 the command line is wrong, or the reports are of different loads; 3 with
    /// --fail-on-worse, a figure is worse, beyond the noise.
    Compare(Compare),
}

/// The node or nodes that a command talks to.
#[derive(Args)]
pub struct Target {
    /// The node's JSON-RPC, Ethereum's or Solana's: the load finds out which. Several URLs, separated by commas, get
    /// the transactions by turns; the first one is read from.
    #[arg(short = 'u', long, alias = "network", value_name = "URL", value_delimiter = ',')]
    #[arg(default_value = "http://127.0.0.1:8545")]
    pub url: Vec<String>,
    /// Timeout of an answer, in seconds.
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
    pub fn of_chain<K: TxKinds>(&self, chain: &str) -> Result<Mix<K>, String> {
        self.0.parse().map_err(|why| format!("--kind: {why}; the node speaks {chain}"))
    }
}

/// The options of `hearth load fund`.
#[derive(Args)]
pub struct Fund {
    /// The node on whose chain the accounts are funded.
    #[command(flatten)]
    pub target: Target,
    /// Number of accounts to fund [default: 2000; with --load, all that the file has].
    #[arg(long, value_name = "N")]
    pub count: Option<usize>,
    /// The balance of each account, in ether or SOL.
    #[arg(long, value_name = "AMOUNT", default_value = "1")]
    pub amount: String,
    /// The file that keeps the accounts' secret keys.
    #[arg(long, value_name = "FILE", default_value = "load-keys.json")]
    pub keys: PathBuf,
    /// Use the accounts of the file; if they are fewer than --count, new ones are added to it.
    #[arg(long)]
    pub load: bool,
    /// Fund accounts of the file that lack funds: the same as --load; both may be given.
    #[arg(long)]
    pub redeposit: bool,
    /// The funding account: a file with its secret key, or the key itself. Other users of this machine can read a
    /// command line, but not the variable [default: the first development account of `hearth evm run` and anvil; a node
    /// that signs itself, such as `geth --dev`, is asked to fund that one]. For Solana a key file of its tools
    /// [default: an airdrop].
    #[arg(long, value_name = "FILE_OR_SECRET", env = "HEARTH_FUNDER", hide_env_values = true)]
    pub funder: Option<String>,
    /// A key of a Hearth node's UTXO ledger, as `hearth wallet new` writes it: missing funds come from there, by a
    /// Prism transfer to the first account, or to that of --funder.
    #[arg(long, value_name = "KEY")]
    pub utxo_key: Option<PathBuf>,
}

impl Fund {
    /// Returns an error if the number of accounts is out of range.
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

/// The options of `hearth load run`.
#[derive(Args)]
pub struct Run {
    /// The nodes that get the load.
    #[command(flatten)]
    pub target: Target,
    /// The kinds of transactions: `transfer` (one wei from account to account), `erc20` (one unit of a token),
    /// `contract` (one in sixteen creates one, the others call one), `swap` (in a pool of two tokens); on Solana
    /// `transfer` and `token` (of SPL Token). Several with weights: `transfer=8,swap=2`.
    #[arg(long, value_name = "KIND", default_value = "transfer")]
    pub kind: Kinds,
    /// The key file of the senders, as `hearth load fund` writes it [default: new accounts, funded for this run].
    #[arg(long, value_name = "FILE", conflicts_with = "accounts")]
    pub keys: Option<PathBuf>,
    /// Number of new accounts that send.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub accounts: usize,
    /// The account that funds them, as in `hearth load fund`.
    #[arg(long, value_name = "FILE_OR_SECRET", env = "HEARTH_FUNDER", hide_env_values = true)]
    pub funder: Option<String>,
    /// Sending threads, each with a connection.
    #[arg(long, alias = "max-parallelism", value_name = "N", default_value_t = 4)]
    pub threads: usize,
    /// Transactions per request.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub batch: usize,
    /// Transactions per second, of all threads together [default: as many as the node accepts].
    #[arg(long, value_name = "TPS")]
    pub rate: Option<f64>,
    /// Search for the highest rate at which 99 of 100 transactions are readable in a block within this many
    /// milliseconds. The search begins with --rate [default: 100], and each step takes --duration.
    #[arg(long, value_name = "MILLISECONDS", conflicts_with = "count")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    pub ramp: Option<u64>,
    /// Maximum transactions in flight, if no rate is given.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub under_way: usize,
    /// Maximum transactions per account. There is no warm-up then, and the run ends when all are in blocks.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Sign this many transactions per account before the first is sent, so that signing takes no CPU time from the
    /// node.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub presign: u64,
    /// Warm-up in seconds, which is not measured.
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    pub warmup: u64,
    /// Seconds to measure.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub duration: u64,
    /// Solana: send through `sendTransaction` [default: by QUIC, to the leaders' TPUs].
    #[arg(long)]
    pub rpc_send: bool,
    /// Solana: the address to send transactions to [default: the leaders' TPUs, as the node reports them].
    #[arg(long, value_name = "ADDRESS", conflicts_with = "rpc_send")]
    pub tpu: Option<SocketAddr>,
    /// The node's process ids on this machine: their CPU time and memory are reported.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,
    /// Write the result as JSON to FILE, or to standard output without FILE [default: none is written].
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the report as one HTML file with plots, to be opened in a browser.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Let the node profile itself during the run: all of the measured time, or until its next block. The flame graph
    /// is in the reports, and in a file of its own.
    #[arg(long, value_name = "SPAN", num_args = 0..=1, default_missing_value = "run")]
    pub profile: Option<ProfileSpan>,
    /// The pprof of a Go server, such as `geth --pprof`, from which to take the profile.
    #[arg(long, value_name = "URL", requires = "profile")]
    pub pprof: Option<String>,
    /// The flame graph's file; the stacks are written next to it, as `.folded`.
    #[arg(long, value_name = "FILE", default_value = "load-profile.svg")]
    pub flame: PathBuf,
    /// CometBFT's RPC, such as http://127.0.0.1:26657, from which to read the size of the mempool.
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

/// The options of `hearth load profile`.
#[derive(Args)]
pub struct Profile {
    /// The node that is profiled.
    #[command(flatten)]
    pub target: Target,
    /// The length of the profile.
    #[arg(long, alias = "seconds", value_name = "SECONDS", default_value_t = 10, conflicts_with = "next_block")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=600))]
    pub duration: u64,
    /// Until its next block.
    #[arg(long)]
    pub next_block: bool,
    /// The pprof of a Go server, as http://127.0.0.1:6060.
    #[arg(long, value_name = "URL")]
    pub pprof: Option<String>,
    /// The flame graph's file; the stacks are written next to it, as `.folded`.
    #[arg(long, short = 'o', alias = "output", value_name = "FILE", default_value = "load-profile.svg")]
    pub flame: PathBuf,
}

/// The options of `hearth load report`.
#[derive(Args)]
pub struct Report {
    /// Reports of `hearth load run --json`.
    #[arg(value_name = "REPORT", required = true)]
    pub reports: Vec<PathBuf>,
    /// The page's file [default: the reports are printed].
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl Run {
    /// The pace that the options describe.
    pub fn pace(&self) -> SendOptions {
        SendOptions {
            rate: self.rate,
            batch: self.batch,
            under_way: self.under_way,
            count: self.count,
            presign: self.presign,
        }
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

/// The options of `hearth load info`.
#[derive(Args)]
pub struct Info {
    /// The node that is described, or knows the account.
    #[command(flatten)]
    pub target: Target,
    /// The account [default: the node itself].
    #[arg(value_name = "ADDRESS")]
    pub account: Option<String>,
}

/// The options of `hearth load block`.
#[derive(Args)]
pub struct Block {
    /// The node that has the blocks.
    #[command(flatten)]
    pub target: Target,
    /// A block's number (on Solana a slot), or the first and last of several, as 100..200 [default: the newest,
    /// see --last].
    #[arg(value_name = "NUMBER", conflicts_with = "last")]
    pub range: Option<String>,
    /// Number of newest blocks.
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

/// The options of `hearth load tx`.
#[derive(Args)]
pub struct Tx {
    /// The node that has the transaction.
    #[command(flatten)]
    pub target: Target,
    /// The transaction's hash, or its signature on Solana.
    #[arg(value_name = "HASH")]
    pub hash: String,
}

/// The options of `hearth load compare`.
#[derive(Args)]
pub struct Compare {
    /// Reports of `hearth load run --json` before the change, separated by commas.
    #[arg(value_name = "BEFORE", value_parser = files)]
    pub before: Files,
    /// As many reports after it.
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

//! `hearth load etl`: collects block data from logs and nodes into one row per height.
//!
//! reads   logs, standard input; nodes' RPC and metrics; what is stored already
//! writes  a database file or Redis; CSV, Parquet, JSON
//! memory  see `crate::etl`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::output::{self, CommandOutput, WriteError, note};
use hearth_command::stop::StopSignal;
use serde_json::{Value, json};

use crate::etl::live::{Blocks, Heights, LiveError, Metrics};
use crate::etl::log::Log;
use crate::etl::redis::Redis;
use crate::etl::sqlite::Database;
use crate::etl::store::{Store, StoreError};
use crate::etl::summary::summary;
use crate::etl::table::{self, TableError};
use crate::etl::{EtlError, Sources};

/// The database file, unless the options name one.
const DATABASE: &str = "load.db";
/// After this many refusals in a row a node is assumed to refuse for good.
const REFUSALS_BORNE: u32 = 30;
/// How often Ctrl-C is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The options of `hearth load etl`.
#[derive(Args)]
pub struct Etl {
    /// Logs of CometBFT or Tendermint, plain or JSON, and of a Hearth node; several, also compressed by gzip; `-` for
    /// standard input. Each is read from where it ended the last time.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub log: Vec<PathBuf>,
    /// URLs of nodes' Ethereum JSON-RPC, separated by commas.
    #[arg(short = 'u', long, alias = "network", value_name = "URL", value_delimiter = ',')]
    pub url: Vec<String>,
    /// RPC of CometBFT nodes, which has the validity of transactions.
    #[arg(long, alias = "comet", value_name = "URL", value_delimiter = ',')]
    pub comet_rpc: Vec<String>,
    /// Prometheus pages, ours or CometBFT's: the values are stored with the time, with --follow repeatedly.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// The first height to collect, sum up and write to tables [default: nodes are asked for what follows the stored
    /// data, or for their newest 10,000 blocks].
    #[arg(long, value_name = "HEIGHT")]
    pub from: Option<u64>,
    /// The last height.
    #[arg(long, value_name = "HEIGHT")]
    pub to: Option<u64>,
    /// Continue until Ctrl-C: follows growing and rotated logs, new blocks, and targets that fail for a while.
    #[arg(long)]
    pub follow: bool,
    /// Milliseconds between two polls.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..))]
    pub every: u64,
    /// Timeout of a node's answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// The database file, of SQLite [default: load.db].
    #[arg(long, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// Store in Redis instead: redis://:PASSWORD@HOST:PORT/DATABASE, or redis+unix:///PATH.
    #[arg(long, value_name = "URL", env = "HEARTH_REDIS", hide_env_values = true, conflicts_with = "db")]
    pub redis: Option<String>,
    /// The prefix of its keys.
    #[arg(long, value_name = "PREFIX", default_value = "hearth:etl")]
    pub redis_prefix: String,
    /// Write all rows as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write all rows as Parquet.
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
    /// Write the summary as JSON to FILE, or to standard output without FILE.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Why collecting failed or is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum EtlCommandError {
    /// Options contradict each other.
    #[error("{0}")]
    Option(String),
    /// A source cannot be read.
    #[error("{0}; the rows read so far are stored, and the same command continues from there")]
    Etl(#[from] EtlError),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The summary cannot be written.
    #[error(transparent)]
    Out(#[from] WriteError),
}

impl From<LiveError> for EtlCommandError {
    fn from(why: LiveError) -> Self {
        Self::Option(why.to_string())
    }
}

impl ExitCode for EtlCommandError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Option(_) => WRONG_USE,
            Self::Etl(_) | Self::Store(_) | Self::Table(_) | Self::Out(_) => FAILED,
        }
    }
}

/// Reads the sources into the store, and prints and writes the summary and tables.
pub fn run(options: &Etl, stop: &StopSignal, say: &CommandOutput) -> Result<(), EtlCommandError> {
    let is_input = |path: &PathBuf| path.as_os_str() == "-";
    let input = options.log.iter().any(is_input);
    if input && options.follow {
        return Err(EtlCommandError::Option("--follow: standard input is read to its end without it".into()));
    }
    if options.from.zip(options.to).is_some_and(|(from, to)| from > to) {
        return Err(EtlCommandError::Option("--from: it must not be after --to".into()));
    }
    let outputs = [&options.csv, &options.parquet, &options.json].into_iter().flatten();
    for path in outputs.filter(|path| path.as_os_str() != "-") {
        output::can_be_written(path)?;
    }
    // With --follow a log may appear later.
    let missing = |path: &&PathBuf| !is_input(path) && !options.follow && !path.exists();
    if let Some(path) = options.log.iter().find(missing) {
        return Err(EtlCommandError::Option(format!("--log: there is no {}", path.display())));
    }
    let mut sources = sources(options)?;
    let mut store = open(options, sources.is_empty() && !input)?;
    let to_stderr = CommandOutput::stderr();
    let say = if options.json.as_ref().is_some_and(is_input) { &to_stderr } else { say };
    let mut read = if options.follow {
        follow(options, &mut sources, &mut *store, stop)
    } else {
        sources.pass(&mut *store, &|| stop.is_set())
    };
    if input && read.is_ok() {
        read = sources.standard_input(&mut *store, &|| stop.is_set());
    }
    if read.as_ref().is_err_and(EtlError::is_of_target) {
        return Ok(read?);
    }
    // What was read is reported even if a source failed.
    print_summary(options, &sources, &mut *store, say)?;
    Ok(read?)
}

fn sources(options: &Etl) -> Result<Sources, EtlCommandError> {
    let (timeout, heights) = (Duration::from_secs(options.timeout), Heights { from: options.from, to: options.to });
    let web3 = options.url.iter().map(|url| Blocks::web3(url, timeout, heights));
    let comet = options.comet_rpc.iter().map(|url| Blocks::comet(url, timeout, heights));
    let logs = options.log.iter().filter(|path| path.as_os_str() != "-");
    let metrics = options.metrics.iter().map(|url| Metrics::new(url, timeout));
    let blocks = web3.chain(comet).collect::<Result<_, _>>()?;
    Ok(Sources::new(logs.map(|path| Log::new(path)).collect(), blocks, metrics.collect::<Result<_, _>>()?))
}

/// Opens the store. Where nothing is to be read, it must exist.
fn open(options: &Etl, only_reads: bool) -> Result<Box<dyn Store>, EtlCommandError> {
    if let Some(url) = &options.redis {
        return Ok(Box::new(Redis::open(url, &options.redis_prefix)?));
    }
    let path = options.db.as_deref().unwrap_or(Path::new(DATABASE));
    if only_reads && !path.exists() {
        let path = path.display();
        return Err(EtlCommandError::Option(format!(
            "nothing to read: name a --log, a --url, a --comet-rpc or --metrics; there is no {path} to sum up either"
        )));
    }
    Ok(Box::new(Database::open(path)?))
}

/// Polls the sources until Ctrl-C. A transient error is printed once, until it has passed.
fn follow(options: &Etl, sources: &mut Sources, store: &mut dyn Store, stop: &StopSignal) -> Result<(), EtlError> {
    let (mut reported, mut refusals) = (None, 0);
    while !stop.is_set() {
        let next = Instant::now() + Duration::from_millis(options.every);
        match sources.pass(store, &|| stop.is_set()) {
            Ok(()) => (reported, refusals) = (None, 0),
            Err(why) if why.may_pass() && refusals < REFUSALS_BORNE => {
                refusals = if why.is_refusal() { refusals + 1 } else { 0 };
                let why = why.to_string();
                if reported.as_ref() != Some(&why) {
                    note(format_args!("{why}; it is tried again until Ctrl-C"));
                    reported = Some(why);
                }
            }
            Err(why) => return Err(why),
        }
        while !stop.is_set() && Instant::now() < next {
            std::thread::sleep(LOOK_EVERY.min(next.saturating_duration_since(Instant::now())));
        }
    }
    Ok(())
}

/// Writes the tables and the summary.
fn print_summary(
    options: &Etl,
    sources: &Sources,
    store: &mut dyn Store,
    say: &CommandOutput,
) -> Result<(), EtlCommandError> {
    let heights = options.from.unwrap_or(0)..=options.to.unwrap_or(u64::MAX);
    if let Some(path) = &options.csv {
        table::csv(path, store, heights.clone())?;
    }
    if let Some(path) = &options.parquet {
        table::parquet(path, store, heights.clone())?;
    }
    let (found, summary) = (sources.found(), summary(store, heights)?);
    say.text(found.text());
    say.text(summary.text());
    let Some(path) = &options.json else { return Ok(()) };
    let all: Value = json!({ "read": found, "blocks": summary });
    let text = serde_json::to_string_pretty(&all).expect("plain data");
    if path.as_os_str() == "-" {
        CommandOutput::default().line(text);
        return Ok(());
    }
    let failed = |source| WriteError { path: path.clone(), source };
    Ok(std::fs::write(path, text + "\n").map_err(failed)?)
}

//! `hearth tune layout`: searches for tile counts and cores that beat the default's.
//!
//! reads   a configuration; the folder of a search that was begun; a bench's results with each layout
//! writes  that folder; the recommended layout, as a configuration; the path, as text and JSON
//! memory  see `crate::layout`
//!
//! Each trial is a separate `hearth bench` process, started with a generated configuration. It ends when this process
//! does, for whatever reason.

mod bench;
mod config;
mod folder;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use hearth_command::exit_code::{ExitCode, FAILED, INTERRUPTED, WRONG_USE};
use hearth_command::output::{CommandOutput, WriteError, can_be_written, note};
use hearth_command::stop::StopSignal;
use hearth_node::boot::{self, BootError};
use hearth_node::config::{ConfigError, ConfigFile};
use hearth_stats::quiet::{DisturbanceLimits, blind};
use serde_json::json;

use super::{TuneError, json_file};
use crate::layout::journal::{Journal, JournalError};
use crate::layout::search::{LEAST_GAIN, SearchError, TRIALS_LEAST, TRIALS_MOST, search};
use crate::layout::{Budget, report};
use bench::{Bench, StopReason};
use folder::Folder;

/// The options of `hearth tune layout`.
#[derive(Args)]
pub struct Options {
    /// The configuration whose layout to improve; the rest of it applies to all trials.
    #[command(flatten)]
    pub config: ConfigFile,
    /// Maximum time of all trials together.
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    pub minutes: f64,
    /// Maximum number of trials, repeated ones included.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(TRIALS_LEAST as i64..=TRIALS_MOST as i64))]
    pub runs: u32,
    /// Measured seconds of a trial.
    #[arg(long, value_name = "SECONDS", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub duration: u64,
    /// Warm-up seconds of a trial.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub warmup: u64,
    /// The minimum gain for which the default is given up.
    #[arg(long, value_name = "SHARE", default_value_t = LEAST_GAIN)]
    pub least_gain: f64,
    /// The random seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A trial is disturbed if the hypervisor gave this share of the time to other guests; 1 disables the check, here
    /// and below.
    #[arg(long, value_name = "SHARE", default_value_t = DisturbanceLimits::default().steal)]
    pub steal: f64,
    /// Or if other programs used this share of all cores.
    #[arg(long, value_name = "SHARE", default_value_t = DisturbanceLimits::default().foreign)]
    pub foreign: f64,
    /// Or if some thread waited for a core this share of the time, though the trial left one free.
    #[arg(long, value_name = "SHARE", default_value_t = DisturbanceLimits::default().pressure)]
    pub pressure: f64,
    /// Or if the cores were this much slower than at their best with the same layout.
    #[arg(long, value_name = "SHARE", default_value_t = DisturbanceLimits::default().pace)]
    pub pace: f64,
    /// How often a disturbed trial is repeated.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: u32,
    /// The search's folder.
    #[arg(long, alias = "out", value_name = "DIR", default_value = "layout.study")]
    pub folder: PathBuf,
    /// The file for the configuration with the recommended layout [default: `layout.toml` in that folder].
    #[arg(long, value_name = "FILE")]
    pub toml: Option<PathBuf>,
    /// Write the path and the answer there as JSON, too; with `-`, standard output has only that.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

/// Why there is no recommended layout.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The options are invalid.
    #[error("{0}")]
    Asked(String),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration's layout is invalid.
    #[error(transparent)]
    Boot(#[from] BootError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be read or written, as the system says it.
        source: io::Error,
    },
    /// Another search uses the folder.
    #[error("another `hearth tune layout` runs in {}", .0.display())]
    Locked(PathBuf),
    /// The folder holds another search.
    #[error(
        "{} holds a search with another {what}: its trials do not belong here. Give this one another folder with --folder, \
         or remove that one", folder.display()
    )]
    Other {
        /// Path of the folder.
        folder: PathBuf,
        /// Key of the record `search.json` whose value differs.
        what: String,
    },
    /// The folder holds trials, but no valid record of their search.
    #[error(
        "{} holds trials, and its `search.json` is gone or torn: what they belong to is not known. Give this search \
         another folder with --folder, or remove that one", .0.display()
    )]
    Unknown(PathBuf),
    /// The machine is too busy to measure.
    #[error(
        "the machine stays busy: others disturbed trial after trial, the last since {why}. End what else runs, or allow \
         more with --steal, --foreign or --pressure and another --folder; the same command goes on from {}", folder.display()
    )]
    Busy {
        /// The cause of the last disturbance.
        why: String,
        /// Folder in which the same command continues.
        folder: PathBuf,
    },
    /// Another node has the name of the trials' nodes.
    #[error("{why}: the trials' nodes have that name. End it, and the same command goes on from {}", folder.display())]
    Taken {
        /// Describes the other node.
        why: String,
        /// Folder in which the same command continues.
        folder: PathBuf,
    },
    /// The journal of trials cannot be read or written.
    #[error(transparent)]
    Journal(Box<JournalError<StopReason>>),
    /// The user stopped the search.
    #[error("stopped: the trials are kept in {}, and the same command continues there", .0.display())]
    Stopped(PathBuf),
    /// The starting layout cannot be measured.
    #[error("the layout to begin with cannot be measured: {0}")]
    Default(String),
}

impl ExitCode for LayoutError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Asked(_) => WRONG_USE,
            Self::Config(why) => why.exit_code(),
            Self::Boot(why) => why.exit_code(),
            Self::Stopped(_) => INTERRUPTED,
            _ => FAILED,
        }
    }
}

/// Searches for a better layout, or continues a search, and prints and writes the answer.
pub fn run(options: &Options, stop: &StopSignal, say: &CommandOutput) -> Result<(), TuneError> {
    let Options { steal, foreign, pressure, pace, .. } = *options;
    let quiet = DisturbanceLimits { steal, foreign, pressure, pace };
    quiet.check().map_err(|why| LayoutError::Asked(why.replace('`', "--").replacen("--:", ":", 1)))?;
    has_time(options)?;
    let base = options.config.read().map_err(LayoutError::from)?;
    let cores = boot::cores(&base.layout).map_err(LayoutError::from)?;
    let topology = boot::topology(&base, &cores, true).map_err(|why| LayoutError::from(BootError::from(why)))?;
    let (space, default) = config::space(&base, &topology, cores);
    let folder = Folder::take(&options.folder)?;
    let toml = options.toml.clone().unwrap_or_else(|| folder.path.join("layout.toml"));
    let json = options.json.as_deref();
    json_file(json).into_iter().chain([&*toml]).try_for_each(can_be_written)?;
    folder.is_same_search(options, &base, &space)?;
    let blind = blind();
    blind.iter().for_each(|why| note(format_args!("  … {why}")));
    let name = bench::name(&folder.path);
    let (default, folder) = (&default, &folder.path);
    let best_ns = BTreeMap::new();
    let bench =
        Bench { options, quiet, base: &base, space: &space, default, folder, name, stop, best_ns, longest: None };
    let path = folder.join("trials");
    let mut journal = Journal::open(&path, bench).map_err(|source| LayoutError::Io { path: path.clone(), source })?;
    if journal.kept() > 0 {
        note(format_args!("  … {} trials are kept from before", journal.kept()));
    }
    let Options { runs, minutes, seed, least_gain, .. } = *options;
    let budget = Budget { trials: runs as usize, seconds: 60.0 * minutes, seed, least_gain };
    let tell = |line: &str| note(format_args!("  … {line}"));
    let found = search(&space, default, budget, &mut journal, &tell).map_err(|why| {
        if matches!(why, SearchError::Default(_) | SearchError::Busy(_)) {
            // If that fails, the next run meets and reports them again.
            let _ = journal.forget_unmeasured();
        }
        failed(why, folder)
    })?;
    let text = config::configuration(&base, &space, &found, options, blind.as_deref());
    write(&toml, &text)?;
    let said = || {
        let blind = blind.iter().map(|why| format!("{why}\n")).collect::<String>();
        format!("{}{blind}the configuration: {}\n", report::text(&space, &found), toml.display())
    };
    super::tell(json, say, said, || {
        let mut all = report::json(&space, &found);
        all["toml"] = json!(text);
        all["disturbance_is_seen"] = json!(blind.is_none());
        all
    })
}

/// Refuses a budget too short to try another layout, and a gain out of range.
fn has_time(options: &Options) -> Result<(), LayoutError> {
    let asked = |what: String| Err(LayoutError::Asked(what));
    let Options { minutes, duration, warmup, least_gain, .. } = *options;
    if !(0.0..=1.0).contains(&least_gain) {
        return asked(format!("--least-gain: {least_gain} is not from 0 to 1"));
    }
    let seconds = (warmup + duration) as f64 + bench::AROUND.as_secs_f64();
    let least = TRIALS_LEAST as f64 * seconds / 60.0;
    if minutes.is_finite() && minutes >= least {
        return Ok(());
    }
    // Rounded up, so that the suggested value suffices.
    let least = (10.0 * least).ceil() / 10.0;
    asked(format!(
        "--minutes: {minutes} are not enough to try another layout than the default: with benches of {duration} s after {warmup} s \
         it must be {least} at least, for {TRIALS_LEAST} runs"
    ))
}

fn failed(why: SearchError<JournalError<StopReason>>, folder: &Path) -> LayoutError {
    match why {
        SearchError::Default(why) => LayoutError::Default(why),
        SearchError::Busy(why) => LayoutError::Busy { why, folder: folder.into() },
        SearchError::Evaluate(JournalError::Evaluate(StopReason::Taken(why))) => {
            LayoutError::Taken { why, folder: folder.into() }
        }
        SearchError::Evaluate(JournalError::Evaluate(StopReason::Asked)) => LayoutError::Stopped(folder.into()),
        SearchError::Evaluate(JournalError::Evaluate(StopReason::Io { path, source })) => {
            LayoutError::Io { path, source }
        }
        SearchError::Evaluate(other) => LayoutError::Journal(Box::new(other)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), WriteError> {
    fs::write(path, text).map_err(|source| WriteError { path: path.into(), source })
}

fn program() -> Result<PathBuf, LayoutError> {
    std::env::current_exe().map_err(|source| LayoutError::Io { path: "hearth".into(), source })
}

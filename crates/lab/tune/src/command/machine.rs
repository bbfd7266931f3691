//! `hearth tune machine`: measures what this machine can do, and whether that is enough.
//!
//! reads   a file of requirements
//! writes  the scores, as text and JSON; a temporary file of 64 MiB in a given folder
//! memory  see `crate::machine`

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hearth_command::exit_code::{ExitCode, FAILED, INTERRUPTED, MISSED, WRONG_USE};
use hearth_command::output::{CommandOutput, can_be_written, note};
use hearth_command::stop::StopSignal;
use hearth_machine::Root;
use hearth_machine::memory::file_system_of;
use hearth_stats::quiet::{DisturbanceLimits, counted};
use hearth_tile::affinity::Cores;

use super::{TuneError, write};
use hearth_score::kind::Kind;
use hearth_score::report::{Report, ScoreRequirements};
use hearth_score::requirements::{POLKADOT, POLKADOT_NAME, Requirements};
use hearth_score::{Control, Plan};

/// Default seconds per score.
const DURATION: &str = "5";
/// Maximum seconds per score, nearly three hours.
const SECONDS_MAX: f64 = 10_000.0;

/// The options of `hearth tune machine`.
#[derive(Args)]
pub struct Options {
    /// Measure only these scores, in this order: names of the table, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Kind::find)]
    pub only: Vec<Kind>,
    /// Seconds for each score that does not use the disk.
    #[arg(long, value_name = "SECONDS", default_value = DURATION, value_parser = seconds)]
    pub duration: Duration,
    /// Seconds for each score of the disk.
    #[arg(long, value_name = "SECONDS", default_value = DURATION, value_parser = seconds)]
    pub disk_duration: Duration,
    /// A folder on the disk to measure, such as the ledger's.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub disk_folder: PathBuf,
    /// The required scores, as TOML: `blake2-256 = "1000 MiB/s"`. `polkadot` stands for its reference hardware.
    #[arg(long, value_name = "FILE")]
    pub requirements: Option<PathBuf>,
    /// Tolerance of the requirements, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, requires = "requirements", value_parser = percent)]
    pub tolerance: f64,
    /// Report missed requirements, and end with exit code 0 nevertheless.
    #[arg(long, requires = "requirements")]
    pub allow_fail: bool,
    /// A score is disturbed if the hypervisor gave this share of the time to other guests; 1 disables the check, here
    /// and below.
    #[arg(long, value_name = "SHARE", default_value_t = DisturbanceLimits::default().steal, value_parser = share)]
    pub steal: f64,
    /// Or if other programs used this share of all cores.
    #[arg(long, value_name = "SHARE", default_value_t = DisturbanceLimits::default().foreign, value_parser = share)]
    pub foreign: f64,
    /// Or if some thread waited for a core this share of the time, though the score left one free.
    #[arg(long, value_name = "SHARE", default_value_t = DisturbanceLimits::default().pressure, value_parser = share)]
    pub pressure: f64,
    /// Write the scores as JSON to this file, `-` for standard output: exact, in bytes a second, /s and ns.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it must be a number of seconds".to_owned())?;
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        return Err(format!("it must be greater than 0, and {SECONDS_MAX} at most"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    percent.ok_or_else(|| "it must be a number from 0, below 100".into())
}

fn share(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "it must be from 0 to 1".into())
}

/// Why scores are missing, or requirements not met.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The requirements file cannot be opened.
    #[error("{}: {source}; `{POLKADOT_NAME}` is built in", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be opened, as the system says it.
        source: io::Error,
    },
    /// The requirements name nothing that is scored.
    #[error("{0}")]
    Requirements(String),
    /// Some scores could not be measured; the others were printed.
    #[error("not measured: {0}")]
    Failed(String),
    /// Some scores are below the requirements.
    #[error("the machine misses requirements: {0}")]
    Missed(String),
    /// Ctrl-C; the scores so far were printed.
    #[error("stopped")]
    Stopped,
}

impl ExitCode for MachineError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Open { .. } | Self::Requirements(_) => WRONG_USE,
            Self::Failed(_) => FAILED,
            Self::Missed(_) => MISSED,
            Self::Stopped => INTERRUPTED,
        }
    }
}

/// Measures the scores, prints them, and checks the requirements.
pub fn run(
    options: &Options,
    opt_level: &'static str,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), TuneError> {
    let to_stdout = options.json.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let file = options.json.as_deref().filter(|_| !to_stdout);
    file.map_or(Ok(()), can_be_written)?;
    let asked = options.requirements.as_deref().map(|path| read_requirements(path, options.tolerance)).transpose()?;
    let kinds = if options.only.is_empty() { Kind::ALL.to_vec() } else { options.only.clone() };
    asked.as_ref().map_or(Ok(()), |asked| asks_of_any(asked, &kinds))?;
    let plan = Plan {
        kinds,
        duration: options.duration,
        disk_duration: options.disk_duration,
        folder: options.disk_folder.clone(),
        quiet: DisturbanceLimits {
            steal: options.steal,
            foreign: options.foreign,
            pressure: options.pressure,
            pace: 1.0,
        },
    };
    let control = Control { stop: &|| stop.is_set(), tell: &|name| note(format_args!("  … {name}")), look: &counted };
    let outcome = hearth_score::run(&plan, &control);
    let report = Report {
        file_system: fs::canonicalize(&plan.folder).ok().and_then(|folder| file_system_of(&Root::default(), &folder)),
        siblings: Cores::of_machine().map(|cores| cores.siblings).unwrap_or_default(),
        opt_level,
        version: env!("CARGO_PKG_VERSION"),
        plan,
        outcome,
        asked,
    };
    write(file, || format!("{:#}\n", report.json()))?;
    say.text(if to_stdout { format!("{:#}\n", report.json()) } else { report.text() });
    ended(&report, options.allow_fail).map_err(Into::into)
}

fn read_requirements(path: &Path, tolerance: f64) -> Result<ScoreRequirements, MachineError> {
    let name = path.display().to_string();
    let text = match path.to_str() {
        Some(POLKADOT_NAME) => POLKADOT.to_owned(),
        _ => fs::read_to_string(path).map_err(|source| MachineError::Open { path: path.into(), source })?,
    };
    let requirements = Requirements::parse(&text).map_err(|why| MachineError::Requirements(format!("{name}:{why}")))?;
    Ok(ScoreRequirements { name, requirements, tolerance })
}

/// Refuses requirements that concern none of the measured scores: they would always be met.
fn asks_of_any(asked: &ScoreRequirements, kinds: &[Kind]) -> Result<(), MachineError> {
    if kinds.iter().any(|kind| asked.requirements.of(*kind).is_some()) {
        return Ok(());
    }
    let required: Vec<&str> = asked.requirements.kinds().map(Kind::name).collect();
    let why =
        format!("{}: nothing is asked there of what `--only` names; it asks of {}", asked.name, required.join(", "));
    Err(MachineError::Requirements(why))
}

/// Determines how the command ends, after the report is printed.
fn ended(report: &Report, allow_fail: bool) -> Result<(), MachineError> {
    if report.outcome.is_stopped {
        return Err(MachineError::Stopped);
    }
    if !report.outcome.failed.is_empty() {
        let why = report.outcome.failed.iter().map(|(kind, why)| format!("{}: {why}", kind.name()));
        return Err(MachineError::Failed(why.collect::<Vec<_>>().join("; ")));
    }
    let missed: Vec<&str> = report.missed().into_iter().map(Kind::name).collect();
    if missed.is_empty() || allow_fail {
        return Ok(());
    }
    Err(MachineError::Missed(missed.join(", ")))
}

//! `hearth profile bench`: a bench whose measured seconds are profiled and monitored, and one page about it.
//!
//! reads   this process's stacks; the bench's workspace, like the monitor; the bench's result
//! writes  an HTML file, and the output of `hearth bench`
//! memory  the sampler's table and one profile; a number per second; two looks at the workspace

mod page;
pub mod words;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use hearth_command::exit_code::{ExitCode, FAILED};
use hearth_command::output::{self, CommandOutput, WriteError, note};
use hearth_command::stop::StopSignal;
use hearth_machine::neighbours::CpuSample;
use hearth_machine::{Machine, Root};
use hearth_monitor::{AttachError, NodeCounters, Sample, Watch};
use hearth_node::config::Config;
use hearth_profile::{Samples, Sampling, SamplingError};

use crate::{BenchError, Program, Witness};
use page::Page;
use words::Cost;

/// Stacks beyond this number are summed up by thread and tile.
pub const STACKS_MAX: usize = 10_000;

/// The options of `hearth profile bench`.
#[derive(Args)]
pub struct ReportOptions {
    /// Options of the bench that is profiled.
    #[command(flatten)]
    pub bench: crate::Options,
    /// The report, to be opened in a browser.
    #[arg(long, short = 'o', alias = "output", value_name = "FILE", default_value = "hearth-bench.html")]
    pub html: PathBuf,
    /// Samples a second of CPU time.
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub hz: u32,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The bench failed, so there is nothing to report.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The bench cannot be profiled.
    #[error("the bench cannot be profiled: {0}")]
    Profile(#[from] SamplingError),
    /// The workspace cannot be watched.
    #[error("the bench cannot be watched: {0}")]
    Attach(#[from] AttachError),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ExitCode for ReportError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Bench(why) => why.exit_code(),
            Self::Profile(_) | Self::Attach(_) | Self::Write(_) => FAILED,
        }
    }
}

/// Runs the bench, prints its result, writes the page.
pub fn run(
    config: Config,
    options: &ReportOptions,
    program: Program,
    stop: &StopSignal,
    say: &CommandOutput,
) -> Result<(), ReportError> {
    if options.bench.target.url.is_some() {
        let what =
            "a bench of a node of its own is profiled; of another: `hearth profile --url` while `hearth bench` runs";
        return Err(BenchError::Option(what.into()).into());
    }
    output::can_be_written(&options.html)?;
    // Find out before the bench whether sampling works; the sampler allocates its memory here.
    drop(Sampling::start(options.hz)?);
    let mut seen = ProfileObserver { hz: options.hz, ..ProfileObserver::default() };
    let report = crate::report(config, &options.bench, program, stop, say, &mut seen)?;
    // If it was interrupted before anything was measured, there is nothing to report.
    crate::ended(&report).or_else(|why| if report.measured { Ok(()) } else { Err(why) })?;
    let Some(watched) = seen.watched()? else { return Ok(crate::ended(&report)?) };
    note("  … naming functions");
    let profile = watched.samples.name(STACKS_MAX);
    let tiles = words::tiles_of(profile.tiles().into_iter(), profile.samples());
    let cost = words::cost(&Cost::of(&profile));
    let page = Page {
        report: &report,
        seconds: &watched.seconds,
        sample: &watched.sample,
        profile: &profile,
        machine: &watched.machine,
        tiles: &tiles,
        cost: &cost,
    };
    let written = fs::write(&options.html, page.html());
    written.map_err(|source| WriteError { path: options.html.clone(), source })?;
    // If the JSON goes to standard output, all text for people goes to standard error.
    let to_stdout = options.bench.json.as_deref() != Some(Path::new("-"));
    let say = if to_stdout { say } else { &CommandOutput::stderr() };
    say.text(format!("{tiles}{cost}  report     {}\n", options.html.display()));
    Ok(crate::ended(&report)?)
}

/// Profiles and monitors the measured seconds.
#[derive(Default)]
struct ProfileObserver {
    hz: u32,
    watch: Option<Watch>,
    seconds: Vec<Second>,
    begun: Option<(NodeCounters, CpuSample)>,
    sampling: Option<Sampling>,
    watched: Option<Observations>,
    failed: Option<ReportError>,
}

/// A second's rate, and whether it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// Transactions executed and committed per second.
    pub txn_per_s: f64,
    /// Whether it was measured; otherwise it belongs to the warm-up.
    pub measured: bool,
}

/// Observations of the measured seconds.
struct Observations {
    samples: Samples,
    sample: Sample,
    machine: Machine,
    seconds: Vec<Second>,
}

impl ProfileObserver {
    /// Returns the observations, if anything was measured.
    fn watched(self) -> Result<Option<Observations>, ReportError> {
        match self.failed {
            Some(why) => Err(why),
            None => Ok(self.watched),
        }
    }

    fn noted<T, E: Into<ReportError>>(&mut self, result: Result<T, E>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(why) => {
                self.failed.get_or_insert(why.into());
                None
            }
        }
    }
}

impl Witness for ProfileObserver {
    fn booted(&mut self, workspace: &Path) {
        self.watch = self.noted(Watch::attach(&[workspace.into()]));
    }

    fn begin(&mut self) {
        self.begun = self.watch.as_ref().map(|watch| (watch.look(), CpuSample::take(&Root::default())));
        self.sampling = self.noted(Sampling::start(self.hz));
    }

    fn second(&mut self, txn_per_s: f64, measured: bool) {
        self.seconds.push(Second { txn_per_s, measured });
    }

    fn end(&mut self) {
        let (Some(watch), Some((before, moment)), Some(sampling)) =
            (&self.watch, self.begun.take(), self.sampling.take())
        else {
            return;
        };
        let sample = Sample::between(watch, &before, &watch.look());
        let root = Root::default();
        let machine = Machine { neighbours: Some(moment.until_now(&root)), ..Machine::read(&root) };
        let seconds = std::mem::take(&mut self.seconds);
        let samples = self.noted(sampling.end());
        self.watched = samples.map(|samples| Observations { samples, sample, machine, seconds });
    }
}

//! `hearth tune build`: makes the builds of a study, measures them, and recommends one.
//!
//! reads   a spec; the folder of a study that was begun
//! writes  that folder; the answer, as text, as JSON and as a page
//! memory  see `crate::matrix`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hearth_command::output::{CommandOutput, can_be_written, note};
use hearth_command::stop::StopSignal;
use hearth_stats::quiet::spoilt;

use super::{TuneError, json_file, tell, write};
use crate::matrix::spec::Spec;
use crate::matrix::study::{Study, with_workload};
use crate::matrix::workload::{Metric, Workload};
use crate::matrix::{Control, StudyError};
use crate::page;

/// The options of `hearth tune build`.
#[derive(Args)]
pub struct Build {
    /// The study's spec, as TOML: what to build and measure.
    #[arg(value_name = "SPEC.toml")]
    pub spec: PathBuf,
    /// Run this line for each build instead of the spec's workloads: `{bin}` stands for the build, `{scratch}` for an
    /// empty folder, `{project}` for the project's folder.
    #[arg(long, value_name = "LINE", requires = "metric")]
    pub workload: Option<String>,
    /// A pattern for the metric in its output: the first group, or the whole match; it must match once. Repeatable.
    #[arg(long, value_name = "NAME=REGEX", requires_all = ["workload", "better"])]
    pub metric: Vec<String>,
    /// Which way the metric is better; for several metrics give one for each, in their order, or one for all.
    #[arg(long, value_enum, value_name = "WAY", requires = "metric")]
    pub better: Vec<MetricDirection>,
    /// Rounds [default: the spec's, or 20].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rounds: Option<u32>,
    /// The random seed [default: the spec's, or 1].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The study's folder [default: beside the spec, with `.study` in place of `.toml`].
    #[arg(long, alias = "out", value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Drop builds as soon as another one beats them beyond doubt in every goal, and report how much time that saved.
    #[arg(long)]
    pub race: bool,
    /// Print what would be built and run, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// List every build.
    #[arg(long)]
    pub all: bool,
    /// Write the answer there as JSON, too; with `-`, standard output has only that.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the answer there as a page with plots, too.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MetricDirection {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// Makes and measures the builds of a study, or continues it, and prints the answer.
pub fn run(options: &Build, stop: &StopSignal, say: &CommandOutput) -> Result<(), TuneError> {
    let mut spec = Spec::load(&options.spec)?;
    spec.rounds = options.rounds.unwrap_or(spec.rounds);
    spec.seed = options.seed.unwrap_or(spec.seed);
    if let Some(line) = &options.workload {
        spec.workloads = vec![workload(options, line).map_err(StudyError::Asked)?];
    }
    let mut spec = with_workload(spec)?;
    let folder = options.folder.clone().unwrap_or_else(|| options.spec.with_extension("study"));
    let files = || json_file(options.json.as_deref()).into_iter().chain(options.html.as_deref());
    files().try_for_each(can_be_written)?;
    // The answer may be written into the project, but is not one of its sources.
    spec.without.extend(files().map(PathBuf::from));
    let quiet = spec.quiet;
    let control = Control {
        stop: &|| stop.is_set(),
        tell: &|line| note(format_args!("  … {line}")),
        judge: &|seen| spoilt(&quiet, seen),
    };
    if options.dry_run {
        say.text(Study::look(&spec, &folder, &control)?.plan());
        return Ok(());
    }
    let study = Study::open(&spec, &folder, &control)?;
    let report = study.run(options.race)?;
    tell(options.json.as_deref(), say, || report.text(options.all), || report.json())?;
    write(options.html.as_deref(), || page::of_study(&report))
}

fn workload(options: &Build, line: &str) -> Result<Workload, String> {
    let (metrics, better) = (&options.metric, &options.better);
    if better.len() != 1 && better.len() != metrics.len() {
        return Err(format!(
            "--better is there {} times for {} metrics: once, or for each",
            better.len(),
            metrics.len()
        ));
    }
    let metric = |(at, text): (usize, &String)| {
        let way = better[at.min(better.len() - 1)];
        Metric::parse(text, Some(if way == MetricDirection::Higher { "higher" } else { "lower" }))
    };
    let metrics = metrics.iter().enumerate().map(metric).collect::<Result<_, _>>();
    Ok(Workload { run: line.into(), metrics: metrics.map_err(|why| format!("--metric: {why}"))? })
}

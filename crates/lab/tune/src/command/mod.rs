//! `hearth tune`: which build or layout is best, and how certain that is.
//!
//! reads   results as CSV; for `build` and `layout` see there
//! writes  the answer, as text, as JSON and as a page

#![deny(clippy::print_stdout, clippy::print_stderr)] // `output` does not panic when nobody reads.

mod block;
mod build;
mod layout;
mod machine;
mod tiles;

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use hearth_command::exit_code::{ExitCode, FAILED, INTERRUPTED, MISSED, WRONG_USE};
use hearth_command::output::{CommandOutput, WriteError, can_be_written};
use hearth_command::stop::StopSignal;
use hearth_stats::paired_bootstrap::Settings;
use hearth_stats::table::{Table, TableError};
use hearth_workload::block::BlockError;
use serde_json::Value;

use crate::analysis::{self, Answer, Question, QuestionError, analyze};
use crate::matrix::StudyError;
use crate::matrix::spec::SpecError;
use crate::page;
use crate::text::text;

/// The commands of `hearth tune`.
#[derive(Subcommand)]
pub enum Command {
    /// Find the best builds of a study from its results.
    ///
    /// The results are CSV in tidy form: a row a measured value, with the columns `nb_build`, `metric`, `value` and
    /// `repetition`; every other column is an option of the builds. Values may carry units. By default builds are
    /// compared with the reference within each repetition, with intervals that hold for all builds and metrics
    /// together.
    ///
    /// Exit codes: 0 there is an answer; 1 the results cannot be read, or, with --fail-on-worse, they are too few to
    /// say whether a build is worse; 2 the command line is wrong; 3 with --fail-on-worse, a build is worse than the
    /// reference in a metric, beyond the noise.
    Analyze(Analyze),
    /// Build a matrix of options, measure all builds in turn, and recommend one.
    ///
    /// The spec names a Cargo project, the options to try (target-cpu, toolchain, codegen-units, lto, opt-level, panic,
    /// allocator, features, pgo, bolt) and what to run. Every round runs each build once, in a random order, with
    /// the reference and a byte-identical copy of it among them; what others disturb is done again. Builds that are
    /// better are linked again with their functions in other orders, and one is recommended only if it beats the
    /// reference by more than that order does. Ctrl-C loses nothing: the same command goes on.
    ///
    /// Exit codes: 0 there is an answer; 1 there is none; 2 the spec or the command line is wrong; 130 stopped.
    Build(Box<build::Build>),
    /// Measure how long this build takes to execute an empty block and a full one.
    ///
    /// On one thread, without network, disk and hash chain: signatures are verified, transfers executed, the slot ended
    /// and its bank hashed. A transaction is a full block less the mean of the empty ones, divided by its transactions.
    /// It is one of the workloads of `hearth tune build` where the spec names none.
    Block(block::Block),
    /// Measure how long this build takes for a transaction in each tile.
    ///
    /// On one thread that works in each tile in turn, its links included: quic (with a client), verify, dedup, pack,
    /// bank, poh and shred. It is one of the workloads of `hearth tune build` where the spec names none.
    Tiles(tiles::Tiles),
    /// Find the best layout for this machine: how many tiles of each kind, and on which core each.
    ///
    /// Begins with the configuration's layout, reads from short benches what limits it, moves tiles toward that and
    /// tries neighbours, too, until no move wins. The best candidate then runs against the first layout once more, in
    /// fresh runs in turn, and is reported as better only if these confirm it. Runs that other programs disturb are
    /// repeated. Ctrl-C loses nothing: the same command goes on.
    ///
    /// Exit codes: 0 there is an answer, also where the default stays; 1 there is none; 2 the command line or the
    /// configuration is wrong; 130 stopped.
    Layout(Box<layout::Options>),
    /// Measure this machine, and compare it with requirements.
    ///
    /// BLAKE2-256, SR25519-Verify, memory copy and disk writes compare number for number with `polkadot benchmark
    /// machine`; the others are the most frequent computations of a node, UDP over loopback, and the latency between
    /// cores. A disturbed score is given by CPU time where possible, and says so. Score names:
    /// blake2-256, blake2-256-parallel-8, sr25519-verify, copy, disk-sequential-write, disk-random-write, ed25519-sign,
    /// ed25519-verify, sha256-chain, reed-solomon-32-32, secp256k1-recover, udp-loopback, core-to-core.
    ///
    /// Exit codes: 0 all scores are there, and the requirements are met; 1 a score could not be measured, the others
    /// are printed; 2 the command line or the requirements are wrong; 3 a requirement is missed; 130 stopped, the
    /// scores so far are printed.
    Machine(Box<machine::Options>),
}

/// The options of `hearth tune analyze`.
#[derive(Args)]
pub struct Analyze {
    /// The results; `-` reads standard input.
    #[arg(value_name = "RESULTS.csv")]
    pub results: PathBuf,
    /// A metric to maximize. Repeatable; metrics that are named by neither option are only reported.
    #[arg(long, value_name = "METRIC")]
    pub max: Vec<String>,
    /// A metric to minimize. Repeatable.
    #[arg(long, value_name = "METRIC")]
    pub min: Vec<String>,
    /// The build to compare the others with.
    #[arg(long, value_name = "BUILD")]
    pub reference: Option<String>,
    /// A byte-identical copy of the reference: if both differ, the study cannot be trusted.
    #[arg(long, value_name = "BUILD", requires = "reference")]
    pub copy: Option<String>,
    /// Builds to leave out.
    #[arg(long, value_name = "BUILD", value_delimiter = ',')]
    pub exclude: Vec<String>,
    /// The rule that compares builds: by resampling rounds, or by medians and their half-widths as in the first study.
    #[arg(long, value_enum, default_value_t, value_name = "RULE")]
    pub rule: Rule,
    /// Resamples; fewer are drawn where there are very many builds.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub resamples: u32,
    /// The random seed: the same seed gives the same answer.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// List every build.
    #[arg(long)]
    pub all: bool,
    /// End with code 3 where a build is worse than the reference in a metric, beyond the noise, and with code 1 where
    /// the results cannot show that, as with fewer than six repetitions.
    #[arg(long, requires = "reference")]
    pub fail_on_worse: bool,
    /// Write the answer there as JSON, too; with `-`, standard output has only that.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<PathBuf>,
    /// Write the answer there as a page with plots, too.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// How builds are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Rule {
    /// By resampling rounds.
    #[default]
    Bootstrap,
    /// By medians and their half-widths.
    Article,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The results cannot be opened.
    #[error("{}: {source}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be opened, as the system says it.
        source: io::Error,
    },
    /// The file contains no valid results.
    #[error("{}: {source}", path.display())]
    Table {
        /// Path of the file.
        path: PathBuf,
        /// Cause and place of the fault in the contents.
        source: TableError,
    },
    /// The question cannot be answered.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The spec cannot be read, or is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The study of builds failed or was stopped.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// The search for a layout failed.
    #[error(transparent)]
    Layout(#[from] layout::LayoutError),
    /// The machine could not be scored, or misses requirements.
    #[error(transparent)]
    Machine(#[from] machine::MachineError),
    /// A block cannot be made or executed.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// Ctrl-C in a command that cannot be resumed.
    #[error("stopped; nothing was kept")]
    Interrupted,
    /// With `--fail-on-worse`: the builds that are worse than the reference.
    #[error("worse than the reference, beyond the noise: {0}")]
    Worse(String),
    /// With `--fail-on-worse`: why it is undecided whether any build is worse.
    #[error("--fail-on-worse: {0}")]
    Undecided(String),
    /// `--fail-on-worse` with the median rule, whose error rate is unknown.
    #[error("--fail-on-worse needs the intervals of --rule bootstrap; leave out --rule article")]
    Medians,
    /// Signal handlers cannot be installed.
    #[error("cannot handle Ctrl-C: {0}")]
    Signals(io::Error),
    /// The answer cannot be written.
    #[error(transparent)]
    Out(#[from] WriteError),
}

impl ExitCode for TuneError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Question(_) | Self::Spec(_) | Self::Study(StudyError::Asked(_)) | Self::Medians => WRONG_USE,
            Self::Study(StudyError::Stopped { .. }) | Self::Interrupted => INTERRUPTED,
            Self::Layout(why) => why.exit_code(),
            Self::Machine(why) => why.exit_code(),
            Self::Worse(_) => MISSED,
            _ => FAILED,
        }
    }
}

/// Runs the command. `opt_level` is this program's optimization level: scores are comparable only at the same level.
pub fn run(command: &Command, opt_level: &'static str, say: &CommandOutput) -> Result<(), TuneError> {
    let install = || StopSignal::install().map_err(TuneError::Signals);
    match command {
        Command::Analyze(options) => answer(options, say),
        Command::Layout(options) => layout::run(options, &install()?, say),
        Command::Machine(options) => machine::run(options, opt_level, &install()?, say),
        Command::Block(options) => block::run(options, &install()?, say),
        Command::Tiles(options) => tiles::run(options, &install()?, say),
        Command::Build(options) => build::run(options, &install()?, say),
    }
}

fn answer(options: &Analyze, say: &CommandOutput) -> Result<(), TuneError> {
    if options.fail_on_worse && options.rule == Rule::Article {
        return Err(TuneError::Medians);
    }
    let json = options.json.as_deref();
    json_file(json).into_iter().chain(options.html.as_deref()).try_for_each(can_be_written)?;
    let path = &options.results;
    let table = Table::read(open(path)?).map_err(|source| TuneError::Table { path: path.clone(), source })?;
    let question = Question {
        max: options.max.clone(),
        min: options.min.clone(),
        reference: options.reference.clone(),
        copy: options.copy.clone(),
        exclude: options.exclude.clone(),
        rule: match options.rule {
            Rule::Bootstrap => analysis::Rule::Bootstrap,
            Rule::Article => analysis::Rule::Article,
        },
        settings: Settings { resamples: options.resamples as usize, seed: options.seed, ..Settings::default() },
        ..Question::default()
    };
    let answer = analyze(table, &question)?;
    tell(json, say, || text(&answer, options.all), || answer.json())?;
    write(options.html.as_deref(), || page::of_answer(&answer))?;
    if options.fail_on_worse { gate(&answer) } else { Ok(()) }
}

/// The result of an answer under `--fail-on-worse`.
fn gate(answer: &Answer) -> Result<(), TuneError> {
    let worse = answer.worse_than_reference();
    match answer.undecided() {
        // If the reference and its copy differ, no verdict of the study can be trusted.
        Some(why) if worse.is_empty() || !answer.copy_differs_in().is_empty() => Err(TuneError::Undecided(why)),
        _ if !worse.is_empty() => Err(TuneError::Worse(worse.join("; "))),
        _ => Ok(()),
    }
}

/// Writes an answer to a file, if one is named.
fn write(path: Option<&Path>, text: impl FnOnce() -> String) -> Result<(), TuneError> {
    let Some(path) = path else { return Ok(()) };
    fs::write(path, text()).map_err(|source| WriteError { path: path.into(), source }.into())
}

/// The file for JSON; none if JSON goes to standard output.
fn json_file(json: Option<&Path>) -> Option<&Path> {
    json.filter(|path| path.as_os_str() != "-")
}

/// Prints an answer as text and writes JSON to the file; with `-`, prints only JSON.
fn tell(
    json: Option<&Path>,
    say: &CommandOutput,
    text: impl FnOnce() -> String,
    value: impl FnOnce() -> Value,
) -> Result<(), TuneError> {
    let file = json_file(json);
    if json != file {
        say.text(format!("{:#}\n", value()));
        return Ok(());
    }
    say.text(text());
    write(file, || format!("{:#}\n", value()))
}

/// Measures, and prints the result.
fn write_answer(
    json: Option<&Path>,
    say: &CommandOutput,
    measure: impl FnOnce() -> Result<(String, Value), TuneError>,
) -> Result<(), TuneError> {
    json_file(json).map_or(Ok(()), can_be_written)?;
    let (text, result) = measure()?;
    tell(json, say, || text, || result)
}

fn open(path: &Path) -> Result<Box<dyn Read>, TuneError> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path).map_err(|source| TuneError::Open { path: path.to_owned(), source })?;
    Ok(Box::new(BufReader::new(file)))
}

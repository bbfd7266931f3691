//! The spec of a study of builds, read from TOML.
//!
//! reads   a spec file
//! writes  a validated [`Spec`]
//!
//! An error names file, line, key and the nearest known key.

mod file;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_stats::objective::GOALS_MAX;
use hearth_stats::quiet::DisturbanceLimits;

use self::file::{File, checked, in_words};
use super::workload::{Source, Workload};
use crate::options::{Matrix, Options};

/// The size of a build's program, as a metric.
pub const BYTES: &str = "binary_bytes";
/// The build time, as a metric.
pub const SECONDS: &str = "build_seconds";
/// Suffix of the name of the reference's copy.
pub const COPY: &str = " (copy)";

/// Default of the smallest difference that matters. Without one every build would be larger or smaller, because sizes
/// are exact to the byte, and no equal build could be known not to be worse.
pub const MATTERS: f64 = 0.01;

/// Why a spec cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the spec.
        path: PathBuf,
        /// Why the file could not be read, as the system says it.
        source: std::io::Error,
    },
    /// A value or key is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// Path of the spec.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The fault, and the name that was probably meant.
        what: String,
    },
}

/// A row of the study that is not built here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowSource {
    /// Path of an existing program.
    Binary(PathBuf),
    /// A command that replaces the program: `docker run --rm image`.
    Command(String),
}

/// The build that others are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// One that is built here.
    Options(Options),
    /// An existing row, by its name.
    Row(String),
}

/// The spec of a study of builds.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Path of the spec file.
    pub path: PathBuf,
    /// Folder of the Cargo project.
    pub project: PathBuf,
    /// The package, in a workspace.
    pub package: Option<String>,
    /// The binary, in a package with several.
    pub bin: Option<String>,
    /// The profile that builds start from.
    pub profile: String,
    /// More arguments for cargo.
    pub cargo: Vec<String>,
    /// Flags for rustc in all builds.
    pub rustflags: Vec<String>,
    /// Number of rounds in which each build runs once per workload.
    pub rounds: u32,
    /// Seed of the builds' order in each round.
    pub seed: u64,
    /// How often each is built, to measure the build time.
    pub build_repetitions: u32,
    /// A build that takes longer counts as hung.
    pub build_limit: Duration,
    /// A run that takes longer counts as hung.
    pub run_limit: Duration,
    /// How often a disturbed run is tried again.
    pub retries: u32,
    /// Number of layouts in which finalists are linked; 0 for none.
    pub layouts: u32,
    /// Rounds for measuring the layouts.
    pub layout_rounds: u32,
    /// Maximum number of finalists.
    pub finalists: usize,
    /// Goals besides the workloads' metrics.
    pub objectives: Vec<&'static str>,
    /// By metric, the smallest difference that matters, as a fraction.
    pub matters: BTreeMap<String, f64>,
    /// Files next to the sources that are not part of them.
    pub without: Vec<PathBuf>,
    /// The training command of PGO and BOLT, if not the workloads.
    pub train: Option<String>,
    /// Thresholds for disturbed runs.
    pub quiet: DisturbanceLimits,
    /// For each allocator the feature that enables it.
    pub allocators: BTreeMap<String, String>,
    /// The build that others are compared with.
    pub reference: Reference,
    /// The builds to make.
    pub matrix: Matrix,
    /// Rows of the study that are not built here, by name.
    pub rows: Vec<(String, RowSource)>,
    /// The workloads to run; if empty, ours.
    pub workloads: Vec<Workload>,
}

/// Keys that a spec has and other TOML files of a project have not.
const OF_SPECS: [&str; 6] = ["workload", "matrix", "include", "row", "reference", "rounds"];

/// Returns whether a text is a spec, judging by its keys.
pub fn is_one(text: &str) -> bool {
    let Ok(table) = text.parse::<toml::Table>() else { return false };
    OF_SPECS.iter().any(|key| table.contains_key(*key)) && table.try_into::<File>().is_ok()
}

impl Spec {
    /// Reads a spec file.
    pub fn load(path: &Path) -> Result<Self, SpecError> {
        let text = fs::read_to_string(path).map_err(|source| SpecError::Read { path: path.into(), source })?;
        Self::read(&text, path)
    }

    /// Parses a spec; its paths are relative to the file.
    pub fn read(text: &str, path: &Path) -> Result<Self, SpecError> {
        let wrong = |line, what| SpecError::Wrong { path: path.into(), line, what };
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            wrong(line, in_words(error.message()))
        })?;
        // The message mostly starts with the key, so report the first line that sets it.
        checked(file, path).map_err(|what| {
            let key = what.split('`').nth(1).unwrap_or_default();
            let has =
                |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
            let line = text.lines().position(has).or_else(|| text.lines().position(|line| line.contains(key)));
            wrong(line.map_or(1, |at| at + 1), what)
        })
    }

    /// Returns the names of metrics and objectives to maximize and to minimize.
    pub fn goals(&self) -> (Vec<String>, Vec<String>) {
        let of = |more: bool| {
            let all = self.workloads.iter().flat_map(|workload| &workload.metrics);
            all.filter(move |metric| metric.more == Some(more)).map(|metric| metric.name.clone())
        };
        (of(true).collect(), of(false).chain(self.objectives.iter().map(|name| (*name).to_owned())).collect())
    }

    /// Verifies the workloads, which the command line may have replaced.
    pub fn check_workloads(&self) -> Result<(), String> {
        let mut names: Vec<&str> = vec![BYTES, SECONDS];
        for workload in &self.workloads {
            if !workload.run.contains("{bin}") {
                return Err(format!("`run`: `{}` does not run the build: write `{{bin}}` where it goes", workload.run));
            }
            if workload.metrics.is_empty() {
                return Err(format!("`metric`: `{}` has none: nothing would be measured", workload.run));
            }
            for metric in &workload.metrics {
                if names.contains(&metric.name.as_str()) {
                    return Err(format!("`name`: the metric `{}` is there twice, or ours", metric.name));
                }
                names.push(&metric.name);
                let is_cpu = matches!(metric.source, Source::Cpu);
                let row = self.rows.iter().find(|(_, made)| is_cpu && matches!(made, RowSource::Command(_)));
                if let Some((row, _)) = row {
                    return Err(format!(
                        "`measure`: of the row `{row}` the CPU time is not known: a command's work may be done elsewhere"
                    ));
                }
            }
        }
        let (max, min) = self.goals();
        match max.len() + min.len() {
            0 if !self.workloads.is_empty() => {
                Err("`better`: no metric says `higher` or `lower`: nothing could be best".into())
            }
            many if many > GOALS_MAX => Err(format!("`metric`: {many} goals are too many: {GOALS_MAX} at most")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: &str = "[[workload]]\nrun = \"{bin} 7\"\n[[workload.metric]]\nname = \"tps\"\n\
        regex = 'tps (\\S+)'\nbetter = \"higher\"\n";

    fn read(text: &str) -> Result<Spec, String> {
        Spec::read(text, Path::new("at/study.toml")).map_err(|why| why.to_string())
    }

    #[test]
    fn a_spec_is_read() {
        let text = format!(
            "project = \"app\"\nrounds = 7\nobjectives = [\"binary_bytes\"]\n[allocators]\nmimalloc = \"mi\"\n\
             [reference]\nlto = \"thin\"\n[matrix]\nallocator = [\"default\", \"mimalloc\"]\n[[row]]\n\
             name = \"official\"\nbinary = \"official/app\"\n[[row]]\nname = \"docker\"\ncommand = \"docker run x\"\n{WORKLOAD}"
        );
        let spec = read(&text).expect("fine");
        let at = |path: &str| std::path::absolute(path).expect("a folder");
        assert_eq!((spec.rounds, &spec.project), (7, &at("at/app")));
        assert_eq!(spec.rows[0].1, RowSource::Binary(at("at/official/app")));
        assert!(matches!(&spec.reference, Reference::Options(options) if options.to_string() == "lto=thin"));
        assert_eq!(spec.goals(), (vec!["tps".into()], vec![BYTES.into()]));
        assert_eq!(spec.matters, [(BYTES.to_owned(), MATTERS)].into());
        let text = format!("[matters]\ntps = 0.02\nbinary_bytes = 0\n{WORKLOAD}");
        assert_eq!(read(&text).expect("fine").matters, [("tps".to_owned(), 0.02), (BYTES.to_owned(), 0.0)].into());
    }

    #[test]
    fn a_mistake_says_its_line_and_what_was_meant() {
        for (text, said) in [
            ("rouns = 3\n", "at/study.toml:1: unknown key `rouns`; did you mean `rounds`?"),
            ("\nlto = \"fat\"\n", "at/study.toml:2: `lto` is an option of builds: write it under [matrix]"),
            ("\n[matrix]\nlot = 3\n", "at/study.toml:3: unknown option `lot`; did you mean `lto`?"),
            ("[[workload]]\nrun = \"{bin}\"\nmetrc = []\n", ":3: unknown key `metrc`; did you mean `metric`?"),
            ("seed = 1\nrounds = 0\n", ":2: `rounds`: 0 is not from 1"),
            ("rounds = \"x\"\n", ":1: invalid type"),
            ("layouts = 1\n", "of one layout nothing can be said"),
            ("[matrix]\nallocator = \"mi\"\n", ":2: `allocator`: say under [allocators] which feature brings `mi`"),
            ("[[row]]\nname = \"x\"\n", "either a `binary` or a `command`"),
            ("[matrix]\nallocator = \"system\"\n", "which feature brings `system`"),
            ("[[row]]\nname = \"default\"\ncommand = \"x\"\n", "`default` is not a name of a row, or there twice"),
            ("[[row]]\nname = \" x\"\ncommand = \"x\"\n", "` x` is not a name of a row"),
            ("[[row]]\nname = \"default (copy)\"\ncommand = \"x\"\n", "is the copy of the reference"),
            ("[matters]\nbinary_bytes = 2\n", ":2: `binary_bytes`: 2 is not from 0 to 1"),
            ("[[workload]]\nrun = \"sleep 1\"\n", ":2: `run`: `sleep 1` does not run the build"),
            ("[[workload]]\nrun = \"{bin}\"\n", "has none"),
            ("objectives = [\"binary_byte\"]\n", "did you mean `binary_bytes`?"),
            ("objectives = [\"build_seconds\"]\n", "`build-repetitions = 6` at least"),
            ("[quiet]\nsteal = 2.0\n", "`steal`: 2 is not from 0 to 1"),
            ("rounds = 1\nrounds = 2\n", ":2: duplicate key"),
        ] {
            let found = read(text).expect_err(text);
            assert!(found.contains(said), "{text}: {found}");
        }
        let twice = format!("{WORKLOAD}{WORKLOAD}");
        assert!(read(&twice).expect_err("twice").contains("`tps` is there twice"));
        for (from, to, said) in [
            ("(\\S+)", "(", "`regex`"),
            ("higher", "hihger", "did you mean `higher`?"),
            ("better = \"higher\"", "", "no metric says"),
            ("\"tps\"", "\" tps\"", "not a name of a metric"),
            ("{bin} 7", "{bin} 7\"\n[matters]\ntbs = 0.1\n[[workload]]\nrun = \"{bin}", "none of that name"),
        ] {
            let found = read(&WORKLOAD.replace(from, to)).expect_err(from);
            assert!(found.contains(said), "{found}");
        }
    }
}

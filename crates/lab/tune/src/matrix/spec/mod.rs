//! What a study of builds is to be: read from TOML.
//!
//! reads   a spec file
//! writes  a [`Spec`], all of it checked
//!
//! A mistake names file, line, key and the nearest right key.

mod file;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_stats::objective::GOALS_MAX;
use hearth_stats::quiet::Quiet;

use self::file::{File, checked, in_words};
use super::workload::{Source, Workload};
use crate::options::{Matrix, Options};

/// The size of a build's file, as a metric.
pub const BYTES: &str = "binary_bytes";
/// How long a build took, as a metric.
pub const SECONDS: &str = "build_seconds";
/// What is behind the name of the reference's copy.
pub const COPY: &str = " (copy)";

/// The smallest difference that matters, where a spec says nothing of it: without one every build would be larger or
/// smaller, as a size is counted to the byte, and no build that is equal could be known not to be worse.
pub const MATTERS: f64 = 0.01;

/// Why there is no spec.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// What, and what was meant.
        what: String,
    },
}

/// A row of the study that is not built here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// A program that is there.
    Binary(PathBuf),
    /// A command that stands where the program would: `docker run --rm image`.
    Command(String),
}

/// The build that others are compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// One that is built here.
    Options(Options),
    /// A row, by its name.
    Row(String),
}

/// What a study of builds is to be.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The file.
    pub path: PathBuf,
    /// The Cargo project's folder.
    pub project: PathBuf,
    /// Of a workspace, the package.
    pub package: Option<String>,
    /// Of a package, the binary.
    pub bin: Option<String>,
    /// The profile that builds begin with.
    pub profile: String,
    /// More arguments for cargo.
    pub cargo: Vec<String>,
    /// Flags of rustc that all builds have.
    pub rustflags: Vec<String>,
    /// Rounds.
    pub rounds: u32,
    /// Where randomness begins.
    pub seed: u64,
    /// How often each is built, to know how long that takes.
    pub build_repetitions: u32,
    /// A build that takes longer hangs.
    pub build_limit: Duration,
    /// A run that takes longer hangs.
    pub run_limit: Duration,
    /// How often a disturbed run is tried again.
    pub retries: u32,
    /// Layouts in which finalists are linked; 0 for none.
    pub layouts: u32,
    /// Rounds of those.
    pub layout_rounds: u32,
    /// Finalists, at most.
    pub finalists: usize,
    /// Goals beside the workloads' metrics.
    pub objectives: Vec<&'static str>,
    /// For metrics the smallest difference that matters, as a part of one.
    pub matters: BTreeMap<String, f64>,
    /// Files that are none of the sources, though they are beside them.
    pub without: Vec<PathBuf>,
    /// What trains PGO and BOLT, where it is not the workloads.
    pub train: Option<String>,
    /// What disturbs a run.
    pub quiet: Quiet,
    /// For each allocator the feature that brings it.
    pub allocators: BTreeMap<String, String>,
    /// The build that others are compared with.
    pub reference: Reference,
    /// What to build.
    pub matrix: Matrix,
    /// What is there already.
    pub rows: Vec<(String, Made)>,
    /// What to run; where there is none, ours.
    pub workloads: Vec<Workload>,
}

/// Keys that a spec has where it is one; what else there is of TOML in a project has others.
const OF_SPECS: [&str; 6] = ["workload", "matrix", "include", "row", "reference", "rounds"];

/// Whether a text is a spec, as far as its keys say.
pub fn is_one(text: &str) -> bool {
    let Ok(table) = text.parse::<toml::Table>() else { return false };
    OF_SPECS.iter().any(|key| table.contains_key(*key)) && table.try_into::<File>().is_ok()
}

impl Spec {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Self, SpecError> {
        let text = fs::read_to_string(path).map_err(|source| SpecError::Read { path: path.into(), source })?;
        Self::read(&text, path)
    }

    /// Reads a file's text; paths in it are beside the file.
    pub fn read(text: &str, path: &Path) -> Result<Self, SpecError> {
        let wrong = |line, what| SpecError::Wrong { path: path.into(), line, what };
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
            wrong(line, in_words(error.message()))
        })?;
        // What is wrong begins with the key in most cases: its line is the first that has it.
        checked(file, path).map_err(|what| {
            let key = what.split('`').nth(1).unwrap_or_default();
            let has =
                |line: &str| line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
            let line = text.lines().position(has).or_else(|| text.lines().position(|line| line.contains(key)));
            wrong(line.map_or(1, |at| at + 1), what)
        })
    }

    /// The metrics of the workloads and the objectives, as names of what is to be great and what small.
    pub fn goals(&self) -> (Vec<String>, Vec<String>) {
        let of = |more: bool| {
            let all = self.workloads.iter().flat_map(|workload| &workload.metrics);
            all.filter(move |metric| metric.more == Some(more)).map(|metric| metric.name.clone())
        };
        (of(true).collect(), of(false).chain(self.objectives.iter().map(|name| (*name).to_owned())).collect())
    }

    /// Checks what workloads that came with the command line may have broken.
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
                let row = self.rows.iter().find(|(_, made)| is_cpu && matches!(made, Made::Command(_)));
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
        assert_eq!(spec.rows[0].1, Made::Binary(at("at/official/app")));
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
            ("[[row]]\nname = \"default\"\ncommand = \"x\"\n", "`default` is no name of a row, or there twice"),
            ("[[row]]\nname = \" x\"\ncommand = \"x\"\n", "` x` is no name of a row"),
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
            ("\"tps\"", "\" tps\"", "no name of a metric"),
            ("{bin} 7", "{bin} 7\"\n[matters]\ntbs = 0.1\n[[workload]]\nrun = \"{bin}", "none of that name"),
        ] {
            let found = read(&WORKLOAD.replace(from, to)).expect_err(from);
            assert!(found.contains(said), "{found}");
        }
    }
}

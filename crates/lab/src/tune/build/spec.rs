//! What a study of builds is to be: read from TOML.
//!
//! reads   a spec file
//! writes  a [`Spec`], all of it checked
//!
//! A mistake names file, line, key and the nearest right key.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::options::{BUILDS_MAX, Key, Matrix, Options, meant};
use super::quiet::Quiet;
use super::workload::{Metric, Source, Workload};
use crate::tune::goal::GOALS_MAX;
use crate::tune::paired::ROUNDS_MIN;

/// The size of a build's file, as a metric.
pub const BYTES: &str = "binary_bytes";
/// How long a build took, as a metric.
pub const SECONDS: &str = "build_seconds";
/// What is behind the name of the reference's copy.
pub const COPY: &str = " (copy)";

/// A size is counted to the byte: without a least difference that matters every build would be larger or smaller.
const BYTES_MATTER: f64 = 0.01;

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    project: PathBuf,
    package: Option<String>,
    bin: Option<String>,
    profile: String,
    cargo: Vec<String>,
    rustflags: Vec<String>,
    rounds: u32,
    seed: u64,
    build_repetitions: u32,
    build_limit_seconds: u64,
    run_limit_seconds: u64,
    retries: u32,
    layouts: u32,
    layout_rounds: u32,
    finalists: usize,
    objectives: Vec<String>,
    matters: BTreeMap<String, f64>,
    train: Option<String>,
    quiet: Quiet,
    allocators: BTreeMap<String, String>,
    reference: toml::Value,
    matrix: toml::Table,
    include: Vec<toml::Table>,
    exclude: Vec<toml::Table>,
    row: Vec<RowFile>,
    workload: Vec<WorkloadFile>,
}

impl Default for File {
    fn default() -> Self {
        Self {
            project: ".".into(),
            package: None,
            bin: None,
            profile: "release".into(),
            cargo: Vec::new(),
            rustflags: Vec::new(),
            rounds: 20,
            seed: 1,
            build_repetitions: 1,
            build_limit_seconds: 3_600,
            run_limit_seconds: 600,
            retries: 3,
            layouts: 5,
            layout_rounds: 6,
            finalists: 2,
            objectives: Vec::new(),
            matters: BTreeMap::new(),
            train: None,
            quiet: Quiet::default(),
            allocators: BTreeMap::new(),
            reference: toml::Value::Table(toml::Table::new()),
            matrix: toml::Table::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            row: Vec::new(),
            workload: Vec::new(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowFile {
    name: String,
    binary: Option<PathBuf>,
    command: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadFile {
    run: String,
    #[serde(default)]
    metric: Vec<MetricFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricFile {
    name: String,
    regex: Option<String>,
    measure: Option<String>,
    better: Option<String>,
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

/// What serde says of a key it does not know, with the key that was meant.
fn in_words(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let message = message.trim();
    if !message.starts_with("unknown field") {
        return message.to_owned();
    }
    let key = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    match meant(key, &known) {
        Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
        None if Key::ALL.iter().any(|option| option.name() == key) => {
            format!("`{key}` is an option of builds: write it under [matrix]")
        }
        None => format!("unknown key `{key}`; the keys here are {}", known.join(", ")),
    }
}

fn numbers(file: &File) -> Result<(), String> {
    for (key, value, least, most) in [
        ("rounds", u64::from(file.rounds), 1, 100_000),
        ("build-repetitions", u64::from(file.build_repetitions), 1, 1_000),
        ("build-limit-seconds", file.build_limit_seconds, 1, 1_000_000),
        ("run-limit-seconds", file.run_limit_seconds, 1, 1_000_000),
        ("retries", u64::from(file.retries), 0, 1_000),
        ("layouts", u64::from(file.layouts), 0, 1_000),
        ("layout-rounds", u64::from(file.layout_rounds), 1, 100_000),
        ("finalists", file.finalists as u64, 1, 1_000),
    ] {
        if !(least..=most).contains(&value) {
            return Err(format!("`{key}`: {value} is not from {least} to {most}"));
        }
    }
    if file.layouts == 1 {
        return Err("`layouts`: of one layout nothing can be said; give 2 at least, or 0 to leave them out".into());
    }
    Ok(())
}

fn checked(file: File, path: &Path) -> Result<Spec, String> {
    numbers(&file)?;
    file.quiet.check()?;
    // Runs have the project as their folder: what is named beside the spec is found from there, too.
    let path = std::path::absolute(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = |path: &Path| if path.is_absolute() { path.to_owned() } else { folder.join(path) };
    let objectives = objectives(&file)?;
    let matters = matters(&file)?;
    let allocators = file.allocators;
    let matrix = Matrix::read(&file.matrix, &file.include, &file.exclude)?;
    let reference = match &file.reference {
        toml::Value::String(name) => Reference::Row(name.clone()),
        toml::Value::Table(table) => Reference::Options(Options::read(table)?),
        other => return Err(format!("`reference`: {other} is no row's name and no table of options")),
    };
    let own = match &reference {
        Reference::Options(options) => Some(options),
        Reference::Row(_) => None,
    };
    for options in matrix.expand().iter().chain(own) {
        if let Some(name) = options.get(Key::Allocator).filter(|name| !allocators.contains_key(*name)) {
            let what = format!("`allocator`: say under [allocators] which feature brings `{name}`");
            return Err(what + "; `default` is what the project has");
        }
    }
    let builds: Vec<String> = matrix.expand().iter().chain(own).map(Options::to_string).collect();
    if builds.len() > BUILDS_MAX {
        return Err(format!("`include`: with these there are more than {BUILDS_MAX} builds"));
    }
    let rows = rows(file.row, &builds, &beside)?;
    if let Reference::Row(name) = &reference {
        if !rows.iter().any(|(row, _)| row == name) {
            return Err(format!("`reference`: there is no row `{name}`"));
        }
    }
    let spec = Spec {
        path: path.clone(),
        project: beside(&file.project),
        package: file.package,
        bin: file.bin,
        profile: file.profile,
        cargo: file.cargo,
        rustflags: file.rustflags,
        rounds: file.rounds,
        seed: file.seed,
        build_repetitions: file.build_repetitions,
        build_limit: Duration::from_secs(file.build_limit_seconds),
        run_limit: Duration::from_secs(file.run_limit_seconds),
        retries: file.retries,
        layouts: file.layouts,
        layout_rounds: file.layout_rounds,
        finalists: file.finalists,
        objectives,
        matters,
        without: Vec::new(),
        train: file.train,
        quiet: file.quiet,
        allocators,
        reference,
        matrix,
        rows,
        workloads: file.workload.into_iter().map(workload).collect::<Result<_, _>>()?,
    };
    spec.check_workloads().map(|()| spec)
}

/// What is there already. A build's name is a row's in the results: no other has it.
fn rows(
    all: Vec<RowFile>,
    builds: &[String],
    beside: &dyn Fn(&Path) -> PathBuf,
) -> Result<Vec<(String, Made)>, String> {
    let mut rows: Vec<(String, Made)> = Vec::new();
    for row in all {
        let RowFile { name, binary, command } = row;
        let is_there = rows.iter().any(|(other, _)| *other == name) || builds.contains(&name);
        if name.is_empty() || name.trim() != name || name.contains([',', '\n', '#']) || is_there {
            return Err(format!("`name`: `{name}` is no name of a row, or there twice"));
        }
        if name.ends_with(COPY) {
            return Err(format!("`name`: `{name}`: what ends with `{COPY}` is the copy of the reference"));
        }
        rows.push(match (binary, command) {
            (Some(path), None) => (name, Made::Binary(beside(&path))),
            (None, Some(command)) => (name, Made::Command(command)),
            _ => return Err(format!("`name`: the row `{name}` is to have either a `binary` or a `command`")),
        });
    }
    Ok(rows)
}

/// The smallest differences that matter, with those that stand where the spec says nothing.
fn matters(file: &File) -> Result<BTreeMap<String, f64>, String> {
    let metrics: Vec<&str> = file.workload.iter().flat_map(|one| &one.metric).map(|one| one.name.as_str()).collect();
    let mut all = BTreeMap::from([(BYTES.to_owned(), BYTES_MATTER)]);
    for (name, part) in &file.matters {
        if !(0.0..=1.0).contains(part) {
            return Err(format!("`{name}`: {part} is not from 0 to 1: a part of the value"));
        }
        let is_known = [BYTES, SECONDS].contains(&name.as_str()) || metrics.contains(&name.as_str());
        if !is_known && !file.workload.is_empty() {
            return Err(format!("`{name}`: [matters] is of metrics, and there is none of that name"));
        }
        all.insert(name.clone(), *part);
    }
    Ok(all)
}

fn objectives(file: &File) -> Result<Vec<&'static str>, String> {
    let mut all = Vec::new();
    for name in &file.objectives {
        let known = [BYTES, SECONDS];
        let Some(known) = known.into_iter().find(|one| one == name) else {
            let meant = meant(name, &known).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!("`objectives`: `{name}` is none of {BYTES}, {SECONDS}{meant}"));
        };
        if all.contains(&known) {
            return Err(format!("`objectives`: `{name}` is there twice"));
        }
        all.push(known);
    }
    let few = (file.build_repetitions as usize) < ROUNDS_MIN;
    if all.contains(&SECONDS) && few {
        return Err(format!(
            "`objectives`: how long builds take is known only after several: `build-repetitions = {ROUNDS_MIN}` at least"
        ));
    }
    if all.contains(&SECONDS) && file.build_repetitions > file.rounds {
        return Err("`build-repetitions`: there must be as many `rounds`".into());
    }
    Ok(all)
}

fn workload(file: WorkloadFile) -> Result<Workload, String> {
    let metrics = file.metric.into_iter().map(|metric| {
        let MetricFile { name, regex, measure, better } = metric;
        let source = match (regex, measure.as_deref()) {
            (Some(regex), None) => Source::regex(&regex).map_err(|why| format!("`regex`: {why}"))?,
            (None, Some("wall")) => Source::Wall,
            (None, Some("cpu")) => Source::Cpu,
            (None, Some(other)) => return Err(format!("`measure`: `{other}` is none of wall, cpu")),
            _ => return Err(format!("`name`: the metric `{name}` is to have either a `regex` or a `measure`")),
        };
        Metric::new(&name, source, better.as_deref())
    });
    Ok(Workload { run: file.run, metrics: metrics.collect::<Result<_, _>>()? })
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
        assert_eq!(spec.matters, [(BYTES.to_owned(), BYTES_MATTER)].into());
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

//! A spec as written in its file, and its validation.
//!
//! reads   TOML
//! writes  a [`Spec`], or an error that starts with the key

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_stats::paired_bootstrap::ROUNDS_MIN;
use hearth_stats::quiet::DisturbanceLimits;
use serde::Deserialize;

use super::super::workload::{Metric, Source, Workload};
use super::{BYTES, COPY, MATTERS, Reference, RowSource, SECONDS, Spec};
use crate::options::{BUILDS_MAX, Key, Matrix, Options};
use hearth_command::did_you_mean::meant;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct File {
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
    quiet: DisturbanceLimits,
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
            quiet: DisturbanceLimits::default(),
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

/// Rewords serde's message about an unknown key and suggests the nearest known one.
pub(super) fn in_words(message: &str) -> String {
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

/// Validates a file's contents and converts them to a spec.
pub(super) fn checked(file: File, path: &Path) -> Result<Spec, String> {
    numbers(&file)?;
    file.quiet.check()?;
    // Runs use the project as their working folder, so paths relative to the spec are made absolute.
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

/// Validates the existing rows. A build's name identifies its rows in the results, so it must be unique.
fn rows(
    all: Vec<RowFile>,
    builds: &[String],
    beside: &dyn Fn(&Path) -> PathBuf,
) -> Result<Vec<(String, RowSource)>, String> {
    let mut rows: Vec<(String, RowSource)> = Vec::new();
    for row in all {
        let RowFile { name, binary, command } = row;
        let is_there = rows.iter().any(|(other, _)| *other == name) || builds.contains(&name);
        if name.is_empty() || name.trim() != name || name.contains([',', '\n', '#']) || is_there {
            return Err(format!("`name`: `{name}` is not a name of a row, or there twice"));
        }
        if name.ends_with(COPY) {
            return Err(format!("`name`: `{name}`: what ends with `{COPY}` is the copy of the reference"));
        }
        rows.push(match (binary, command) {
            (Some(path), None) => (name, RowSource::Binary(beside(&path))),
            (None, Some(command)) => (name, RowSource::Command(command)),
            _ => return Err(format!("`name`: the row `{name}` is to have either a `binary` or a `command`")),
        });
    }
    Ok(rows)
}

/// The smallest differences that matter, with defaults.
fn matters(file: &File) -> Result<BTreeMap<String, f64>, String> {
    let metrics: Vec<&str> = file.workload.iter().flat_map(|one| &one.metric).map(|one| one.name.as_str()).collect();
    let mut all = BTreeMap::from([(BYTES.to_owned(), MATTERS)]);
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

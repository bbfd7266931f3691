//! Runs a study: plan, builds, rounds, answer, layouts of the finalists.
//!
//! reads   a [`Spec`]; the project; what the folder contains already
//! writes  a [`Report`], and the folder
//! memory  the results

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use hearth_stats::median_rule::median;
use hearth_stats::paired_bootstrap::Settings;
use hearth_stats::quiet::blind;
use hearth_stats::table::Table;
use serde_json::{Value, json};

use super::cargo::program;
use super::events::Events;
use super::make::{FinishedBuild, Maker};
use super::manifest::own_settings;
use super::report::{Cost, Report};
use super::results::Results;
use super::round_plan::{Rounds, Subject};
use super::spec::{BYTES, COPY, MATTERS, Reference, RowSource, SECONDS, Spec};
use super::workload::Workload;
use super::{Control, StudyError, quote, race, study_dir, study_identity};
use crate::analysis::{Question, analyze};
use crate::options::{Key, NO_OPTION, Options};
use crate::recipe::CargoRecipe;
use crate::run::identity::{digest, machine};
use crate::run::process::end_marked;

/// The origin of a build.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Options(Options),
    Row(RowSource),
}

/// A build that the study makes or takes as it is.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Name of the build.
    pub(super) name: String,
    origin: Origin,
}

/// A planned study with its folder.
pub struct Study<'a> {
    pub(super) spec: &'a Spec,
    pub(super) folder: PathBuf,
    pub(super) control: &'a Control<'a>,
    /// The planned builds; the first is the reference.
    pub(super) entries: Vec<Entry>,
    pub(super) copy: String,
    /// Builds that cannot be made here, and what they need.
    left_out: Vec<(String, String)>,
    pub(super) maker: Option<Maker<'a>>,
    /// None if the study is only planned.
    _lock: Option<File>,
}

/// Adds our own workload to a spec without any.
pub fn with_workload(mut spec: Spec) -> Result<Spec, StudyError> {
    if spec.workloads.is_empty() {
        let ours = spec.bin.clone().map_or_else(|| program(&spec).map(|found| found.bin), Ok);
        if !ours.is_ok_and(|bin| bin == "hearth") {
            let what = "`workload`: there is none: say with [[workload]], or --workload and --metric, what to run";
            return Err(StudyError::Asked(what.into()));
        }
        spec.workloads = Workload::ours();
    }
    spec.check_workloads().map(|()| spec).map_err(StudyError::Asked)
}

impl<'a> Study<'a> {
    /// Plans a study, and locks its folder.
    pub fn open(spec: &'a Spec, folder: &Path, control: &'a Control<'a>) -> Result<Self, StudyError> {
        let failed = |source| StudyError::Io { path: folder.into(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        study_dir::is_for_studies(&folder, &spec.project)?;
        let lock = study_dir::lock(&folder)?;
        let left = end_marked(&folder.to_string_lossy());
        if left > 0 {
            (control.tell)(&format!("{left} processes of this study were still there, and are ended"));
        }
        Self::planned(spec, folder, control, Some(lock))
    }

    /// Plans a study only for [`Self::plan`]: writes nothing and locks no folder.
    pub fn look(spec: &'a Spec, folder: &Path, control: &'a Control<'a>) -> Result<Self, StudyError> {
        let failed = |source| StudyError::Io { path: folder.into(), source };
        let folder = std::path::absolute(folder).map_err(failed)?;
        if let Ok(folder) = folder.canonicalize() {
            study_dir::is_for_studies(&folder, &spec.project)?;
        }
        Self::planned(spec, folder, control, None)
    }

    fn planned(
        spec: &'a Spec,
        folder: PathBuf,
        control: &'a Control<'a>,
        lock: Option<File>,
    ) -> Result<Self, StudyError> {
        let mut entries = entries(spec);
        let builds: Vec<Options> = entries.iter().filter_map(Entry::options).cloned().collect();
        let maker = match builds.is_empty() {
            true => None,
            false => {
                let program = program(spec).map_err(StudyError::Asked)?;
                let builds: Vec<&Options> = builds.iter().collect();
                let maker = Maker::new(spec, program, &folder, &builds, control);
                Some(maker.map_err(|source| StudyError::Io { path: spec.project.clone(), source })?)
            }
        };
        let cannot = |entry: &Entry| match (&entry.origin, &maker) {
            (Origin::Options(options), Some(maker)) => maker.can(options).err(),
            (Origin::Row(RowSource::Binary(path)), _) if !path.is_file() => {
                Some(format!("there is no {}", path.display()))
            }
            _ => None,
        };
        if let Some(why) = cannot(&entries[0]) {
            return Err(StudyError::Reference { name: entries[0].name.clone(), why });
        }
        let all = entries.iter().filter_map(|entry| Some((entry.name.clone(), cannot(entry)?)));
        let left_out: Vec<(String, String)> = all.collect();
        entries.retain(|entry| left_out.iter().all(|(name, _)| *name != entry.name));
        let copy = format!("{}{COPY}", entries[0].name);
        Ok(Self { spec, folder, control, entries, copy, left_out, maker, _lock: lock })
    }

    /// Returns a description of the planned work, in lines.
    pub fn plan(&self) -> String {
        let spec = self.spec;
        let mut lines: Vec<String> = self.entries.iter().map(|entry| format!("  {}", entry.name)).collect();
        lines[0].push_str(" (reference)");
        lines.insert(1, format!("  {}", self.copy));
        let runs = lines.len() * spec.workloads.len() * spec.rounds as usize;
        lines.insert(0, format!("{} builds, {} rounds, {runs} runs:", lines.len(), spec.rounds));
        lines.extend(self.left_out.iter().map(|(name, why)| format!("left out: {name}: {why}")));
        lines.extend(spec.workloads.iter().map(|workload| format!("runs: {}", workload.run)));
        lines.join("\n") + "\n"
    }

    /// Runs the study, resuming where it was left.
    pub fn run(&self, race: bool) -> Result<Report, StudyError> {
        self.is_same_study()?;
        let blind = blind();
        if let Some(why) = &blind {
            (self.control.tell)(why);
        }
        let mut results = self.results()?;
        let mut events = self.events("events.csv")?;
        for (name, why) in &events.failed {
            (self.control.tell)(&format!(
                "`{name}` failed before, and stays out ({why}); another folder tries it again"
            ));
        }
        let (built, failed) = self.build(&mut results, &mut events)?;
        let subjects = self.subjects(&built)?;
        let workloads = self.spec.workloads.len();
        study_identity::same_programs(&self.folder, &subjects, &|name| results.is_measured(name, workloads))?;
        let looks = race::looks(self.spec.rounds);
        let beaten = |results: &Results, round: u32, failed: &BTreeMap<String, String>| match looks.contains(&round) {
            true => race::beaten(&results.text_until(round), &self.question(failed), looks.len()),
            false => Vec::new(),
        };
        let rounds = self.rounds(&subjects, self.spec.rounds, self.spec.seed);
        let mut happened = rounds.run(&mut results, &mut events, race.then_some(&beaten as _))?;
        study_identity::still_there(&self.folder, &subjects)?;
        happened.failed.extend(failed);
        let failed = happened.failed.clone();
        let mut question = self.question(&failed);
        let table = Table::read(results.text().as_bytes())?;
        question.exclude.retain(|name| table.build(name).is_some());
        let answer = analyze(table, &question)?;
        let layouts = self.layouts(&answer, &happened, results.count())?;
        let costs = self.costs(&answer.table, &built);
        let report = Report {
            costs,
            left_out: self.left_out.clone(),
            failed,
            happened,
            layouts,
            race,
            blind,
            folder: self.folder.clone(),
            recipes: self.recipes(),
            answer,
        };
        study_dir::write_whole(&self.folder.join("report.json"), &format!("{:#}\n", report.json()))?;
        Ok(report)
    }

    /// The costs of the builds; a build time is the median of its timings.
    fn costs(&self, table: &Table, built: &BTreeMap<String, FinishedBuild>) -> Vec<Cost> {
        let times = |name: &str| match (table.metric(SECONDS), table.build(name)) {
            (Some(metric), Some(build)) => table.present(metric, build),
            _ => Vec::new(),
        };
        let cost = |entry: &Entry| {
            let built = built.get(&entry.name)?;
            let times = times(&entry.name);
            let seconds = Some(median(&times)).filter(|seconds| seconds.is_finite());
            Some(Cost {
                name: entry.name.clone(),
                seconds: seconds.unwrap_or(built.seconds),
                times: times.len(),
                bytes: built.bytes,
                digest: built.digest.clone(),
            })
        };
        self.entries.iter().filter_map(cost).collect()
    }

    pub(super) fn events(&self, name: &str) -> Result<Events, StudyError> {
        let path = self.folder.join(name);
        Events::open(&path).map_err(|source| StudyError::Io { path, source })
    }

    pub(super) fn rounds<'b>(&'b self, subjects: &'b [Subject], rounds: u32, seed: u64) -> Rounds<'b> {
        Rounds { spec: self.spec, folder: &self.folder, control: self.control, subjects, rounds, seed }
    }

    fn question(&self, failed: &BTreeMap<String, String>) -> Question {
        let (max, min) = self.spec.goals();
        Question {
            max,
            min,
            reference: Some(self.entries[0].name.clone()),
            copy: Some(self.copy.clone()),
            exclude: failed.keys().cloned().collect(),
            matters: self.spec.matters.clone(),
            matters_else: MATTERS,
            settings: Settings { seed: self.spec.seed, ..Settings::default() },
            ..Question::default()
        }
    }

    /// Refuses to continue with results of other sources, builds or workloads.
    fn is_same_study(&self) -> Result<(), StudyError> {
        let key = |entry: &Entry| -> Result<Value, StudyError> {
            Ok(json!(match (&entry.origin, &self.maker) {
                (Origin::Options(options), Some(maker)) => maker.key(options, ""),
                (Origin::Row(RowSource::Binary(path)), _) => {
                    digest(path).map_err(|source| StudyError::Io { path: path.clone(), source })?
                }
                (Origin::Row(RowSource::Command(line)), _) => line.clone(),
                (Origin::Options(_), None) => String::new(),
            }))
        };
        let builds: BTreeMap<&str, Value> =
            self.entries.iter().map(|entry| Ok((&*entry.name, key(entry)?))).collect::<Result<_, StudyError>>()?;
        let workload = |one: &Workload| format!("{one:?}");
        let sources = self.maker.as_ref().map(|maker| &maker.sources);
        let now = json!({
            "sources": sources.map(|sources| &sources.digest),
            "commit": sources.map(|sources| &sources.commit),
            "files": sources.map(|sources| &sources.files),
            "reference": self.entries[0].name,
            "builds": builds,
            "workloads": self.spec.workloads.iter().map(workload).collect::<Vec<_>>(),
            "seed": self.spec.seed,
            "machine": machine(),
            "format": study_identity::FORMAT,
            // The limits by which runs were accepted: values with other limits are not comparable.
            "limits": {
                "steal": self.spec.quiet.steal,
                "foreign": self.spec.quiet.foreign,
                "pressure": self.spec.quiet.pressure,
                "pace": self.spec.quiet.pace,
                "retries": self.spec.retries,
                "run-limit-seconds": self.spec.run_limit.as_secs(),
            },
        });
        study_identity::same_study(&self.folder, &now, sources)?;
        let Some(maker) = self.maker.as_ref().filter(|_| study_identity::is_measured(&self.folder)) else {
            return Ok(());
        };
        // Files that builds read besides the sources are known from cargo's output.
        match self.entries.iter().filter_map(Entry::options).find_map(|options| maker.changed_beside(options)) {
            None => Ok(()),
            Some(path) => {
                let what = format!("sources (`{}` changed)", path.display());
                Err(StudyError::Other { folder: self.folder.clone(), what })
            }
        }
    }

    /// The options that differ between builds, one column each.
    fn columns(&self) -> Vec<Key> {
        let values = |key: &Key| -> BTreeSet<Option<&str>> {
            self.entries.iter().filter_map(Entry::options).map(|options| options.get(*key)).collect()
        };
        Key::ALL.into_iter().filter(|key| values(key).len() > 1).collect()
    }

    fn cells(&self, entry: &Entry) -> Vec<String> {
        let own = self.own_settings(entry);
        let cell = |key: Key| match entry.options() {
            Some(options) => {
                options.get(key).or(own.get(&key).map(String::as_str)).unwrap_or(crate::options::DEFAULT).to_owned()
            }
            None => NO_OPTION.into(),
        };
        self.columns().into_iter().map(cell).collect()
    }

    /// Returns what the project itself sets for the options that a build leaves at their defaults.
    fn own_settings(&self, entry: &Entry) -> BTreeMap<Key, String> {
        let (Some(options), Some(maker)) = (entry.options(), &self.maker) else { return BTreeMap::new() };
        own_settings(&maker.program.root, options.get(Key::Profile).unwrap_or(&self.spec.profile))
    }

    /// Returns how to make each build by hand: all of its options, not only those that differ between builds.
    fn recipes(&self) -> BTreeMap<String, CargoRecipe> {
        let spec = self.spec;
        let recipe = |entry: &Entry| {
            let options = entry.options()?;
            let common = [(Key::Profile.name(), spec.profile.as_str())].into_iter();
            let flags = spec.rustflags.iter().map(|flag| (Key::Rustflags.name(), flag.as_str()));
            let feature = options.get(Key::Allocator).and_then(|name| spec.allocators.get(name));
            let feature = feature.map(|feature| (Key::Features.name(), feature.as_str()));
            let own = options.iter().filter(|(key, _)| *key != Key::Allocator || feature.is_none());
            let own = own.map(|(key, value)| (key.name(), value));
            let recipe = CargoRecipe::of(common.chain(flags).chain(own).chain(feature))?;
            Some((entry.name.clone(), recipe))
        };
        self.entries.iter().filter_map(recipe).collect()
    }

    fn results(&self) -> Result<Results, StudyError> {
        let mut options: BTreeMap<String, Vec<String>> =
            self.entries.iter().map(|entry| (entry.name.clone(), self.cells(entry))).collect();
        options.insert(self.copy.clone(), self.cells(&self.entries[0]));
        let columns: Vec<String> = self.columns().iter().map(|key| key.name().to_owned()).collect();
        let mut metrics = metrics(self.spec);
        metrics.push(vec![SECONDS.into()]);
        let path = self.folder.join("results.csv");
        Results::open(&path, &columns, options, metrics).map_err(|source| StudyError::Io { path, source })
    }

    fn subjects(&self, built: &BTreeMap<String, FinishedBuild>) -> Result<Vec<Subject>, StudyError> {
        let of = |name: &str, entry: &Entry, is_needed: bool| {
            let (bin, bytes, program) = match &entry.origin {
                Origin::Options(_) => {
                    let Some(built) = built.get(name) else { return Ok(None) };
                    (quote(&built.path), Some(built.bytes), Some((built.path.clone(), built.digest.clone())))
                }
                Origin::Row(RowSource::Binary(path)) => {
                    let failed = |source| StudyError::Io { path: path.clone(), source };
                    let digest = digest(path).map_err(failed)?;
                    let bytes = fs::metadata(path).map_err(failed)?.len();
                    (quote(path), Some(bytes), Some((path.clone(), digest)))
                }
                Origin::Row(RowSource::Command(line)) => (line.clone(), None, None),
            };
            let is_elsewhere = matches!(&entry.origin, Origin::Row(RowSource::Command(_)));
            Ok(Some(Subject {
                name: name.to_owned(),
                bin,
                bytes,
                is_elsewhere,
                is_needed,
                is_base: is_needed,
                program,
            }))
        };
        let reference = &self.entries[0];
        let copy = of(&self.copy, reference, true);
        let all = self.entries.iter().map(|entry| of(&entry.name, entry, entry.name == reference.name));
        [copy].into_iter().chain(all).filter_map(Result::transpose).collect()
    }
}

impl Entry {
    pub(super) fn options(&self) -> Option<&Options> {
        match &self.origin {
            Origin::Options(options) => Some(options),
            Origin::Row(_) => None,
        }
    }
}

/// The metrics of each workload's runs; the program's size is recorded with the first.
pub(super) fn metrics(spec: &Spec) -> Vec<Vec<String>> {
    let names = |workload: &Workload| workload.metrics.iter().map(|metric| metric.name.clone()).collect::<Vec<_>>();
    let mut all: Vec<Vec<String>> = spec.workloads.iter().map(names).collect();
    if let Some(first) = all.first_mut() {
        first.insert(0, BYTES.into());
    }
    all
}

/// The builds of a study, the reference first.
fn entries(spec: &Spec) -> Vec<Entry> {
    let mut all: Vec<Entry> = Vec::new();
    let mut add = |name: String, origin: Origin| {
        if all.iter().all(|entry| entry.name != name) {
            all.push(Entry { name, origin });
        }
    };
    match &spec.reference {
        Reference::Options(options) => add(options.to_string(), Origin::Options(options.clone())),
        Reference::Row(name) => {
            let row = spec.rows.iter().find(|(row, _)| row == name);
            row.into_iter().for_each(|(name, made)| add(name.clone(), Origin::Row(made.clone())));
        }
    }
    spec.matrix.expand().into_iter().for_each(|options| add(options.to_string(), Origin::Options(options)));
    spec.rows.iter().for_each(|(name, made)| add(name.clone(), Origin::Row(made.clone())));
    all
}

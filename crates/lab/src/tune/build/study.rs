//! The course of a study: plan, build, rounds, answer, layouts of the finalists.
//!
//! reads   a [`Spec`]; the project; what is in the folder already
//! writes  a [`Report`], and the folder
//! memory  the results

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::cargo::program;
use super::events::{Event, Events};
use super::kept;
use super::layout;
use super::make::{Built, Failure, Maker};
use super::options::{Key, Options};
use super::process::end_marked;
use super::quiet::counted;
use super::race;
use super::report::{Cost, Layouts, Report};
use super::results::{NOTHING, Results};
use super::rounds::{Happened, Rounds, Subject, order};
use super::source::{digest, digest_of, machine};
use super::spec::{BYTES, COPY, Made, Reference, SECONDS, Spec};
use super::workload::Workload;
use super::{Control, StudyError, quote};
use crate::tune::analysis::{Answer, Question, analyze};
use crate::tune::article::median;
use crate::tune::goal::Goal;
use crate::tune::paired::{Settings, Verdict};
use crate::tune::table::Table;

/// What a build comes from.
#[derive(Clone, Debug)]
enum Origin {
    Options(Options),
    Row(Made),
}

/// A build of the plan.
#[derive(Clone, Debug)]
struct Entry {
    name: String,
    origin: Origin,
}

/// A study, planned and its folder taken.
pub struct Study<'a> {
    spec: &'a Spec,
    folder: PathBuf,
    control: &'a Control<'a>,
    /// The reference is the first.
    entries: Vec<Entry>,
    copy: String,
    /// What cannot be built here, and what it needs.
    left_out: Vec<(String, String)>,
    maker: Option<Maker<'a>>,
    /// None where nothing is to be done but a plan.
    _lock: Option<File>,
}

/// What is built, and what failed.
type Makings = (BTreeMap<String, Built>, BTreeMap<String, String>);

/// Gives a study our own workload where it has none.
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
    /// Plans a study, and takes its folder.
    pub fn open(spec: &'a Spec, folder: &Path, control: &'a Control<'a>) -> Result<Self, StudyError> {
        let failed = |source| StudyError::Io { path: folder.into(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        kept::is_for_studies(&folder, &spec.project)?;
        let lock = kept::lock(&folder)?;
        let left = end_marked(&folder.to_string_lossy());
        if left > 0 {
            (control.tell)(&format!("{left} processes of this study were still there, and are ended"));
        }
        Self::planned(spec, folder, control, Some(lock))
    }

    /// Plans a study only for its [`Self::plan`]: nothing is written, and no folder taken.
    pub fn look(spec: &'a Spec, folder: &Path, control: &'a Control<'a>) -> Result<Self, StudyError> {
        let failed = |source| StudyError::Io { path: folder.into(), source };
        let folder = std::path::absolute(folder).map_err(failed)?;
        if let Ok(folder) = folder.canonicalize() {
            kept::is_for_studies(&folder, &spec.project)?;
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
            (Origin::Row(Made::Binary(path)), _) if !path.is_file() => Some(format!("there is no {}", path.display())),
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

    /// What would be done, in lines.
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

    /// Does it, from where it was left.
    pub fn run(&self, race: bool) -> Result<Report, StudyError> {
        self.is_same_study()?;
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
        kept::same_programs(&self.folder, &subjects, &|name| results.is_measured(name, workloads))?;
        let looks = race::looks(self.spec.rounds);
        let beaten = |results: &Results, round: u32, failed: &BTreeMap<String, String>| match looks.contains(&round) {
            true => race::beaten(&results.text_until(round), &self.question(failed), looks.len()),
            false => Vec::new(),
        };
        let rounds = self.rounds(&subjects, self.spec.rounds, self.spec.seed);
        let mut happened = rounds.run(&mut results, &mut events, race.then_some(&beaten as _))?;
        kept::still_there(&self.folder, &subjects)?;
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
            folder: self.folder.clone(),
            answer,
        };
        kept::write_whole(&self.folder.join("report.json"), &format!("{:#}\n", report.json()))?;
        Ok(report)
    }

    /// What builds cost: of several times the median.
    fn costs(&self, table: &Table, built: &BTreeMap<String, Built>) -> Vec<Cost> {
        let times = |name: &str| match (table.metric(SECONDS), table.build(name)) {
            (Some(metric), Some(build)) => table.present(metric, build),
            _ => Vec::new(),
        };
        let cost = |entry: &Entry| {
            let built = built.get(&entry.name)?;
            let seconds = Some(median(&times(&entry.name))).filter(|seconds| seconds.is_finite());
            Some(Cost {
                name: entry.name.clone(),
                seconds: seconds.unwrap_or(built.seconds),
                bytes: built.bytes,
                digest: built.digest.clone(),
            })
        };
        self.entries.iter().filter_map(cost).collect()
    }

    fn events(&self, name: &str) -> Result<Events, StudyError> {
        let path = self.folder.join(name);
        Events::open(&path).map_err(|source| StudyError::Io { path, source })
    }

    fn rounds<'b>(&'b self, subjects: &'b [Subject], rounds: u32, seed: u64) -> Rounds<'b> {
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
            settings: Settings { seed: self.spec.seed, ..Settings::default() },
            ..Question::default()
        }
    }

    /// Refuses to go on with results of other sources, builds or workloads.
    fn is_same_study(&self) -> Result<(), StudyError> {
        let key = |entry: &Entry| -> Result<Value, StudyError> {
            Ok(json!(match (&entry.origin, &self.maker) {
                (Origin::Options(options), Some(maker)) => maker.key(options, ""),
                (Origin::Row(Made::Binary(path)), _) => {
                    digest(path).map_err(|source| StudyError::Io { path: path.clone(), source })?
                }
                (Origin::Row(Made::Command(line)), _) => line.clone(),
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
        });
        kept::same_study(&self.folder, &now, sources)?;
        let Some(maker) = self.maker.as_ref().filter(|_| kept::is_measured(&self.folder)) else { return Ok(()) };
        // What builds read beside the sources is known by what cargo said of them.
        match self.entries.iter().filter_map(Entry::options).find_map(|options| maker.changed_beside(options)) {
            None => Ok(()),
            Some(path) => {
                let what = format!("sources (`{}` changed)", path.display());
                Err(StudyError::Other { folder: self.folder.clone(), what })
            }
        }
    }

    /// Options that differ between builds; a column each.
    fn columns(&self) -> Vec<Key> {
        let values = |key: &Key| -> BTreeSet<Option<&str>> {
            self.entries.iter().filter_map(Entry::options).map(|options| options.get(*key)).collect()
        };
        Key::ALL.into_iter().filter(|key| values(key).len() > 1).collect()
    }

    fn cells(&self, entry: &Entry) -> Vec<String> {
        let cell = |key: Key| match entry.options() {
            Some(options) => options.get(key).unwrap_or(super::options::DEFAULT).to_owned(),
            None => "-".into(),
        };
        self.columns().into_iter().map(cell).collect()
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

    /// Makes what is to be made. What fails takes no part; without the reference there is no study.
    fn build(&self, results: &mut Results, events: &mut Events) -> Result<Makings, StudyError> {
        let (mut built, mut failed) = (BTreeMap::new(), events.failed.clone());
        let Some(maker) = &self.maker else { return Ok((built, failed)) };
        let reference = &self.entries[0].name;
        for repetition in 1..=self.spec.build_repetitions {
            let mut all: Vec<usize> = order(self.entries.len(), !self.spec.seed, repetition);
            if repetition == 1 {
                // If the reference cannot be built nothing else is of use.
                all.sort_by_key(|at| *at != 0);
            }
            for entry in all.into_iter().map(|at| &self.entries[at]) {
                let Some(options) = entry.options().filter(|_| !failed.contains_key(&entry.name)) else { continue };
                let run = (entry.name.clone(), self.spec.workloads.len(), repetition);
                let has = results.has(&run);
                let seconds = match repetition {
                    1 => self.build_one(maker, entry, options).map(|(made, seconds)| {
                        built.insert(entry.name.clone(), made);
                        seconds
                    }),
                    _ if has => continue,
                    _ => self.time(maker, entry, options),
                };
                let seconds = match seconds {
                    Ok(seconds) => seconds.map_or(NOTHING.into(), |seconds| format!("{seconds} s")),
                    Err(Failure::Stopped) => return Err(self.stopped(results)),
                    Err(Failure::Io(error)) => return Err(error),
                    Err(Failure::Failed(why)) if entry.name == *reference => {
                        return Err(StudyError::Reference { name: entry.name.clone(), why });
                    }
                    Err(Failure::Failed(why)) => {
                        (self.control.tell)(&format!("`{}` cannot be built: {why}", entry.name));
                        let added = events.add(Event::Failed, &entry.name, 0, &why);
                        added.map_err(|source| StudyError::Io { path: self.folder.join("events.csv"), source })?;
                        failed.insert(entry.name.clone(), why);
                        continue;
                    }
                };
                let copy = (entry.name == *reference).then(|| (self.copy.clone(), run.1, repetition));
                for run in [Some(run), copy].into_iter().flatten().filter(|run| !results.has(run)).collect::<Vec<_>>() {
                    let added = results.add(run, vec![seconds.clone()]);
                    added.map_err(|source| StudyError::Io { path: self.folder.join("results.csv"), source })?;
                }
            }
        }
        if let (Some(options), Some(made)) = (self.entries[0].options(), built.get(reference)) {
            built.insert(self.copy.clone(), maker.copy(options, made)?);
        }
        Ok((built, failed))
    }

    /// A build, and how long it took; nothing where others were at work, too.
    fn build_one(&self, maker: &Maker<'_>, entry: &Entry, options: &Options) -> Result<(Built, Option<f64>), Failure> {
        // Of one that is kept it is not known what else there was when it was made.
        if let Some(kept) = maker.kept(&maker.key(options, "")) {
            let seconds = kept.seconds;
            return Ok((kept, Some(seconds)));
        }
        (self.control.tell)(&format!("building `{}`", entry.name));
        let (made, is_quiet) = self.quietly(entry, || maker.build(options))?;
        let seconds = is_quiet.then_some(made.seconds);
        Ok((made, seconds))
    }

    /// How long a build takes once more; nothing where others were at work each time.
    fn time(&self, maker: &Maker<'_>, entry: &Entry, options: &Options) -> Result<Option<f64>, Failure> {
        for _ in 0..=self.spec.retries {
            if let (seconds, true) = self.quietly(entry, || maker.time(options))? {
                return Ok(Some(seconds));
            }
        }
        Ok(None)
    }

    /// Does it, and says whether nobody else was at work. Where a build is timed once it is no measurement.
    fn quietly<T>(&self, entry: &Entry, make: impl FnOnce() -> Result<T, Failure>) -> Result<(T, bool), Failure> {
        let before = counted();
        let made = make()?;
        let looks = before.filter(|_| self.spec.build_repetitions > 1).zip(counted());
        let why = looks.and_then(|(before, after)| (self.control.judge)(&before, &after, false));
        if let Some(why) = &why {
            (self.control.tell)(&format!(
                "`{}` was built while others were at work, which is no time: {why}",
                entry.name
            ));
        }
        Ok((made, why.is_none()))
    }

    fn stopped(&self, results: &Results) -> StudyError {
        StudyError::Stopped { done: results.count(), folder: self.folder.clone() }
    }

    fn subjects(&self, built: &BTreeMap<String, Built>) -> Result<Vec<Subject>, StudyError> {
        let of = |name: &str, entry: &Entry, is_needed: bool| {
            let (bin, bytes, program) = match &entry.origin {
                Origin::Options(_) => {
                    let Some(built) = built.get(name) else { return Ok(None) };
                    (quote(&built.path), Some(built.bytes), Some((built.path.clone(), built.digest.clone())))
                }
                Origin::Row(Made::Binary(path)) => {
                    let failed = |source| StudyError::Io { path: path.clone(), source };
                    let digest = digest(path).map_err(failed)?;
                    let bytes = fs::metadata(path).map_err(failed)?.len();
                    (quote(path), Some(bytes), Some((path.clone(), digest)))
                }
                Origin::Row(Made::Command(line)) => (line.clone(), None, None),
            };
            let is_elsewhere = matches!(&entry.origin, Origin::Row(Made::Command(_)));
            Ok(Some(Subject { name: name.to_owned(), bin, bytes, is_elsewhere, is_needed, program }))
        };
        let reference = &self.entries[0];
        let copy = of(&self.copy, reference, true);
        let all = self.entries.iter().map(|entry| of(&entry.name, entry, entry.name == reference.name));
        [copy].into_iter().chain(all).filter_map(Result::transpose).collect()
    }

    /// Builds that are better than the reference in something and worse in nothing, the surest first: those made here,
    /// and names of the others.
    fn finalists(&self, answer: &Answer, dropped: &BTreeMap<String, u32>) -> (Vec<&Entry>, Vec<String>) {
        let place = |entry: &&Entry| answer.table.build(&entry.name);
        let is_finalist = |entry: &&Entry| {
            let Some(build) = place(entry).filter(|build| Some(*build) != answer.reference) else { return false };
            let verdicts: Vec<Verdict> = answer.paired.estimates[build].iter().map(|one| one.verdict).collect();
            let is_better = verdicts.contains(&Verdict::Better) && !verdicts.contains(&Verdict::Worse);
            is_better && !dropped.contains_key(&entry.name)
        };
        let sure = |entry: &&Entry| {
            let build = place(entry).unwrap_or_default();
            let gain = |(one, goal): (&crate::tune::paired::Estimate, &Goal)| goal.gain(one.value);
            let gains: f64 = answer.paired.estimates[build].iter().zip(&answer.goals).map(gain).sum();
            (answer.paired.better.as_ref().map_or(0.0, |all| all[build]), gains)
        };
        let mut all: Vec<&Entry> = self.entries.iter().filter(is_finalist).collect();
        all.sort_by(|a, b| sure(b).partial_cmp(&sure(a)).unwrap_or(std::cmp::Ordering::Equal));
        let (mut own, others): (Vec<&Entry>, Vec<&Entry>) = all.into_iter().partition(|one| one.options().is_some());
        own.truncate(self.spec.finalists);
        (own, others.into_iter().map(|entry| entry.name.clone()).collect())
    }

    /// Links reference and finalists in several orders of their functions, and measures those.
    fn layouts(&self, answer: &Answer, before: &Happened, done: usize) -> Result<Layouts, StudyError> {
        let (own, others) = self.finalists(answer, &before.dropped);
        if own.is_empty() && others.is_empty() {
            return Ok(Layouts::NoFinalist);
        }
        let names: Vec<String> = own.iter().map(|entry| entry.name.clone()).collect();
        let all_names = [names.clone(), others.clone()].concat();
        let not = |why: &str| Ok(Layouts::NotChecked { finalists: all_names.clone(), why: why.into() });
        let (Some(maker), Some(_)) = (&self.maker, self.entries[0].options()) else {
            return not("the reference is not built here");
        };
        if own.is_empty() {
            return not("it is not built here");
        }
        if self.spec.layouts == 0 {
            return not("the spec has `layouts = 0`");
        }
        let all: Vec<&Entry> = [&self.entries[0]].into_iter().chain(own).collect();
        let mut subjects = Vec::new();
        for entry in &all {
            let Some(options) = entry.options() else { continue };
            let Some(linker) = maker.shuffling_linker(options) else {
                return not("the linker cannot put functions in another order: install lld");
            };
            (self.control.tell)(&format!("linking `{}` in {} layouts", entry.name, self.spec.layouts));
            let made = match maker.layouts(options, &linker, self.spec.layouts) {
                Ok(made) => made,
                Err(Failure::Stopped) => return Err(StudyError::Stopped { done, folder: self.folder.clone() }),
                Err(Failure::Io(error)) => return Err(error),
                Err(Failure::Failed(why)) => return not(&format!("`{}` cannot be linked so: {why}", entry.name)),
            };
            if made.iter().all(|one| one.digest == made[0].digest) {
                return not("the linker was asked to put functions in another order, and the program is the same");
            }
            subjects.extend(made.iter().enumerate().map(|(at, built)| Subject {
                name: layout::name(&entry.name, at + 1),
                bin: quote(&built.path),
                bytes: Some(built.bytes),
                is_elsewhere: false,
                is_needed: false,
                program: Some((built.path.clone(), built.digest.clone())),
            }));
        }
        self.measure_layouts(answer, &names, others, &subjects)
    }

    fn measure_layouts(
        &self,
        answer: &Answer,
        names: &[String],
        others: Vec<String>,
        subjects: &[Subject],
    ) -> Result<Layouts, StudyError> {
        let spec = self.spec;
        // Other programs, or another number of them, are another study of layouts.
        let digests = subjects.iter().filter_map(|one| Some([one.name.clone(), one.program.clone()?.1])).flatten();
        let texts: Vec<String> = digests.chain([spec.layouts.to_string(), spec.seed.to_string()]).collect();
        let name = &digest_of(&texts.iter().map(String::as_str).collect::<Vec<_>>())[..8];
        let path = self.folder.join(format!("layouts-{name}.csv"));
        let mut events = self.events(&format!("layouts-{name}.events.csv"))?;
        let options = subjects.iter().map(|one| (one.name.clone(), Vec::new())).collect();
        let failed = |source| StudyError::Io { path: path.clone(), source };
        let mut results = Results::open(&path, &[], options, metrics(spec)).map_err(failed)?;
        let rounds = self.rounds(subjects, spec.layout_rounds, spec.seed.wrapping_add(1));
        let happened = rounds.run(&mut results, &mut events, None)?;
        kept::still_there(&self.folder, subjects)?;
        let table = Table::read(results.text().as_bytes())?;
        // How long linking takes is no matter of layouts.
        let goals: Vec<(usize, Goal)> = (0..answer.goals.len())
            .filter_map(|at| {
                let metric = table.metric(answer.name(at))?;
                Some((at, Goal { metric, ..answer.goals[at].clone() }))
            })
            .collect();
        let scales: Vec<_> = goals.iter().map(|(at, _)| answer.paired.scales[*at]).collect();
        let only: Vec<_> = goals.iter().map(|(_, goal)| goal.clone()).collect();
        let gains = layout::gains(&table, &only, &scales, &self.entries[0].name, names, spec.layouts as usize);
        let goals = goals.iter().map(|(at, _)| answer.name(*at).to_owned()).collect();
        Ok(Layouts::Checked {
            finalists: names.to_vec(),
            others,
            goals,
            gains,
            layouts: spec.layouts,
            rejected: happened.rejected,
        })
    }
}

impl Entry {
    fn options(&self) -> Option<&Options> {
        match &self.origin {
            Origin::Options(options) => Some(options),
            Origin::Row(_) => None,
        }
    }
}

/// The metrics of each workload's runs; the program's size goes with the first.
fn metrics(spec: &Spec) -> Vec<Vec<String>> {
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

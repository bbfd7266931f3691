//! The course of a study: plan, build, rounds, answer, layouts of the finalists.
//!
//! reads   a [`Spec`]; the project; what is in the folder already
//! writes  a [`Report`], and the folder
//! memory  the results

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::cargo::program;
use super::layout;
use super::make::{Built, Failure, Maker};
use super::options::{BUILDS_MAX, Key, Options};
use super::process::end_marked;
use super::race;
use super::report::{Cost, Layouts, Report};
use super::results::Results;
use super::rounds::{Happened, Rounds, Subject, order};
use super::source::{digest, digest_of, sources};
use super::spec::{BYTES, Made, Reference, SECONDS, Spec};
use super::workload::Workload;
use super::{Control, StudyError, quote};
use crate::tune::analysis::{Answer, Question, analyze};
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
    _lock: File,
}

/// Gives a study our own workload where it has none.
pub fn with_workload(mut spec: Spec) -> Result<Spec, StudyError> {
    if spec.workloads.is_empty() {
        let ours = spec.bin.clone().map_or_else(|| program(&spec).map(|found| found.bin), Ok);
        if !ours.is_ok_and(|bin| bin == "hearth") {
            let what = "`workload`: there is none: say with [[workload]], or --workload and --metric, what to run";
            return Err(StudyError::Asked(what.into()));
        }
        spec.workloads = vec![Workload::ours()];
    }
    spec.check_workloads().map(|()| spec).map_err(StudyError::Asked)
}

impl<'a> Study<'a> {
    /// Plans a study, and takes its folder.
    pub fn open(spec: &'a Spec, folder: &Path, control: &'a Control<'a>) -> Result<Self, StudyError> {
        let failed = |source| StudyError::Io { path: folder.into(), source };
        fs::create_dir_all(folder).map_err(failed)?;
        let folder = folder.canonicalize().map_err(failed)?;
        is_for_studies(&folder, &spec.project)?;
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(StudyError::Locked(folder)),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
            Ok(()) => {}
        }
        let left = end_marked(&folder.to_string_lossy());
        if left > 0 {
            (control.tell)(&format!("{left} processes of this study were still there, and are ended"));
        }
        let mut entries = entries(spec);
        let builds: Vec<Options> = entries.iter().filter_map(Entry::options).cloned().collect();
        let maker = match builds.is_empty() {
            true => None,
            false => {
                let program = program(spec).map_err(StudyError::Asked)?;
                let sources = sources(&spec.project, &[&folder, &spec.path]).map_err(failed)?;
                let builds: Vec<&Options> = builds.iter().collect();
                Some(Maker::new(spec, program, sources, &folder, &builds, control))
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
        let copy = format!("{} (copy)", entries[0].name);
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
        let (built, mut failed) = self.build(&mut results)?;
        let subjects = self.subjects(&built);
        let question = self.question(&failed);
        let looks = race::looks(self.spec.rounds);
        let beaten = |results: &Results, round: u32| match looks.contains(&round) {
            true => race::beaten(&results.text_until(round), &question, looks.len()),
            false => Vec::new(),
        };
        let rounds = self.rounds(&subjects, self.spec.rounds, self.spec.seed);
        let happened = rounds.run(&mut results, race.then_some(&beaten as _))?;
        failed.extend(happened.failed.clone());
        let mut question = self.question(&failed);
        let table = Table::read(results.text().as_bytes())?;
        question.exclude.retain(|name| table.build(name).is_some());
        let answer = analyze(table, &question)?;
        let layouts = self.layouts(&answer, &happened, results.count())?;
        let costs = self.entries.iter().filter_map(|entry| {
            let built = built.get(&entry.name)?;
            Some(Cost {
                name: entry.name.clone(),
                seconds: built.seconds,
                bytes: built.bytes,
                digest: built.digest.clone(),
            })
        });
        let report = Report {
            costs: costs.collect(),
            left_out: self.left_out.clone(),
            failed,
            happened,
            layouts,
            race,
            folder: self.folder.clone(),
            answer,
        };
        let path = self.folder.join("report.json");
        let written = fs::write(&path, format!("{:#}\n", report.json()));
        written.map_err(|source| StudyError::Io { path, source })?;
        Ok(report)
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
        let now = json!({
            "sources": self.maker.as_ref().map(|maker| &maker.sources.digest),
            "reference": self.entries[0].name,
            "builds": builds,
            "workloads": self.spec.workloads.iter().map(workload).collect::<Vec<_>>(),
            "seed": self.spec.seed,
        });
        let path = self.folder.join("study.json");
        if let Some(before) = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok())
        {
            let differs =
                ["sources", "reference", "builds", "workloads", "seed"].into_iter().find(|key| before[key] != now[key]);
            let results = self.folder.join("results.csv");
            let text = fs::read_to_string(&results).unwrap_or_default();
            let is_measured = text.lines().skip(1).any(|row| !row.contains(SECONDS));
            match differs {
                None => return Ok(()),
                Some(what) if is_measured => {
                    return Err(StudyError::Other { folder: self.folder.clone(), what: what.into() });
                }
                // Builds stay of use, each under its key; how long they took is in the results again.
                Some(_) => {
                    let _ = fs::remove_file(results);
                }
            }
        }
        self.write_study(&path, &now)
    }

    fn write_study(&self, path: &Path, study: &Value) -> Result<(), StudyError> {
        fs::write(path, format!("{study:#}\n")).map_err(|source| StudyError::Io { path: path.into(), source })
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
    #[allow(clippy::type_complexity)]
    fn build(&self, results: &mut Results) -> Result<(BTreeMap<String, Built>, BTreeMap<String, String>), StudyError> {
        let (mut built, mut failed) = (BTreeMap::new(), BTreeMap::new());
        let Some(maker) = &self.maker else { return Ok((built, failed)) };
        for repetition in 1..=self.spec.build_repetitions {
            let mut all: Vec<usize> = order(self.entries.len(), !self.spec.seed, repetition);
            // If the reference cannot be built nothing else is of use.
            all.sort_by_key(|at| *at != 0);
            for entry in all.into_iter().map(|at| &self.entries[at]) {
                let Some(options) = entry.options().filter(|_| !failed.contains_key(&entry.name)) else { continue };
                let run = (entry.name.clone(), self.spec.workloads.len(), repetition);
                let has = results.has(&run);
                let seconds = match repetition {
                    1 => self.build_one(maker, entry, options).map(|made| {
                        let seconds = made.seconds;
                        built.insert(entry.name.clone(), made);
                        seconds
                    }),
                    _ if has => continue,
                    _ => maker.time(options),
                };
                let seconds = match seconds {
                    Ok(seconds) => format!("{seconds} s"),
                    Err(Failure::Stopped) => return Err(self.stopped(results)),
                    Err(Failure::Io(error)) => return Err(error),
                    Err(Failure::Failed(why)) if entry.name == self.entries[0].name => {
                        return Err(StudyError::Reference { name: entry.name.clone(), why });
                    }
                    Err(Failure::Failed(why)) => {
                        (self.control.tell)(&format!("`{}` cannot be built: {why}", entry.name));
                        failed.insert(entry.name.clone(), why);
                        continue;
                    }
                };
                let copy = (entry.name == self.entries[0].name).then(|| (self.copy.clone(), run.1, repetition));
                for run in [Some(run), copy].into_iter().flatten().filter(|run| !results.has(run)).collect::<Vec<_>>() {
                    let added = results.add(run, vec![seconds.clone()]);
                    added.map_err(|source| StudyError::Io { path: self.folder.join("results.csv"), source })?;
                }
            }
        }
        if let (Some(options), Some(made)) = (self.entries[0].options(), built.get(&self.entries[0].name)) {
            built.insert(self.copy.clone(), maker.copy(options, made)?);
        }
        Ok((built, failed))
    }

    fn build_one(&self, maker: &Maker<'_>, entry: &Entry, options: &Options) -> Result<Built, Failure> {
        if maker.kept(&maker.key(options, "")).is_none() {
            (self.control.tell)(&format!("building `{}`", entry.name));
        }
        maker.build(options)
    }

    fn stopped(&self, results: &Results) -> StudyError {
        StudyError::Stopped { done: results.count(), folder: self.folder.clone() }
    }

    fn subjects(&self, built: &BTreeMap<String, Built>) -> Vec<Subject> {
        let of = |name: &str, entry: &Entry, is_needed: bool| {
            let made = |bin: String, bytes, is_elsewhere| {
                Some(Subject { name: name.to_owned(), bin, bytes, is_elsewhere, is_needed })
            };
            match &entry.origin {
                Origin::Options(_) => {
                    let built = built.get(name)?;
                    made(quote(&built.path), Some(built.bytes), false)
                }
                Origin::Row(Made::Binary(path)) => made(quote(path), fs::metadata(path).ok().map(|m| m.len()), false),
                Origin::Row(Made::Command(line)) => made(line.clone(), None, true),
            }
        };
        let reference = &self.entries[0];
        let mut all: Vec<Subject> = of(&self.copy, reference, true).into_iter().collect();
        all.extend(self.entries.iter().filter_map(|entry| of(&entry.name, entry, entry.name == reference.name)));
        all
    }

    /// Builds that are better than the reference in something and worse in nothing, the surest first.
    fn finalists(&self, answer: &Answer) -> Vec<&Entry> {
        let place = |entry: &&Entry| answer.table.build(&entry.name);
        let is_finalist = |entry: &&Entry| {
            let Some(build) = place(entry).filter(|build| Some(*build) != answer.reference) else { return false };
            let verdicts: Vec<Verdict> = answer.paired.estimates[build].iter().map(|one| one.verdict).collect();
            verdicts.contains(&Verdict::Better) && !verdicts.contains(&Verdict::Worse)
        };
        let sure = |entry: &&Entry| {
            let build = place(entry).unwrap_or_default();
            let gain = |(one, goal): (&crate::tune::paired::Estimate, &crate::tune::goal::Goal)| goal.gain(one.value);
            let gains: f64 = answer.paired.estimates[build].iter().zip(&answer.goals).map(gain).sum();
            (answer.paired.better.as_ref().map_or(0.0, |all| all[build]), gains)
        };
        let mut all: Vec<&Entry> = self.entries.iter().filter(is_finalist).collect();
        all.sort_by(|a, b| sure(b).partial_cmp(&sure(a)).unwrap_or(std::cmp::Ordering::Equal));
        all.truncate(self.spec.finalists);
        all
    }

    /// Links reference and finalists in several orders of their functions, and measures those.
    fn layouts(&self, answer: &Answer, before: &Happened, done: usize) -> Result<Layouts, StudyError> {
        let all = self.finalists(answer);
        let all: Vec<&Entry> = all.into_iter().filter(|entry| !before.dropped.contains_key(&entry.name)).collect();
        if all.is_empty() {
            return Ok(Layouts::NoFinalist);
        }
        let names: Vec<String> = all.iter().map(|entry| entry.name.clone()).collect();
        let not = |why: &str| Ok(Layouts::NotChecked { finalists: names.clone(), why: why.into() });
        let (Some(maker), Some(_)) = (&self.maker, self.entries[0].options()) else {
            return not("the reference is not built here");
        };
        if self.spec.layouts == 0 {
            return not("the spec has `layouts = 0`");
        }
        let all: Vec<&Entry> =
            [&self.entries[0]].into_iter().chain(all.into_iter().filter(|e| e.options().is_some())).collect();
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
            }));
        }
        let names: Vec<String> = all.iter().skip(1).map(|entry| entry.name.clone()).collect();
        if names.is_empty() {
            return not("no finalist is built here");
        }
        self.measure_layouts(answer, &names, &subjects)
    }

    fn measure_layouts(&self, answer: &Answer, names: &[String], subjects: &[Subject]) -> Result<Layouts, StudyError> {
        let spec = self.spec;
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let path = self.folder.join(format!("layouts-{}.csv", &digest_of(&texts)[..8]));
        let options = subjects.iter().map(|one| (one.name.clone(), Vec::new())).collect();
        let failed = |source| StudyError::Io { path: path.clone(), source };
        let mut results = Results::open(&path, &[], options, metrics(spec)).map_err(failed)?;
        let rounds = self.rounds(subjects, spec.layout_rounds, spec.seed.wrapping_add(1));
        let happened = rounds.run(&mut results, None)?;
        let table = Table::read(results.text().as_bytes())?;
        let (max, _) = spec.goals();
        // How long linking takes is no matter of layouts.
        let goals: Vec<(usize, crate::tune::goal::Goal)> = (0..answer.goals.len())
            .filter_map(|at| {
                let metric = table.metric(answer.name(at))?;
                Some((at, crate::tune::goal::Goal { metric, more: max.iter().any(|name| name == answer.name(at)) }))
            })
            .collect();
        let scales: Vec<_> = goals.iter().map(|(at, _)| answer.paired.scales[*at]).collect();
        let only: Vec<_> = goals.iter().map(|(_, goal)| goal.clone()).collect();
        let gains = layout::gains(&table, &only, &scales, &self.entries[0].name, names, spec.layouts as usize);
        let goals = goals.iter().map(|(at, _)| answer.name(*at).to_owned()).collect();
        Ok(Layouts::Checked {
            finalists: names.to_vec(),
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

/// A study removes folders in its own: that one is new, or a study's, and does not have the project in it.
fn is_for_studies(folder: &Path, project: &Path) -> Result<(), StudyError> {
    let failed = |source| StudyError::Io { path: folder.into(), source };
    let asked = |what: &str| Err(StudyError::Asked(format!("--out: {} {what}; name another", folder.display())));
    if project.canonicalize().is_ok_and(|project| project.starts_with(folder)) {
        return asked("has the project in it");
    }
    if !folder.join("lock").exists() && fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return asked("has other files in it");
    }
    Ok(())
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
        if all.len() < BUILDS_MAX && all.iter().all(|entry| entry.name != name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_others_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let (project, own) = (dir.path().join("app"), dir.path().join("study"));
        [&project, &own].into_iter().for_each(|folder| fs::create_dir(folder).expect("made"));
        assert!(is_for_studies(&own, &project).is_ok());
        for wrong in [dir.path(), &project] {
            let why = is_for_studies(&wrong.canonicalize().expect("there"), &project).expect_err("refused").to_string();
            assert!(why.contains("--out") && why.contains("project"), "{why}");
        }
        fs::write(own.join("letter"), "").expect("written");
        assert!(is_for_studies(&own, &project).is_err());
        fs::write(own.join("lock"), "").expect("written");
        assert!(is_for_studies(&own, &project).is_ok(), "a study's own");
    }
}

//! Runs in rounds: every build once a round, in an order drawn anew for each.
//!
//! reads   builds, workloads, what was measured before
//! writes  rows of [`Results`]; what was disturbed or failed
//! memory  a round's queue
//! drops   runs that others disturbed, counted; they are done again at the end of the round

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::events::{Event, Events};
use super::process::{Bounds, Ended, run};
use super::quiet::{counted, cpu_seconds};
use super::results::{NOTHING, Results, Run};
use super::spec::Spec;
use super::workload::{Shown, Workload};
use super::{Control, StudyError, quote};
use crate::tune::unit;

/// What takes part in rounds.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// What stands where a workload has `{bin}`.
    pub bin: String,
    /// The size of the program, where it is a file.
    pub bytes: Option<u64>,
    /// Whether its work is done elsewhere, as that of a container is.
    pub is_elsewhere: bool,
    /// Whether there is no study without it.
    pub is_needed: bool,
    /// The program and its digest, where it is a file.
    pub program: Option<(PathBuf, String)>,
}

/// What happened beside the results.
#[derive(Clone, Debug, Default)]
pub struct Happened {
    /// Runs that were disturbed.
    pub rejected: usize,
    /// Runs that were given up after some tries.
    pub given_up: usize,
    /// Builds that failed at a workload, and how.
    pub failed: BTreeMap<String, String>,
    /// Builds that were dropped early, and after which round.
    pub dropped: BTreeMap<String, u32>,
    /// Runs that were not needed since their builds were dropped.
    pub saved: usize,
    /// Seconds of the runs that were done now, and how many.
    pub ran: (f64, usize),
}

/// Rounds of a study, or of its layouts.
pub struct Rounds<'a> {
    /// The study.
    pub spec: &'a Spec,
    /// Its folder.
    pub folder: &'a Path,
    /// Whether to stop, and whom to tell.
    pub control: &'a Control<'a>,
    /// What takes part.
    pub subjects: &'a [Subject],
    /// How many.
    pub rounds: u32,
    /// Where randomness begins.
    pub seed: u64,
}

/// Says which builds are beaten after a round, by those that have not failed.
pub type Beaten<'a> = &'a dyn Fn(&Results, u32, &BTreeMap<String, String>) -> Vec<String>;

enum Outcome {
    Values(Vec<String>, f64),
    /// By others; and what went wrong, which may be their doing.
    Disturbed(String, Option<String>),
    Failed(String),
}

/// The order of a round: of the same seed and round always the same.
pub fn order(count: usize, seed: u64, round: u32) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(round));
    let mut all: Vec<usize> = (0..count).collect();
    random.shuffle(&mut all);
    all
}

impl Rounds<'_> {
    /// Goes through the rounds, from where they were left.
    pub fn run(
        &self,
        results: &mut Results,
        events: &mut Events,
        beaten: Option<Beaten<'_>>,
    ) -> Result<Happened, StudyError> {
        let mut happened = Happened { failed: events.failed.clone(), ..Happened::default() };
        while !self.all_rounds(results, events, &mut happened, beaten)? {}
        (happened.rejected, happened.given_up) = (events.rejected, events.given_up);
        Ok(happened)
    }

    /// Says whether they are done. A build that fails has beaten nobody: what was dropped may have to be measured
    /// after all, and one begins anew with what is there.
    fn all_rounds(
        &self,
        results: &mut Results,
        events: &mut Events,
        happened: &mut Happened,
        beaten: Option<Beaten<'_>>,
    ) -> Result<bool, StudyError> {
        (happened.saved, happened.dropped) = (0, BTreeMap::new());
        for round in 1..=self.rounds {
            let failed = happened.failed.len();
            self.round(results, events, round, happened)?;
            if happened.failed.len() != failed && !happened.dropped.is_empty() {
                return Ok(false);
            }
            let Some(beaten) = beaten.filter(|_| round < self.rounds) else { continue };
            for name in beaten(results, round, &happened.failed) {
                if !happened.dropped.contains_key(&name) {
                    (self.control.tell)(&format!("after round {round} `{name}` is beaten beyond doubt, and dropped"));
                    happened.saved += (self.rounds - round) as usize * self.spec.workloads.len();
                    happened.dropped.insert(name, round);
                }
            }
        }
        Ok(true)
    }

    fn round(
        &self,
        results: &mut Results,
        events: &mut Events,
        round: u32,
        happened: &mut Happened,
    ) -> Result<(), StudyError> {
        let workloads = self.spec.workloads.len();
        let units = order(self.subjects.len() * workloads, self.seed, round);
        let run_of = |unit: usize| -> Run { (self.subjects[unit / workloads].name.clone(), unit % workloads, round) };
        let takes_part = |unit: &usize, happened: &Happened| {
            let name = &self.subjects[unit / workloads].name;
            !happened.dropped.contains_key(name) && !happened.failed.contains_key(name)
        };
        let (there, todo): (Vec<usize>, Vec<usize>) =
            units.into_iter().filter(|unit| takes_part(unit, happened)).partition(|unit| results.has(&run_of(*unit)));
        let mut accepted = there.iter().filter(|unit| results.has_value(&run_of(**unit))).count();
        let mut queue: VecDeque<(usize, u32)> = todo.into_iter().map(|unit| (unit, 0)).collect();
        let (mut given_up, mut last) = (Vec::new(), String::new());
        if !queue.is_empty() {
            let runs = queue.len();
            (self.control.tell)(&format!("round {round} of {}: {runs} runs", self.rounds));
        }
        while let Some((unit, tries)) = queue.pop_front() {
            if !takes_part(&unit, happened) {
                continue;
            }
            // A run may be over before it looks.
            if (self.control.stop)() {
                return Err(StudyError::Stopped { done: results.count(), folder: self.folder.into() });
            }
            let subject = &self.subjects[unit / workloads];
            match self.measure(subject, unit % workloads, results)? {
                Outcome::Values(values, seconds) => {
                    self.add(results, run_of(unit), values)?;
                    accepted += 1;
                    happened.ran = (happened.ran.0 + seconds, happened.ran.1 + 1);
                }
                Outcome::Disturbed(why, fault) => {
                    self.event(events, Event::Rejected, &subject.name, round, &why)?;
                    let is_again = tries < self.spec.retries;
                    let again = if is_again { "it is done again" } else { "it is given up" };
                    (self.control.tell)(&format!("a run of `{}` was disturbed ({why}): {again}", subject.name));
                    match fault {
                        // It never went well, and it is not known that others are to blame each time.
                        Some(fault) if !is_again => {
                            let why = format!("{fault}; each time the machine was not quiet, the last since {why}");
                            self.failed(subject, &why, round, events, happened)?;
                        }
                        _ if is_again => queue.push_back((unit, tries + 1)),
                        _ => given_up.push(unit),
                    }
                    last = why;
                }
                Outcome::Failed(why) => self.failed(subject, &why, round, events, happened)?,
            }
        }
        if accepted == 0 && !given_up.is_empty() {
            return Err(StudyError::Busy { round, why: last, folder: self.folder.into() });
        }
        for unit in given_up {
            let count = self.spec.workloads[unit % workloads].metrics.len() + usize::from(unit % workloads == 0);
            self.add(results, run_of(unit), vec![NOTHING.into(); count])?;
            self.event(events, Event::GivenUp, &self.subjects[unit / workloads].name, round, &last)?;
        }
        Ok(())
    }

    /// Without the reference there is no study; another build takes no part any more.
    fn failed(
        &self,
        subject: &Subject,
        why: &str,
        round: u32,
        events: &mut Events,
        happened: &mut Happened,
    ) -> Result<(), StudyError> {
        if subject.is_needed {
            return Err(StudyError::Workload { build: subject.name.clone(), why: why.into() });
        }
        (self.control.tell)(&format!("`{}` is out: {why}", subject.name));
        self.event(events, Event::Failed, &subject.name, round, why)?;
        happened.failed.insert(subject.name.clone(), why.into());
        Ok(())
    }

    fn event(&self, to: &mut Events, event: Event, build: &str, round: u32, why: &str) -> Result<(), StudyError> {
        let added = to.add(event, build, round, why);
        added.map_err(|source| StudyError::Io { path: self.folder.join("events.csv"), source })
    }

    fn add(&self, results: &mut Results, run: Run, values: Vec<String>) -> Result<(), StudyError> {
        results.add(run, values).map_err(|source| StudyError::Io { path: self.folder.join("results"), source })
    }

    fn measure(&self, subject: &Subject, at: usize, results: &Results) -> Result<Outcome, StudyError> {
        let workload = &self.spec.workloads[at];
        let scratch = self.folder.join("scratch");
        let failed = |source| StudyError::Io { path: scratch.clone(), source };
        if scratch.exists() {
            fs::remove_dir_all(&scratch).map_err(failed)?;
        }
        fs::create_dir_all(&scratch).map_err(failed)?;
        let line = workload.line(&subject.bin, &quote(&scratch), &quote(&self.spec.project));
        let (out, err) = (self.folder.join("run.out"), self.folder.join("run.err"));
        let mark = self.folder.to_string_lossy();
        let limit = self.spec.run_limit;
        let bounds = Bounds { mark: &mark, limit, out: &out, err: &err, stop: self.control.stop };
        let before = counted();
        let mut command = Command::new("sh");
        let ran = run(command.args(["-c", &line]).current_dir(&self.spec.project), &bounds)
            .map_err(|source| StudyError::Io { path: "sh".into(), source })?;
        let after = counted();
        if ran.ended == Ended::Stopped {
            return Err(StudyError::Stopped { done: results.count(), folder: self.folder.into() });
        }
        let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let printed = read(&out).and_then(|out| Ok(out + &read(&err)?)).map_err(failed)?;
        let looks = before.as_ref().zip(after.as_ref());
        let disturbed = looks.and_then(|(before, after)| (self.control.judge)(before, after, subject.is_elsewhere));
        let wall_s = ran.wall.as_secs_f64();
        let cpu_s = looks.filter(|_| !subject.is_elsewhere).map(|(before, after)| cpu_seconds(before, after));
        let values = match ran.fault(limit) {
            Some(fault) => Err(format!("{fault}; it printed {}", super::workload::quoted(&printed))),
            None => workload.values(&Shown { printed: &printed, wall_s, cpu_s }),
        };
        let values = values.and_then(|values| alike(workload, values, at, results));
        let values = values.map_err(|why| format!("`{}`: {why}", workload.run));
        Ok(match (disturbed, values) {
            (Some(why), values) => Outcome::Disturbed(why, values.err()),
            (None, Err(why)) => Outcome::Failed(why),
            (None, Ok(values)) if at > 0 => Outcome::Values(values, wall_s),
            (None, Ok(values)) => {
                let bytes = subject.bytes.map_or(NOTHING.into(), |bytes| format!("{bytes} B"));
                Outcome::Values([vec![bytes], values].concat(), wall_s)
            }
        })
    }
}

/// What is read now must be of the kind that was read before: else nothing could be compared in the end.
fn alike(workload: &Workload, values: Vec<String>, at: usize, results: &Results) -> Result<Vec<String>, String> {
    let kind = |text: &str| unit::parse(text).ok().flatten().map(|(_, dimension)| dimension);
    for (metric, value) in values.iter().enumerate() {
        let Some(first) = results.first_value(at, metric + usize::from(at == 0)) else { continue };
        if kind(first) != kind(value) {
            let name = &workload.metrics[metric].name;
            return Err(format!("`{name}` is `{value}`, and was `{first}` before: two kinds of value"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::workload::Metric;
    use super::*;

    #[test]
    fn values_of_two_kinds_are_seen_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let metrics = vec![Metric::parse(r"time=(.+)", Some("lower")).expect("fine")];
        let workload = Workload { run: "{bin}".into(), metrics };
        let options = [("plain".to_owned(), Vec::new())].into();
        let names = vec![vec!["binary_bytes".into(), "time".into()]];
        let mut results = Results::open(&folder.path().join("results.csv"), &[], options, names).expect("new");
        assert!(alike(&workload, vec!["12 s".into()], 0, &results).is_ok(), "the first may be anything");
        results.add(("plain".into(), 0, 1), vec!["7 B".into(), "12 s".into()]).expect("added");
        assert!(alike(&workload, vec!["13 s".into()], 0, &results).is_ok());
        let why = alike(&workload, vec!["13".into()], 0, &results).expect_err("no time");
        assert_eq!(why, "`time` is `13`, and was `12 s` before: two kinds of value");
    }

    #[test]
    fn the_order_is_that_of_seed_and_round() {
        let all: Vec<Vec<usize>> = (1..=50).map(|round| order(9, 7, round)).collect();
        assert_eq!(all, (1..=50).map(|round| order(9, 7, round)).collect::<Vec<_>>());
        assert_ne!(all, (1..=50).map(|round| order(9, 8, round)).collect::<Vec<_>>());
        let firsts: BTreeSet<usize> = all.iter().map(|one| one[0]).collect();
        assert_eq!(firsts.len(), 9, "each is first some time");
        for mut one in all {
            one.sort_unstable();
            assert_eq!(one, (0..9).collect::<Vec<_>>());
        }
    }
}

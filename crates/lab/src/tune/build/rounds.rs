//! Runs in rounds: every build once a round, in an order drawn anew for each.
//!
//! reads   builds, workloads, what was measured before
//! writes  rows of [`Results`]; what was disturbed or failed
//! memory  a round's queue
//! drops   runs that others disturbed, counted; they are done again at the end of the round

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::Path;
use std::process::Command;

use super::process::{Bounds, Ended, run};
use super::quiet::{counted, cpu_seconds};
use super::results::{NOTHING, Results, Run};
use super::spec::Spec;
use super::workload::{Shown, Workload};
use super::{Control, StudyError, quote};

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

/// Says which builds are beaten after a round.
pub type Beaten<'a> = &'a dyn Fn(&Results, u32) -> Vec<String>;

enum Outcome {
    Values(Vec<String>, f64),
    Disturbed(String),
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
    pub fn run(&self, results: &mut Results, beaten: Option<Beaten<'_>>) -> Result<Happened, StudyError> {
        let mut happened = Happened::default();
        for round in 1..=self.rounds {
            self.round(results, round, &mut happened)?;
            let Some(beaten) = beaten.filter(|_| round < self.rounds) else { continue };
            for name in beaten(results, round) {
                if !happened.dropped.contains_key(&name) {
                    (self.control.tell)(&format!("after round {round} `{name}` is beaten beyond doubt, and dropped"));
                    happened.saved += (self.rounds - round) as usize * self.spec.workloads.len();
                    happened.dropped.insert(name, round);
                }
            }
        }
        Ok(happened)
    }

    fn round(&self, results: &mut Results, round: u32, happened: &mut Happened) -> Result<(), StudyError> {
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
            match self.measure(subject, &self.spec.workloads[unit % workloads], results.count())? {
                Outcome::Values(values, seconds) => {
                    self.add(results, run_of(unit), values)?;
                    accepted += 1;
                    happened.ran = (happened.ran.0 + seconds, happened.ran.1 + 1);
                }
                Outcome::Disturbed(why) => {
                    happened.rejected += 1;
                    let again = if tries < self.spec.retries { "it is done again" } else { "it is given up" };
                    (self.control.tell)(&format!("a run of `{}` was disturbed ({why}): {again}", subject.name));
                    match tries < self.spec.retries {
                        true => queue.push_back((unit, tries + 1)),
                        false => given_up.push(unit),
                    }
                    last = why;
                }
                Outcome::Failed(why) if subject.is_needed => {
                    return Err(StudyError::Workload { build: subject.name.clone(), why });
                }
                Outcome::Failed(why) => {
                    (self.control.tell)(&format!("`{}` is out: {why}", subject.name));
                    happened.failed.insert(subject.name.clone(), why);
                }
            }
        }
        if accepted == 0 && !given_up.is_empty() {
            return Err(StudyError::Busy { round, why: last, folder: self.folder.into() });
        }
        for unit in given_up {
            happened.given_up += 1;
            let count = self.spec.workloads[unit % workloads].metrics.len() + usize::from(unit % workloads == 0);
            self.add(results, run_of(unit), vec![NOTHING.into(); count])?;
        }
        Ok(())
    }

    fn add(&self, results: &mut Results, run: Run, values: Vec<String>) -> Result<(), StudyError> {
        results.add(run, values).map_err(|source| StudyError::Io { path: self.folder.join("results"), source })
    }

    fn measure(&self, subject: &Subject, workload: &Workload, done: usize) -> Result<Outcome, StudyError> {
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
            return Err(StudyError::Stopped { done, folder: self.folder.into() });
        }
        let read = |path: &Path| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let printed = read(&out).and_then(|out| Ok(out + &read(&err)?)).map_err(failed)?;
        if let Some(fault) = ran.fault(limit) {
            let tail = super::workload::quoted(&printed);
            return Ok(Outcome::Failed(format!("`{}`: {fault}; it printed {tail}", workload.run)));
        }
        let looks = before.as_ref().zip(after.as_ref());
        if let Some(why) = looks.and_then(|(before, after)| (self.control.judge)(before, after, subject.is_elsewhere)) {
            return Ok(Outcome::Disturbed(why));
        }
        let wall_s = ran.wall.as_secs_f64();
        let cpu_s = looks.filter(|_| !subject.is_elsewhere).map(|(before, after)| cpu_seconds(before, after));
        Ok(match workload.values(&Shown { printed: &printed, wall_s, cpu_s }) {
            Err(why) => Outcome::Failed(format!("`{}`: {why}", workload.run)),
            Ok(values) if !std::ptr::eq(workload, &self.spec.workloads[0]) => Outcome::Values(values, wall_s),
            Ok(values) => {
                let bytes = subject.bytes.map_or(NOTHING.into(), |bytes| format!("{bytes} B"));
                Outcome::Values([vec![bytes], values].concat(), wall_s)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

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

//! Runs in rounds: every build once per round, in a new random order each time.
//!
//! reads   builds, workloads, earlier measurements
//! writes  rows of [`Results`]; the builds of each round, and the runs that were disturbed or failed
//! memory  a round's queue
//! drops   disturbed runs, which are counted and repeated at the end of the round
//!
//! Builds are compared within rounds, so nothing is ever added to a finished round. A build that for any reason has too
//! few rounds is measured in new ones, together with the builds it is compared with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::StudyError;
use super::events::{Event, Events, Round};
use super::measure::{Outcome, odd};
use super::results::{NOTHING, Results, Run};
use super::round_plan::{Rounds, Subject};
use crate::run::identity::digest_of;

/// Events of the rounds besides the results.
#[derive(Clone, Debug, Default)]
pub struct RoundEvents {
    /// Number of disturbed runs.
    pub rejected: usize,
    /// Runs that were given up after several tries.
    pub given_up: usize,
    /// Accepted runs that were slow compared with the best pace known now.
    pub slow: usize,
    /// Builds that failed at a workload, and how.
    pub failed: BTreeMap<String, String>,
    /// Builds that were dropped early, and after which round.
    pub dropped: BTreeMap<String, u32>,
    /// Runs saved because their builds were dropped.
    pub saved: usize,
    /// Seconds and number of the runs of this invocation.
    pub ran: (f64, usize),
}

/// Returns which builds are beaten after a round, given the failed ones.
pub type FindBeaten<'a> = &'a dyn Fn(&Results, u32, &BTreeMap<String, String>) -> Vec<String>;

/// The beaten builds by round, valid until another build fails.
#[derive(Default)]
struct DominanceCache {
    failed: usize,
    beaten: BTreeMap<u32, Vec<String>>,
}

/// Returns a random permutation of `count` indexes that depends only on seed and round.
pub fn order(count: usize, seed: u64, round: u32) -> Vec<usize> {
    let mut random = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(round));
    let mut all: Vec<usize> = (0..count).collect();
    random.shuffle(&mut all);
    all
}

impl Rounds<'_> {
    /// Runs the rounds, resuming where they were left.
    pub fn run(
        &self,
        results: &mut Results,
        events: &mut Events,
        beaten: Option<FindBeaten<'_>>,
    ) -> Result<RoundEvents, StudyError> {
        let mut happened = RoundEvents { failed: events.failed.clone(), ..RoundEvents::default() };
        // An interrupted round is finished by the builds that began it.
        if let Some(round) = events.rounds.last().cloned() {
            self.round(results, events, &round, &mut happened)?;
        }
        let mut looked = DominanceCache::default();
        loop {
            if let Some(beaten) = beaten {
                self.look(results, events, &mut happened, beaten, &mut looked);
            }
            let Some(round) = self.next(results, events, &happened) else { break };
            self.round(results, events, &round, &mut happened)?;
        }
        let workloads = self.spec.workloads.len();
        let saved = |name: &String| self.rounds.saturating_sub(self.made(results, events, &happened, name)) as usize;
        happened.saved = happened.dropped.keys().map(saved).sum::<usize>() * workloads;
        (happened.rejected, happened.given_up) = (events.rejected, results.given_up(workloads));
        happened.slow = events.slow(self.spec.quiet.pace);
        Ok(happened)
    }

    /// Drops beaten builds. A failed build beats none: builds that only it had beaten are measured after all.
    fn look(
        &self,
        results: &Results,
        events: &Events,
        happened: &mut RoundEvents,
        beaten: FindBeaten<'_>,
        looked: &mut DominanceCache,
    ) {
        if looked.failed != happened.failed.len() {
            *looked = DominanceCache { failed: happened.failed.len(), ..DominanceCache::default() };
        }
        let mut now = BTreeMap::new();
        for round in &events.rounds {
            let look = || beaten(results, round.number, &happened.failed);
            for name in looked.beaten.entry(round.number).or_insert_with(look) {
                now.entry(name.clone()).or_insert(round.number);
            }
        }
        now.retain(|name, _| self.made(results, events, happened, name) < self.rounds);
        for (name, round) in now.iter().filter(|(name, _)| !happened.dropped.contains_key(*name)) {
            (self.control.tell)(&format!("after round {round} `{name}` is beaten beyond doubt, and dropped"));
        }
        let is_back = |name: &&String| !now.contains_key(*name) && !happened.failed.contains_key(*name);
        for name in happened.dropped.keys().filter(is_back) {
            (self.control.tell)(&format!("`{name}` is measured after all: what had beaten it failed"));
        }
        happened.dropped = now;
    }

    fn takes_part(&self, subject: &Subject, happened: &RoundEvents) -> bool {
        !happened.dropped.contains_key(&subject.name) && !happened.failed.contains_key(&subject.name)
    }

    /// Number of rounds in which a build was measured together with all that it is compared with.
    fn made(&self, results: &Results, events: &Events, happened: &RoundEvents, name: &str) -> u32 {
        let has = |name: &str, round: u32| {
            (0..self.spec.workloads.len()).all(|at| results.has(&(name.to_owned(), at, round)))
        };
        let bases = || self.subjects.iter().filter(|one| one.is_base && !happened.failed.contains_key(&one.name));
        let counts = |round: &&Round| {
            let all = || bases().all(|base| has(&base.name, round.number));
            round.builds.contains(name) && has(name, round.number) && all()
        };
        events.rounds.iter().filter(counts).count() as u32
    }

    /// The next round, and the builds that need it.
    fn next(&self, results: &Results, events: &Events, happened: &RoundEvents) -> Option<Round> {
        let needs = |subject: &Subject| self.made(results, events, happened, &subject.name) < self.rounds;
        let there = || self.subjects.iter().filter(|subject| self.takes_part(subject, happened));
        let mut builds: BTreeSet<String> =
            there().filter(|subject| needs(subject)).map(|subject| subject.name.clone()).collect();
        if builds.is_empty() {
            return None;
        }
        builds.extend(there().filter(|subject| subject.is_base).map(|subject| subject.name.clone()));
        let begun = events.rounds.last().map_or(0, |round| round.number);
        let number = begun.max(results.last_round(self.spec.workloads.len())) + 1;
        Some(Round { number, builds })
    }

    /// The order of a round's runs. Each has its own place, independent of the others, because failed builds are no
    /// longer subjects when a study resumes.
    fn order(&self, round: u32) -> Vec<usize> {
        let mut units: Vec<usize> = (0..self.subjects.len() * self.spec.workloads.len()).collect();
        units.sort_by_cached_key(|unit| {
            let (name, workload, _) = self.run_of(*unit, round);
            digest_of(&[&self.seed.to_string(), &round.to_string(), &workload.to_string(), &name])
        });
        units
    }

    fn round(
        &self,
        results: &mut Results,
        events: &mut Events,
        round: &Round,
        happened: &mut RoundEvents,
    ) -> Result<(), StudyError> {
        let workloads = self.spec.workloads.len();
        let run_of = |unit: usize| self.run_of(unit, round.number);
        let takes_part = |unit: usize, happened: &RoundEvents| {
            let name = &self.subjects[unit / workloads].name;
            round.builds.contains(name) && !happened.failed.contains_key(name)
        };
        let units = self.order(round.number);
        let (there, todo): (Vec<usize>, Vec<usize>) =
            units.into_iter().filter(|unit| takes_part(*unit, happened)).partition(|unit| results.has(&run_of(*unit)));
        let mut accepted = there.iter().filter(|unit| results.has_value(&run_of(**unit))).count();
        let mut queue: VecDeque<usize> = todo.into();
        let (mut given_up, runs) = (Vec::new(), queue.len());
        while let Some(unit) = queue.pop_front() {
            if !takes_part(unit, happened) {
                continue;
            }
            let run = run_of(unit);
            // This may have been the last event recorded before a crash.
            if events.tries(&run) > self.spec.retries {
                given_up.push(unit);
                continue;
            }
            // A run may end before it checks for a stop.
            if (self.control.stop)() {
                return Err(StudyError::Stopped { done: results.count(), folder: self.folder.into() });
            }
            if events.rounds.last().is_none_or(|last| last.number < round.number) {
                (self.control.tell)(&format!("round {}: {runs} runs", round.number));
                events.begin(round).map_err(|source| self.failed_events(source))?;
            }
            let subject = &self.subjects[unit / workloads];
            match self.measure(subject, &run, results, events)? {
                Outcome::Values(values, seconds) => {
                    if subject.is_base {
                        self.put_out(&run, &values, results, events, happened)?;
                    }
                    self.add(results, run, values)?;
                    accepted += 1;
                    happened.ran = (happened.ran.0 + seconds, happened.ran.1 + 1);
                }
                Outcome::Disturbed(why, fault) => {
                    // A build that ran well before is known to work.
                    let fault = fault.filter(|_| !self.has_run(results, &run));
                    if self.disturbed(subject, &run, &why, fault, events, happened)? {
                        queue.push_back(unit);
                    }
                }
                Outcome::Failed(why) => self.failed(subject, &run, &why, None, events, happened)?,
            }
        }
        self.give_up(&given_up, accepted, round.number, results, events)
    }

    fn has_run(&self, results: &Results, (name, workload, round): &Run) -> bool {
        (1..*round).any(|before| results.has_value(&(name.clone(), *workload, before)))
    }

    /// Records that a run was disturbed. A run that never went well counts as failed in the end. Returns whether to
    /// repeat it.
    fn disturbed(
        &self,
        subject: &Subject,
        run: &Run,
        why: &str,
        fault: Option<String>,
        events: &mut Events,
        happened: &mut RoundEvents,
    ) -> Result<bool, StudyError> {
        let is_again = events.tries(run) < self.spec.retries;
        let again = if is_again { "it is done again" } else { "it is given up" };
        (self.control.tell)(&format!("a run of `{}` was disturbed ({why}): {again}", subject.name));
        match fault.filter(|_| !is_again) {
            // It is uncertain whether others are to blame each time.
            Some(fault) => {
                let what = format!("{fault}; each time the machine was not quiet, the last since {why}");
                self.failed(subject, run, &what, Some(why), events, happened)?;
                Ok(false)
            }
            None => {
                events.add(&[(Event::Rejected, run, why)]).map_err(|source| self.failed_events(source))?;
                Ok(true)
            }
        }
    }

    /// Handles a failed run: without the reference there is no study; any other build takes part no more. It may have
    /// been disturbed, too.
    fn failed(
        &self,
        subject: &Subject,
        run: &Run,
        why: &str,
        disturbed: Option<&str>,
        events: &mut Events,
        happened: &mut RoundEvents,
    ) -> Result<(), StudyError> {
        // Nothing is recorded: the same command tries it again.
        if subject.is_needed {
            return Err(StudyError::Workload { build: subject.name.clone(), why: why.into() });
        }
        let rejected = disturbed.map(|by| (Event::Rejected, run, by));
        let all: Vec<(Event, &Run, &str)> = [(Event::Failed, run, why)].into_iter().chain(rejected).collect();
        events.add(&all).map_err(|source| self.failed_events(source))?;
        (self.control.tell)(&format!("`{}` is out: {why}", subject.name));
        happened.failed.insert(subject.name.clone(), why.into());
        Ok(())
    }

    /// Removes builds that ran before the reference and printed values of another dimension. Their rows are void,
    /// because nothing could be compared with them.
    fn put_out(
        &self,
        run: &Run,
        values: &[String],
        results: &mut Results,
        events: &mut Events,
        happened: &mut RoundEvents,
    ) -> Result<(), StudyError> {
        let (at, round) = (run.1, run.2);
        for (name, how) in odd(results, at, values, &self.bases()) {
            let why = format!("`{}`: {how}", self.spec.workloads[at].run);
            if !happened.failed.contains_key(&name) {
                let odd = (name.clone(), at, round);
                events.add(&[(Event::Failed, &odd, &why)]).map_err(|source| self.failed_events(source))?;
                (self.control.tell)(&format!("`{name}` is out: {why}"));
                happened.failed.insert(name.clone(), why);
            }
            results.void(&name, at)?;
        }
        Ok(())
    }

    fn give_up(
        &self,
        given_up: &[usize],
        accepted: usize,
        round: u32,
        results: &mut Results,
        events: &mut Events,
    ) -> Result<(), StudyError> {
        let why = events.last.clone();
        if accepted == 0 && !given_up.is_empty() {
            let run = (String::new(), 0, round);
            events.add(&[(Event::Busy, &run, &why)]).map_err(|source| self.failed_events(source))?;
            return Err(StudyError::Busy { round, why, folder: self.folder.into() });
        }
        for unit in given_up {
            let (at, run) = (unit % self.spec.workloads.len(), self.run_of(*unit, round));
            let count = self.spec.workloads[at].metrics.len() + usize::from(at == 0);
            self.add(results, run.clone(), vec![NOTHING.into(); count])?;
            events.add(&[(Event::GivenUp, &run, &why)]).map_err(|source| self.failed_events(source))?;
        }
        Ok(())
    }

    fn run_of(&self, unit: usize, round: u32) -> Run {
        let workloads = self.spec.workloads.len();
        (self.subjects[unit / workloads].name.clone(), unit % workloads, round)
    }

    fn add(&self, results: &mut Results, run: Run, values: Vec<String>) -> Result<(), StudyError> {
        results.add(run, values).map_err(|source| StudyError::Io { path: self.folder.join("results"), source })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;
    use std::path::Path;

    use super::super::Control;
    use super::super::spec::Spec;
    use super::*;

    const SPEC: &str = "reference = \"a\"\nretries = 2\n[[row]]\nname = \"a\"\ncommand = \"echo 7\"\n[[row]]\nname = \"b\"\n\
        command = \"echo 8\"\n[[workload]]\nrun = \"{bin} | tee ../printed\"\n[[workload.metric]]\nname = \"x\"\n\
        regex = '(.+)'\nbetter = \"higher\"\n";

    #[test]
    fn a_disturbed_run_has_as_many_tries_however_often_it_is_stopped() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("project")).expect("made");
        let spec = SPEC.replacen("retries", "project = \"project\"\nretries", 1);
        let spec = Spec::read(&spec, &at("study.toml")).expect("fine");
        let subjects = [subject("a", "echo 7"), subject("b", "echo 8")];
        // Others disturb every run of `b`; the study is stopped after each run.
        let (runs, of_b) = (Cell::new(0), Cell::new(0));
        let judge = |_: &_| {
            runs.set(runs.get() + 1);
            let is_b = fs::read_to_string(at("printed")).is_ok_and(|text| text.trim() == "8");
            of_b.set(of_b.get() + u32::from(is_b));
            is_b.then(|| "others".to_owned())
        };
        let begun = Cell::new(0);
        let stop = || runs.get() > begun.get();
        let control = Control { stop: &stop, tell: &|_| {}, judge: &judge };
        let rounds =
            Rounds { spec: &spec, folder: folder.path(), control: &control, subjects: &subjects, rounds: 1, seed: 1 };
        let mut found = None;
        for _ in 0..20 {
            begun.set(runs.get());
            let options = ["a", "b"].map(|name| (name.to_owned(), Vec::new())).into();
            let names = vec![vec!["binary_bytes".into(), "x".into()]];
            let mut results = Results::open(&at("results.csv"), &[], options, names).expect("opened");
            let mut events = Events::open(&at("events.csv")).expect("opened");
            match rounds.run(&mut results, &mut events, None) {
                Ok(happened) => {
                    found = Some((happened.rejected, happened.given_up, of_b.get(), runs.get()));
                    break;
                }
                Err(StudyError::Stopped { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(found, Some((3, 1, 3, 4)), "rejected, given up, runs of `b`, all runs");
    }

    #[test]
    fn a_build_that_prints_another_kind_of_value_is_out_whoever_runs_first() {
        for seed in 0..8 {
            let folder = tempfile::tempdir().expect("a folder");
            let at = |name: &str| folder.path().join(name);
            fs::create_dir(at("project")).expect("made");
            let spec = SPEC.replacen("retries", "project = \"project\"\nretries", 1);
            let spec = Spec::read(&spec, &at("study.toml")).expect("fine");
            let subjects = [subject("a", "echo 7"), subject("b", "echo 8MB/s"), subject("c", "echo 9")];
            // It is stopped after each run and resumed: a removed build stays out.
            let (runs, begun) = (Cell::new(0), Cell::new(0));
            let judge = |_: &_| {
                runs.set(runs.get() + 1);
                None
            };
            let stop = || runs.get() > begun.get();
            let control = Control { stop: &stop, tell: &|_| {}, judge: &judge };
            let rounds =
                Rounds { spec: &spec, folder: folder.path(), control: &control, subjects: &subjects, rounds: 2, seed };
            let ended = (0..20).find_map(|_| {
                begun.set(runs.get());
                let options = ["a", "b", "c"].map(|name| (name.to_owned(), Vec::new())).into();
                let names = vec![vec!["binary_bytes".into(), "x".into()]];
                let mut results = Results::open(&at("results.csv"), &[], options, names).expect("opened");
                let mut events = Events::open(&at("events.csv")).expect("opened");
                match rounds.run(&mut results, &mut events, None) {
                    Ok(happened) => Some((happened.failed, results.text().to_owned())),
                    Err(StudyError::Stopped { .. }) => None,
                    Err(other) => panic!("seed {seed}: {other}"),
                }
            });
            let (failed, text) = ended.expect("it comes to an end");
            assert_eq!(failed.keys().collect::<Vec<_>>(), ["b"], "seed {seed}");
            assert!(failed["b"].contains("8MB/s"), "{failed:?}");
            let table = hearth_stats::table::Table::read(text.as_bytes()).expect("of one kind");
            assert_eq!(table.builds.len(), 2, "seed {seed}: {text}");
        }
    }

    fn subject(name: &str, bin: &str) -> Subject {
        Subject {
            name: name.into(),
            bin: bin.into(),
            bytes: None,
            is_elsewhere: true,
            is_needed: name == "a",
            is_base: name == "a",
            program: None,
        }
    }

    #[test]
    fn a_build_keeps_its_place_in_a_round_whoever_else_is_there() {
        let spec = Spec::read(SPEC, Path::new("study.toml")).expect("fine");
        let control = Control { stop: &|| false, tell: &|_| {}, judge: &|_| None };
        let order = |names: &[&str], seed: u64, round: u32| -> Vec<String> {
            let subjects: Vec<Subject> = names.iter().map(|name| subject(name, "echo")).collect();
            let folder = Path::new(".");
            let rounds = Rounds { spec: &spec, folder, control: &control, subjects: &subjects, rounds: 1, seed };
            rounds.order(round).into_iter().map(|unit| subjects[unit].name.clone()).collect()
        };
        let mut firsts = BTreeSet::new();
        for round in 1..=50 {
            let mut all = order(&["a", "b", "c", "d"], 7, round);
            firsts.insert(all[0].clone());
            all.retain(|name| name != "c");
            assert_eq!(all, order(&["a", "b", "d"], 7, round));
        }
        assert_eq!(firsts.len(), 4, "each is first some time");
        let seeds = |seed: u64| (1..=50).map(|round| order(&["a", "b", "d"], seed, round)).collect::<Vec<_>>();
        assert_ne!(seeds(7), seeds(8));
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

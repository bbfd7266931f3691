//! The search for a layout, on machines whose best layout is known.

mod disturbed;
mod machines;
mod sim;

use std::collections::BTreeMap;

use hearth_tune::layout::journal::Journal;
use hearth_tune::layout::search::{LEAST_GAIN, SearchError, TRIALS_LEAST, search};
use hearth_tune::layout::search_result::SearchEnd;
use hearth_tune::layout::{Budget, Evaluate, Layout, Outcome, SearchResult, Trial, Verdict, report};

use machines::{KnownMachine, flat, planted, small, wrong_moves};
use sim::{Machine, Trials};

/// Trials of a search.
const TRIALS: usize = 40;
/// How far from the best a found layout may be.
const FAR: f64 = 0.05;
/// Percentage of searches that must come this close.
const NEAR_PERCENT: usize = 95;
/// The same on machines that the search was not tuned with.
const SEEN_PERCENT: usize = 94;
const NOISE: f64 = 0.02;
const OUTLIERS: f64 = 0.03;

fn trials(machine: &Machine, seed: u64) -> Trials<'_> {
    Trials { machine, noise: NOISE, outliers: OUTLIERS, random: fastrand::Rng::with_seed(!seed), seconds: 5.0 }
}

fn budget(seed: u64) -> Budget {
    Budget { trials: TRIALS, seconds: f64::INFINITY, seed, least_gain: LEAST_GAIN }
}

fn found(machine: &Machine, seed: u64) -> SearchResult {
    let found = search(&machine.space, &machine.default, budget(seed), &mut trials(machine, seed), &|_| {});
    found.unwrap_or_else(|why| panic!("{why:?}"))
}

/// Results of searches on one sort of machine.
#[derive(Default)]
struct Tally {
    /// How far the default and the found layout were from the best.
    default: Vec<f64>,
    found: Vec<f64>,
    trials: Vec<f64>,
}

impl Tally {
    fn add(&mut self, known: &KnownMachine, found: &SearchResult) {
        let far = |layout: &Layout| (1.0 - known.machine.rate(layout) / known.best).max(0.0);
        self.default.push(far(&found.default));
        self.found.push(far(&found.layout));
        self.trials.push(found.trials as f64);
        assert!(found.trials <= TRIALS, "{} trials", found.trials);
    }

    fn near(&self) -> usize {
        self.found.iter().filter(|far| **far <= FAR).count()
    }

    fn row(&mut self, name: &str) -> String {
        let at = |all: &mut Vec<f64>, q: f64| {
            all.sort_by(f64::total_cmp);
            all[((all.len() - 1) as f64 * q) as usize]
        };
        let percent = |all: &mut Vec<f64>, q: f64| format!("{:.1} %", 100.0 * at(all, q));
        format!(
            "| {name} | {} | {} | {} | {} | {} | {:.0} | {} of {} |",
            percent(&mut self.default, 0.5),
            percent(&mut self.found, 0.5),
            percent(&mut self.found, 0.95),
            percent(&mut self.found, 1.0),
            at(&mut self.trials, 0.5),
            at(&mut self.trials, 1.0),
            self.near(),
            self.found.len()
        )
    }
}

/// Searches on one sort of machine with several seeds each. Returns a message if too few came close enough.
fn searches(name: &str, machines: impl Iterator<Item = KnownMachine>, seeds: u64) -> Option<String> {
    searches_near(NEAR_PERCENT, name, machines, seeds)
}

/// The same with another percentage.
fn searches_near(
    percent: usize,
    name: &str,
    machines: impl Iterator<Item = KnownMachine>,
    seeds: u64,
) -> Option<String> {
    let mut tally = Tally::default();
    for (at, known) in machines.enumerate() {
        for seed in 0..seeds {
            let found = found(&known.machine, 1_000 * at as u64 + seed);
            let far = 1.0 - known.machine.rate(&found.layout) / known.best;
            if far > FAR {
                let candidate = 1.0 - known.machine.rate(&found.candidate) / known.best;
                let default = 1.0 - known.machine.rate(&known.machine.default) / known.best;
                println!("{name}, machine {at}, seed {seed}: {far:.3}, candidate {candidate:.3}, default {default:.3}");
                println!("  {:?}, {:?}", found.verdict, found.pairs);
            }
            tally.add(&known, &found);
        }
    }
    println!("{}", tally.row(name));
    let (near, all) = (tally.near(), tally.found.len());
    (near * 100 < all * percent).then(|| format!("{name}: {near} of {all}"))
}

#[test]
fn few_cores() {
    let of = |cores| searches(&format!("{cores} cores"), (0..24).map(|at| small(cores, false, at)), 8);
    let pairs = searches("6 hyperthreads", (0..24).map(|at| small(6, true, at)), 5);
    let far: Vec<String> = [2, 3, 4].into_iter().filter_map(of).chain(pairs).collect();
    assert!(far.is_empty(), "{far:?}");
}

#[test]
fn many_cores() {
    let of = |cores| searches(&format!("{cores} cores"), (0..6).map(|at| planted(cores, at)), 5);
    let far: Vec<String> = [8, 16, 32, 64, 80].into_iter().filter_map(of).collect();
    assert!(far.is_empty(), "{far:?}");
}

/// Machines that the tests above do not use. `HEARTH_MACHINES=48` runs more than a hundred searches of each sort, the
/// numbers in docs/tune.md.
#[test]
fn many_machines() {
    let count: u64 =
        std::env::var("HEARTH_MACHINES").map_or(2, |text| text.parse().expect("HEARTH_MACHINES is a number"));
    let (some, half) = (100..100 + count, 100..100 + count.div_ceil(2));
    let few = |cores| {
        let machines = some.clone().map(|at| small(cores, false, at));
        searches_near(SEEN_PERCENT, &format!("{cores} cores"), machines, 8)
    };
    let pairs = searches_near(SEEN_PERCENT, "6 hyperthreads", some.clone().map(|at| small(6, true, at)), 5);
    let many = |cores| {
        let machines = half.clone().map(|at| planted(cores, at));
        searches_near(SEEN_PERCENT, &format!("{cores} cores"), machines, 10)
    };
    let far = [2, 3, 4].into_iter().filter_map(few).chain(pairs);
    let far: Vec<String> = far.chain([8, 16, 32, 64, 80].into_iter().filter_map(many)).collect();
    assert!(far.is_empty(), "{far:?}");
}

#[test]
fn the_obvious_move_may_be_wrong() {
    let mut far = Vec::new();
    for (name, known) in wrong_moves() {
        let default = 1.0 - known.machine.rate(&known.machine.default) / known.best;
        assert!(default > 2.0 * FAR, "{name}: the default is good already ({default})");
        far.extend(searches(name, std::iter::once(known), 50));
    }
    assert!(far.is_empty(), "{far:?}");
}

#[test]
fn where_all_layouts_are_equal_the_default_stays() {
    let mut moved = BTreeMap::new();
    for cores in [2, 8, 24] {
        let machine = flat(cores);
        let seeds = 1_000 * cores as u64..1_000 * cores as u64 + 60;
        let count = seeds.filter(|seed| found(&machine, *seed).layout != machine.default).count();
        moved.insert(cores, count);
    }
    println!("moved of 60: {moved:?}");
    assert!(moved.values().sum::<usize>() <= 9, "of 180, 9 are asked: {moved:?}");
}

#[test]
fn negligible_gain_keeps_the_default() {
    // Others seem better at first, but by next to nothing; another limit bounds the rate, so runs differ by less.
    let machine = flat(2);
    let found = |first: f64, later: f64, least_gain: f64| {
        let inner = Trials { noise: 0.0, outliers: 0.0, ..trials(&machine, 1) };
        let mut evaluate = Nearly { inner, first, later, given: 0 };
        let budget = Budget { least_gain, ..budget(1) };
        let found = search(&machine.space, &machine.default, budget, &mut evaluate, &|_| {});
        found.unwrap_or_else(|why| panic!("{why:?}"))
    };
    let small = found(0.05, 0.0002, LEAST_GAIN);
    let said = report::text(&machine.space, &small);
    assert!(matches!(small.verdict, Ok(Verdict::TooSmall(_))), "{said}");
    assert_eq!((small.is_better(), &small.layout), (false, &machine.default), "{said}");
    let answer = report::answer(&machine.space, &small);
    assert!(
        answer.starts_with("the default stays: the best that was tried (") && answer.contains("too little"),
        "{answer}"
    );
    let asked = found(0.05, 0.0002, 0.0);
    assert!(asked.is_better(), "{}", report::text(&machine.space, &asked));
    let great = found(0.05, 0.05, LEAST_GAIN);
    assert!(great.is_better(), "{}", report::text(&machine.space, &great));
}

/// Every layout but the default is better, by one amount in the first runs and another later.
struct Nearly<'a> {
    inner: Trials<'a>,
    first: f64,
    later: f64,
    given: usize,
}

impl Evaluate for Nearly<'_> {
    type Error = std::convert::Infallible;

    fn evaluate(&mut self, layout: &Layout, left: f64) -> Result<Trial, Self::Error> {
        self.given += 1;
        let by = if self.given <= TRIALS / 2 { self.first } else { self.later };
        let mut trial = self.inner.evaluate(layout, left)?;
        if let Outcome::Measured(measured) = &mut trial.outcome
            && *layout != self.inner.machine.default
        {
            measured.rate *= 1.0 + by;
        }
        Ok(trial)
    }
}

#[test]
fn with_the_fewest_runs_another_layout_is_tried() {
    let known = planted(8, 0);
    let machine = &known.machine;
    for (trials_most, tries) in [(TRIALS_LEAST, true), (TRIALS_LEAST - 1, false)] {
        let budget = Budget { trials: trials_most, ..budget(1) };
        let found = search(&machine.space, &machine.default, budget, &mut trials(machine, 1), &|_| {});
        let found = found.unwrap_or_else(|why| panic!("{why:?}"));
        assert_eq!(!found.steps.is_empty(), tries, "{trials_most}: {found:?}");
        assert_eq!(report::answer(&machine.space, &found).contains("15 runs and 1.4 minutes are the least"), !tries);
    }
}

#[test]
fn a_stopped_search_continues_to_the_same_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let known = planted(16, 3);
    let machine = &known.machine;
    let run = |path: &std::path::Path, stop: usize| {
        let kept = std::fs::read_to_string(path).map_or(0, |text| text.lines().count());
        let mut inner = trials(machine, 9);
        // Advance the machine's noise to where it was.
        (0..kept).for_each(|_| drop(inner.evaluate(&machine.default, f64::INFINITY)));
        let mut journal = Journal::open(path, StopAfter { inner, given: kept, stop }).expect("opened");
        assert_eq!(journal.kept(), kept);
        search(&machine.space, &machine.default, budget(4), &mut journal, &|_| {})
    };
    let whole = run(&folder.path().join("whole"), usize::MAX).unwrap_or_else(|why| panic!("{why:?}"));
    assert!(whole.is_better(), "{}", report::text(&machine.space, &whole));
    for stop in [1, 2, 5, 11, 19, whole.trials - 1] {
        let path = folder.path().join(format!("stopped-{stop}"));
        assert!(matches!(run(&path, stop), Err(SearchError::Evaluate(_))), "it stops after {stop}");
        let again = run(&path, usize::MAX).unwrap_or_else(|why| panic!("{why:?}"));
        assert_eq!(again, whole, "stopped after {stop}");
    }
}

/// Stops after a given number of trials.
struct StopAfter<'a> {
    inner: Trials<'a>,
    given: usize,
    stop: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("stopped")]
struct Stopped;

impl Evaluate for StopAfter<'_> {
    type Error = Stopped;

    fn evaluate(&mut self, layout: &Layout, left: f64) -> Result<Trial, Stopped> {
        if self.given == self.stop {
            return Err(Stopped);
        }
        self.given += 1;
        let Ok(trial) = self.inner.evaluate(layout, left);
        Ok(trial)
    }
}

#[test]
fn a_budget_is_kept() {
    let known = planted(32, 1);
    let machine = &known.machine;
    for (trials_most, seconds) in [(1, f64::INFINITY), (3, f64::INFINITY), (14, f64::INFINITY), (40, 60.0), (40, 4.0)] {
        let budget = Budget { trials: trials_most, seconds, ..budget(1) };
        let found = search(&machine.space, &machine.default, budget, &mut trials(machine, 1), &|_| {});
        let found = found.unwrap_or_else(|why| panic!("{why:?}"));
        assert!(found.trials <= trials_most && (found.seconds <= seconds || found.trials == 1), "{found:?}");
        assert!(matches!(found.ended, SearchEnd::Trials | SearchEnd::Time), "{:?}", found.ended);
        assert!(machine.rate(&found.layout) >= machine.rate(&found.default), "never worse than the default");
    }
    let found = search(&machine.space, &machine.default, budget(1), &mut trials(machine, 1), &|_| {});
    assert!(found.is_ok_and(|found| found.is_better()), "with the whole budget it finds one");
}

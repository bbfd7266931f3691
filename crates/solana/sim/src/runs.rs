//! Many seeds, on as many threads as there are cores: a run itself has one.
//!
//! reads   seeds
//! writes  a [`Tally`]; each outcome, to the caller
//! memory  a run for each thread; the outcomes of seeds that fail

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::plan::{Kind, Plan};
use crate::world::{Outcome, run};

/// The sum of many seeds' outcomes.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How many seeds were run.
    pub seeds: u64,
    /// How long they took, on virtual time, nanoseconds.
    pub virtual_ns: u64,
    /// In how many seeds each kind of fault took effect.
    pub faults: BTreeMap<Kind, u64>,
    /// The newest slot of the seed that had the fewest.
    pub least_slots: Option<u64>,
    /// Rooted blocks, summed over all seeds.
    pub rooted: u64,
    /// Transactions that clients saw confirmed.
    pub confirmed: u64,
    /// Epochs whose stakes are others than those of the epoch before.
    pub stake_changes: u64,
    /// Snapshots that were completed or abandoned, and starts of nodes on a snapshot.
    pub snapshots: (u64, u64),
    /// The digest of each seed.
    pub digests: BTreeMap<u64, u64>,
    /// The runs in which something did not hold.
    pub failed: Vec<Outcome>,
}

impl Tally {
    fn take(&mut self, outcome: Outcome) {
        self.seeds += 1;
        self.virtual_ns += outcome.virtual_ns;
        self.rooted += outcome.rooted as u64;
        self.confirmed += outcome.transactions.1 as u64;
        self.stake_changes += outcome.stake_changes as u64;
        self.snapshots.0 += outcome.snapshots.0;
        self.snapshots.1 += outcome.snapshots.1;
        self.digests.insert(outcome.plan.seed, outcome.digest);
        self.least_slots = Some(self.least_slots.map_or(outcome.newest_slot, |least| least.min(outcome.newest_slot)));
        for kind in &outcome.faults {
            *self.faults.entry(*kind).or_default() += 1;
        }
        if outcome.violation.is_some() {
            self.failed.push(outcome);
        }
    }

    /// In words: seeds, virtual time, faults by kind.
    pub fn text(&self) -> String {
        let hours = self.virtual_ns as f64 / 3.6e12;
        let faults: Vec<_> = self.faults.iter().map(|(kind, count)| format!("{} {count}", kind.name())).collect();
        format!(
            "{} seeds, {hours:.2} h of virtual time, {} blocks rooted, {} transactions confirmed, \
             {} changes of stake, {} snapshots, {} starts on one, {} failed; faults: {}",
            self.seeds,
            self.rooted,
            self.confirmed,
            self.stake_changes,
            self.snapshots.0,
            self.snapshots.1,
            self.failed.len(),
            faults.join(", ")
        )
    }
}

/// As many threads as there are cores.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs seeds from `first` on, `count` of them or until `goes_on` says no. `see` is shown each outcome.
pub fn run_seeds(
    (first, count): (u64, u64),
    threads: usize,
    goes_on: impl Fn(&Tally) -> bool + Sync,
    see: impl Fn(&Outcome) + Sync,
) -> Tally {
    let (next, tally, is_over) = (AtomicU64::new(0), Mutex::new(Tally::default()), AtomicBool::new(false));
    let work = || {
        while !is_over.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= count {
                return;
            }
            let outcome = run(&Plan::of(first.wrapping_add(number)), None);
            see(&outcome);
            let mut tally = tally.lock();
            tally.take(outcome);
            if !goes_on(&tally) {
                is_over.store(true, Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    tally.into_inner()
}

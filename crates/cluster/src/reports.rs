//! What tiles and threads tell each other of single slots.
//!
//! reads   contradictions of leaders and slots that are whole, from the shred tiles; duplicates, from gossip;
//!         blocks to be dumped, own ones to be sent again and slots that are voted for, from consensus
//! writes  the same: contradictions and whole slots to gossip, duplicates to consensus, dumps and what is
//!         voted for to the shred tile that takes the slot, what is to be sent again to the one that made it
//! memory  [`CONTRADICTIONS_MAX`] × 2.5 KB, [`SLOTS_MAX`] × 8 B twice, [`DUMPS_MAX`] × 64 B
//! drops   beyond these bounds what was told last, counted
//!
//! A reader looks at a number first, and takes a lock only when there is something.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use hearth_wire::Hash;

/// Contradictions that wait to be published.
const CONTRADICTIONS_MAX: usize = 64;
/// Slots of a kind that wait to be looked at.
const SLOTS_MAX: usize = 65_536;
/// Dumps that wait to be done.
const DUMPS_MAX: usize = 1_024;

/// Two shreds of a slot that its leader cannot both have made for one block; not checked where others told of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The slot.
    pub slot: u64,
    /// The shreds.
    pub shreds: [Vec<u8>; 2],
}

/// A slot whose leader is proved to have made two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The slot.
    pub slot: u64,
}

/// A block is not the cluster's: another one of its slot is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dump {
    /// The slot.
    pub slot: u64,
    /// The last root of the block that is wanted, where that is known; else any but the one that is here.
    pub wanted: Option<Hash>,
}

/// A queue with a bound.
#[derive(Debug)]
struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    count: AtomicU64,
    lost: AtomicU64,
    capacity: usize,
}

impl<T> Queue<T> {
    const fn new(capacity: usize) -> Self {
        Self { items: Mutex::new(VecDeque::new()), count: AtomicU64::new(0), lost: AtomicU64::new(0), capacity }
    }

    fn put(&self, item: T) {
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        if items.len() >= self.capacity {
            self.lost.fetch_add(1, SeqCst);
            return;
        }
        items.push_back(item);
        self.count.store(items.len() as u64, SeqCst);
    }

    /// Takes out what is wanted.
    fn take(&self, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
        if self.count.load(SeqCst) == 0 {
            return vec![];
        }
        let mut items = self.items.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, left) = items.drain(..).partition(is_wanted);
        let taken: VecDeque<T> = taken;
        *items = left;
        self.count.store(items.len() as u64, SeqCst);
        taken.into()
    }
}

/// The queues.
#[derive(Debug)]
pub struct Reports {
    contradictions: Queue<Contradiction>,
    duplicates: Queue<Duplicate>,
    dumps: Queue<Dump>,
    resends: Queue<u64>,
    voted: Queue<u64>,
    whole: Queue<u64>,
}

impl Default for Reports {
    fn default() -> Self {
        Self {
            contradictions: Queue::new(CONTRADICTIONS_MAX),
            duplicates: Queue::new(SLOTS_MAX),
            dumps: Queue::new(DUMPS_MAX),
            resends: Queue::new(DUMPS_MAX),
            voted: Queue::new(DUMPS_MAX),
            whole: Queue::new(SLOTS_MAX),
        }
    }
}

impl Reports {
    /// The shred tile has found a leader to contradict itself.
    pub fn contradiction(&self, found: Contradiction) {
        self.contradictions.put(found);
    }

    /// What was found since the last call; for gossip.
    pub fn take_contradictions(&self) -> Vec<Contradiction> {
        self.contradictions.take(|_| true)
    }

    /// It is proved that a slot's leader made two blocks: here, or by a proof that others sent and that was checked.
    pub fn duplicate(&self, slot: u64) {
        self.duplicates.put(Duplicate { slot });
    }

    /// What was proved since the last call, each slot once; for consensus.
    pub fn take_duplicates(&self) -> Vec<Duplicate> {
        self.duplicates.take(|_| true)
    }

    /// Has the slot's block dumped, and another one taken in its place.
    pub fn dump(&self, dump: Dump) {
        self.dumps.put(dump);
    }

    /// The blocks to dump of the slots that `is_own` names.
    pub fn take_dumps(&self, is_own: impl Fn(u64) -> bool) -> Vec<Dump> {
        self.dumps.take(|dump| is_own(dump.slot))
    }

    /// Has this node's block of a slot sent again: too few were seen to have it.
    pub fn resend(&self, slot: u64) {
        self.resends.put(slot);
    }

    /// The blocks to send again.
    pub fn take_resends(&self) -> Vec<u64> {
        self.resends.take(|_| true)
    }

    /// Stake has voted for a slot of which nothing is here: it is to be asked for.
    pub fn voted(&self, slot: u64) {
        self.voted.put(slot);
    }

    /// The slots voted for that `is_own` names.
    pub fn take_voted(&self, is_own: impl Fn(u64) -> bool) -> Vec<u64> {
        self.voted.take(|slot| is_own(*slot))
    }

    /// All shreds of a slot are here.
    pub fn whole(&self, slot: u64) {
        self.whole.put(slot);
    }

    /// Slots that have become whole since the last call; for gossip.
    pub fn take_whole(&self) -> Vec<u64> {
        self.whole.take(|_| true)
    }

    /// How many reports were lost since there was no room.
    pub fn lost(&self) -> u64 {
        let Self { contradictions, duplicates, dumps, resends, voted, whole } = self;
        let lost = [&contradictions.lost, &duplicates.lost, &dumps.lost, &resends.lost, &voted.lost, &whole.lost];
        lost.iter().map(|lost| lost.load(SeqCst)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_takes_its_own_and_nothing_grows() {
        let reports = Reports::default();
        for slot in 0..10 {
            reports.dump(Dump { slot, wanted: None });
        }
        let slots = |dumps: Vec<Dump>| -> Vec<u64> { dumps.iter().map(|dump| dump.slot).collect() };
        assert_eq!(slots(reports.take_dumps(|slot| slot % 2 == 1)), [1, 3, 5, 7, 9]);
        assert_eq!(slots(reports.take_dumps(|slot| slot % 2 == 1)), [0; 0]);
        assert_eq!(slots(reports.take_dumps(|slot| slot % 2 == 0)), [0, 2, 4, 6, 8]);
        for slot in 0..CONTRADICTIONS_MAX as u64 + 5 {
            reports.contradiction(Contradiction { slot, shreds: [vec![], vec![]] });
        }
        assert_eq!((reports.take_contradictions().len(), reports.lost()), (CONTRADICTIONS_MAX, 5));
        reports.whole(7);
        reports.duplicate(8);
        reports.resend(9);
        assert_eq!((reports.take_whole(), reports.take_duplicates()), (vec![7], vec![Duplicate { slot: 8 }]));
        assert_eq!((reports.take_resends(), reports.take_resends()), (vec![9], vec![]));
        (0..DUMPS_MAX as u64 + 2).for_each(|slot| reports.voted(slot));
        assert_eq!((reports.take_voted(|slot| slot == 6), reports.take_voted(|slot| slot == 6)), (vec![6], vec![]));
        assert_eq!((reports.take_voted(|_| true).len(), reports.lost()), (DUMPS_MAX - 1, 7));
        assert!(reports.take_whole().is_empty() && reports.take_contradictions().is_empty());
    }
}

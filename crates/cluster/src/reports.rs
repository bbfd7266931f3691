//! What consensus tells shred and repair of single slots.
//!
//! reads   blocks to be dumped, own ones to be sent again and slots that are voted for, from consensus
//! writes  the same: dumps to the shred tile that takes the slot, what is to be sent again to the one that made it,
//!         what is voted for to repair
//! memory  [`QUEUE_MAX`] × 64 B three times
//! drops   beyond these bounds what was told last, counted
//!
//! A reader looks at a number first, and takes a lock only when there is something.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};

use hearth_wire::Hash;

/// Slots of a kind that wait to be looked at.
const QUEUE_MAX: usize = 1_024;

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
    dumps: Queue<Dump>,
    resends: Queue<u64>,
    voted: Queue<u64>,
}

impl Default for Reports {
    fn default() -> Self {
        Self { dumps: Queue::new(QUEUE_MAX), resends: Queue::new(QUEUE_MAX), voted: Queue::new(QUEUE_MAX) }
    }
}

impl Reports {
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

    /// How many reports were lost since there was no room.
    pub fn lost(&self) -> u64 {
        let Self { dumps, resends, voted } = self;
        [&dumps.lost, &resends.lost, &voted.lost].iter().map(|lost| lost.load(SeqCst)).sum()
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
        reports.resend(9);
        assert_eq!((reports.take_resends(), reports.take_resends()), (vec![9], vec![]));
        (0..QUEUE_MAX as u64 + 2).for_each(|slot| reports.voted(slot));
        assert_eq!((reports.take_voted(|slot| slot == 6), reports.take_voted(|slot| slot == 6)), (vec![6], vec![]));
        assert_eq!((reports.take_voted(|_| true).len(), reports.lost()), (QUEUE_MAX - 1, 2));
    }
}

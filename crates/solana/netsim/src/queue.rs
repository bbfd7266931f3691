//! What is to happen, in the order of its time.
//!
//! reads   events of whatever time from now on
//! writes  the next one
//! memory  16 B an event that is to come

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nanoseconds of a bucket, as a power of two: some 65 µs.
const BUCKET: u32 = 16;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The leader cuts a set, and sends it.
    Cut,
    /// A shred comes down the tree.
    Shred,
    /// A shred comes that was asked for.
    Repaired,
    /// A node looks whether a set is whole, and asks for what is missing.
    Check,
    /// A node is asked for a shred.
    Ask,
    /// A node learns that the slot is over, and that there are sets of which it saw nothing.
    Over,
}

/// An event: by its time, then by all else, so that each run has the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// When, ns.
    pub at: u64,
    /// To whom.
    pub node: u16,
    /// Which set.
    pub set: u16,
    /// What.
    pub kind: Kind,
    /// Which of the set's shreds.
    pub shred: u8,
    /// From whom.
    pub from: u16,
}

/// Events by time. Those of the bucket that is being worked off are in a heap; of later ones only the bucket is known.
#[derive(Default)]
pub struct Queue {
    later: Vec<Vec<Event>>,
    now: BinaryHeap<Reverse<Event>>,
    at: usize,
}

impl Queue {
    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        let bucket = (event.at >> BUCKET) as usize;
        if bucket <= self.at {
            self.now.push(Reverse(event));
            return;
        }
        if bucket >= self.later.len() {
            self.later.resize_with(bucket + 1, Vec::new);
        }
        self.later[bucket].push(event);
    }

    /// Takes the next.
    pub fn pop(&mut self) -> Option<Event> {
        loop {
            if let Some(Reverse(event)) = self.now.pop() {
                return Some(event);
            }
            if self.at >= self.later.len() {
                return None;
            }
            self.at += 1;
            if let Some(bucket) = self.later.get_mut(self.at) {
                self.now.extend(std::mem::take(bucket).into_iter().map(Reverse));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_time_order() {
        let event = |at: u64| Event { at, node: 0, set: 0, kind: Kind::Cut, shred: 0, from: 0 };
        let mut random = fastrand::Rng::with_seed(7);
        let mut queue = Queue::default();
        (0..1_000).for_each(|_| queue.push(event(random.u64(0..50_000_000))));
        let (mut seen, mut last) = (0, 0);
        while let Some(found) = queue.pop() {
            assert!(found.at >= last, "{} after {last}", found.at);
            (seen, last) = (seen + 1, found.at);
            if seen <= 1_000 {
                queue.push(event(found.at + random.u64(0..200_000)));
            }
        }
        assert_eq!(seen, 2_000);
    }
}

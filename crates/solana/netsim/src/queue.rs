//! The event queue, ordered by time.
//!
//! reads   events at any time from now on
//! writes  the next event
//! memory  16 B per pending event

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Length of a bucket in nanoseconds, as a power of two: some 65 µs.
const BUCKET: u32 = 16;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The leader cuts and sends a set.
    Cut,
    /// A shred arrives from the tree.
    Shred,
    /// A shred arrives by repair.
    Repaired,
    /// A node checks whether a set is complete, and requests missing shreds.
    Check,
    /// A node receives a repair request.
    Ask,
    /// A node learns that the slot is over, and of sets of which it saw nothing.
    Over,
}

/// An event, ordered by time, then by all other fields, so that runs are reproducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// Time in nanoseconds since the slot began.
    pub at: u64,
    /// The node at which it happens.
    pub node: u16,
    /// Index of the FEC set among the simulated ones.
    pub set: u16,
    /// The kind of event.
    pub kind: Kind,
    /// Index of the shred in the set.
    pub shred: u8,
    /// The node that sent the datagram; any node for an event without one.
    pub from: u16,
}

/// Events by time. Those of the current bucket are in a heap; later ones are only assigned to buckets.
#[derive(Default)]
pub struct Queue {
    later: Vec<Vec<Event>>,
    now: BinaryHeap<Reverse<Event>>,
    at: usize,
}

impl Queue {
    /// Adds an event at the time of the last popped one or later.
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

    /// Takes the next event.
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

//! Finds the connection to wake next: a binary heap of slots with mutable deadlines.
//!
//! reads   slots (small integers) with their deadlines
//! writes  the earliest, and those that are due
//! memory  24 B a slot; an entry is moved in place, so stale ones never pile up
//! source  the textbook heap with a position table

use std::time::{Duration, Instant};

const ABSENT: u32 = u32::MAX;

/// At most one deadline per slot; setting, clearing and popping cost O(log n).
#[derive(Default)]
pub(crate) struct Deadlines {
    heap: Vec<(Instant, u32)>,
    position: Vec<u32>,
}

impl Deadlines {
    /// The earliest deadline of all slots; `None` if no slot has one.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|e| e.0)
    }

    /// The deadline of `slot`.
    pub(crate) fn get(&self, slot: u32) -> Option<Instant> {
        let p = *self.position.get(slot as usize)?;
        (p != ABSENT).then(|| self.heap[p as usize].0)
    }

    /// Sets, moves or (with `None`) removes the deadline of `slot`.
    pub(crate) fn set(&mut self, slot: u32, at: Option<Instant>) {
        if self.position.len() <= slot as usize {
            self.position.resize(slot as usize + 1, ABSENT);
        }
        let p = self.position[slot as usize];
        match (p, at) {
            (ABSENT, None) => {}
            (ABSENT, Some(at)) => {
                self.heap.push((at, slot));
                self.up(self.heap.len() - 1);
            }
            (p, Some(at)) => {
                self.heap[p as usize].0 = at;
                self.up(p as usize);
                self.down(self.position[slot as usize] as usize);
            }
            (p, None) => self.remove(p as usize),
        }
    }

    /// Makes the deadline of `slot` no later than `at`. A deadline that turns out too early only
    /// costs a spurious wake, so this is all that a busy connection needs to call.
    pub(crate) fn advance(&mut self, slot: u32, at: Instant) {
        if self.get(slot).is_none_or(|have| at < have) {
            self.set(slot, Some(at));
        }
    }

    /// As [`Self::advance`], but not to `now` or before: what is due again at once must not keep the
    /// caller from returning.
    pub(crate) fn advance_after(&mut self, slot: u32, at: Instant, now: Instant) {
        self.advance(slot, at.max(now + Duration::from_micros(1)));
    }

    /// Removes and returns a slot whose deadline is not after `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &(at, slot) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.remove(0);
        Some(slot)
    }

    fn remove(&mut self, p: usize) {
        let (_, slot) = self.heap.swap_remove(p);
        self.position[slot as usize] = ABSENT;
        if let Some(&(_, moved)) = self.heap.get(p) {
            self.position[moved as usize] = p as u32;
            self.up(p);
            self.down(self.position[moved as usize] as usize);
        }
    }

    fn up(&mut self, mut p: usize) {
        while p > 0 {
            let parent = (p - 1) / 2;
            if self.heap[parent].0 <= self.heap[p].0 {
                break;
            }
            self.swap(p, parent);
            p = parent;
        }
        self.position[self.heap[p].1 as usize] = p as u32;
    }

    fn down(&mut self, mut p: usize) {
        loop {
            let (left, right) = (2 * p + 1, 2 * p + 2);
            let mut least = p;
            for child in [left, right] {
                if child < self.heap.len() && self.heap[child].0 < self.heap[least].0 {
                    least = child;
                }
            }
            if least == p {
                break;
            }
            self.swap(p, least);
            p = least;
        }
        self.position[self.heap[p].1 as usize] = p as u32;
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.position[self.heap[a].1 as usize] = a as u32;
        self.position[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::*;

    proptest! {
        /// Any sequence of operations gives what a sorted map gives.
        #[test]
        fn matches_model(ops in prop::collection::vec((0u8..4, 0u32..12, 0u64..50), 1..200)) {
            let start = Instant::now();
            let at = |ms| start + Duration::from_millis(ms);
            let (mut heap, mut model) = (Deadlines::default(), BTreeMap::<u32, Instant>::new());
            for (op, slot, ms) in ops {
                match op {
                    0 => { heap.set(slot, Some(at(ms))); model.insert(slot, at(ms)); }
                    1 => { heap.set(slot, None); model.remove(&slot); }
                    2 => {
                        heap.advance(slot, at(ms));
                        let e = model.entry(slot).or_insert(at(ms));
                        *e = (*e).min(at(ms));
                    }
                    _ => {
                        let popped = heap.pop_due(at(ms));
                        let due = model.values().any(|&d| d <= at(ms));
                        prop_assert_eq!(popped.is_some(), due);
                        if let Some(slot) = popped {
                            let d = model.remove(&slot).expect("only known slots");
                            prop_assert!(model.values().all(|&other| other >= d));
                        }
                    }
                }
                prop_assert_eq!(heap.next(), model.values().min().copied());
                for slot in 0..12 {
                    prop_assert_eq!(heap.get(slot), model.get(&slot).copied());
                }
            }
        }
    }
}

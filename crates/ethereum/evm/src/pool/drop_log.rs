//! Remembers why transactions were dropped, while there is room.
//!
//! reads   dropped transactions' hashes, with the reason
//! writes  the reason of the last drop of each
//! memory  about 200 B each, at most as many as configured
//! drops   the oldest

use std::collections::VecDeque;

use alloy_primitives::B256;
use alloy_primitives::map::B256Map;

use super::error::DropReason;

/// The reasons of recent drops.
#[derive(Debug)]
pub struct DropLog {
    capacity: usize,
    reasons: B256Map<(DropReason, u64)>,
    /// Hash and number of each note, the oldest first; a hash noted again has its newer number in `reasons`.
    order: VecDeque<(B256, u64)>,
    noted: u64,
}

impl DropLog {
    /// A memory of `capacity` drops.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, reasons: B256Map::default(), order: VecDeque::new(), noted: 0 }
    }

    /// Records why a transaction was dropped; forgets the oldest drops beyond the capacity.
    pub fn note(&mut self, hash: B256, reason: DropReason) {
        self.noted += 1;
        self.reasons.insert(hash, (reason, self.noted));
        self.order.push_back((hash, self.noted));
        while self.order.len() > self.capacity {
            let Some((oldest, number)) = self.order.pop_front() else { break };
            if self.reasons.get(&oldest).is_some_and(|(_, last)| *last == number) {
                self.reasons.remove(&oldest);
            }
        }
    }

    /// Removes the record of a transaction that is in the pool again.
    pub fn forget(&mut self, hash: &B256) {
        if !self.reasons.is_empty() {
            self.reasons.remove(hash);
        }
    }

    /// Why a transaction was dropped last.
    pub fn get(&self, hash: &B256) -> Option<&DropReason> {
        self.reasons.get(hash).map(|(reason, _)| reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_forgotten_and_a_newer_note_is_kept() {
        let mut fates = DropLog::new(2);
        let [a, b, c] = [1, 2, 3].map(B256::repeat_byte);
        fates.note(a, DropReason::Evicted);
        fates.note(a, DropReason::Demand);
        fates.note(b, DropReason::Evicted);
        assert_eq!(fates.get(&a), Some(&DropReason::Demand));
        fates.note(c, DropReason::Expired(3));
        assert_eq!(fates.get(&a), None);
        assert_eq!(fates.get(&b), Some(&DropReason::Evicted));
        fates.forget(&b);
        assert_eq!((fates.get(&b), fates.get(&c)), (None, Some(&DropReason::Expired(3))));
        assert!(fates.order.len() <= 2);
    }
}

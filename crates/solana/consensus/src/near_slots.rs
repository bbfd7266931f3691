//! The slots near the root that a node claims to have.
//!
//! reads   an EpochSlots value, which may name 16,383 slots in a few bytes, two dozen times
//! writes  the set of slots that consensus counts
//! memory  520 B
//! drops   slots up to the root, and those that are [`MAX_ELSEWHERE`] or more above it

use hearth_wire::gossip::EpochSlots;

use crate::MAX_ELSEWHERE;

/// Number of 64-slot words.
pub const NEAR_WORDS: usize = MAX_ELSEWHERE as usize / 64;

/// A set of slots just above a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearSlots {
    /// The slot of the first bit.
    pub first: u64,
    /// One bit per slot.
    pub words: [u64; NEAR_WORDS],
}

impl NearSlots {
    /// Decodes a value, only as far as its slots can be near.
    pub fn of(value: &EpochSlots<'_>, root: u64) -> Self {
        let first = root.saturating_add(1);
        let (mut words, mut read) = ([0u64; NEAR_WORDS], 0);
        for run in value.runs.iter() {
            if read >= MAX_ELSEWHERE {
                break;
            }
            run.for_each_in(first..first.saturating_add(MAX_ELSEWHERE), |slot| {
                let index = slot - first;
                words[(index / 64) as usize] |= 1 << (index % 64);
                read += 1;
            });
        }
        Self { first, words }
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The slots in ascending order.
    pub fn slots(&self) -> impl Iterator<Item = u64> {
        let is_set = |index: &u64| self.words[(index / 64) as usize] >> (index % 64) & 1 == 1;
        (0..MAX_ELSEWHERE).filter(is_set).map(|index| self.first + index)
    }
}

#[cfg(test)]
mod tests {
    use hearth_wire::gossip::{CrdsData, SlotBits, SlotRun};

    use super::*;

    /// 2,048 bytes of ones, in DEFLATE without a header.
    const ONES: [u8; 18] = [251, 255, 127, 20, 140, 130, 81, 48, 10, 70, 193, 40, 24, 5, 35, 13, 0, 0];

    fn near(runs: Vec<SlotRun<'_>>, root: u64) -> Vec<u64> {
        let value = EpochSlots { index: 0, from: [1; 32], runs, wallclock: 5 };
        NearSlots::of(&value, root).slots().collect()
    }

    /// The most slots that fit into a datagram, as runs of the longest kind.
    fn bomb(first_slot: u64) -> Vec<SlotRun<'static>> {
        let run = SlotRun { first_slot, count: 16_383, is_compressed: true, bytes: &ONES };
        let mut slots = 0;
        run.for_each(|_| slots += 1);
        let mut bytes = vec![];
        let value = EpochSlots { index: 0, from: [1; 32], runs: vec![run; 23], wallclock: 5 };
        CrdsData::EpochSlots(value).write(&mut bytes);
        assert!(slots == 16_383 && bytes.len() < 1_124, "{slots} slots in each run, {} bytes", bytes.len());
        vec![run; 23]
    }

    #[test]
    fn datagram_names_only_near_slots() {
        assert_eq!(near(bomb(50), 100), (101..=100 + MAX_ELSEWHERE).collect::<Vec<_>>(), "each once, none far away");
        assert_eq!(near(bomb(4_000), 100), (4_000..=100 + MAX_ELSEWHERE).collect::<Vec<_>>());
        assert_eq!(near(bomb(100 + MAX_ELSEWHERE + 1), 100), [0; 0], "too far");
        assert_eq!(near(bomb(50), 20_000), [0; 0], "too old");
        assert_eq!(near(bomb(50), u64::MAX), [0; 0]);
    }

    #[test]
    fn single_slots_are_read() {
        let mut bits = SlotBits::default();
        assert!(bits.add(5, 9) && bits.add(7, 9));
        assert_eq!(near(vec![bits.run()], 0), [5, 7]);
        assert!(NearSlots { first: 1, words: [0; NEAR_WORDS] }.is_empty());
    }
}

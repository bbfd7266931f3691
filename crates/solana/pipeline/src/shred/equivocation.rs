//! equivocation: decides, if a slot's leader made two blocks, whether the accepted block is the one that peers have.
//!
//! reads   repair responses for a slot: shreds that were kept, and shreds of another block than the accepted one
//! writes  slots that must restart
//! memory  40 B for each of [`SLOTS_MAX`] slots
//! drops   the highest slots beyond these: they become contested again with their next repair responses
//! source  Agave's nodes instead accept shreds of both blocks and decide by ancestor hashes
//!
//! Consensus decides only between whole blocks; it never hears of a block that stays incomplete. A leader that sends
//! one shred of a block to some nodes, and another block to all, would therefore keep those nodes from the second block
//! forever. Repair responses show what other nodes have. If more of them are of another block than of the accepted one,
//! the accepted block is given up, and the next response determines its replacement. A peer that lies, or has the wrong
//! block too, costs one more round.

use std::collections::BTreeMap;

/// Maximum slots whose responses are counted.
const SLOTS_MAX: usize = 64;
/// How long to count responses, in nanoseconds.
const TURN_NS: u64 = 2_000_000_000;

/// Responses since the first one of another block.
#[derive(Clone, Copy, Debug)]
struct Turn {
    since_ns: u64,
    kept: u64,
    others: u64,
}

/// Slots with responses that contradict the accepted block.
#[derive(Debug, Default)]
pub(super) struct Contests(BTreeMap<u64, Turn>);

impl Contests {
    /// Counts a response with a shred of another block.
    pub fn other(&mut self, slot: u64, now_ns: u64) {
        self.0.entry(slot).or_insert(Turn { since_ns: now_ns, kept: 0, others: 0 }).others += 1;
        while self.0.len() > SLOTS_MAX {
            self.0.pop_last();
        }
    }

    /// Counts a response with a new shred of the accepted block.
    pub fn kept(&mut self, slot: u64) {
        if let Some(turn) = self.0.get_mut(&slot) {
            turn.kept += 1;
        }
    }

    /// Returns, and stops counting, a slot whose round has ended with a majority for another block.
    pub fn take_lost(&mut self, now_ns: u64) -> Option<u64> {
        let ended = |turn: &Turn| now_ns.saturating_sub(turn.since_ns) >= TURN_NS;
        self.0.retain(|_, turn| !ended(turn) || turn.others > turn.kept);
        let lost = self.0.iter().find(|(_, turn)| ended(turn)).map(|(slot, _)| *slot)?;
        self.0.remove(&lost);
        Some(lost)
    }

    /// Stops counting a slot that is whole or was restarted.
    pub fn remove(&mut self, slot: u64) {
        self.0.remove(&slot);
    }

    /// Forgets slots up to and including `root`.
    pub fn set_root(&mut self, root: u64) {
        self.0 = self.0.split_off(&(root + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_most_answers_wins_in_bounded_memory() {
        let mut contests = Contests::default();
        // Responses of the accepted block count only after the first one of another block.
        contests.kept(7);
        [7, 8, 9].iter().for_each(|slot| contests.other(*slot, 5));
        contests.other(8, 6);
        contests.kept(8);
        contests.kept(9);
        assert_eq!(contests.take_lost(TURN_NS + 4), None);
        assert_eq!([(); 3].map(|()| contests.take_lost(TURN_NS + 5)), [Some(7), Some(8), None]);
        assert!(contests.0.is_empty(), "each turn counts once");
        (0..200).rev().for_each(|slot| contests.other(slot, 0));
        assert_eq!((contests.0.len(), contests.0.last_key_value().map(|(slot, _)| *slot)), (SLOTS_MAX, Some(63)));
        contests.set_root(62);
        contests.remove(63);
        assert!(contests.0.is_empty());
    }
}

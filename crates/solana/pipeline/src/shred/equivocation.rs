//! equivocation: of two blocks of a slot, whether the one that is taken is the one that others have.
//!
//! reads   what came by repair of a slot: shreds that were kept, and such of another block than the one that is taken
//! writes  slots that are to be begun anew
//! memory  40 B for each of [`SLOTS_MAX`] slots
//! drops   the highest slots beyond these: they are contested again when they are asked for
//! source  our own; Agave's nodes take shreds of both blocks, and sort it out by hashes of ancestors
//!
//! Consensus decides between whole blocks. Of a block that never becomes whole it hears nothing: so a leader that sends
//! one shred of a block to some, and another block to all, would keep the second from the first for good. What other
//! nodes answer is what they have. Where more of that is of another block than of the one that is taken, this one is
//! given up, and the next answer says which one is taken instead. One that lies, or has the wrong block too, costs one
//! turn more.

use std::collections::BTreeMap;

/// Slots of which answers are counted.
const SLOTS_MAX: usize = 64;
/// Answers are counted for so long, ns.
const TURN_NS: u64 = 2_000_000_000;

/// Answers since the first one of another block.
#[derive(Clone, Copy, Debug)]
struct Turn {
    since_ns: u64,
    kept: u64,
    others: u64,
}

/// The slots of which answers contradict what is taken.
#[derive(Debug, Default)]
pub(super) struct Contests(BTreeMap<u64, Turn>);

impl Contests {
    /// A shred of another block was the answer.
    pub fn other(&mut self, slot: u64, now_ns: u64) {
        self.0.entry(slot).or_insert(Turn { since_ns: now_ns, kept: 0, others: 0 }).others += 1;
        while self.0.len() > SLOTS_MAX {
            self.0.pop_last();
        }
    }

    /// A shred of the block that is taken was the answer, and new.
    pub fn kept(&mut self, slot: u64) {
        if let Some(turn) = self.0.get_mut(&slot) {
            turn.kept += 1;
        }
    }

    /// A slot whose turn has ended with more answers of another block; it is not counted any more.
    pub fn take_lost(&mut self, now_ns: u64) -> Option<u64> {
        let ended = |turn: &Turn| now_ns.saturating_sub(turn.since_ns) >= TURN_NS;
        self.0.retain(|_, turn| !ended(turn) || turn.others > turn.kept);
        let lost = self.0.iter().find(|(_, turn)| ended(turn)).map(|(slot, _)| *slot)?;
        self.0.remove(&lost);
        Some(lost)
    }

    /// The slot is whole, or begun anew.
    pub fn remove(&mut self, slot: u64) {
        self.0.remove(&slot);
    }

    /// Nothing of slots up to this one is wanted any more.
    pub fn set_root(&mut self, root: u64) {
        self.0 = self.0.split_off(&(root + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_most_answers_are_of_is_taken_and_nothing_grows() {
        let mut contests = Contests::default();
        // Answers of the block that is taken count from the first of another on.
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

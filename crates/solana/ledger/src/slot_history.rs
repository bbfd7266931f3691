//! The slot history sysvar: which slots have blocks.
//!
//! reads   the slot history account
//! memory  the account's 131,097 bytes, shared with the ledger
//! source  `solana-slot-history` 3: a bit for each of the last 2^20 slots, then the next slot

use crate::{Account, Ledger};
use hearth_wire::consts::SYSVAR_SLOT_HISTORY;

/// Number of slots in the history.
const SLOTS: u64 = 1 << 20;
/// Offset of the bits, after their option tag and word count.
const BITS: usize = 1 + 8;
/// Offset of the next slot, after the bits and their count.
const NEXT_SLOT: usize = BITS + SLOTS as usize / 8 + 8;

/// The slot history at one instant.
pub struct SlotHistory(Account);

impl SlotHistory {
    /// The newest state's history; `None` on a chain that keeps none.
    pub fn of(ledger: &Ledger) -> Option<Self> {
        Self::new(ledger.account(&SYSVAR_SLOT_HISTORY)?)
    }

    /// The history in an account; `None` if it is too short for one.
    pub(crate) fn new(account: Account) -> Option<Self> {
        (account.data().len() >= NEXT_SLOT + 8).then_some(Self(account))
    }

    fn next(&self) -> u64 {
        u64::from_le_bytes(self.0.data()[NEXT_SLOT..NEXT_SLOT + 8].try_into().expect("eight bytes"))
    }

    /// The lowest slot in the history.
    pub fn oldest(&self) -> u64 {
        self.next().saturating_sub(SLOTS)
    }

    /// The highest slot in the history.
    pub fn newest(&self) -> u64 {
        self.next().saturating_sub(1)
    }

    /// Whether the stored block of a slot may be on the chain: false if it belongs to an abandoned fork.
    pub fn may_have(&self, slot: u64) -> bool {
        !(self.oldest()..=self.newest()).contains(&slot) || self.has(slot)
    }

    /// Whether a slot in the history has a block.
    pub fn has(&self, slot: u64) -> bool {
        let bit = (slot % SLOTS) as usize;
        (self.oldest()..=self.newest()).contains(&slot) && self.0.data()[BITS + bit / 8] >> (bit % 8) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(blocks: &[u64], next: u64) -> SlotHistory {
        let mut data = vec![0; NEXT_SLOT + 8];
        data[0] = 1;
        for slot in blocks {
            let bit = (slot % SLOTS) as usize;
            data[BITS + bit / 8] |= 1 << (bit % 8);
        }
        data[NEXT_SLOT..].copy_from_slice(&next.to_le_bytes());
        SlotHistory::new(Account::with_data(1, [0; 32], &data)).unwrap()
    }

    #[test]
    fn bits_are_those_of_the_last_slots() {
        let young = history(&[0, 1, 63, 64, 100], 101);
        assert_eq!((young.oldest(), young.newest()), (0, 100));
        let has: Vec<u64> = (0..200).filter(|slot| young.has(*slot)).collect();
        assert_eq!(has, [0, 1, 63, 64, 100]);
        let old = history(&[SLOTS + 5], SLOTS + 6);
        assert_eq!((old.oldest(), old.newest()), (6, SLOTS + 5));
        assert!(old.has(SLOTS + 5) && !old.has(5));
        assert!(SlotHistory::new(Account::with_data(1, [0; 32], &[1; 50])).is_none());
    }
}

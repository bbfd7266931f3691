//! The sets of a slot that is being written, and the checks that they belong together.
//!
//! reads   FEC sets
//! writes  the slot's entry in the index, its closing record
//! memory  8 KiB at most

use super::super::SHREDS_PER_SET;
use super::super::index::SlotEntry;
use super::super::record::{CompleteRecord, FecSetRecord, SET_DATA_SIZE_MAX};

/// Maximum FEC sets of one slot: twice what a million data shreds need.
const SET_COUNT_MAX: u32 = 65_536;

/// Which sets of a slot are in the log.
pub(super) struct OpenSlot {
    pub(super) entry: SlotEntry,
    seen: Vec<u64>,
    highest: u32,
    /// The number of the last set, if known.
    pub(super) last: Option<u32>,
    last_root: [u8; 32],
    data_bytes: u64,
}

impl OpenSlot {
    pub(super) fn new(entry: SlotEntry) -> Self {
        Self { entry, seen: Vec::new(), highest: 0, last: None, last_root: [0; 32], data_bytes: 0 }
    }

    pub(super) fn has(&self, number: u32) -> bool {
        self.seen.get(number as usize / 64).is_some_and(|w| w >> (number % 64) & 1 == 1)
    }

    /// Why `set` cannot belong to the block of the other sets.
    pub(super) fn contradiction(&self, set: &FecSetRecord<'_>) -> Option<&'static str> {
        let number = set.fec_set_index / SHREDS_PER_SET;
        let any = self.entry.set_count > 0;
        if any && set.parent_slot != self.entry.parent_slot {
            Some("its parent is not that of the slot's other sets")
        } else if self.last.is_some_and(|last| number > last || set.last_in_slot) {
            Some("another set was the slot's last")
        } else if any && set.last_in_slot && number < self.highest {
            Some("it claims to be the last but a higher one is there")
        } else {
            None
        }
    }

    pub(super) fn completes(&self, set: &FecSetRecord<'_>) -> bool {
        let last = if set.last_in_slot { Some(set.fec_set_index / SHREDS_PER_SET) } else { self.last };
        last == Some(self.entry.set_count)
    }

    pub(super) fn add(&mut self, set: &FecSetRecord<'_>) {
        let number = set.fec_set_index / SHREDS_PER_SET;
        let word = number as usize / 64;
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        self.seen[word] |= 1 << (number % 64);
        self.highest = self.highest.max(number);
        self.entry.set_count += 1;
        self.data_bytes += set.data.len() as u64;
        if set.last_in_slot {
            self.last = Some(number);
            self.last_root = set.merkle_root;
        }
    }

    pub(super) fn closing(&self) -> CompleteRecord {
        let SlotEntry { slot, parent_slot, set_count, .. } = self.entry;
        CompleteRecord { slot, parent_slot, set_count, data_bytes: self.data_bytes, block_id: self.last_root }
    }
}

/// Why a set cannot belong to any block.
pub(super) fn malformed(set: &FecSetRecord<'_>) -> Option<&'static str> {
    if !set.fec_set_index.is_multiple_of(SHREDS_PER_SET) {
        Some("its index is not a multiple of 32")
    } else if set.fec_set_index / SHREDS_PER_SET >= SET_COUNT_MAX {
        Some("its index is beyond what a slot may have")
    } else if set.data.len() > SET_DATA_SIZE_MAX {
        Some("its data are longer than a set can carry")
    } else if set.parent_slot > set.slot || (set.parent_slot == set.slot && set.slot != 0) {
        Some("its parent is not before it")
    } else {
        None
    }
}

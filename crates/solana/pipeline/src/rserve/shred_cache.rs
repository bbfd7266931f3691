//! shred_cache: single shreds from the block store, cached by set and slot.
//!
//! reads   the records of sets, a whole slot at a time
//! writes  data shreds
//! memory  the records of [`SLOTS_KEPT`] slots, [`SLOT_BYTES_MAX`] each; [`SETS_KEPT`] sets, 80 KiB each
//! drops   the least recently used; sets that cannot be rebuilt as their leader made them are treated as missing
//!
//! The store has no index by set, so this module keeps what it read of a slot. A missing set is remembered as such
//! until the slot has another number of sets, or was restarted.

use std::collections::VecDeque;

use hearth_ledger::blockstore::{FecSetRecord, Reader, SlotInfo};
use hearth_wire::shred::DATA_PER_SET;
use hearth_wire::{Hash, Signature};

use super::budget::{Budget, NoBudget, Payer};
use crate::shred::FecSet;

/// Rebuilt sets to keep.
const SETS_KEPT: usize = 32;
/// Slots whose records are kept.
const SLOTS_KEPT: usize = 4;
/// Maximum bytes of a slot's records to keep.
const SLOT_BYTES_MAX: usize = 8 << 20;
/// Approximate bytes of a set's record, to charge the budget before reading it.
const SET_BYTES: u64 = 31_000;

/// A set as the store has it, from which its shreds are made again.
struct CachedSet {
    parent_slot: u64,
    fec_set_index: u32,
    reference_tick: u8,
    last_in_slot: bool,
    ends_batch: Option<bool>,
    merkle_root: Hash,
    chained_root: Hash,
    signature: Signature,
    data: Vec<u8>,
}

/// The sets of a slot that were read from the store.
struct Slot {
    slot: u64,
    /// The slot's position in the log at that time, and its number of sets.
    state: (u64, u32),
    /// The highest of them.
    highest: u32,
    /// From this set on all were kept, if they fit.
    from: u32,
    is_all: bool,
    sets: Vec<CachedSet>,
}

/// Caches shreds of the store.
pub(super) struct ShredCache {
    version: u16,
    reader: Reader,
    pub budget: Budget,
    slots: VecDeque<Slot>,
    /// `None` if the set cannot be rebuilt as its leader made it: its record does not hash to the signed root.
    sets: VecDeque<((u64, u32, Hash), Option<FecSet>)>,
    /// Bytes read from the store.
    pub read_bytes: u64,
}

impl ShredCache {
    /// Maximum bytes of the cache.
    pub const MEMORY: u64 = (SLOTS_KEPT * SLOT_BYTES_MAX + SETS_KEPT * FecSet::MEMORY) as u64;

    pub fn new(version: u16, reader: Reader, budget: Budget) -> Self {
        Self { version, reader, budget, slots: VecDeque::new(), sets: VecDeque::new(), read_bytes: 0 }
    }

    /// Returns the parent of a slot with any sets here.
    pub fn parent(&self, slot: u64) -> Option<u64> {
        self.reader.slot(slot).map(|info| info.parent_slot)
    }

    /// Returns the index of the highest data shred here.
    pub fn highest(&mut self, slot: u64, payer: Payer) -> Result<Option<u32>, NoBudget> {
        let Some(info) = self.reader.slot(slot).filter(|info| info.set_count > 0) else { return Ok(None) };
        let last_of = |set: u32| set + DATA_PER_SET as u32 - 1;
        if info.whole {
            return Ok(Some(last_of((info.set_count - 1) * DATA_PER_SET as u32)));
        }
        let known = self.slots.iter().find(|known| (known.slot, known.state) == (slot, state(&info)));
        if let Some(known) = known {
            return Ok(Some(last_of(known.highest)));
        }
        Ok(self.read(&info, 0, payer)?.map(|known| last_of(known.highest)))
    }

    /// Returns a data shred if it is here.
    pub fn shred(&mut self, slot: u64, index: u32, payer: Payer) -> Result<Option<Vec<u8>>, NoBudget> {
        let set_index = index - index % DATA_PER_SET as u32;
        let Some(info) = self.reader.slot(slot) else { return Ok(None) };
        if info.whole && set_index / DATA_PER_SET as u32 >= info.set_count {
            return Ok(None);
        }
        let is_it = |known: &Slot| {
            let is_there = known.sets.iter().any(|set| set.fec_set_index == set_index);
            let is_known = is_there || (known.is_all && set_index >= known.from);
            (known.slot, known.state) == (slot, state(&info)) && is_known
        };
        let known = match self.slots.iter().position(is_it) {
            Some(place) => &self.slots[place],
            None if self.read(&info, set_index, payer)?.is_none() => return Ok(None),
            None => &self.slots[0],
        };
        let Some(record) = known.sets.iter().find(|set| set.fec_set_index == set_index) else { return Ok(None) };
        let name = (slot, set_index, record.merkle_root);
        let place = self.sets.iter().position(|(other, _)| *other == name);
        if place.is_none() {
            self.sets.push_front((name, FecSet::of_record(&record.view(slot), self.version)));
            self.sets.truncate(SETS_KEPT);
        }
        let (_, set) = &self.sets[place.unwrap_or(0)];
        Ok(set.as_ref().and_then(|set| set.shreds().nth((index - set_index) as usize)).map(<[u8]>::to_vec))
    }

    /// Reads a slot, and keeps its records from a set on.
    fn read(&mut self, info: &SlotInfo, from: u32, payer: Payer) -> Result<Option<&Slot>, NoBudget> {
        let slot = info.slot;
        self.budget.pay(u64::from(info.set_count) * SET_BYTES, payer)?;
        let mut known = Slot { slot, state: state(info), highest: 0, from, is_all: true, sets: vec![] };
        let (mut kept, mut read) = (0, 0);
        let all = self.reader.sets(slot, |set| {
            read += set.data.len();
            known.highest = known.highest.max(set.fec_set_index);
            if set.fec_set_index < from {
                return;
            }
            kept += set.data.len();
            match kept <= SLOT_BYTES_MAX {
                true => known.sets.push(CachedSet::of(set)),
                false => known.is_all = false,
            }
        });
        self.read_bytes += read as u64;
        // Treat a read error like a missing slot.
        if !all.unwrap_or(false) {
            return Ok(None);
        }
        self.slots.retain(|other| other.slot != slot);
        self.slots.push_front(known);
        self.slots.truncate(SLOTS_KEPT);
        Ok(self.slots.front())
    }
}

/// Identifies the state of a slot's records.
fn state(info: &SlotInfo) -> (u64, u32) {
    (info.place, info.set_count)
}

impl CachedSet {
    fn of(set: &FecSetRecord<'_>) -> Self {
        Self {
            parent_slot: set.parent_slot,
            fec_set_index: set.fec_set_index,
            reference_tick: set.reference_tick,
            last_in_slot: set.last_in_slot,
            ends_batch: set.ends_batch,
            merkle_root: set.merkle_root,
            chained_root: set.chained_root,
            signature: set.signature,
            data: set.data.to_vec(),
        }
    }

    fn view(&self, slot: u64) -> FecSetRecord<'_> {
        FecSetRecord {
            slot,
            parent_slot: self.parent_slot,
            fec_set_index: self.fec_set_index,
            reference_tick: self.reference_tick,
            last_in_slot: self.last_in_slot,
            ends_batch: self.ends_batch,
            merkle_root: self.merkle_root,
            chained_root: self.chained_root,
            signature: self.signature,
            data: &self.data,
        }
    }
}

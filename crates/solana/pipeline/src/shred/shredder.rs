//! Turns the entries of slots into FEC sets.
//!
//! reads   entries, in order; when a batch ends and when a slot does
//! writes  FEC sets, in order, each chained to the one before, across slots too
//! memory  one batch of entries: [`ShredderConfig::batch_sets`] sets, or one entry where that is larger
//! drops   nothing; an entry beyond the slot's limit of shreds is refused
//! source  `solana-ledger` 4.2, shred/merkle.rs, `make_shreds_from_data`
//!
//! A batch is a count of entries and the entries, so its first bytes are known only when it ends. It
//! ends where one more entry would begin another set than it may have, so that little of a set is
//! padding; the caller ends it earlier when time is up, and always with the slot.

use super::set::{FecSet, LAST_SET_CAPACITY, SET_CAPACITY, SetHeader};
use hearth_wire::Hash;
use hearth_wire::shred::{DATA_PER_SET, SHREDS_PER_SLOT_MAX};
use thiserror::Error;

/// Bytes of the count in front of a batch.
const COUNT_SIZE: usize = 8;

/// What does not change from slot to slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShredderConfig {
    /// The cluster's shred version.
    pub version: u16,
    /// Sets that a batch may fill, at least one. More sets, less padding, more delay.
    pub batch_sets: usize,
    /// Data shreds that a slot may have, see [`SHREDS_PER_SLOT_MAX`].
    pub shreds_per_slot_max: u32,
}

impl Default for ShredderConfig {
    fn default() -> Self {
        Self { version: 0, batch_sets: 1, shreds_per_slot_max: SHREDS_PER_SLOT_MAX }
    }
}

/// Why an entry or a slot was refused. The caller breaks an invariant: a block without the entry is
/// invalid.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ShredderError {
    /// No slot is begun.
    #[error("an entry outside a slot")]
    NoSlot,
    /// The slot before has not ended, or a batch of it is not taken out yet.
    #[error("a slot within a slot")]
    Unfinished,
    /// A parent at or after the slot, or too far back for the header.
    #[error("slot {slot} cannot have parent {parent}")]
    Parent {
        /// The slot to begin.
        slot: u64,
        /// The parent given for it.
        parent: u64,
    },
    /// The batch has ended and its sets are not taken out yet, or the entry must begin a new batch.
    #[error("the batch is full")]
    BatchFull,
    /// The slot's limit of shreds.
    #[error("the slot is full")]
    SlotFull,
}

/// Where a slot stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Between slots.
    Idle,
    /// A batch is being filled.
    Filling,
    /// A batch has ended; the bytes before `from` are in sets already.
    Draining { from: usize, ends_slot: bool },
}

/// Turns entries into FEC sets. Sans-I/O: entries go in, sets come out.
#[derive(Clone, Debug)]
pub struct Shredder {
    config: ShredderConfig,
    phase: Phase,
    slot: u64,
    parent_offset: u16,
    set_index: u32,
    reference_tick: u8,
    chained_root: Hash,
    batch: Vec<u8>,
    entry_count: u64,
}

impl Shredder {
    /// A shredder whose first set is chained to `chained_root`, the last root of the parent block.
    pub fn new(config: ShredderConfig, chained_root: Hash) -> Self {
        assert!(config.batch_sets > 0, "a batch needs room for a set");
        Self {
            config,
            phase: Phase::Idle,
            slot: 0,
            parent_offset: 0,
            set_index: 0,
            reference_tick: 0,
            chained_root,
            batch: Vec::with_capacity(config.batch_sets * SET_CAPACITY),
            entry_count: 0,
        }
    }

    /// Begins a slot, whose sets are numbered from zero and chained to the last set made.
    pub fn begin_slot(&mut self, slot: u64, parent: u64) -> Result<(), ShredderError> {
        if self.phase != Phase::Idle {
            return Err(ShredderError::Unfinished);
        }
        let offset = slot.checked_sub(parent).and_then(|offset| u16::try_from(offset).ok());
        let offset = offset.filter(|&offset| offset > 0 || slot == 0);
        self.parent_offset = offset.ok_or(ShredderError::Parent { slot, parent })?;
        (self.slot, self.set_index, self.phase) = (slot, 0, Phase::Filling);
        self.start_batch();
        Ok(())
    }

    /// Forgets what is left of the slot, and chains the next one to `chained_root`.
    pub fn abandon_slot(&mut self, chained_root: Hash) {
        (self.phase, self.chained_root) = (Phase::Idle, chained_root);
    }

    fn start_batch(&mut self) {
        self.batch.clear();
        self.batch.resize(COUNT_SIZE, 0);
        self.entry_count = 0;
    }

    /// Adds an entry's bytes, taken at `reference_tick` of the slot. [`ShredderError::BatchFull`] asks
    /// for the batch to be ended and its sets taken out, and the entry to be given again.
    pub fn push(&mut self, entry: &[u8], reference_tick: u8) -> Result<(), ShredderError> {
        match self.phase {
            Phase::Idle => return Err(ShredderError::NoSlot),
            Phase::Draining { .. } => return Err(ShredderError::BatchFull),
            Phase::Filling => {}
        }
        let len = self.batch.len() + entry.len();
        if self.entry_count > 0 && len > self.config.batch_sets * SET_CAPACITY {
            return Err(ShredderError::BatchFull);
        }
        // The batch may turn out to be the slot's last, whose last set holds less.
        let sets = 1 + len.saturating_sub(LAST_SET_CAPACITY).div_ceil(SET_CAPACITY);
        if self.set_index as usize + sets * DATA_PER_SET > self.config.shreds_per_slot_max as usize {
            return Err(ShredderError::SlotFull);
        }
        if self.entry_count == 0 {
            self.reference_tick = reference_tick;
        }
        self.batch.extend_from_slice(entry);
        self.entry_count += 1;
        Ok(())
    }

    /// Ends the batch, and with it the slot where `ends_slot`. Its sets are then to be taken out by
    /// [`next_set`](Self::next_set). Does nothing for a batch of no entries, unless the slot ends.
    pub fn end_batch(&mut self, ends_slot: bool) {
        if self.phase != Phase::Filling || (self.entry_count == 0 && !ends_slot) {
            return;
        }
        if self.entry_count == 0 {
            // A batch that counts no entries would be a marker of another protocol: send none.
            self.batch.clear();
        } else {
            self.batch[..COUNT_SIZE].copy_from_slice(&self.entry_count.to_le_bytes());
        }
        self.phase = Phase::Draining { from: 0, ends_slot };
    }

    /// Makes the next set of the batch that has ended, all but the signature, in `set`. `false` when
    /// there is none; then the next batch, or the next slot, may begin.
    pub fn next_set(&mut self, set: &mut FecSet) -> bool {
        let Phase::Draining { from, ends_slot } = self.phase else {
            return false;
        };
        let left = &self.batch[from..];
        // A slot's last set is of the smaller kind, and holds as much of the end as it can.
        let is_last = ends_slot && left.len() <= LAST_SET_CAPACITY;
        let before_last = if ends_slot { left.len().saturating_sub(LAST_SET_CAPACITY) } else { left.len() };
        let len = if is_last { left.len() } else { before_last.min(SET_CAPACITY) };
        let ends_batch = len == left.len();
        let header = SetHeader {
            slot: self.slot,
            parent_offset: self.parent_offset,
            version: self.config.version,
            set_index: self.set_index,
            reference_tick: self.reference_tick,
            ends_batch,
            ends_slot: is_last,
            resigned: is_last,
        };
        set.prepare(header, &left[..len]);
        self.chained_root = *set.chain(&self.chained_root);
        self.set_index += DATA_PER_SET as u32;
        self.phase = match (ends_batch, ends_slot) {
            (false, _) => Phase::Draining { from: from + len, ends_slot },
            (true, true) => Phase::Idle,
            (true, false) => Phase::Filling,
        };
        if ends_batch {
            self.start_batch();
        }
        true
    }

    /// Gives the next set another index than the slot's next.
    #[cfg(test)]
    pub(super) fn set_next_index(&mut self, set_index: u32) {
        self.set_index = set_index;
    }

    /// Fills the batch with the bytes of a whole one, its count included.
    #[cfg(test)]
    pub(super) fn push_batch(&mut self, bytes: &[u8], reference_tick: u8) {
        let (count, entries) = bytes.split_first_chunk().expect("a count");
        self.push(entries, reference_tick).expect("room");
        self.entry_count = u64::from_le_bytes(*count);
    }

    /// The root that the next set will be chained to.
    pub fn chained_root(&self) -> &Hash {
        &self.chained_root
    }
}

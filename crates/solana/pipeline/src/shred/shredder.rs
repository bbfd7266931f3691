//! shredder: turns the entries of slots into FEC sets.
//!
//! reads   entries, in order; when a batch or a slot ends
//! writes  FEC sets, in order, each chained to the previous one, also across slots
//! memory  one batch of entries: [`ShredderConfig::batch_sets`] sets, or one entry if that is larger
//! drops   nothing; an entry beyond the slot's limit of shreds is refused
//! source  `solana-ledger` 4.2, shred/merkle.rs, `make_shreds_from_data`
//!
//! A batch is a count of entries followed by the entries, so its first bytes are known only when it ends. It ends when
//! one more entry would exceed its maximum number of sets, so that sets have little padding; the caller ends it earlier
//! when time is up, and always at the end of the slot.

use super::set::{FecSet, LAST_SET_CAPACITY, SET_CAPACITY, SetHeader};
use hearth_wire::Hash;
use hearth_wire::shred::{DATA_PER_SET, SHREDS_PER_SLOT_MAX};
use thiserror::Error;

/// Bytes of the count at the start of a batch.
const COUNT_SIZE: usize = 8;

/// Parameters that stay the same from slot to slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShredderConfig {
    /// The cluster's shred version.
    pub version: u16,
    /// Maximum sets per batch, at least one. More sets mean less padding and more delay.
    pub batch_sets: usize,
    /// Maximum data shreds per slot, see [`SHREDS_PER_SLOT_MAX`].
    pub shreds_per_slot_max: u32,
}

impl Default for ShredderConfig {
    fn default() -> Self {
        Self { version: 0, batch_sets: 1, shreds_per_slot_max: SHREDS_PER_SLOT_MAX }
    }
}

/// Why an entry or a slot was refused. The caller broke an invariant: a block without the entry is invalid.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ShredderError {
    /// No slot is in progress.
    #[error("an entry outside a slot")]
    NoSlot,
    /// The previous slot has not ended, or not all of its sets were taken.
    #[error("a slot within a slot")]
    Unfinished,
    /// The parent is not before the slot, or too far back for the header.
    #[error("slot {slot} cannot have parent {parent}")]
    Parent {
        /// The slot to start.
        slot: u64,
        /// The parent that the caller gave.
        parent: u64,
    },
    /// The batch has ended and not all of its sets were taken, or the entry must start a new batch.
    #[error("the batch is full")]
    BatchFull,
    /// The slot has reached its limit of shreds.
    #[error("the slot is full")]
    SlotFull,
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No slot is in progress, or its last set was taken.
    Idle,
    /// A batch is being filled.
    Filling,
    /// A batch has ended; the bytes before `from` are already in sets.
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
    /// Creates a shredder whose first set is chained to `chained_root`, the last root of the parent block.
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

    /// Starts a slot. Its sets are numbered from zero and chained to the last set made.
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

    /// Discards the rest of the slot, and chains the next one to `chained_root`.
    pub fn abandon_slot(&mut self, chained_root: Hash) {
        (self.phase, self.chained_root) = (Phase::Idle, chained_root);
    }

    fn start_batch(&mut self) {
        self.batch.clear();
        self.batch.resize(COUNT_SIZE, 0);
        self.entry_count = 0;
    }

    /// Adds an entry's bytes, recorded at `reference_tick` of the slot. On [`ShredderError::BatchFull`] the caller must
    /// end the batch, take its sets, and push the entry again.
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
        // The batch may become the slot's last, whose last set holds less.
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

    /// Ends the batch, and the slot if `ends_slot`. Then take its sets with [`next_set`](Self::next_set). Does nothing
    /// for an empty batch unless the slot ends.
    pub fn end_batch(&mut self, ends_slot: bool) {
        if self.phase != Phase::Filling || (self.entry_count == 0 && !ends_slot) {
            return;
        }
        if self.entry_count == 0 {
            // A batch with a count of zero would be a marker of another protocol: send none.
            self.batch.clear();
        } else {
            self.batch[..COUNT_SIZE].copy_from_slice(&self.entry_count.to_le_bytes());
        }
        self.phase = Phase::Draining { from: 0, ends_slot };
    }

    /// Builds the next set of the ended batch in `set`, all but the signature. Returns `false` if there is none left;
    /// then the next batch or slot may start.
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

    /// Overrides the index of the next set.
    #[cfg(test)]
    pub(super) fn set_next_index(&mut self, set_index: u32) {
        self.set_index = set_index;
    }

    /// Fills the batch with the bytes of a whole one, including its count.
    #[cfg(test)]
    pub(super) fn push_batch(&mut self, bytes: &[u8], reference_tick: u8) {
        let (count, entries) = bytes.split_first_chunk().expect("a count");
        self.push(entries, reference_tick).expect("room");
        self.entry_count = u64::from_le_bytes(*count);
    }

    /// The root to which the next set will be chained.
    pub fn chained_root(&self) -> &Hash {
        &self.chained_root
    }
}

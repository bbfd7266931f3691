//! deshredder: turns shreds, any 32 of the 64 of each set, back into the entries of a slot.
//!
//! reads   shreds of one slot in any order, with duplicates and gaps
//! writes  batches of entries, in order; whole FEC sets, including recovered shreds
//! memory  84 KiB per set started and not yet read, at most the slot's limit of shreds ÷ 32 sets
//! drops   shreds of other slots, duplicates and contradictions, each with its own result for the caller to count
//! source  `solana-ledger` 4.2, shred/merkle.rs `recover`; the chain of roots as followers check it
//!
//! The caller must verify the leader's signature, once per root ([`merkle_root`]).

use std::collections::BTreeMap;

use hearth_crypto::merkle::{shred_leaf, shred_root};
use hearth_crypto::reed_solomon::ReedSolomon;
use hearth_wire::Hash;
use hearth_wire::shred::*;

use super::error::DeshredError;
use super::fec_resolver::{Assembly, claim};
use super::set::FecSet;

/// The outcome of adding a shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddResult {
    /// Kept; the set needs more.
    Kept,
    /// The last shred needed: all 64 shreds of the set are here.
    Completed,
    /// Not needed: already here, or its set is already complete or read.
    Unneeded,
}

/// Returns the root to which a shred's proof leads; a genuine shred's leader has signed it.
pub fn merkle_root(shred: &Shred<'_>) -> Option<Hash> {
    shred_root(shred_leaf(shred.leaf_bytes()), shred.shard_index(), shred.proof())
}

/// Collects the shreds of one slot.
#[derive(Clone, Debug)]
pub struct Deshredder {
    slot: u64,
    shreds_per_slot_max: u32,
    code: ReedSolomon,
    sets: BTreeMap<u32, Assembly>,
    /// The set to read next; lower sets were read and freed.
    next_set: u32,
    last_root: Option<Hash>,
    batch: Vec<u8>,
    ended: bool,
}

impl Deshredder {
    /// Creates a collector for `slot`. If `parent_root` is known, the first set must be chained to it.
    pub fn new(slot: u64, parent_root: Option<Hash>, shreds_per_slot_max: u32) -> Self {
        let code = ReedSolomon::new(DATA_PER_SET, CODE_PER_SET).expect("32 + 32 is a code");
        Self {
            slot,
            shreds_per_slot_max,
            code,
            sets: BTreeMap::new(),
            next_set: 0,
            last_root: parent_root,
            batch: Vec::new(),
            ended: false,
        }
    }

    /// Adds a shred, and recovers its set if this is the last shred needed.
    pub fn add(&mut self, shred: &Shred<'_>) -> Result<AddResult, DeshredError> {
        shred.check_set(self.shreds_per_slot_max)?;
        if shred.slot() != self.slot {
            return Err(DeshredError::Slot(shred.slot()));
        }
        let set_index = shred.set_index();
        if set_index < self.next_set {
            return Ok(AddResult::Unneeded);
        }
        match self.sets.get_mut(&set_index) {
            Some(assembly) if assembly.present() == u64::MAX || assembly.has(shred) => {
                let is_it = assembly.has(shred) || merkle_root(shred).as_ref() == Some(assembly.root());
                return if is_it { Ok(AddResult::Unneeded) } else { Err(DeshredError::Conflict) };
            }
            Some(assembly) => {
                let leaf = assembly.proves(shred).filter(|_| assembly.agrees(shred)).ok_or(DeshredError::Conflict)?;
                assembly.keep(shred, &leaf);
            }
            None => {
                let (leaf, proofs) = claim(shred).ok_or(DeshredError::Conflict)?;
                let begun = Assembly::begin(shred, (leaf, Box::new(proofs)), FecSet::new());
                self.sets.insert(set_index, begun);
            }
        }
        let assembly = self.sets.get_mut(&set_index).expect("a shred of it was just kept");
        if !assembly.is_enough() {
            return Ok(AddResult::Kept);
        }
        match assembly.recover(&self.code) {
            Ok(()) => Ok(AddResult::Completed),
            Err(error) => {
                self.sets.remove(&set_index);
                Err(error)
            }
        }
    }

    /// Returns a set that is complete and not yet read.
    pub fn set(&self, set_index: u32) -> Option<&FecSet> {
        self.sets.get(&set_index).filter(|a| a.present() == u64::MAX).map(Assembly::set)
    }

    /// Returns the next batch of entries once all of its sets are complete; `None` until then.
    pub fn next_batch(&mut self) -> Result<Option<Vec<u8>>, DeshredError> {
        while let Some(set) = self.set(self.next_set) {
            if self.last_root.is_some_and(|root| root != *set.chained_root()) {
                return Err(DeshredError::Chain(self.next_set));
            }
            let Some(assembly) = self.sets.remove(&self.next_set) else {
                break;
            };
            let set = assembly.set();
            for chunk in set.entry_chunks() {
                self.batch.extend_from_slice(chunk);
            }
            self.last_root = Some(*assembly.root());
            self.next_set += DATA_PER_SET as u32;
            self.ended |= set.header().ends_slot;
            if set.header().ends_batch {
                return Ok(Some(std::mem::take(&mut self.batch)));
            }
        }
        Ok(None)
    }

    /// Whether the whole slot has been read.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The root of the last set read; once the slot has ended, this is the block id.
    pub fn last_root(&self) -> Option<&Hash> {
        self.last_root.as_ref()
    }
}

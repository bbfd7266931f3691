//! Turns shreds, any 32 of the 64 of each set, back into the entries of a slot.
//!
//! reads   shreds of one slot in any order, with duplicates and gaps
//! writes  batches of entries, in order; whole FEC sets, recovered shreds included
//! memory  79 KiB a set begun and not yet read, at most the slot's limit of shreds ÷ 32 sets
//! drops   shreds of other slots, duplicates, and what contradicts what came before: each is an answer
//!         of its own, for the caller to count
//! source  `solana-ledger` 4.2, shred/merkle.rs `recover`; the chain of roots as followers check it
//!
//! That the leader signed the root is the caller's to check, once for each root ([`merkle_root`]).

use super::set::{FecSet, SetHeader};
use hearth_crypto::merkle::{shred_leaf, shred_root};
use hearth_crypto::reed_solomon::{ReedSolomon, ReedSolomonError};
use hearth_wire::shred::*;
use hearth_wire::{Hash, Signature};
use std::collections::BTreeMap;
use thiserror::Error;

/// Why a shred or a set was refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DeshredError {
    /// A shred of another slot.
    #[error("a shred of slot {0}")]
    Slot(u64),
    /// A shred that breaks the rules for sets.
    #[error(transparent)]
    Shred(#[from] ShredError),
    /// A root, signature, version or chained root other than that of the set's first shred.
    #[error("contradicts the shreds of its set that came before")]
    Conflict,
    /// The shreds recovered do not hash to the root, or are no shreds of this set.
    #[error("set {0} does not recover to what was signed")]
    Recovered(u32),
    /// A set is chained to a root other than that of the set before.
    #[error("set {0} is not chained to the set before")]
    Chain(u32),
    /// The erasure code refused; it does not, for shreds that parse.
    #[error(transparent)]
    Code(#[from] ReedSolomonError),
}

/// What became of a shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// Kept; more are needed.
    Kept,
    /// The last one needed: all 64 shreds of the set are there.
    Completed,
    /// Not needed: there already, or its set is complete or read.
    Unneeded,
}

/// The root that a shred's proof leads to; what the leader signed, if it is genuine.
pub fn merkle_root(shred: &Shred<'_>) -> Option<Hash> {
    shred_root(shred_leaf(shred.leaf_bytes()), shred.shard_index(), shred.proof())
}

/// A set of which some shreds have come.
#[derive(Clone, Debug)]
pub(super) struct Assembly {
    set: FecSet,
    /// Bit i: shred i is there.
    present: u64,
    root: Hash,
    chained_root: Hash,
    signature: Signature,
    retransmitter_signature: Option<Signature>,
}

/// Collects the shreds of one slot.
#[derive(Clone, Debug)]
pub struct Deshredder {
    slot: u64,
    shreds_per_slot_max: u32,
    code: ReedSolomon,
    sets: BTreeMap<u32, Assembly>,
    /// The set to be read next; sets below it are read and forgotten.
    next_set: u32,
    last_root: Option<Hash>,
    batch: Vec<u8>,
    ended: bool,
}

impl Deshredder {
    /// Collects `slot`, whose first set must be chained to `parent_root` where that is known.
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

    /// Adds a shred; recovers its set when it is the last one needed.
    pub fn add(&mut self, shred: &Shred<'_>) -> Result<Added, DeshredError> {
        shred.check_set(self.shreds_per_slot_max)?;
        if shred.slot() != self.slot {
            return Err(DeshredError::Slot(shred.slot()));
        }
        let set_index = shred.set_index();
        if set_index < self.next_set {
            return Ok(Added::Unneeded);
        }
        let root = merkle_root(shred).ok_or(DeshredError::Conflict)?;
        let assembly = self.sets.entry(set_index).or_insert_with(|| Assembly::begin(shred, root));
        if !assembly.agrees(shred, &root) {
            return Err(DeshredError::Conflict);
        }
        if assembly.present == u64::MAX || assembly.present >> shred.shard_index() & 1 == 1 {
            return Ok(Added::Unneeded);
        }
        assembly.keep(shred);
        if !assembly.is_enough() {
            return Ok(Added::Kept);
        }
        match assembly.recover(&self.code) {
            Ok(()) => Ok(Added::Completed),
            Err(error) => {
                self.sets.remove(&set_index);
                Err(error)
            }
        }
    }

    /// A set that is complete and not yet read.
    pub fn set(&self, set_index: u32) -> Option<&FecSet> {
        self.sets.get(&set_index).filter(|a| a.present == u64::MAX).map(|a| &a.set)
    }

    /// The next batch of entries, once all its sets are complete; `None` until then.
    pub fn next_batch(&mut self) -> Result<Option<Vec<u8>>, DeshredError> {
        while let Some(set) = self.set(self.next_set) {
            if self.last_root.is_some_and(|root| root != *set.chained_root()) {
                return Err(DeshredError::Chain(self.next_set));
            }
            let Some(Assembly { set, root, .. }) = self.sets.remove(&self.next_set) else {
                break;
            };
            for chunk in set.entry_chunks() {
                self.batch.extend_from_slice(chunk);
            }
            self.last_root = Some(root);
            self.next_set += DATA_PER_SET as u32;
            self.ended |= set.header().ends_slot;
            if set.header().ends_batch {
                return Ok(Some(std::mem::take(&mut self.batch)));
            }
        }
        Ok(None)
    }

    /// Whether all of the slot has been read.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The root of the last set that was read: when the slot has ended, the block's identity.
    pub fn last_root(&self) -> Option<&Hash> {
        self.last_root.as_ref()
    }
}

impl Assembly {
    /// A set whose shreds hash to this root, as its first one says.
    pub fn begin(shred: &Shred<'_>, root: Hash) -> Self {
        let mut set = FecSet::new();
        set.header = SetHeader {
            slot: shred.slot(),
            version: shred.version(),
            set_index: shred.set_index(),
            resigned: shred.variant().resigned,
            ..SetHeader::default()
        };
        Self {
            set,
            present: 0,
            root,
            chained_root: shred.chained_root(),
            signature: shred.signature(),
            retransmitter_signature: shred.retransmitter_signature(),
        }
    }

    /// Whether exactly this shred is there.
    pub fn has(&self, shred: &Shred<'_>) -> bool {
        let index = shred.shard_index();
        self.present >> index & 1 == 1
            && match index.checked_sub(DATA_PER_SET) {
                None => self.set.data[index] == *shred.bytes(),
                Some(position) => self.set.code[position] == *shred.bytes(),
            }
    }

    /// The set; whole once it is recovered.
    pub fn set(&self) -> &FecSet {
        &self.set
    }

    /// Bit i: shred i is there.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// What the shreds hash to.
    pub fn root(&self) -> &Hash {
        &self.root
    }

    /// The leader's signature of it.
    pub fn signature(&self) -> Signature {
        self.signature
    }

    /// Whether there are enough to recover the others.
    pub fn is_enough(&self) -> bool {
        self.present.count_ones() as usize >= DATA_PER_SET
    }

    /// Whether the shred says of the set what the first one said.
    pub fn agrees(&self, shred: &Shred<'_>, root: &Hash) -> bool {
        self.root == *root
            && self.chained_root == shred.chained_root()
            && self.signature == shred.signature()
            && self.set.header.version == shred.version()
            && self.set.header.resigned == shred.variant().resigned
    }

    /// Keeps a shred that agrees.
    pub fn keep(&mut self, shred: &Shred<'_>) {
        let index = shred.shard_index();
        match index.checked_sub(DATA_PER_SET) {
            None => self.set.data[index].copy_from_slice(shred.bytes()),
            Some(position) => self.set.code[position].copy_from_slice(shred.bytes()),
        }
        self.present |= 1 << index;
    }

    /// Makes the shreds that are missing, and checks that all 64 hash to the root.
    pub fn recover(&mut self, code: &ReedSolomon) -> Result<(), DeshredError> {
        let set = &mut self.set;
        let of_data = set.header.variant(ShredKind::Data).erasure_shard();
        let of_code = set.header.variant(ShredKind::Code).erasure_shard();
        let data = set.data.iter_mut().map(|s| &mut s[of_data.clone()]);
        let parity = set.code.iter_mut().map(|s| &mut s[of_code.clone()]);
        let (mut present, mut missing) = (Vec::with_capacity(SHREDS_PER_SET), Vec::new());
        for (index, shard) in data.chain(parity).enumerate() {
            if self.present >> index & 1 == 1 {
                present.push((index, &*shard));
            } else {
                missing.push((index, shard));
            }
        }
        code.recover(&present, &mut missing)?;
        set.write_code_headers();
        let root = *set.rehash(&self.chained_root);
        set.sign(&self.signature);
        if let Some(signature) = &self.retransmitter_signature {
            set.set_retransmitter_signature(signature);
        }
        if root != self.root || !self.read_headers() {
            return Err(DeshredError::Recovered(self.set.header.set_index));
        }
        self.present = u64::MAX;
        Ok(())
    }

    /// Completes the set's header from its last data shred. `false` where a data shred that was
    /// recovered does not belong.
    fn read_headers(&mut self) -> bool {
        let header = &mut self.set.header;
        for (place, bytes) in self.set.data.iter().enumerate() {
            let Ok(shred) = Shred::parse(bytes) else {
                return false;
            };
            let Fields::Data(fields) = shred.fields() else {
                return false;
            };
            let belongs = shred.check_set(u32::MAX).is_ok()
                && shred.variant() == header.variant(ShredKind::Data)
                && (shred.slot(), shred.version()) == (header.slot, header.version)
                && (shred.set_index(), shred.shard_index()) == (header.set_index, place);
            if !belongs {
                return false;
            }
            header.parent_offset = fields.parent_offset;
            header.reference_tick = fields.flags & FLAG_TICK_MASK;
            (header.ends_batch, header.ends_slot) = (shred.ends_batch(), shred.ends_slot());
        }
        true
    }
}

//! A set of which some shreds have come.
//!
//! reads   shreds of one set
//! writes  all 64, once any 32 are there; the 32 data shreds, once they are, where the leader signed other parity
//! memory  79 KiB for the shreds, 5 KiB for what is known of the tree
//! drops   parity that is none of the data; else nothing: what does not belong is an answer of its own
//! source  `solana-ledger` 4.2, shred/merkle.rs `recover`
//!
//! Each leaf is hashed once: when its shred comes, or when it is recovered. A proof is followed up to a node that an
//! earlier one has led to.
//!
//! A leader can sign parity that is none of its data. The cluster's nodes recover nothing where all data shreds of a
//! set have come, so they execute such a set; and so does this one, or it would be on a fork of its own.

use hearth_crypto::merkle::{ShredProofs, shred_leaf};
use hearth_crypto::reed_solomon::{FIXED_SHARDS, ReedSolomon, encode_32};
use hearth_mutation::{Mutation, active};
use hearth_wire::shred::*;
use hearth_wire::{Hash, Signature};

use super::error::DeshredError;
use super::set::{FecSet, SetHeader};

/// A set of which some shreds have come.
#[derive(Clone, Debug)]
pub(super) struct Assembly {
    set: FecSet,
    /// Bit i: shred i is there.
    present: u64,
    /// What those that are there hash to.
    leaves: Box<[Hash; SHREDS_PER_SET]>,
    proofs: Box<ShredProofs>,
    chained_root: Hash,
    signature: Signature,
    retransmitter_signature: Option<Signature>,
    /// Its parity is none of its data: only data shreds count.
    is_data_only: bool,
}

/// Bit i: data shred i.
const DATA: u64 = (1 << DATA_PER_SET) - 1;

/// What can be made of a set of which enough is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// All 64 shreds.
    All,
    /// The 32 data shreds, as they came: the rest is not what was signed.
    Data,
    /// The parity that is there is none of the data: the data shreds that are missing have to come.
    Lacks,
}

/// What a shred hashes to, and what its proof says of the tree; that the leader signed the root is not checked yet.
pub(super) fn claim(shred: &Shred<'_>) -> Option<(Hash, ShredProofs)> {
    let leaf = shred_leaf(shred.leaf_bytes());
    let proofs = ShredProofs::begin(&leaf, shred.shard_index(), shred.proof())?;
    Some((leaf, proofs))
}

impl Assembly {
    /// A set with this first shred, in the memory of another.
    pub fn begin(shred: &Shred<'_>, (leaf, proofs): (Hash, Box<ShredProofs>), memory: FecSet) -> Self {
        let mut set = memory;
        set.header = SetHeader {
            slot: shred.slot(),
            version: shred.version(),
            set_index: shred.set_index(),
            resigned: shred.variant().resigned,
            ..SetHeader::default()
        };
        let mut begun = Self {
            set,
            present: 0,
            leaves: Box::new([[0; 32]; SHREDS_PER_SET]),
            proofs,
            chained_root: shred.chained_root(),
            signature: shred.signature(),
            retransmitter_signature: shred.retransmitter_signature(),
            is_data_only: false,
        };
        begun.keep(shred, &leaf);
        begun
    }

    /// Its memory, for another set.
    pub fn into_memory(self) -> FecSet {
        self.set
    }

    fn bytes(&self, index: usize) -> &[u8] {
        match index.checked_sub(DATA_PER_SET) {
            None => &self.set.data[index],
            Some(position) => &self.set.code[position],
        }
    }

    /// A shred, if it is there.
    pub fn shred(&self, index: usize) -> Option<&[u8]> {
        (self.present >> index & 1 == 1).then(|| self.bytes(index))
    }

    /// Whether exactly this shred is there. The signature of who sent it on does not count.
    pub fn has(&self, shred: &Shred<'_>) -> bool {
        let end = shred.variant().proof().end;
        self.shred(shred.shard_index()).is_some_and(|bytes| bytes[..end] == shred.bytes()[..end])
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
        self.proofs.root()
    }

    /// What the root of the set before is.
    pub fn chained_root(&self) -> &Hash {
        &self.chained_root
    }

    /// Whether there are enough to recover the others, or all that count.
    pub fn is_enough(&self) -> bool {
        self.present.count_ones() as usize >= DATA_PER_SET
    }

    /// Whether a shred does not count: parity that is none of the data.
    pub fn is_in_vain(&self, shred: &Shred<'_>) -> bool {
        self.is_data_only && shred.variant().kind == ShredKind::Code
    }

    /// What the shred hashes to, if that leads to the set's root.
    pub fn proves(&mut self, shred: &Shred<'_>) -> Option<Hash> {
        let leaf = shred_leaf(shred.leaf_bytes());
        let is_proved = self.proofs.check(&leaf, shred.shard_index(), shred.proof());
        (is_proved || active(Mutation::ForeignShred)).then_some(leaf)
    }

    /// Whether the shred says of the set what the first one said.
    pub fn agrees(&self, shred: &Shred<'_>) -> bool {
        let is_of_set = self.chained_root == shred.chained_root() && self.signature == shred.signature();
        (is_of_set || active(Mutation::ForeignShred))
            && self.set.header.version == shred.version()
            && self.set.header.resigned == shred.variant().resigned
    }

    /// Keeps a shred that agrees, and its hash.
    pub fn keep(&mut self, shred: &Shred<'_>, leaf: &Hash) {
        let index = shred.shard_index();
        match index.checked_sub(DATA_PER_SET) {
            None => self.set.data[index].copy_from_slice(shred.bytes()),
            Some(position) => self.set.code[position].copy_from_slice(shred.bytes()),
        }
        self.leaves[index] = *leaf;
        self.present |= 1 << index;
    }

    /// Makes what can be made: all, or the data shreds alone where all of these are there and the parity is not what
    /// was signed.
    pub fn make(&mut self, code: &ReedSolomon) -> Made {
        let proof = self.set.header.variant(ShredKind::Data).proof();
        let mut proofs = Vec::with_capacity(DATA_PER_SET * proof.len());
        self.set.data.iter().for_each(|shred| proofs.extend_from_slice(&shred[proof.clone()]));
        if !self.is_data_only && self.recover(code).is_ok() {
            return Made::All;
        }
        // What came was each under the signed root by a proof of its own. The tree that was made has others.
        for (shred, came) in self.set.data.iter_mut().zip(proofs.chunks_exact(proof.len())) {
            shred[proof.clone()].copy_from_slice(came);
        }
        self.is_data_only = true;
        self.present &= DATA;
        self.set.set_tree(self.proofs.root(), &self.chained_root);
        if self.present == DATA && self.read_headers() { Made::Data } else { Made::Lacks }
    }

    /// Makes the shreds that are missing, and checks that all 64 hash to the root.
    pub fn recover(&mut self, code: &ReedSolomon) -> Result<(), DeshredError> {
        self.recover_data(code)?;
        let set = &mut self.set;
        set.write_code_headers();
        let root = *set.rehash(self.present, &mut self.leaves, &self.chained_root);
        set.sign(&self.signature);
        if let Some(signature) = &self.retransmitter_signature {
            set.set_retransmitter_signature(signature);
        }
        if root != *self.proofs.root() || !self.read_headers() {
            return Err(DeshredError::Recovered(self.set.header.set_index));
        }
        self.present = u64::MAX;
        Ok(())
    }

    /// The data shreds by the code; then all parity of these. Parity that is there comes out as it is: the data are
    /// made of it.
    fn recover_data(&mut self, code: &ReedSolomon) -> Result<(), DeshredError> {
        let set = &mut self.set;
        let of_data = set.header.variant(ShredKind::Data).erasure_shard();
        let of_code = set.header.variant(ShredKind::Code).erasure_shard();
        let data = set.data.iter_mut().map(|s| &mut s[of_data.clone()]);
        let parity = set.code.iter_mut().map(|s| &mut s[of_code.clone()]);
        let (mut present, mut missing) = (Vec::with_capacity(SHREDS_PER_SET), Vec::with_capacity(DATA_PER_SET));
        for (index, shard) in data.chain(parity).enumerate() {
            if self.present >> index & 1 == 1 {
                present.push((index, &*shard));
            } else if index < DATA_PER_SET {
                missing.push((index, shard));
            }
        }
        // More than are needed would have to agree among themselves: the first 32 are used, the rest is made anew.
        present.truncate(DATA_PER_SET);
        code.recover(&present, &mut missing)?;
        let data: &[&[u8]; FIXED_SHARDS] = &set.data.each_ref().map(|s| &s[of_data.clone()]);
        encode_32(data, &mut set.code.each_mut().map(|s| &mut s[of_code.clone()]));
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

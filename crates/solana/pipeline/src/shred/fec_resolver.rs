//! fec_resolver: collects the shreds of one FEC set and recovers the rest.
//!
//! reads   shreds of one set
//! writes  all 64 shreds, once any 32 are here; only the 32 data shreds if the leader signed parity that does not match
//!         them
//! memory  79 KiB for the shreds, 5 KiB for the known nodes of the Merkle tree
//! drops   parity that does not match the data; shreds that do not belong get a result of their own
//! source  `solana-ledger` 4.2, shred/merkle.rs `recover`
//!
//! Each leaf is hashed once: when its shred arrives or is recovered. A proof is verified only up to a node that an
//! earlier proof has reached.
//!
//! A leader can sign parity that does not match its data. Nodes of the cluster recover nothing if all data shreds of a
//! set arrive, so they execute such a set. This node must do the same, or it would be on its own fork.

use hearth_crypto::merkle::{ShredProofs, shred_leaf};
use hearth_crypto::reed_solomon::{FIXED_SHARDS, ReedSolomon, encode_32};
use hearth_mutation::{Mutation, active};
use hearth_wire::shred::*;
use hearth_wire::{Hash, Signature};

use super::error::DeshredError;
use super::set::{FecSet, SetHeader};

/// A partial FEC set.
#[derive(Clone, Debug)]
pub(super) struct Assembly {
    set: FecSet,
    /// Bit i: shred i is here.
    present: u64,
    /// Leaf hashes of the shreds that are here.
    leaves: Box<[Hash; SHREDS_PER_SET]>,
    proofs: Box<ShredProofs>,
    chained_root: Hash,
    signature: Signature,
    retransmitter_signature: Option<Signature>,
    /// The parity does not match the data: only data shreds count.
    is_data_only: bool,
}

/// Mask of the data shreds: bit i is data shred i.
const DATA: u64 = (1 << DATA_PER_SET) - 1;

/// The result of rebuilding a set from enough of its shreds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetYield {
    /// All 64 shreds, as the leader signed them.
    All,
    /// The 32 data shreds as received: the leader signed parity that does not match.
    Data,
    /// The parity here does not match the data, so the missing data shreds must arrive.
    Lacks,
}

/// Hashes a shred and reads its proof. The leader's signature of the root is not verified yet.
pub(super) fn claim(shred: &Shred<'_>) -> Option<(Hash, ShredProofs)> {
    let leaf = shred_leaf(shred.leaf_bytes());
    let proofs = ShredProofs::begin(&leaf, shred.shard_index(), shred.proof())?;
    Some((leaf, proofs))
}

impl Assembly {
    /// Starts a set with its first shred, reusing the memory of another set.
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

    /// Returns its memory, for another set.
    pub fn into_memory(self) -> FecSet {
        self.set
    }

    fn bytes(&self, index: usize) -> &[u8] {
        match index.checked_sub(DATA_PER_SET) {
            None => &self.set.data[index],
            Some(position) => &self.set.code[position],
        }
    }

    /// Returns a shred if it is here.
    pub fn shred(&self, index: usize) -> Option<&[u8]> {
        (self.present >> index & 1 == 1).then(|| self.bytes(index))
    }

    /// Whether exactly this shred is here, apart from the retransmitter's signature.
    pub fn has(&self, shred: &Shred<'_>) -> bool {
        let end = shred.variant().proof().end;
        self.shred(shred.shard_index()).is_some_and(|bytes| bytes[..end] == shred.bytes()[..end])
    }

    /// The set; whole once it is recovered.
    pub fn set(&self) -> &FecSet {
        &self.set
    }

    /// Bit i: shred i is here.
    pub fn present(&self) -> u64 {
        self.present
    }

    /// The Merkle root of the set.
    pub fn root(&self) -> &Hash {
        self.proofs.root()
    }

    /// The root of the previous set.
    pub fn chained_root(&self) -> &Hash {
        &self.chained_root
    }

    /// Whether the others can be recovered, or all shreds that count are here.
    pub fn is_enough(&self) -> bool {
        self.present.count_ones() as usize >= DATA_PER_SET
    }

    /// Whether a shred does not count because it is parity that does not match the data.
    pub fn is_in_vain(&self, shred: &Shred<'_>) -> bool {
        self.is_data_only && shred.variant().kind == ShredKind::Code
    }

    /// Returns the shred's leaf hash if its proof leads to the set's root.
    pub fn proves(&mut self, shred: &Shred<'_>) -> Option<Hash> {
        let leaf = shred_leaf(shred.leaf_bytes());
        let is_proved = self.proofs.check(&leaf, shred.shard_index(), shred.proof());
        (is_proved || active(Mutation::ForeignShred)).then_some(leaf)
    }

    /// Whether the shred's claims about the set equal those of the first shred.
    pub fn agrees(&self, shred: &Shred<'_>) -> bool {
        let is_of_set = self.chained_root == shred.chained_root() && self.signature == shred.signature();
        (is_of_set || active(Mutation::ForeignShred))
            && self.set.header.version == shred.version()
            && self.set.header.resigned == shred.variant().resigned
    }

    /// Stores a shred that agrees, and its leaf hash.
    pub fn keep(&mut self, shred: &Shred<'_>, leaf: &Hash) {
        let index = shred.shard_index();
        match index.checked_sub(DATA_PER_SET) {
            None => self.set.data[index].copy_from_slice(shred.bytes()),
            Some(position) => self.set.code[position].copy_from_slice(shred.bytes()),
        }
        self.leaves[index] = *leaf;
        self.present |= 1 << index;
    }

    /// Completes the set: all shreds, or only the data shreds if these are all here and the signed parity does not
    /// match.
    pub fn make(&mut self, code: &ReedSolomon) -> SetYield {
        let proof = self.set.header.variant(ShredKind::Data).proof();
        let mut proofs = Vec::with_capacity(DATA_PER_SET * proof.len());
        self.set.data.iter().for_each(|shred| proofs.extend_from_slice(&shred[proof.clone()]));
        if !self.is_data_only && self.recover(code).is_ok() {
            return SetYield::All;
        }
        // Each received shred has a proof of its own under the signed root. The recomputed tree has different ones.
        for (shred, came) in self.set.data.iter_mut().zip(proofs.chunks_exact(proof.len())) {
            shred[proof.clone()].copy_from_slice(came);
        }
        self.is_data_only = true;
        self.present &= DATA;
        self.set.set_tree(self.proofs.root(), &self.chained_root);
        if self.present == DATA && self.read_headers() { SetYield::Data } else { SetYield::Lacks }
    }

    /// Recovers the missing shreds, and verifies that all 64 hash to the root.
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

    /// Recovers the data shreds by the code, then recomputes all parity from them. Parity that is here stays the same,
    /// because the data derive from it.
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
        // Surplus shreds would have to be consistent: use the first 32 and recompute the rest.
        present.truncate(DATA_PER_SET);
        code.recover(&present, &mut missing)?;
        let data: &[&[u8]; FIXED_SHARDS] = &set.data.each_ref().map(|s| &s[of_data.clone()]);
        encode_32(data, &mut set.code.each_mut().map(|s| &mut s[of_code.clone()]));
        Ok(())
    }

    /// Completes the set's header from its last data shred. Returns `false` if a recovered data shred does not belong.
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

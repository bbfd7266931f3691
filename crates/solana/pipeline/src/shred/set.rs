//! set: one FEC set: 32 data shreds, their 32 parity shreds, and the Merkle tree over them.
//!
//! reads   entry bytes, the root of the previous set, a signature
//! writes  64 shreds
//! memory  77,792 B of shreds and 2,560 B of hash states, reused from set to set
//! drops   nothing
//! source  `solana-ledger` 4.2, shred/merkle.rs
//!
//! The work has three steps, so that little of it waits for other sets. [`FecSet::prepare`] needs only the entry bytes:
//! headers, parity, and the leaf hashes up to the chained root, which is four fifths of all hashing. [`FecSet::chain`]
//! needs the root of the previous set and computes this set's. [`FecSet::sign`] inserts the signature of the root,
//! whenever it arrives.

use hearth_crypto::merkle::{LEAF_PREFIX, SHRED_LEAVES, ShredTree};
use hearth_crypto::reed_solomon::{FIXED_SHARDS, encode_32};
use hearth_crypto::sha256::{BLOCK_SIZE, Sha256State, absorb_each, finish_each};
use hearth_ledger::blockstore::FecSetRecord;
use hearth_wire::shred::*;
use hearth_wire::{Hash, Signature};

/// Start of the message of a leaf hash: its prefix overlaps the end of the signature field, so that prefix and shred
/// are contiguous.
const LEAF_START: usize = SIGNATURE.end - LEAF_PREFIX.len();

/// Entry bytes that fit into a set.
pub const SET_CAPACITY: usize = set_capacity(false);

/// Entry bytes that fit into the last set of a slot.
pub const LAST_SET_CAPACITY: usize = set_capacity(true);

const fn set_capacity(resigned: bool) -> usize {
    DATA_PER_SET * Variant::of_full_set(ShredKind::Data, resigned).capacity()
}

const _: () = assert!(SET_CAPACITY == 30_816 && LAST_SET_CAPACITY == 28_768);
const _: () = assert!(FIXED_SHARDS == DATA_PER_SET && SHRED_LEAVES == SHREDS_PER_SET);

/// The header fields of a set's shreds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetHeader {
    /// The slot of the block.
    pub slot: u64,
    /// Distance in slots to the parent; at least one except in slot 0.
    pub parent_offset: u16,
    /// The cluster's shred version.
    pub version: u16,
    /// The index of the first data shred, a multiple of 32.
    pub set_index: u32,
    /// The tick within the slot at which the entries were recorded.
    pub reference_tick: u8,
    /// Whether the last data shred ends a batch of entries.
    pub ends_batch: bool,
    /// Whether the last data shred ends the slot.
    pub ends_slot: bool,
    /// Whether the shreds reserve room for a retransmitter's signature, as in the last set of a slot.
    pub resigned: bool,
}

impl SetHeader {
    /// Entry bytes that fit into the set.
    pub const fn capacity(&self) -> usize {
        set_capacity(self.resigned)
    }

    pub(super) const fn variant(&self, kind: ShredKind) -> Variant {
        Variant::of_full_set(kind, self.resigned)
    }

    const fn common(&self, kind: ShredKind, place: usize) -> CommonHeader {
        CommonHeader {
            variant: self.variant(kind),
            slot: self.slot,
            index: self.set_index + place as u32,
            version: self.version,
            set_index: self.set_index,
        }
    }
}

/// The 64 shreds of a set. Do not send them before the set is signed.
#[derive(Clone, Debug)]
pub struct FecSet {
    pub(super) header: SetHeader,
    chained_root: Hash,
    root: Hash,
    pub(super) data: Box<[[u8; DATA_SHRED_SIZE]; DATA_PER_SET]>,
    pub(super) code: Box<[[u8; CODE_SHRED_SIZE]; CODE_PER_SET]>,
    leaf_states: Box<[Sha256State; SHREDS_PER_SET]>,
}

impl Default for FecSet {
    fn default() -> Self {
        Self::new()
    }
}

impl FecSet {
    /// Bytes of a set in memory.
    pub const MEMORY: usize = size_of::<Self>()
        + DATA_PER_SET * DATA_SHRED_SIZE
        + CODE_PER_SET * CODE_SHRED_SIZE
        + SHREDS_PER_SET * size_of::<Sha256State>();

    /// Allocates the memory for a set.
    pub fn new() -> Self {
        Self {
            header: SetHeader::default(),
            chained_root: [0; 32],
            root: [0; 32],
            data: Box::new([[0; DATA_SHRED_SIZE]; DATA_PER_SET]),
            code: Box::new([[0; CODE_SHRED_SIZE]; CODE_PER_SET]),
            leaf_states: Box::new([Sha256State::new(); SHREDS_PER_SET]),
        }
    }

    /// Writes entry bytes into data shreds, padded with zeros, computes the parity, and hashes the leaves up to the
    /// chained root. Panics if the bytes exceed the set's capacity.
    pub fn prepare(&mut self, header: SetHeader, entry_bytes: &[u8]) {
        assert!(entry_bytes.len() <= header.capacity(), "more entry bytes than the set has room for");
        self.header = header;
        self.write_data(entry_bytes);
        self.write_code();
        self.hash_leaf_heads();
    }

    /// Rebuilds a set from its stored record, as its leader made it. Returns `None` if the shreds do not hash to the
    /// signed root: data shreds that are not filled consecutively, as ours and Agave's are, cannot be rebuilt.
    pub fn of_record(record: &FecSetRecord<'_>, version: u16) -> Option<Self> {
        let parent_offset = u16::try_from(record.slot.checked_sub(record.parent_slot)?).ok()?;
        let mut set = Self::new();
        // An old record does not say whether its last shred ends a batch.
        let likely = record.ends_batch.unwrap_or(true);
        [likely, !likely].into_iter().find_map(|ends_batch| {
            let header = SetHeader {
                slot: record.slot,
                parent_offset,
                version,
                set_index: record.fec_set_index,
                reference_tick: record.reference_tick,
                ends_batch: ends_batch || record.last_in_slot,
                ends_slot: record.last_in_slot,
                resigned: record.last_in_slot,
            };
            if record.data.len() > header.capacity() {
                return None;
            }
            set.prepare(header, record.data);
            (*set.chain(&record.chained_root) == record.merkle_root).then_some(())
        })?;
        set.sign(&record.signature);
        Some(set)
    }

    fn write_data(&mut self, entry_bytes: &[u8]) {
        let header = self.header;
        let variant = header.variant(ShredKind::Data);
        let capacity = variant.capacity();
        for (place, shred) in self.data.iter_mut().enumerate() {
            let from = (place * capacity).min(entry_bytes.len());
            let chunk = &entry_bytes[from..(from + capacity).min(entry_bytes.len())];
            let last = place == DATA_PER_SET - 1;
            let ends = (last && header.ends_batch, last && header.ends_slot);
            shred[LEAF_START..SIGNATURE.end].copy_from_slice(LEAF_PREFIX);
            DataHeader {
                common: header.common(ShredKind::Data, place),
                parent_offset: header.parent_offset,
                flags: flags_for(header.reference_tick, ends.0, ends.1),
                entry_bytes: chunk.len() as u16,
            }
            .write(shred);
            let end = DATA_HEADER_SIZE + chunk.len();
            shred[DATA_HEADER_SIZE..end].copy_from_slice(chunk);
            shred[end..variant.chained_root().start].fill(0);
            if let Some(place) = variant.retransmitter_signature() {
                shred[place].fill(0);
            }
        }
    }

    fn write_code(&mut self) {
        self.write_code_headers();
        let of_data = self.header.variant(ShredKind::Data).erasure_shard();
        let of_code = self.header.variant(ShredKind::Code).erasure_shard();
        let data = self.data.each_ref().map(|s| &s[of_data.clone()]);
        let mut parity = self.code.each_mut().map(|s| &mut s[of_code.clone()]);
        encode_32(&data, &mut parity);
    }

    /// Writes all fields of the parity shreds except parity, Merkle proof and signature.
    pub(super) fn write_code_headers(&mut self) {
        let retransmitter_signature = self.header.variant(ShredKind::Code).retransmitter_signature();
        for (place, shred) in self.code.iter_mut().enumerate() {
            shred[LEAF_START..SIGNATURE.end].copy_from_slice(LEAF_PREFIX);
            CodeHeader {
                common: self.header.common(ShredKind::Code, place),
                data_count: DATA_PER_SET as u16,
                code_count: CODE_PER_SET as u16,
                position: place as u16,
            }
            .write(shred);
            if let Some(place) = &retransmitter_signature {
                shred[place.clone()].fill(0);
            }
        }
    }

    /// Hashes the recovered leaves, which are those not in `present`, builds the tree over all leaves, and returns its
    /// root.
    pub(super) fn rehash(&mut self, present: u64, leaves: &mut [Hash; SHREDS_PER_SET], chained_root: &Hash) -> &Hash {
        let header = self.header;
        for (kind, first) in [(ShredKind::Data, 0), (ShredKind::Code, DATA_PER_SET)] {
            let variant = header.variant(kind);
            let (mut messages, mut places) = ([&[][..]; DATA_PER_SET], [0; DATA_PER_SET]);
            let mut count = 0;
            for place in 0..DATA_PER_SET {
                let shred = match kind {
                    ShredKind::Data => &mut self.data[place][..],
                    ShredKind::Code => &mut self.code[place][..],
                };
                shred[variant.chained_root()].copy_from_slice(chained_root);
                shred[LEAF_START..SIGNATURE.end].copy_from_slice(LEAF_PREFIX);
            }
            for place in (0..DATA_PER_SET).filter(|place| present >> (first + place) & 1 == 0) {
                let shred = match kind {
                    ShredKind::Data => &self.data[place][..],
                    ShredKind::Code => &self.code[place][..],
                };
                (messages[count], places[count]) = (&shred[LEAF_START..variant.proof_offset()], first + place);
                count += 1;
            }
            let (mut states, mut digests) = ([Sha256State::new(); DATA_PER_SET], [[0; 32]; DATA_PER_SET]);
            finish_each(&mut states[..count], &messages[..count], &mut digests[..count]);
            places[..count].iter().zip(&digests).for_each(|(place, digest)| leaves[*place] = *digest);
        }
        self.finish_tree(leaves, chained_root)
    }

    /// Hashes the whole blocks of the leaves' messages before the chained root.
    fn hash_leaf_heads(&mut self) {
        let head = |variant: Variant| LEAF_START..LEAF_START + head_len(variant);
        let (of_data, of_code) =
            (head(self.header.variant(ShredKind::Data)), head(self.header.variant(ShredKind::Code)));
        self.leaf_states.fill(Sha256State::new());
        let (data_states, code_states) = self.leaf_states.split_at_mut(DATA_PER_SET);
        absorb_each(data_states, &self.data.each_ref().map(|s| &s[of_data.clone()]));
        absorb_each(code_states, &self.code.each_ref().map(|s| &s[of_code.clone()]));
    }

    /// Chains the prepared set to the root of the previous one (for a slot's first set: the last root of the parent
    /// block), and returns this set's root, which must be signed.
    pub fn chain(&mut self, chained_root: &Hash) -> &Hash {
        let (of_data, of_code) = (self.header.variant(ShredKind::Data), self.header.variant(ShredKind::Code));
        for shred in self.data.iter_mut() {
            shred[of_data.chained_root()].copy_from_slice(chained_root);
        }
        for shred in self.code.iter_mut() {
            shred[of_code.chained_root()].copy_from_slice(chained_root);
        }
        let rest = |variant: Variant| LEAF_START + head_len(variant)..variant.proof_offset();
        let mut leaves = [[0; 32]; SHREDS_PER_SET];
        let (data_leaves, code_leaves) = leaves.split_at_mut(DATA_PER_SET);
        let (data_states, code_states) = self.leaf_states.split_at_mut(DATA_PER_SET);
        finish_each(data_states, &self.data.each_ref().map(|s| &s[rest(of_data)]), data_leaves);
        finish_each(code_states, &self.code.each_ref().map(|s| &s[rest(of_code)]), code_leaves);
        self.finish_tree(&leaves, chained_root)
    }

    /// Writes the proofs of the tree over these leaves; returns its root.
    fn finish_tree(&mut self, leaves: &[Hash; SHREDS_PER_SET], chained_root: &Hash) -> &Hash {
        let (of_data, of_code) = (self.header.variant(ShredKind::Data), self.header.variant(ShredKind::Code));
        let tree = ShredTree::new(leaves);
        for (place, shred) in self.data.iter_mut().enumerate() {
            shred[of_data.proof()].copy_from_slice(&tree.proof(place));
        }
        for (place, shred) in self.code.iter_mut().enumerate() {
            shred[of_code.proof()].copy_from_slice(&tree.proof(DATA_PER_SET + place));
        }
        (self.chained_root, self.root) = (*chained_root, *tree.root());
        &self.root
    }

    /// Sets the roots that the leader signed, for a set whose shreds here do not hash to that tree.
    pub(super) fn set_tree(&mut self, root: &Hash, chained_root: &Hash) {
        (self.root, self.chained_root) = (*root, *chained_root);
    }

    /// Writes the leader's signature of the root into every shred. After this the set may be sent.
    pub fn sign(&mut self, signature: &Signature) {
        for shred in self.data.iter_mut() {
            shred[SIGNATURE].copy_from_slice(signature);
        }
        for shred in self.code.iter_mut() {
            shred[SIGNATURE].copy_from_slice(signature);
        }
    }

    /// Writes a retransmitter's signature into every shred, if they have room for one.
    pub(super) fn set_retransmitter_signature(&mut self, signature: &Signature) {
        if let Some(place) = self.header.variant(ShredKind::Data).retransmitter_signature() {
            self.data.iter_mut().for_each(|s| s[place.clone()].copy_from_slice(signature));
        }
        if let Some(place) = self.header.variant(ShredKind::Code).retransmitter_signature() {
            self.code.iter_mut().for_each(|s| s[place.clone()].copy_from_slice(signature));
        }
    }

    /// The header fields of the shreds.
    pub fn header(&self) -> &SetHeader {
        &self.header
    }

    /// The Merkle root; all zeros before [`chain`](Self::chain).
    pub fn root(&self) -> &Hash {
        &self.root
    }

    /// The root to which the set is chained.
    pub fn chained_root(&self) -> &Hash {
        &self.chained_root
    }

    /// All shreds, data first, each in the order of its index.
    pub fn shreds(&self) -> impl Iterator<Item = &[u8]> {
        self.data.iter().map(|s| &s[..]).chain(self.code.iter().map(|s| &s[..]))
    }

    /// How many entry bytes the set carries.
    pub fn entry_len(&self) -> usize {
        self.entry_chunks().map(<[u8]>::len).sum()
    }

    /// The entry bytes, in the chunks that the data shreds carry.
    pub fn entry_chunks(&self) -> impl Iterator<Item = &[u8]> {
        let room = DATA_HEADER_SIZE..=DATA_HEADER_SIZE + self.header.variant(ShredKind::Data).capacity();
        self.data.iter().map(move |shred| {
            let size = usize::from(u16::from_le_bytes([shred[SIZE], shred[SIZE + 1]]));
            &shred[DATA_HEADER_SIZE..size.clamp(*room.start(), *room.end())]
        })
    }
}

/// Bytes of a leaf's message that do not depend on the chained root, cut to whole blocks.
const fn head_len(variant: Variant) -> usize {
    let independent = variant.chained_root().start - LEAF_START;
    independent - independent % BLOCK_SIZE
}

//! The strict parser of shreds.
//!
//! reads   the bytes of one shred, no more and no fewer
//! memory  a [`Shred`] borrows
//! drops   bytes that break a rule: the first one broken, and where
//! source  `solana-ledger` 4.2: `sanitize` of both kinds; the fixed sets of shred/filter.rs

use super::layout::*;
use crate::consts::{Hash, Signature};

/// Why bytes are not a shred, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {offset})")]
pub struct ShredError {
    /// The rule that is violated.
    pub kind: ShredErrorKind,
    /// Offset of the offending field.
    pub offset: u16,
}

/// A rule of the shred format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ShredErrorKind {
    /// Fewer bytes than the variant byte needs, or not the length of its kind.
    #[error("not the length of a shred")]
    Length,
    /// The variant byte is not a current variant.
    #[error("unknown variant")]
    Variant,
    /// A parent at or after the slot itself (but for slot 0), or before slot 0.
    #[error("parent offset out of range")]
    ParentOffset,
    /// Last in the slot, but not the end of a batch.
    #[error("contradictory flags")]
    Flags,
    /// A size less than the headers or more than the shred has room for.
    #[error("size out of range")]
    Size,
    /// An index below that of its set, or below its position, or beyond what a proof can reach.
    #[error("index out of range")]
    Index,
    /// No data or no parity shreds, or more than the code knows.
    #[error("counts out of range")]
    Counts,
    /// A position at or above the count of parity shreds.
    #[error("position out of range")]
    Position,
    /// A set that is not 32 + 32, or does not begin at a multiple of 32.
    #[error("not a set of 32 + 32")]
    Set,
    /// A batch or slot that ends before the last data shred of a set.
    #[error("ends before the end of its set")]
    EarlyEnd,
}

/// The fields of a data shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataFields {
    /// Slots back to the parent.
    pub parent_offset: u16,
    /// See [`FLAG_TICK_MASK`], [`FLAG_DATA_COMPLETE`], [`FLAGS_LAST_IN_SLOT`].
    pub flags: u8,
    /// Size of headers and entries in bytes.
    pub size: u16,
}

/// The fields of a parity shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFields {
    /// Data shreds in the set.
    pub data_count: u16,
    /// Parity shreds in the set.
    pub code_count: u16,
    /// Index of this one among the parity shreds.
    pub position: u16,
}

/// The fields of one kind of shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// The fields of a data shred.
    Data(DataFields),
    /// The fields of a parity shred.
    Code(CodeFields),
}

/// One shred: a view of its bytes, of the right length, in which every field is in range.
#[derive(Clone, Copy, Debug)]
pub struct Shred<'a> {
    bytes: &'a [u8],
    variant: Variant,
    fields: Fields,
}

fn fail<T>(kind: ShredErrorKind, offset: usize) -> Result<T, ShredError> {
    Err(ShredError { kind, offset: u16::try_from(offset).unwrap_or(u16::MAX) })
}

/// The `N` bytes at `offset`, which the caller knows to be there.
fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[offset..offset + N]);
    out
}

fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes(array(bytes, offset))
}

impl<'a> Shred<'a> {
    /// Parses exactly one shred. Proof and signature are not verified.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ShredError> {
        let Some(&byte) = bytes.get(VARIANT) else {
            return fail(ShredErrorKind::Length, bytes.len());
        };
        let Some(variant) = Variant::from_byte(byte) else {
            return fail(ShredErrorKind::Variant, VARIANT);
        };
        if bytes.len() != variant.kind.size() {
            return fail(ShredErrorKind::Length, bytes.len().min(variant.kind.size()));
        }
        let fields = match variant.kind {
            ShredKind::Data => Fields::Data(parse_data(bytes, variant)?),
            ShredKind::Code => Fields::Code(parse_code(bytes)?),
        };
        let shred = Self { bytes, variant, fields };
        let in_proof = shred.leaf_index().is_some_and(|i| i >> variant.proof_nodes == 0);
        if !in_proof || shred.index().checked_sub(shred.position()).is_none() {
            return fail(ShredErrorKind::Index, INDEX);
        }
        Ok(shred)
    }

    /// Checks the cluster's additional rules: sets of 32 + 32 at multiples of 32, ends of batches and slots only at the
    /// end of a set, indices below `shreds_per_slot_max` (see [`SHREDS_PER_SLOT_MAX`]).
    pub fn check_set(&self, shreds_per_slot_max: u32) -> Result<(), ShredError> {
        let (index, set_index) = (self.index(), self.set_index());
        let place = index.checked_sub(set_index).filter(|&p| (p as usize) < DATA_PER_SET);
        let Some(place) = place.filter(|_| index < shreds_per_slot_max) else {
            return fail(ShredErrorKind::Index, INDEX);
        };
        if !(set_index as usize).is_multiple_of(DATA_PER_SET) || self.variant.proof_nodes != PROOF_NODES {
            return fail(ShredErrorKind::Set, SET_INDEX);
        }
        match self.fields {
            Fields::Data(data) => {
                let ends = data.flags & FLAG_DATA_COMPLETE != 0;
                if ends && place as usize != DATA_PER_SET - 1 {
                    return fail(ShredErrorKind::EarlyEnd, FLAGS);
                }
            }
            Fields::Code(code) => {
                let counts = (usize::from(code.data_count), usize::from(code.code_count));
                if counts != (DATA_PER_SET, CODE_PER_SET) {
                    return fail(ShredErrorKind::Set, DATA_COUNT);
                }
                if u32::from(code.position) != place {
                    return fail(ShredErrorKind::Position, POSITION);
                }
            }
        }
        Ok(())
    }

    /// All bytes of the shred, those of a retransmitter's signature included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Kind, room for a retransmitter's signature, length of the proof.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The fields of its kind.
    pub fn fields(&self) -> Fields {
        self.fields
    }

    /// The leader's signature over the Merkle root.
    pub fn signature(&self) -> Signature {
        array(self.bytes, SIGNATURE.start)
    }

    /// The slot of the block.
    pub fn slot(&self) -> u64 {
        u64::from_le_bytes(array(self.bytes, SLOT))
    }

    /// The index among the slot's shreds of its kind.
    pub fn index(&self) -> u32 {
        u32::from_le_bytes(array(self.bytes, INDEX))
    }

    /// The cluster's shred version.
    pub fn version(&self) -> u16 {
        u16_at(self.bytes, VERSION)
    }

    /// The index of the first data shred of the set.
    pub fn set_index(&self) -> u32 {
        u32::from_le_bytes(array(self.bytes, SET_INDEX))
    }

    /// Its leaf in the set's Merkle tree, which is also its shard in the erasure code: data first. `None` if a data
    /// shred's index is below its set's.
    fn leaf_index(&self) -> Option<usize> {
        match self.fields {
            Fields::Data(_) => self.index().checked_sub(self.set_index()).map(|i| i as usize),
            Fields::Code(code) => Some(usize::from(code.data_count) + usize::from(code.position)),
        }
    }

    /// Its index among the set's shreds, data first, which is its leaf in the tree and its shard in the code.
    pub fn shard_index(&self) -> usize {
        self.leaf_index().expect("checked by parse")
    }

    fn position(&self) -> u32 {
        match self.fields {
            Fields::Data(_) => 0,
            Fields::Code(code) => u32::from(code.position),
        }
    }

    /// The slot of the parent block; `None` of a parity shred.
    pub fn parent_slot(&self) -> Option<u64> {
        match self.fields {
            Fields::Data(data) => Some(self.slot() - u64::from(data.parent_offset)),
            Fields::Code(_) => None,
        }
    }

    /// The entry bytes of a data shred; `None` of a parity shred.
    pub fn entry_bytes(&self) -> Option<&'a [u8]> {
        match self.fields {
            Fields::Data(data) => Some(&self.bytes[DATA_HEADER_SIZE..usize::from(data.size)]),
            Fields::Code(_) => None,
        }
    }

    /// Whether it is the last data shred of a batch of entries.
    pub fn ends_batch(&self) -> bool {
        matches!(self.fields, Fields::Data(data) if data.flags & FLAG_DATA_COMPLETE != 0)
    }

    /// Whether it is the last data shred of its slot.
    pub fn ends_slot(&self) -> bool {
        matches!(self.fields, Fields::Data(data) if data.flags & FLAGS_LAST_IN_SLOT == FLAGS_LAST_IN_SLOT)
    }

    /// The bytes that the leaf's hash covers.
    pub fn leaf_bytes(&self) -> &'a [u8] {
        &self.bytes[VARIANT..self.variant.proof_offset()]
    }

    /// The bytes that the erasure code covers.
    pub fn erasure_shard(&self) -> &'a [u8] {
        &self.bytes[self.variant.erasure_shard()]
    }

    /// The nodes of the Merkle proof.
    pub fn proof(&self) -> &'a [u8] {
        &self.bytes[self.variant.proof()]
    }

    /// The root of the previous set, or of the parent block's last set.
    pub fn chained_root(&self) -> Hash {
        array(self.bytes, self.variant.chained_root().start)
    }

    /// The retransmitter's signature; `None` if there is no room for one.
    pub fn retransmitter_signature(&self) -> Option<Signature> {
        self.variant.retransmitter_signature().map(|range| array(self.bytes, range.start))
    }
}

/// The fields of a data shred whose bytes have the right length.
fn parse_data(bytes: &[u8], variant: Variant) -> Result<DataFields, ShredError> {
    let slot = u64::from_le_bytes(array(bytes, SLOT));
    let data =
        DataFields { parent_offset: u16_at(bytes, PARENT_OFFSET), flags: bytes[FLAGS], size: u16_at(bytes, SIZE) };
    if u64::from(data.parent_offset) > slot || (data.parent_offset == 0 && slot != 0) {
        return fail(ShredErrorKind::ParentOffset, PARENT_OFFSET);
    }
    if data.flags & !FLAG_TICK_MASK == FLAGS_LAST_IN_SLOT & !FLAG_DATA_COMPLETE {
        return fail(ShredErrorKind::Flags, FLAGS);
    }
    let sizes = DATA_HEADER_SIZE..=DATA_HEADER_SIZE + variant.capacity();
    if !sizes.contains(&usize::from(data.size)) {
        return fail(ShredErrorKind::Size, SIZE);
    }
    Ok(data)
}

/// The fields of a parity shred whose bytes have the right length.
fn parse_code(bytes: &[u8]) -> Result<CodeFields, ShredError> {
    let code = CodeFields {
        data_count: u16_at(bytes, DATA_COUNT),
        code_count: u16_at(bytes, CODE_COUNT),
        position: u16_at(bytes, POSITION),
    };
    // The code's field has 256 elements, one for each shred.
    let sum = u32::from(code.data_count) + u32::from(code.code_count);
    if code.data_count == 0 || code.code_count == 0 || sum > 256 {
        return fail(ShredErrorKind::Counts, DATA_COUNT);
    }
    if code.position >= code.code_count {
        return fail(ShredErrorKind::Position, POSITION);
    }
    Ok(code)
}

#[cfg(test)]
mod tests;

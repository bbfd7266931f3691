//! The offsets and sizes of a shred's parts.
//!
//! reads   a variant byte
//! source  `solana-ledger` 4.2, shred/merkle.rs; the sums are asserted below

use std::ops::Range;

/// Size of a data shred.
pub const DATA_SHRED_SIZE: usize = 1203;
/// Size of a parity shred: a packet without a repair nonce of four bytes.
pub const CODE_SHRED_SIZE: usize = crate::PACKET_DATA_SIZE - 4;
/// Size of the header that both kinds share.
pub const COMMON_HEADER_SIZE: usize = 64 + 1 + 8 + 4 + 2 + 4;
/// Size of a data shred's headers, before the entry bytes.
pub const DATA_HEADER_SIZE: usize = COMMON_HEADER_SIZE + 2 + 1 + 2;
/// Size of a parity shred's headers, before the parity.
pub const CODE_HEADER_SIZE: usize = COMMON_HEADER_SIZE + 2 + 2 + 2;

/// Data shreds in a set.
pub const DATA_PER_SET: usize = 32;
/// Parity shreds in a set.
pub const CODE_PER_SET: usize = 32;
/// Shreds in a set.
pub const SHREDS_PER_SET: usize = DATA_PER_SET + CODE_PER_SET;
/// Maximum data shreds, and parity shreds, of a slot on the cluster.
pub const SHREDS_PER_SLOT_MAX: u32 = 32_768;

/// Size of a proof's node.
pub const PROOF_NODE_SIZE: usize = 20;
/// Number of nodes in the proofs of a full set.
pub const PROOF_NODES: u8 = SHREDS_PER_SET.ilog2() as u8;

/// Offset of the leader's signature over the root.
pub const SIGNATURE: Range<usize> = 0..64;
/// Offset of the variant byte.
pub const VARIANT: usize = SIGNATURE.end;
/// Offset of the slot.
pub const SLOT: usize = VARIANT + 1;
/// Offset of the index.
pub const INDEX: usize = SLOT + 8;
/// Offset of the shred version.
pub const VERSION: usize = INDEX + 4;
/// Offset of the index of the set's first data shred.
pub const SET_INDEX: usize = VERSION + 2;
/// Offset of a data shred's distance to the parent slot.
pub const PARENT_OFFSET: usize = COMMON_HEADER_SIZE;
/// Offset of a data shred's flags.
pub const FLAGS: usize = PARENT_OFFSET + 2;
/// Offset of a data shred's size: of headers and entry bytes together.
pub const SIZE: usize = FLAGS + 1;
/// Offset of a parity shred's count of data shreds.
pub const DATA_COUNT: usize = COMMON_HEADER_SIZE;
/// Offset of a parity shred's count of parity shreds.
pub const CODE_COUNT: usize = DATA_COUNT + 2;
/// Offset of a parity shred's index among the parity shreds.
pub const POSITION: usize = CODE_COUNT + 2;

/// Flags: the tick within the slot, at most 63, at which the entries were taken.
pub const FLAG_TICK_MASK: u8 = 0x3f;
/// Flag: the last shred of a batch of entries.
pub const FLAG_DATA_COMPLETE: u8 = 0x40;
/// Flags: the last data shred of the slot, which also ends a batch.
pub const FLAGS_LAST_IN_SLOT: u8 = 0xc0;

/// Whether a shred carries entry bytes or parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShredKind {
    /// A part of the block's entries.
    Data,
    /// Parity, from which lost shreds of the FEC set are recovered.
    Code,
}

impl ShredKind {
    /// Bytes of a shred of this kind.
    pub const fn size(self) -> usize {
        match self {
            Self::Data => DATA_SHRED_SIZE,
            Self::Code => CODE_SHRED_SIZE,
        }
    }

    /// Size of its headers.
    pub const fn header_size(self) -> usize {
        match self {
            Self::Data => DATA_HEADER_SIZE,
            Self::Code => CODE_HEADER_SIZE,
        }
    }
}

/// The meaning of the variant byte. All current variants are chained to the root of the previous set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Whether the shred carries entry bytes or parity.
    pub kind: ShredKind,
    /// Whether there is room for a retransmitter's signature at the end.
    pub resigned: bool,
    /// Nodes in the proof, below 16.
    pub proof_nodes: u8,
}

impl Variant {
    /// The variant of a shred in a full set.
    pub const fn of_full_set(kind: ShredKind, resigned: bool) -> Self {
        Self { kind, resigned, proof_nodes: PROOF_NODES }
    }

    /// Decodes the byte; `None` if it is not a current variant.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        let (kind, resigned) = match byte >> 4 {
            0b0110 => (ShredKind::Code, false),
            0b0111 => (ShredKind::Code, true),
            0b1001 => (ShredKind::Data, false),
            0b1011 => (ShredKind::Data, true),
            _ => return None,
        };
        Some(Self { kind, resigned, proof_nodes: byte & 15 })
    }

    /// Encodes the byte. Panics if `proof_nodes` does not fit in four bits.
    pub const fn to_byte(self) -> u8 {
        assert!(self.proof_nodes < 16, "a proof has at most 15 nodes");
        let high = match (self.kind, self.resigned) {
            (ShredKind::Code, false) => 0b0110,
            (ShredKind::Code, true) => 0b0111,
            (ShredKind::Data, false) => 0b1001,
            (ShredKind::Data, true) => 0b1011,
        };
        high << 4 | self.proof_nodes
    }

    /// Offset of the proof, which is also the end of the bytes that a leaf's hash covers.
    pub const fn proof_offset(self) -> usize {
        let proof = self.proof_nodes as usize * PROOF_NODE_SIZE;
        self.kind.size() - proof - if self.resigned { 64 } else { 0 }
    }

    /// Range of the proof.
    pub const fn proof(self) -> Range<usize> {
        let start = self.proof_offset();
        start..start + self.proof_nodes as usize * PROOF_NODE_SIZE
    }

    /// Range of the previous set's root.
    pub const fn chained_root(self) -> Range<usize> {
        self.proof_offset() - 32..self.proof_offset()
    }

    /// Range of the retransmitter's signature; `None` if there is no room for one.
    pub const fn retransmitter_signature(self) -> Option<Range<usize>> {
        if self.resigned { Some(self.kind.size() - 64..self.kind.size()) } else { None }
    }

    /// Maximum bytes of entries, or of parity, in the shred.
    pub const fn capacity(self) -> usize {
        self.chained_root().start - self.kind.header_size()
    }

    /// The bytes that the erasure code covers: everything but the signature of a data shred, the parity of a parity
    /// shred.
    pub const fn erasure_shard(self) -> Range<usize> {
        let start = match self.kind {
            ShredKind::Data => VARIANT,
            ShredKind::Code => CODE_HEADER_SIZE,
        };
        start..self.chained_root().start
    }
}

const _: () = {
    assert!(COMMON_HEADER_SIZE == 83 && DATA_HEADER_SIZE == 88 && CODE_HEADER_SIZE == 89);
    assert!(CODE_SHRED_SIZE == 1228 && POSITION + 2 == CODE_HEADER_SIZE && SIZE + 2 == DATA_HEADER_SIZE);
    assert!(PROOF_NODES == 6);
    let (data, code) = (Variant::of_full_set(ShredKind::Data, false), Variant::of_full_set(ShredKind::Code, false));
    assert!(data.capacity() == 963 && code.capacity() == 987);
    assert!(data.erasure_shard().end - data.erasure_shard().start == 987);
    let (data, code) = (Variant::of_full_set(ShredKind::Data, true), Variant::of_full_set(ShredKind::Code, true));
    assert!(data.capacity() == 899 && code.capacity() == 923);
    assert!(data.erasure_shard().end - data.erasure_shard().start == 923);
    // The longest proof still leaves room, so no offset of any variant underflows.
    let longest = Variant { kind: ShredKind::Data, resigned: true, proof_nodes: 15 };
    assert!(longest.capacity() > 0);
};

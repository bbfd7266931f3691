//! Writes the headers of shreds.
//!
//! reads   the fields
//! writes  the front of the caller's buffer
//! drops   nothing; a buffer that is too short is a caller's bug (panic)
//! source  the layout of this module's parent

use super::layout::*;

/// The fields that both kinds share. The signature is written later, when the root is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// Kind, room for a retransmitter's signature, length of the proof.
    pub variant: Variant,
    /// The slot of the block.
    pub slot: u64,
    /// The index among the slot's shreds of this kind.
    pub index: u32,
    /// The cluster's shred version.
    pub version: u16,
    /// The index of the first data shred of the set.
    pub set_index: u32,
}

/// The headers of a data shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The fields that both kinds share.
    pub common: CommonHeader,
    /// Slots back to the parent; at least one except in slot 0.
    pub parent_offset: u16,
    /// Reference tick, and whether the shred ends a batch or the slot; made by [`flags_for`].
    pub flags: u8,
    /// Number of entry bytes that follow.
    pub entry_bytes: u16,
}

/// The headers of a parity shred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeHeader {
    /// The fields that both kinds share.
    pub common: CommonHeader,
    /// Data shreds in the set.
    pub data_count: u16,
    /// Parity shreds in the set.
    pub code_count: u16,
    /// Index among the set's parity shreds.
    pub position: u16,
}

/// The flags of a data shred: the tick, which saturates at 63, and whether it ends a batch or the slot.
pub const fn flags_for(reference_tick: u8, ends_batch: bool, ends_slot: bool) -> u8 {
    let tick = if reference_tick < FLAG_TICK_MASK { reference_tick } else { FLAG_TICK_MASK };
    match (ends_batch, ends_slot) {
        (_, true) => tick | FLAGS_LAST_IN_SLOT,
        (true, false) => tick | FLAG_DATA_COMPLETE,
        (false, false) => tick,
    }
}

impl CommonHeader {
    /// Writes all but the signature, which is left as it is.
    fn write(&self, to: &mut [u8]) {
        to[VARIANT] = self.variant.to_byte();
        to[SLOT..SLOT + 8].copy_from_slice(&self.slot.to_le_bytes());
        to[INDEX..INDEX + 4].copy_from_slice(&self.index.to_le_bytes());
        to[VERSION..VERSION + 2].copy_from_slice(&self.version.to_le_bytes());
        to[SET_INDEX..SET_INDEX + 4].copy_from_slice(&self.set_index.to_le_bytes());
    }
}

impl DataHeader {
    /// Writes all but the signature to the front of `to`, which holds at least the headers.
    pub fn write(&self, to: &mut [u8]) {
        let size = DATA_HEADER_SIZE as u16 + self.entry_bytes;
        self.common.write(to);
        to[PARENT_OFFSET..PARENT_OFFSET + 2].copy_from_slice(&self.parent_offset.to_le_bytes());
        to[FLAGS] = self.flags;
        to[SIZE..SIZE + 2].copy_from_slice(&size.to_le_bytes());
    }
}

impl CodeHeader {
    /// Writes all but the signature to the front of `to`, which holds at least the headers.
    pub fn write(&self, to: &mut [u8]) {
        self.common.write(to);
        to[DATA_COUNT..DATA_COUNT + 2].copy_from_slice(&self.data_count.to_le_bytes());
        to[CODE_COUNT..CODE_COUNT + 2].copy_from_slice(&self.code_count.to_le_bytes());
        to[POSITION..POSITION + 2].copy_from_slice(&self.position.to_le_bytes());
    }
}

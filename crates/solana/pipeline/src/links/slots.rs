//! slots: messages about slots and their contents: leader slots, entries, FEC sets.
//!
//! reads   messages
//! writes  messages
//! memory  the link's

use hearth_ledger::blockstore::FecSetRecord;

use super::codec::{Reader, writer};

macro_rules! words {
    ($(#[doc = $doc:literal])* pub struct $name:ident { $($(#[doc = $help:literal])+ pub $field:ident: u64,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $help])+ pub $field: u64,)* }

        impl $name {
            /// Size of the message, bytes.
            pub const SIZE: usize = 8 * [$(stringify!($field)),*].len();

            /// Encodes the fields in order, little-endian.
            pub fn encode(&self) -> [u8; Self::SIZE] {
                let mut bytes = [0; Self::SIZE];
                writer(&mut bytes)$(.u64(self.$field))*;
                bytes
            }

            /// Reads a message that `encode` made.
            pub fn read(payload: &[u8]) -> Self {
                let mut r = Reader(payload);
                Self { $($field: r.u64()),* }
            }
        }
    };
}

/// A leader slot starts (control [`SLOT_BEGINS`]) or has ended (control [`SLOT_ENDED`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderSlot {
    /// The leader slot's number.
    pub slot: u64,
    /// Start of the slot, on the host's clock, in nanoseconds.
    pub start_ns: u64,
    /// When pack must be done, on the host's clock, in nanoseconds.
    pub end_ns: u64,
    /// How many microblocks poh can still mix in.
    pub max_microblocks: u64,
    /// The newest blockhash: at the start that of the parent block, at the end the slot's own.
    pub blockhash: [u8; 32],
}

impl LeaderSlot {
    /// Size of the message, bytes.
    pub const SIZE: usize = 4 * 8 + 32;

    /// Encodes the fields in order, little-endian.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let w = &mut writer(&mut bytes);
        w.u64(self.slot).u64(self.start_ns).u64(self.end_ns).u64(self.max_microblocks).put(&self.blockhash);
        bytes
    }

    /// Reads a message that [`Self::encode`] made.
    pub fn read(payload: &[u8]) -> Self {
        let mut r = Reader(payload);
        Self { slot: r.u64(), start_ns: r.u64(), end_ns: r.u64(), max_microblocks: r.u64(), blockhash: *r.bytes() }
    }
}

/// Control of a [`LeaderSlot`]: it starts.
pub const SLOT_BEGINS: u16 = 0;
/// Control of a [`LeaderSlot`]: its last entry has been sent.
pub const SLOT_ENDED: u16 = 1;

/// Control of a frag from poh to shred without an entry: the slot's (its tag's) first set is chained to this root.
pub const CHAINS_TO: u16 = 1;

/// Control of a [`DonePacking`]: other senders' transactions came for the slot, or are still waiting.
pub const HAD_WORK: u16 = 1;
/// Control of a frag without payload from pack to poh: there is something to pack, and no slot. Together with
/// [`HAD_WORK`] in a [`DonePacking`]: something is left for the next slot.
pub const WORK_WAITS: u16 = 2;

words! {
    /// Pack schedules no more in this slot.
    pub struct DonePacking {
        /// The packed slot's number.
        pub slot: u64,
        /// How many microblocks it has; poh waits for each.
        pub microblocks: u64,
    }
}

/// An entry from poh: a tick, or a microblock with its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PohEntry<'a> {
    /// The slot that contains the entry.
    pub slot: u64,
    /// The slot of its parent.
    pub parent_slot: u64,
    /// Completed ticks of the slot, this entry included: 0 before the first tick.
    pub tick: u8,
    /// Whether this is the slot's last entry.
    pub last: bool,
    /// The entry as in a block: num_hashes, hash, transaction count, transactions.
    pub entry: &'a [u8],
}

impl<'a> PohEntry<'a> {
    /// Bytes before the entry.
    pub const HEADER: usize = 8 + 8 + 1 + 1;
    /// Bytes of the entry before its transactions.
    pub const ENTRY_HEADER: usize = 8 + 32 + 8;

    /// Writes the message for an entry given in parts; returns its size.
    pub fn write(
        buffer: &mut [u8],
        at: &PohEntryAt,
        num_hashes: u64,
        hash: &[u8; 32],
        txn_count: u64,
        txns: &[u8],
    ) -> usize {
        writer(buffer)
            .u64(at.slot)
            .u64(at.parent_slot)
            .u8(at.tick)
            .u8(u8::from(at.last))
            .u64(num_hashes)
            .put(hash)
            .u64(txn_count)
            .put(txns)
            .at
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (slot, parent_slot, tick, last) = (r.u64(), r.u64(), r.u8(), r.u8() != 0);
        Self { slot, parent_slot, tick, last, entry: r.0 }
    }

    /// How many transactions it has, by its own count.
    pub fn transaction_count(&self) -> u64 {
        let count = self.entry.get(Self::ENTRY_HEADER - 8..).and_then(|rest| rest.first_chunk());
        count.map_or(0, |count| u64::from_le_bytes(*count))
    }
}

/// The position of an entry; see the fields of [`PohEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PohEntryAt {
    /// The slot that contains the entry.
    pub slot: u64,
    /// The slot of its parent.
    pub parent_slot: u64,
    /// Completed ticks of the slot.
    pub tick: u8,
    /// Whether this is the slot's last entry.
    pub last: bool,
}

/// Bytes of an FEC set's message before its data.
pub const SET_HEADER: usize = 8 + 8 + 4 + 1 + 1 + 1 + 32 + 32 + 64;

/// In place of whether a set ends a batch: that is not known.
const BATCH_UNKNOWN: u8 = 2;

/// Writes the message for a signed FEC set; returns its size.
pub fn write_set(set: &FecSetRecord<'_>, buffer: &mut [u8]) -> usize {
    writer(buffer)
        .u64(set.slot)
        .u64(set.parent_slot)
        .u32(set.fec_set_index)
        .u8(set.reference_tick)
        .u8(u8::from(set.last_in_slot))
        .u8(set.ends_batch.map_or(BATCH_UNKNOWN, u8::from))
        .put(&set.merkle_root)
        .put(&set.chained_root)
        .put(&set.signature)
        .put(set.data)
        .at
}

/// Reads the message of an FEC set.
pub fn read_set(payload: &[u8]) -> FecSetRecord<'_> {
    let mut r = Reader(payload);
    FecSetRecord {
        slot: r.u64(),
        parent_slot: r.u64(),
        fec_set_index: r.u32(),
        reference_tick: r.u8(),
        last_in_slot: r.u8() != 0,
        ends_batch: match r.u8() {
            BATCH_UNKNOWN => None,
            ends => Some(ends != 0),
        },
        merkle_root: *r.bytes(),
        chained_root: *r.bytes(),
        signature: *r.bytes(),
        data: r.0,
    }
}

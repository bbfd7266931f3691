//! microblocks: microblocks on their way to a bank, from it to poh, and their completions back to pack.
//!
//! reads   messages
//! writes  messages
//! memory  the link's

use super::codec::{Reader, Writer, writer};

/// Transactions for one bank that conflict with nothing in flight.
#[derive(Clone, Copy, Debug)]
pub struct Microblock<'a> {
    /// The leader slot that the microblock is for.
    pub slot: u64,
    /// Sequential over all banks within the slot, from 0.
    pub id: u64,
    txns: &'a [u8],
    count: usize,
}

/// One transaction of a microblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroblockTxn<'a> {
    /// Compute units that pack reserved for it.
    pub reserved_cost: u32,
    /// When it entered the node, in microseconds; 0 if unknown.
    pub origin_us: u32,
    /// The transaction's wire bytes, signatures included.
    pub bytes: &'a [u8],
    /// If it uses lookup tables: the digest of the accounts from them that pack has locked.
    pub locked: Option<u64>,
}

impl<'a> Microblock<'a> {
    /// Bytes before the first transaction.
    pub const HEADER: usize = 8 + 8 + 2;
    /// Bytes before each transaction.
    pub const TXN_HEADER: usize = 2 + 4 + 4;
    /// Additional bytes before a transaction with lookup tables.
    pub const LOCKED_HEADER: usize = 8;
    /// Bit of a transaction's length that marks lookup tables.
    const LOCKED: u16 = 1 << 15;

    /// Writes the message; returns its size. Panics if it does not fit.
    pub fn write<'t>(buffer: &mut [u8], slot: u64, id: u64, txns: impl Iterator<Item = MicroblockTxn<'t>>) -> usize {
        let mut w = Writer { buffer, at: Self::HEADER };
        let mut count = 0u16;
        for txn in txns {
            let flag = if txn.locked.is_some() { Self::LOCKED } else { 0 };
            w.u16(txn.bytes.len() as u16 | flag).u32(txn.reserved_cost).u32(txn.origin_us);
            if let Some(locked) = txn.locked {
                w.u64(locked);
            }
            w.put(txn.bytes);
            count += 1;
        }
        let size = w.at;
        writer(buffer).u64(slot).u64(id).u16(count);
        size
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (slot, id, count) = (r.u64(), r.u64(), r.u16());
        Self { slot, id, txns: r.0, count: count.into() }
    }

    /// How many transactions it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its transactions, in order.
    pub fn txns(&self) -> impl Iterator<Item = MicroblockTxn<'a>> + use<'a> {
        let mut r = Reader(self.txns);
        (0..self.count).map(move |_| {
            let (len, reserved_cost, origin_us) = (r.u16(), r.u32(), r.u32());
            let locked = (len & Self::LOCKED != 0).then(|| r.u64());
            MicroblockTxn { reserved_cost, origin_us, bytes: r.slice((len & !Self::LOCKED).into()), locked }
        })
    }
}

/// A microblock after execution: the committed transactions, in order. Sent for every microblock, even if nothing was
/// committed, since poh takes them in the order of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutedMicroblock<'a> {
    /// The leader slot that the microblock is for.
    pub slot: u64,
    /// The microblock's number in its slot, from 0.
    pub id: u64,
    /// Merkle root over all signatures of the committed transactions; zero if there are none.
    pub mixin: [u8; 32],
    /// How many transactions were committed.
    pub txn_count: u16,
    /// Their wire bytes, concatenated.
    pub txns: &'a [u8],
}

impl<'a> ExecutedMicroblock<'a> {
    /// Bytes before the transactions.
    pub const HEADER: usize = 8 + 8 + 32 + 2;

    /// Writes only the header; the caller has put `txns_len` bytes after it. Returns the message's size.
    pub fn write_header(
        buffer: &mut [u8],
        slot: u64,
        id: u64,
        mixin: &[u8; 32],
        txn_count: u16,
        txns_len: usize,
    ) -> usize {
        writer(buffer).u64(slot).u64(id).put(mixin).u16(txn_count).at + txns_len
    }

    /// Reads a message that [`Self::write_header`] began.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        let (slot, id, mixin, txn_count) = (r.u64(), r.u64(), *r.bytes(), r.u16());
        Self { slot, id, mixin, txn_count, txns: r.0 }
    }
}

/// A bank has finished a microblock and passed it to poh: pack can release its locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion<'a> {
    /// The leader slot that the microblock is for.
    pub slot: u64,
    /// The microblock's number in its slot, from 0.
    pub id: u64,
    costs: &'a [u8],
}

impl<'a> Completion<'a> {
    /// Bytes before the costs.
    pub const HEADER: usize = 8 + 8;

    /// Writes the message: `costs` are the compute units that each transaction of the microblock actually used, in
    /// order, 0 if it was not committed. Returns its size.
    pub fn write(buffer: &mut [u8], slot: u64, id: u64, costs: impl Iterator<Item = u32>) -> usize {
        let mut w = writer(buffer);
        w.u64(slot).u64(id);
        costs.for_each(|cost| {
            w.u32(cost);
        });
        w.at
    }

    /// Reads a message that [`Self::write`] made.
    pub fn read(payload: &'a [u8]) -> Self {
        let mut r = Reader(payload);
        Self { slot: r.u64(), id: r.u64(), costs: r.0 }
    }

    /// Compute units that each transaction used.
    pub fn costs(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.costs.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes))
    }
}

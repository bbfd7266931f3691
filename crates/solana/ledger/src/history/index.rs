//! index: the position of each transaction of one segment, in memory, while the segment is being written.
//!
//! reads   the records of a segment in order
//! writes  sorted runs of hashes, one per block, merged as they grow
//! memory  16 B for each signature and each account of a transaction, 12 B per transaction, 32 B per block; the same
//!         for blocks that are not closed yet
//! drops   batches of a block below one that is closed
//! source  runs that double in size, as in a log-structured merge tree: each entry is merged a few times
//!
//! A transaction's number in its segment, its *ordinal*, is assigned when its block is closed. Blocks follow one
//! another and the microblocks of a block are ordered by their ids, so a greater ordinal is a later position in the
//! chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::HistoryKey;
use super::batch::Batch;
use super::meta::BlockMeta;

/// One closed block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotEntry {
    pub slot: u64,
    pub time: i64,
    /// Offset of its closing record.
    pub close_at: u32,
    /// Ordinal of its first transaction.
    pub first: u32,
    /// Number of its transactions.
    pub count: u32,
}

/// The position of one transaction's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TxnEntry {
    /// Offset of its batch's record.
    pub record: u32,
    /// Number of its block within the segment.
    pub slot_number: u32,
    /// Index of its entry in the batch.
    pub position: u16,
    /// How many segments back the batch is: it may precede the closing of the previous block.
    pub back: u16,
}

/// A hash and the ordinal of a transaction that has it; ordered by both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HashEntry {
    pub hash: u64,
    pub ordinal: u32,
}

pub(super) type Run = Arc<Vec<HashEntry>>;

/// The index of one segment.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub segment: u32,
    /// The closed blocks, ascending by slot.
    pub slots: Vec<SlotEntry>,
    pub txns: Vec<TxnEntry>,
    /// Runs; the ordinals in each follow those of the previous one.
    pub signatures: Vec<Run>,
    pub addresses: Vec<Run>,
    /// End of the last closing record.
    pub closed_to: u64,
    /// In a full segment: segment and offset of the first batch of a block that is closed in a later one.
    pub unclosed_from: (u32, u32),
}

impl Index {
    pub fn new(segment: u32) -> Self {
        Self { segment, ..Self::default() }
    }

    pub fn find_slot(&self, slot: u64) -> Option<SlotEntry> {
        self.slots.binary_search_by_key(&slot, |entry| entry.slot).ok().map(|at| self.slots[at])
    }

    /// The ordinals of the transactions whose signature has this hash.
    pub fn signature(&self, hash: u64) -> Vec<u32> {
        last_of(&self.signatures, hash, u32::MAX, usize::MAX)
    }

    /// The last `count` ordinals below `below` of the transactions that name the address with this hash, descending.
    pub fn address(&self, hash: u64, below: u32, count: usize) -> Vec<u32> {
        last_of(&self.addresses, hash, below, count)
    }

    /// The numbers that the entries of the next block get.
    pub fn ends(&self) -> Ends {
        Ends {
            segment: self.segment,
            ordinal: self.txns.len() as u32,
            slot_number: self.slots.len() as u32,
            last_slot: self.slots.last().map(|last| last.slot),
        }
    }
}

/// The numbers that the entries of an index's next block get.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    segment: u32,
    ordinal: u32,
    slot_number: u32,
    last_slot: Option<u64>,
}

fn last_of(runs: &[Run], hash: u64, below: u32, count: usize) -> Vec<u32> {
    let mut found = vec![];
    for run in runs.iter().rev() {
        let end = run.partition_point(|entry| *entry < HashEntry { hash, ordinal: below });
        let same = run[..end].iter().rev().take_while(|entry| entry.hash == hash);
        found.extend(same.take(count - found.len()).map(|entry| entry.ordinal));
    }
    found
}

/// Appends a run and merges runs that have reached the same size.
pub(super) fn push_run(runs: &mut Vec<Run>, mut run: Vec<HashEntry>) {
    if run.is_empty() {
        return;
    }
    while let Some(last) = runs.pop_if(|last| last.len() <= 2 * run.len()) {
        run = merged(&last, &run);
    }
    runs.push(Arc::new(run));
}

/// Merges two runs; all ordinals of `b` are greater than those of `a`.
pub(super) fn merged(a: &[HashEntry], b: &[HashEntry]) -> Vec<HashEntry> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(first), Some(second)) = (a.peek(), b.peek()) {
        out.extend(if first.hash <= second.hash { a.next() } else { b.next() });
    }
    out.extend(a.chain(b));
    out
}

/// The transactions of blocks that are not closed.
#[derive(Default)]
pub(super) struct PendingTransactions(BTreeMap<u64, PendingSlot>);

#[derive(Default)]
struct PendingSlot {
    batches: Vec<PendingBatch>,
    signatures: Vec<u64>,
    /// The accounts' hashes, and for each transaction where its own end.
    hashes: Vec<u64>,
    hash_ends: Vec<u32>,
}

struct PendingBatch {
    microblock: u64,
    segment: u32,
    record: u32,
    /// Index of its first transaction within the slot.
    first: usize,
    count: usize,
}

/// A block's part of the index, ready to be joined to the others.
pub(super) struct ClosedSlot {
    pub slot: SlotEntry,
    pub txns: Vec<TxnEntry>,
    pub signatures: Vec<HashEntry>,
    pub addresses: Vec<HashEntry>,
    pub closed_to: u64,
}

impl PendingTransactions {
    /// Records the transactions of a batch at `record` of `segment`.
    pub fn add(&mut self, key: &HistoryKey, segment: u32, record: u64, batch: &Batch<'_>) {
        let slot = self.0.entry(batch.slot).or_default();
        let first = slot.signatures.len();
        for entry in batch.entries() {
            slot.signatures.push(key.signature(entry.signature));
            slot.hashes.extend(entry.hashes());
            slot.hash_ends.push(slot.hashes.len() as u32);
        }
        let count = slot.signatures.len() - first;
        slot.batches.push(PendingBatch { microblock: batch.microblock, segment, record: record as u32, first, count });
    }

    /// Segment and offset of the first pending batch.
    pub fn first(&self) -> Option<(u32, u32)> {
        self.0.values().flat_map(|slot| &slot.batches).map(|batch| (batch.segment, batch.record)).min()
    }

    /// Discards all pending blocks.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Closes a block by the record between `at` and `end`, and returns its part of the index that ends at `ends`.
    /// `None` if the record does not match the batches.
    pub fn close(&mut self, ends: &Ends, block: &BlockMeta, (at, end): (u64, u64)) -> Option<ClosedSlot> {
        let mut pending = self.0.remove(&block.slot).unwrap_or_default();
        self.0 = self.0.split_off(&block.slot);
        let Ends { segment, ordinal: first, slot_number, last_slot } = *ends;
        let ascending = last_slot.is_none_or(|last| last < block.slot);
        if pending.signatures.len() != block.transaction_count as usize || !ascending {
            return None;
        }
        pending.batches.sort_unstable_by_key(|batch| batch.microblock);
        let slot = SlotEntry {
            slot: block.slot,
            time: block.time,
            close_at: at as u32,
            first,
            count: block.transaction_count,
        };
        let mut closed = ClosedSlot { slot, txns: vec![], signatures: vec![], addresses: vec![], closed_to: end };
        for batch in &pending.batches {
            let back = segment.checked_sub(batch.segment).and_then(|back| u16::try_from(back).ok())?;
            for position in 0..batch.count {
                let (ordinal, nth) = (first + closed.txns.len() as u32, batch.first + position);
                let hashes_from = nth.checked_sub(1).map_or(0, |before| pending.hash_ends[before]) as usize;
                let hashes = &pending.hashes[hashes_from..pending.hash_ends[nth] as usize];
                closed.txns.push(TxnEntry { record: batch.record, slot_number, position: position as u16, back });
                closed.signatures.push(HashEntry { hash: pending.signatures[nth], ordinal });
                closed.addresses.extend(hashes.iter().map(|&hash| HashEntry { hash, ordinal }));
            }
        }
        closed.signatures.sort_unstable();
        closed.addresses.sort_unstable();
        Some(closed)
    }
}

impl Index {
    /// Joins a block. `signatures` and `addresses` are the runs including the block's own, from [`push_run`].
    pub fn join(&mut self, closed: &ClosedSlot, signatures: Vec<Run>, addresses: Vec<Run>) {
        self.slots.push(closed.slot);
        self.txns.extend_from_slice(&closed.txns);
        (self.signatures, self.addresses) = (signatures, addresses);
        self.closed_to = closed.closed_to;
    }
}

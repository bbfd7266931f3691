//! search: one interface to a segment's index, in memory or on disk.
//!
//! reads   the index in memory or a table; records of the log
//! memory  a record at a time
//! drops   nothing; a segment that was deleted meanwhile has no results

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::batch::{Batch, Entry};
use super::compactor::{InMemory, Shared};
use super::index::{Index, SlotEntry, TxnEntry};
use super::meta::BlockMeta;
use super::record::Kind;
use super::scan::read_record;
use super::table::Table;
use super::{HistoryError, log_path};

/// One segment to search. It stays valid if the segment is sealed or deleted meanwhile.
pub(super) enum Part {
    InMemory(InMemory),
    Sealed(Arc<Table>),
}

/// A transaction in the index: its entry, its ordinal, its block.
pub(super) type Hit = (TxnEntry, u32, SlotEntry);

impl Part {
    /// Every segment, the newest first.
    pub fn all(shared: &Shared) -> Vec<Self> {
        let state = shared.state();
        let in_memory = std::iter::once(&state.open).chain(state.full.iter().rev()).cloned().map(Self::InMemory);
        in_memory.chain(state.tables.iter().rev().cloned().map(Self::Sealed)).collect()
    }

    fn with_index<T>(&self, ask: impl FnOnce(&Index) -> T) -> Result<T, &Table> {
        match self {
            Self::InMemory(index) => Ok(ask(&index.read())),
            Self::Sealed(table) => Err(table),
        }
    }

    /// The number of the segment.
    pub fn segment(&self) -> u32 {
        self.with_index(|index| index.segment).unwrap_or_else(|table| table.segment)
    }

    /// The slot of its first closed block; `None` if there is none.
    pub fn first_slot(&self) -> Option<u64> {
        self.with_index(|index| index.slots.first().map(|slot| slot.slot))
            .unwrap_or_else(|table| Some(table.first_slot))
    }

    /// The transactions whose signature has this hash.
    pub fn signature(&self, hash: u64) -> Result<Vec<Hit>, HistoryError> {
        let in_memory = |index: &Index| hits(index, index.signature(hash));
        self.with_index(in_memory).or_else(|table| {
            let ordinals = table.signature(hash)?;
            table_hits(table, ordinals)
        })
    }

    /// The last `count` transactions before the ordinal `below` that name the address with this hash, descending.
    pub fn address(&self, hash: u64, below: u32, count: usize) -> Result<Vec<Hit>, HistoryError> {
        let in_memory = |index: &Index| hits(index, index.address(hash, below, count));
        self.with_index(in_memory).or_else(|table| {
            let ordinals = table.address(hash, below, count)?;
            table_hits(table, ordinals)
        })
    }

    /// The index entry of a block.
    pub fn slot(&self, slot: u64) -> Result<Option<SlotEntry>, HistoryError> {
        self.with_index(|index| Ok(index.find_slot(slot))).unwrap_or_else(|table| {
            let within = (table.first_slot..=table.last_slot).contains(&slot);
            if within { table.find_slot(slot) } else { Ok(None) }
        })
    }

    /// A block's transactions, in order.
    pub fn txns(&self, slot: &SlotEntry) -> Result<Vec<TxnEntry>, HistoryError> {
        let range = slot.first as usize..(slot.first + slot.count) as usize;
        let in_memory = |index: &Index| Ok(index.txns.get(range).map(<[_]>::to_vec).unwrap_or_default());
        let ordinals = slot.first..slot.first + slot.count;
        self.with_index(in_memory).unwrap_or_else(|table| table.txns(ordinals))
    }
}

fn hits(index: &Index, ordinals: Vec<u32>) -> Vec<Hit> {
    let hit = |ordinal: u32| {
        let txn = index.txns[ordinal as usize];
        (txn, ordinal, index.slots[txn.slot_number as usize])
    };
    ordinals.into_iter().map(hit).collect()
}

fn table_hits(table: &Table, ordinals: Vec<u32>) -> Result<Vec<Hit>, HistoryError> {
    let txns = table.txns(ordinals.iter().copied())?;
    let hit = |(txn, ordinal): (TxnEntry, u32)| Ok((txn, ordinal, table.slot(txn.slot_number)?));
    txns.into_iter().zip(ordinals).map(hit).collect()
}

/// Reads records of the log one after the other; entries of the same batch are read once.
pub(super) struct Log<'s> {
    shared: &'s Shared,
    file: Option<(u32, File)>,
    buffer: Vec<u8>,
    /// Segment and offset of the record in the buffer.
    held: Option<(u32, u32)>,
}

impl<'s> Log<'s> {
    pub fn new(shared: &'s Shared) -> Self {
        Self { shared, file: None, buffer: Vec::new(), held: None }
    }

    /// A transaction's entry; `None` if its segment was deleted.
    pub fn entry(&mut self, segment: u32, txn: &TxnEntry) -> Result<Option<Entry<'_>>, HistoryError> {
        let segment = segment - u32::from(txn.back);
        if !self.read(segment, txn.record, Kind::Batch)? {
            return Ok(None);
        }
        let batch = Batch::read(&self.buffer[super::record::HEADER_SIZE..]);
        match batch.entries().nth(txn.position.into()) {
            Some(entry) => Ok(Some(entry)),
            None => Err(self.corrupt(segment, txn.record, "a batch is shorter than the index says")),
        }
    }

    /// A block's closing record.
    pub fn block(&mut self, segment: u32, slot: &SlotEntry) -> Result<Option<BlockMeta>, HistoryError> {
        if !self.read(segment, slot.close_at, Kind::Close)? {
            return Ok(None);
        }
        match BlockMeta::decode(&self.buffer[super::record::HEADER_SIZE..]) {
            Some(block) => Ok(Some(block)),
            None => Err(self.corrupt(segment, slot.close_at, "a block does not decode")),
        }
    }

    /// Reads a record into the buffer; false if its segment was deleted.
    fn read(&mut self, segment: u32, at: u32, wanted: Kind) -> Result<bool, HistoryError> {
        if self.held == Some((segment, at)) {
            return Ok(true);
        }
        self.held = None;
        let path = log_path(&self.shared.dir, segment);
        if self.file.as_ref().is_none_or(|(open, _)| *open != segment) {
            match File::open(&path) {
                Ok(file) => self.file = Some((segment, file)),
                Err(e) if e.kind() == io::ErrorKind::NotFound && self.is_dropped(segment) => return Ok(false),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(self.corrupt(segment, at, "the segment's file is missing"));
                }
                Err(e) => return Err(HistoryError::io("opening", &path, e)),
            }
        }
        let (_, file) = self.file.as_ref().expect("it was opened above");
        let read = read_record(file, segment, at.into(), &mut self.buffer);
        match read.map_err(|e| HistoryError::io("reading", &path, e))? {
            Some((kind, _)) if kind == wanted => {
                self.held = Some((segment, at));
                Ok(true)
            }
            _ => Err(self.corrupt(segment, at, "a record does not match its checksum")),
        }
    }

    /// Whether a segment was dropped by age: it is then older than all that can be searched.
    fn is_dropped(&self, segment: u32) -> bool {
        let state = self.shared.state();
        state.tables.front().is_none_or(|oldest| segment < oldest.segment)
    }

    /// Makes the error for a damaged record.
    pub fn corrupt(&self, segment: u32, at: u32, what: &'static str) -> HistoryError {
        HistoryError::Corrupt { file: log_path(&self.shared.dir, segment), offset: at.into(), what }
    }
}

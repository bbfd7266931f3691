//! reader: reads blocks from the log, on any thread, while it is being written.
//!
//! reads   segment files; the index under a lock held for one lookup
//! memory  one window per call, and the result
//! drops   nothing; bytes that fail verification are an error that names file and offset
//! source  record.rs

use super::background::Shared;
use super::index::SlotEntry;
use super::record::Record;
use super::scan::{Step, Walk};
use super::{Damage, FecSetRecord, Finding, LogPosition, SHREDS_PER_SET, StoreError, list_segments, log_path};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::{ControlFlow, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Reads blocks; cheap to clone, and usable after the store itself was closed.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// The index entry of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    /// The slot of the block.
    pub slot: u64,
    /// The slot of the parent block; 0 for the first block.
    pub parent_slot: u64,
    /// FEC sets in the log.
    pub set_count: u32,
    /// Whether all its sets are stored.
    pub whole: bool,
    /// Position in the log where it begins: another number once the slot was voided and rewritten.
    pub place: u64,
}

/// A block's entries as they were shredded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block's slot, parent and state.
    pub info: SlotInfo,
    /// Merkle root of the last stored set: the block's id if it is whole.
    pub block_id: [u8; 32],
    /// The sets' data in order; up to the first missing set if the block is not whole.
    pub data: Vec<u8>,
    /// Offset at which each batch of entries ends in the data, by its shreds. `None` if a record of the block lacks it.
    pub batch_ends: Option<Vec<u32>>,
}

impl From<&SlotEntry> for SlotInfo {
    fn from(e: &SlotEntry) -> Self {
        let SlotEntry { slot, parent_slot, set_count, complete, first, .. } = *e;
        Self { slot, parent_slot, set_count, whole: complete, place: first.to_bits() }
    }
}

/// A block's sets, joined in their order.
#[derive(Default)]
struct JoinedSets {
    /// Sets of the whole block.
    set_count: usize,
    data: Vec<u8>,
    batch_ends: Option<Vec<u32>>,
    /// Index of the next set's first shred.
    next: u32,
    /// Merkle root of the last joined set.
    block_id: [u8; 32],
    /// Sets that were appended before one that precedes them.
    early: BTreeMap<u32, EarlySet>,
}

struct EarlySet {
    merkle_root: [u8; 32],
    ends_batch: Option<bool>,
    data: Vec<u8>,
}

impl JoinedSets {
    fn add(&mut self, set: &FecSetRecord<'_>) {
        let &FecSetRecord { fec_set_index, merkle_root, ends_batch, data, .. } = set;
        if fec_set_index != self.next {
            self.early.insert(fec_set_index, EarlySet { merkle_root, ends_batch, data: data.to_vec() });
            return;
        }
        self.append(merkle_root, ends_batch, data);
        while let Some(set) = self.early.remove(&self.next) {
            self.append(set.merkle_root, set.ends_batch, &set.data);
        }
    }

    fn append(&mut self, merkle_root: [u8; 32], ends_batch: Option<bool>, data: &[u8]) {
        if self.next == 0 {
            self.data.reserve_exact(data.len() * self.set_count);
        }
        self.data.extend_from_slice(data);
        match ends_batch {
            None => self.batch_ends = None,
            Some(false) => {}
            Some(true) => self.batch_ends.iter_mut().for_each(|ends| ends.push(self.data.len() as u32)),
        }
        self.next += SHREDS_PER_SET;
        self.block_id = merkle_root;
    }
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The slots in `range`, ascending, at most `count` of them.
    pub fn slots(&self, range: impl RangeBounds<u64>, count: usize) -> Vec<SlotInfo> {
        let index = self.shared.index.read();
        index.slots.range(range).take(count).map(|(_, e)| e.into()).collect()
    }

    /// The index entry of one slot.
    pub fn slot(&self, slot: u64) -> Option<SlotInfo> {
        self.entry(slot).as_ref().map(SlotInfo::from)
    }

    /// The lowest stored slot.
    pub fn first_slot(&self) -> Option<u64> {
        let index = self.shared.index.read();
        index.slots.first_key_value().map(|(slot, _)| *slot)
    }

    /// The highest stored slot, whole or not.
    pub fn last_slot(&self) -> Option<u64> {
        let index = self.shared.index.read();
        index.slots.last_key_value().map(|(slot, _)| *slot)
    }

    /// The highest whole slot that survives a power failure.
    pub fn durable_slot(&self) -> Option<u64> {
        self.shared.durable_slot.load(SeqCst).checked_sub(1)
    }

    /// Bytes that the store takes on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(SeqCst)
    }

    /// Maximum bytes on disk.
    pub fn limit_size(&self) -> u64 {
        self.shared.limit_size
    }

    /// Bytes of the log after the block of `slot`, or all if that block is not stored.
    pub fn bytes_after(&self, slot: u64) -> u64 {
        let shared = &self.shared;
        let end = LogPosition::from_bits(shared.written.load(SeqCst));
        let from = self.entry(slot).map_or(LogPosition::new(shared.oldest_segment.load(SeqCst), 0), |entry| entry.end);
        let segments = u64::from(end.segment().saturating_sub(from.segment()));
        (segments * shared.segment_size + u64::from(end.offset())).saturating_sub(from.offset().into())
    }

    /// From now on the limit drops blocks after slot `wanted` only if there are no others, and never those after slot
    /// `needed`: when only such blocks are left, appending fails with [`StoreError::Held`].
    pub fn hold_after(&self, wanted: u64, needed: u64) {
        self.shared.wanted_after.store(wanted, SeqCst);
        self.shared.needed_after.store(needed, SeqCst);
    }

    /// The entry bytes of a slot. `None` if the slot is not stored, or no longer.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] if bytes on disk changed, [`StoreError::Io`] if they cannot be read.
    pub fn block(&self, slot: u64) -> Result<Option<Block>, StoreError> {
        let Some(entry) = self.entry(slot) else { return Ok(None) };
        let mut sets =
            JoinedSets { set_count: entry.set_count as usize, batch_ends: Some(vec![]), ..Default::default() };
        if !self.visit(&entry, |set| sets.add(set))? {
            return Ok(None);
        }
        let JoinedSets { block_id, data, batch_ends, .. } = sets;
        Ok(Some(Block { info: (&entry).into(), block_id, data, batch_ends }))
    }

    /// Calls `visit` with each FEC set of a slot, in the order in which they were appended. False if the slot is not
    /// stored, or no longer.
    ///
    /// # Errors
    ///
    /// As [`block`](Self::block); `visit` may have been called for some sets by then.
    pub fn sets(&self, slot: u64, visit: impl FnMut(&FecSetRecord<'_>)) -> Result<bool, StoreError> {
        self.entry(slot).map_or(Ok(false), |entry| self.visit(&entry, visit))
    }

    /// The Merkle root that a slot's first FEC set chains to, which is its parent's last. Reads only up to that set.
    /// `None` if the slot, or that set, is not stored, or no longer.
    ///
    /// # Errors
    ///
    /// As [`block`](Self::block), for the data that is read.
    pub fn chained_root(&self, slot: u64) -> Result<Option<[u8; 32]>, StoreError> {
        let Some(entry) = self.entry(slot) else { return Ok(None) };
        let mut root = None;
        self.visit_while(&entry, |set| {
            if set.fec_set_index != 0 {
                return ControlFlow::Continue(());
            }
            root = Some(set.chained_root);
            ControlFlow::Break(())
        })?;
        Ok(root)
    }

    /// Reads and verifies every record of the log; returns each damaged range. Ignores data that is appended or dropped
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] if the files cannot be read.
    pub fn verify(&self) -> Result<Vec<Damage>, StoreError> {
        self.verify_telling(|_| ())
    }

    /// As [`verify`](Self::verify), and calls `progress` with the bytes read so far after every record.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify).
    pub fn verify_telling(&self, mut progress: impl FnMut(u64)) -> Result<Vec<Damage>, StoreError> {
        let dir = &self.shared.dir;
        let end = LogPosition::from_bits(self.shared.written.load(SeqCst));
        let segments = list_segments(dir)?;
        let (mut damage, mut before) = (vec![], 0);
        for (at, &segment) in segments.iter().enumerate().filter(|(_, s)| **s <= end.segment()) {
            let expected = if at == 0 { segment } else { segments[at - 1] + 1 };
            let missing = (expected..segment).map(|s| whole_file(log_path(dir, s), Finding::MissingSegment));
            damage.extend(missing);
            let from = LogPosition::new(segment, 0);
            let mut read = 0;
            self.walk(from, end, None, |step| {
                match step {
                    Step::Damage { at, length, fault, .. } => {
                        damage.push(self.damage(*at, *length, Finding::Record(*fault)));
                        read = u64::from(at.offset()) + length;
                    }
                    Step::Record { end, .. } => read = end.offset().into(),
                    Step::Skipped | Step::End => {}
                }
                progress(before + read);
                ControlFlow::Continue(())
            })?;
            before += read;
        }
        Ok(damage)
    }

    fn entry(&self, slot: u64) -> Option<SlotEntry> {
        self.shared.index.read().slots.get(&slot).copied()
    }

    /// Calls `visit` with the sets of one slot; false if a segment was dropped meanwhile.
    pub(super) fn visit(
        &self,
        entry: &SlotEntry,
        mut visit: impl FnMut(&FecSetRecord<'_>),
    ) -> Result<bool, StoreError> {
        self.visit_while(entry, |set| {
            visit(set);
            ControlFlow::Continue(())
        })
    }

    /// As [`visit`](Self::visit), until `visit` breaks off.
    fn visit_while(
        &self,
        entry: &SlotEntry,
        mut visit: impl FnMut(&FecSetRecord<'_>) -> ControlFlow<()>,
    ) -> Result<bool, StoreError> {
        let (mut found, mut damage, mut flow) = (0, None, ControlFlow::Continue(()));
        for segment in entry.first.segment()..=entry.end.segment() {
            let from = if segment == entry.first.segment() { entry.first } else { LogPosition::new(segment, 0) };
            let there = self.walk(from, entry.end, Some(entry.slot), |step| {
                match step {
                    Step::Record { record: Record::Set(set), .. } if set.slot == entry.slot => {
                        found += 1;
                        flow = visit(set);
                    }
                    Step::Damage { at, length, fault, .. } if damage.is_none() => {
                        damage = Some(self.damage(*at, *length, Finding::Record(*fault)));
                    }
                    _ => {}
                }
                flow
            })?;
            if !there {
                return Ok(false);
            }
            if flow.is_break() {
                return Ok(true);
            }
        }
        if found >= entry.set_count {
            return Ok(true);
        }
        // A header with altered bytes may have been skipped as another slot's: then there is no fault to name.
        let what = Finding::MissingSets { slot: entry.slot, found, written: entry.set_count };
        Err(StoreError::Corrupt(damage.unwrap_or_else(|| self.damage(entry.first, 0, what))))
    }

    /// Walks one segment from `from` to `end` (or to the segment's end), until `visit` breaks; false if its file is
    /// gone.
    fn walk(
        &self,
        from: LogPosition,
        end: LogPosition,
        only: Option<u64>,
        mut visit: impl FnMut(&Step<'_>) -> ControlFlow<()>,
    ) -> Result<bool, StoreError> {
        let path = log_path(&self.shared.dir, from.segment());
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(StoreError::io("opening", &path, e)),
        };
        let failed = |e| StoreError::io("reading", &path, e);
        let size = file.metadata().map_err(failed)?.len();
        let end = if from.segment() == end.segment() { size.min(end.offset().into()) } else { size };
        let mut walk = Walk::new(&file, from, end);
        loop {
            let step = walk.step(only).map_err(failed)?;
            if step == Step::End || visit(&step).is_break() {
                return Ok(true);
            }
        }
    }

    fn damage(&self, at: LogPosition, length: u64, what: Finding) -> Damage {
        Damage { file: log_path(&self.shared.dir, at.segment()), offset: at.offset().into(), length, what }
    }
}

pub(super) fn whole_file(file: std::path::PathBuf, what: Finding) -> Damage {
    Damage { file, offset: 0, length: 0, what }
}

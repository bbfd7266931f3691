//! writer: the writing side of the history.
//!
//! reads   batches and blocks
//! writes  the last segment of the log
//! memory  [`BUFFER_SIZE`] and one batch of unwritten data; a counter for each block that is not closed
//! source  mod.rs

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_wal::{Appender, FileSystem, Volume};

use super::batch::Batch;
use super::compactor::{Compactor, Job, Shared};
use super::meta::BlockMeta;
use super::record::{self, Head, Kind};
use super::{HistoryError, HistoryKey, HistoryReader, Recovery, log_path};

/// Bytes that are buffered before a write, unless a block is closed.
const BUFFER_SIZE: usize = 256 << 10;

/// The writer of a history. Dropping it writes and syncs the buffered data.
pub struct History {
    shared: Arc<Shared>,
    head: Head,
    segment: u32,
    /// The end of the written part of the segment.
    end: Appender,
    /// Bytes written since the start.
    written_bytes: u64,
    buffer: Vec<u8>,
    /// Number of transactions of each block that is not closed.
    seen: BTreeMap<u64, u64>,
    last_slot: u64,
    /// The block whose closing record is in the buffer.
    closing: Option<u64>,
    jobs: Sender<Job>,
    historian: Option<JoinHandle<()>>,
    recovery: Recovery,
    /// The blocks that existed when it was opened, ascending.
    found_slots: Vec<u64>,
}

impl History {
    pub(super) fn start(
        shared: Arc<Shared>,
        head: Head,
        end: Appender,
        (recovery, found_slots): (Recovery, Vec<u64>),
    ) -> Result<Self, HistoryError> {
        let (jobs, inbox) = channel();
        let historian = Compactor::new(shared.clone(), inbox, end.end());
        let spawned = std::thread::Builder::new().name("history".into()).spawn(move || historian.run());
        let historian = spawned.map_err(|e| HistoryError::io("starting a thread for", &shared.dir, e))?;
        let (segment, last_slot) =
            (shared.open(|index| index.segment), shared.indexed_slot.load(SeqCst).saturating_sub(1));
        Ok(Self {
            shared,
            head,
            segment,
            end,
            written_bytes: 0,
            buffer: Vec::with_capacity(BUFFER_SIZE),
            seen: BTreeMap::new(),
            last_slot,
            closing: None,
            jobs,
            historian: Some(historian),
            recovery,
            found_slots,
        })
    }

    /// The findings of opening it.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Takes the slots of all blocks that existed when it was opened, ascending. Later calls return none.
    pub fn take_found_slots(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.found_slots)
    }

    /// A handle for queries on any thread.
    pub fn reader(&self) -> HistoryReader {
        HistoryReader::new(self.shared.clone())
    }

    /// The key under which banks hash.
    pub fn key(&self) -> HistoryKey {
        self.shared.key.clone()
    }

    /// The last closed block; 0 if there is none.
    pub fn last_slot(&self) -> u64 {
        self.last_slot
    }

    /// Bytes on disk of all segments and tables.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(SeqCst)
    }

    /// Whether more batches should be appended now: not while the disk is full or the index is far behind.
    pub fn has_room(&self) -> bool {
        let behind = self.written_bytes - self.shared.indexed_bytes.load(SeqCst);
        self.buffer.len() < 2 * BUFFER_SIZE && behind < self.shared.config.segment_size.max(4 * BUFFER_SIZE as u64)
    }

    /// Appends a batch of an unclosed block to the buffer.
    pub fn append(&mut self, batch: &[u8]) {
        let read = Batch::read(batch);
        *self.seen.entry(read.slot).or_default() += u64::from(read.count);
        let at = self.end.end() + self.buffer.len() as u64;
        record::write(&mut self.buffer, self.segment, at, Kind::Batch, batch);
    }

    /// Number of a block's transactions appended so far.
    pub fn seen(&self, slot: u64) -> u64 {
        self.seen.get(&slot).copied().unwrap_or(0)
    }

    /// Writes the buffer if it is long.
    ///
    /// # Errors
    ///
    /// [`HistoryError::NoRoom`]: the buffer is retained, and the call may be retried.
    pub fn write_some(&mut self) -> Result<(), HistoryError> {
        self.check()?;
        if self.buffer.len() < BUFFER_SIZE { Ok(()) } else { self.write() }
    }

    /// Closes a block: all its transactions have been appended, and it is in the block store. It can be found once
    /// [`indexed_slot`](Self::indexed_slot) reaches it.
    ///
    /// # Errors
    ///
    /// [`HistoryError::NoRoom`]: the same call may be retried, and nothing may be appended before.
    pub fn close(&mut self, block: &BlockMeta) -> Result<(), HistoryError> {
        self.check()?;
        if self.closing != Some(block.slot) {
            let at = self.end.end() + self.buffer.len() as u64;
            record::write(&mut self.buffer, self.segment, at, Kind::Close, &block.encode());
            self.closing = Some(block.slot);
        }
        self.write()?;
        self.closing = None;
        self.seen = self.seen.split_off(&(block.slot + 1));
        self.last_slot = block.slot;
        if self.end.end() >= self.shared.config.segment_size {
            self.roll()?;
        }
        Ok(())
    }

    /// The last block that can be found; 0 if there is none.
    pub fn indexed_slot(&self) -> u64 {
        self.shared.indexed_slot.load(SeqCst).saturating_sub(1)
    }

    /// Waits until every closed block can be found.
    ///
    /// # Errors
    ///
    /// The index cannot be written.
    pub fn wait_until_indexed(&self) -> Result<(), HistoryError> {
        while self.indexed_slot() < self.last_slot {
            self.check()?;
            if self.historian.as_ref().is_none_or(JoinHandle::is_finished) {
                let source = io::Error::other("its thread has ended");
                return Err(HistoryError::Io { doing: "indexing", file: self.shared.dir.clone(), source });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Returns an error if indexing has stopped.
    fn check(&self) -> Result<(), HistoryError> {
        match self.shared.failure.get() {
            None => Ok(()),
            Some(why) => {
                let source = io::Error::other(why.clone());
                Err(HistoryError::Io { doing: "indexing", file: self.shared.dir.clone(), source })
            }
        }
    }

    /// Calls `tell`, on another thread, whenever a block can be found or indexing has failed. Only the first callback
    /// is kept.
    pub fn on_indexed(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.on_indexed.set(Box::new(tell));
    }

    fn write(&mut self) -> Result<(), HistoryError> {
        let count = self.buffer.len() as u64;
        let appended = self.end.append(&mut [IoSlice::new(&self.buffer)]);
        appended.map_err(|e| HistoryError::io("appending to", &log_path(&self.shared.dir, self.segment), e))?;
        self.buffer.clear();
        self.written_bytes += count;
        self.shared.disk_bytes.fetch_add(count, SeqCst);
        let _ = self.jobs.send(Job::Written(self.end.end()));
        Ok(())
    }

    /// Starts another segment. If that fails it is retried after the next block.
    fn roll(&mut self) -> Result<(), HistoryError> {
        let segment = self.segment + 1;
        let path = log_path(&self.shared.dir, segment);
        let Ok(end) = create_segment(&path, segment, &self.head) else { return Ok(()) };
        let written = end.end();
        self.shared.disk_bytes.fetch_add(written, SeqCst);
        self.written_bytes += written;
        self.segment = segment;
        self.end = end;
        let _ = self.jobs.send(Job::Next(segment));
        let _ = self.jobs.send(Job::Written(written));
        Ok(())
    }
}

impl Drop for History {
    fn drop(&mut self) {
        let _ = self.write();
        self.shared.stopping.store(true, SeqCst);
        let _ = self.jobs.send(Job::Stop);
        if let Some(historian) = self.historian.take() {
            let _ = historian.join();
        }
    }
}

/// The end of a new segment, after its header.
pub(super) fn create_segment(path: &std::path::Path, segment: u32, head: &Head) -> Result<Appender, HistoryError> {
    let mut bytes = vec![];
    record::write(&mut bytes, segment, 0, Kind::Head, &head.encode());
    let failed = |e| HistoryError::io("creating", path, e);
    // An earlier attempt on a full disk may have left one.
    let _ = std::fs::remove_file(path);
    let mut end = Appender::new(FileSystem.create(path).map_err(failed)?, 0);
    if let Err(e) = end.append(&mut [IoSlice::new(&bytes)]) {
        let _ = std::fs::remove_file(path);
        return Err(failed(e));
    }
    Ok(end)
}

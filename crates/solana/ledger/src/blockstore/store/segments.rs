//! The end of the log: makes room for appends, starts new segments, drops the oldest.
//!
//! reads   the size of the log, what readers and snapshots hold
//! writes  new segment files; marks old ones for deletion
//! memory  the full segments, by number and size

use super::super::background::{Job, Shared};
use super::super::record::{SegmentRecord, VERSION, encode_segment};
use super::super::{Config, LogPosition, StoreError, log_path};
use super::BlockStore;
use hearth_wal::{Appender, Volume};
use std::fs;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

/// The end of the log.
pub(in crate::blockstore) struct LogTail {
    pub segment: u32,
    pub end: Appender,
}

impl LogTail {
    /// Bytes in the segment.
    pub fn at(&self) -> u64 {
        self.end.end()
    }

    pub fn position(&self) -> LogPosition {
        LogPosition::new(self.segment, self.at() as u32)
    }
}

impl BlockStore {
    /// Makes sure that `size` bytes fit into the last segment and that its end is where it should be.
    pub(super) fn reserve(&mut self, size: usize) -> Result<(), StoreError> {
        self.cut_tail()?;
        if self.tail.at() + size as u64 > self.config.segment_size {
            self.roll()?;
        }
        Ok(())
    }

    /// Appends to the last segment, which has room for it: see [`BlockStore::reserve`].
    pub(super) fn append(&mut self, parts: &mut [IoSlice<'_>]) -> Result<(), StoreError> {
        let before = self.tail.at();
        let appended = self.tail.end.append(parts);
        appended.map_err(|e| StoreError::io("appending to", &log_path(&self.shared.dir, self.tail.segment), e))?;
        self.shared.disk_bytes.fetch_add(self.tail.at() - before, SeqCst);
        Ok(())
    }

    /// Truncates what a failed append has left.
    pub(super) fn cut_tail(&mut self) -> Result<(), StoreError> {
        let cut = self.tail.end.clear_rest();
        cut.map_err(|e| StoreError::io("truncating", &log_path(&self.shared.dir, self.tail.segment), e))
    }

    /// Starts a new segment. On an error nothing has changed.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        self.make_room();
        self.refuse_to_drop()?;
        let next = create_segment(&*self.volume, &self.shared.dir, self.tail.segment + 1, &self.config.genesis_hash)?;
        self.checkpoint(true);
        self.sealed.push_back((self.tail.segment, self.tail.at()));
        self.shared.disk_bytes.fetch_add(next.at(), SeqCst);
        let _ = self.jobs.send(Job::Segment { segment: next.segment, file: next.end.disk().clone() });
        self.checkpoint_at = next.at();
        self.tail = next;
        Ok(())
    }

    /// Marks the oldest segments for deletion so that the next two fit below the limit, which gives the keeper the time
    /// that it takes to fill one. If the keeper was too slow, deletes here. Blocks that the next start could use go
    /// last, and those that it needs are never dropped.
    pub(super) fn make_room(&mut self) {
        let Config { limit_size, segment_size, .. } = self.config;
        self.drop_oldest(self.shared.wanted_after.load(SeqCst), limit_size - 2 * segment_size);
        self.drop_oldest(self.shared.needed_after.load(SeqCst), limit_size - segment_size);
        if self.disk_bytes() + segment_size > limit_size {
            self.shared.delete_doomed();
        }
    }

    /// Marks the oldest segments until the others take `bytes` or contain blocks after slot `held_after`.
    pub(super) fn drop_oldest(&mut self, held_after: u64, bytes: u64) {
        // While the keeper deletes a segment, the first count lacks it for a moment and the second still has it.
        let kept = |shared: &Shared| shared.disk_bytes.load(SeqCst).saturating_sub(shared.doomed_bytes.load(SeqCst));
        if kept(&self.shared) <= bytes {
            return;
        }
        let held = self.shared.first_segment_after(held_after);
        while kept(&self.shared) > bytes
            && let Some((segment, size)) = self.sealed.front().copied()
            && held.is_none_or(|held| segment < held)
        {
            self.sealed.pop_front();
            self.shared.doom(segment, size);
            let _ = self.jobs.send(Job::Delete);
        }
    }

    /// Returns an error if a new segment would exceed the limit because nothing may be dropped.
    pub(super) fn refuse_to_drop(&self) -> Result<(), StoreError> {
        let (limit_size, needed_after) = (self.config.limit_size, self.shared.needed_after.load(SeqCst));
        if self.disk_bytes() + self.config.segment_size > limit_size && needed_after != u64::MAX {
            return Err(StoreError::Held { limit_size, needed_after });
        }
        Ok(())
    }
}

/// A new segment file with its first record.
pub(in crate::blockstore) fn create_segment(
    volume: &dyn Volume,
    dir: &Path,
    segment: u32,
    genesis_hash: &[u8; 32],
) -> Result<LogTail, StoreError> {
    let path = log_path(dir, segment);
    let file = match volume.create(&path) {
        // A remainder of an earlier attempt on a full disk. The lock is held, so no other process owns it.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&path).and_then(|()| volume.create(&path))
        }
        other => other,
    };
    let file = file.map_err(|e| StoreError::io("creating", &path, e))?;
    let head = SegmentRecord { version: VERSION, segment, genesis_hash: *genesis_hash };
    let bytes = encode_segment(&head, LogPosition::new(segment, 0));
    let mut end = Appender::new(file, 0);
    if let Err(e) = end.append(&mut [IoSlice::new(&bytes)]) {
        let _ = fs::remove_file(&path);
        return Err(StoreError::io("appending to", &path, e));
    }
    Ok(LogTail { segment, end })
}

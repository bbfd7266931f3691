//! The end of the log: room for what is appended, the next segment, and the oldest ones, which go.
//!
//! reads   how much the log takes, what readers and snapshots hold
//! writes  new segment files; marks old ones for deletion
//! memory  the segments that are full, by number and size

use super::super::keeper::{Job, Shared};
use super::super::medium::{Medium, Volume, append_all};
use super::super::record::{SEGMENT_HEAD_SIZE, SegmentRecord, VERSION, encode_segment};
use super::super::{Config, LogPosition, StoreError, log_path};
use super::BlockStore;
use std::fs;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The end of the log.
pub(in crate::blockstore) struct Tail {
    pub segment: u32,
    pub file: Arc<dyn Medium>,
    /// Bytes in the segment.
    pub at: u64,
}

impl Tail {
    pub fn position(&self) -> LogPosition {
        LogPosition::new(self.segment, self.at as u32)
    }
}

impl BlockStore {
    /// Makes sure that `size` bytes fit into the last segment and that it ends where it should.
    pub(super) fn reserve(&mut self, size: usize) -> Result<(), StoreError> {
        self.cut_tail()?;
        if self.tail.at + size as u64 > self.config.segment_size {
            self.roll()?;
        }
        Ok(())
    }

    /// After an append of `size` bytes: moves the end, or cuts off what was written of it.
    pub(super) fn settle(&mut self, written: io::Result<()>, size: usize) -> Result<(), StoreError> {
        if let Err(e) = written {
            self.tail_dirty = true;
            // When this fails too it is tried again before the next append.
            let _ = self.cut_tail();
            return Err(StoreError::io("appending to", &log_path(&self.shared.dir, self.tail.segment), e));
        }
        self.tail.at += size as u64;
        self.shared.disk_bytes.fetch_add(size as u64, SeqCst);
        Ok(())
    }

    pub(super) fn cut_tail(&mut self) -> Result<(), StoreError> {
        if self.tail_dirty {
            let path = log_path(&self.shared.dir, self.tail.segment);
            self.tail.file.truncate(self.tail.at).map_err(|e| StoreError::io("truncating", &path, e))?;
            self.tail_dirty = false;
        }
        Ok(())
    }

    /// Begins a new segment. On an error nothing has changed.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        self.make_room();
        self.refuse_to_drop()?;
        let next = create_segment(&*self.volume, &self.shared.dir, self.tail.segment + 1, &self.config.genesis_hash)?;
        self.checkpoint(true);
        self.sealed.push_back((self.tail.segment, self.tail.at));
        self.shared.disk_bytes.fetch_add(next.at, SeqCst);
        let _ = self.jobs.send(Job::Segment { segment: next.segment, file: next.file.clone() });
        self.checkpoint_at = next.at;
        self.tail = next;
        Ok(())
    }

    /// Marks the oldest segments for deletion so that the next two fit below the limit: the keeper has the time
    /// it takes to fill one. Where it was too slow, deletes here. What the next start could use is left, and what it
    /// needs is left in any case.
    pub(super) fn make_room(&mut self) {
        let Config { limit_size, segment_size, .. } = self.config;
        self.drop_oldest(self.shared.wanted_after.load(SeqCst), limit_size - 2 * segment_size);
        self.drop_oldest(self.shared.needed_after.load(SeqCst), limit_size - segment_size);
        if self.disk_bytes() + segment_size > limit_size {
            self.shared.delete_doomed();
        }
    }

    /// Marks the oldest segments until the others take `bytes` or hold blocks after slot `held_after`.
    pub(super) fn drop_oldest(&mut self, held_after: u64, bytes: u64) {
        let kept = |shared: &Shared| shared.disk_bytes.load(SeqCst) - shared.doomed_bytes.load(SeqCst);
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

    /// An error when a new segment would be over the limit since nothing may be dropped.
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
) -> Result<Tail, StoreError> {
    let path = log_path(dir, segment);
    let file = match volume.create(&path) {
        // What an earlier attempt on a full disk left: this store's lock is held, so it is nobody else's.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&path).and_then(|()| volume.create(&path))
        }
        other => other,
    };
    let file = file.map_err(|e| StoreError::io("creating", &path, e))?;
    let head = SegmentRecord { version: VERSION, segment, genesis_hash: *genesis_hash };
    let bytes = encode_segment(&head, LogPosition::new(segment, 0));
    if let Err(e) = append_all(&*file, &mut [IoSlice::new(&bytes)]) {
        let _ = fs::remove_file(&path);
        return Err(StoreError::io("appending to", &path, e));
    }
    Ok(Tail { segment, file, at: SEGMENT_HEAD_SIZE as u64 })
}

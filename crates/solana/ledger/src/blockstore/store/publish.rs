//! After an append reached the kernel: updates readers, the keeper and the index files.
//!
//! reads   the end of the log
//! writes  the index, the marks of whole and durable slots, jobs of the keeper
//! memory  entries that a busy index kept back, entries since the last checkpoint

use super::super::background::Job;
use super::super::index::{Checkpoint, SlotEntry};
use super::super::{LogPosition, SyncPolicy};
use super::BlockStore;
use std::sync::atomic::Ordering::SeqCst;

/// The log is at most this far ahead of its index, which bounds the scan at startup.
const CHECKPOINT_BYTES: u64 = 16 << 20;
const CHECKPOINT_SLOTS: usize = 4096;
/// Index entries kept back while a reader holds the index.
const UNPUBLISHED_MAX: usize = 1024;

/// Whole slots whose durability was not yet fetched; beyond this number the oldest are dropped.
const WHOLE_SLOTS_MAX: usize = 65_536;

impl BlockStore {
    /// Publishes an append that reached the kernel to readers and the keeper.
    pub(super) fn finish_append(&mut self, slot: u64, whole: bool) {
        let end = self.tail.position();
        let open = self.open_slots.get_mut(&slot).expect("it was appended to");
        open.entry.end = end;
        open.entry.complete = whole;
        let entry = open.entry;
        if whole {
            self.open_slots.remove(&slot);
            if self.whole.len() >= WHOLE_SLOTS_MAX {
                self.whole.pop_front();
            }
            self.whole.push_back((end.to_bits(), slot));
        }
        self.changed.insert(slot, entry);
        self.shared.written.store(end.to_bits(), SeqCst);
        self.publish(Some(entry));
        self.ask_for_sync(end, whole.then_some(slot));
        if self.tail.at() >= self.checkpoint_at + CHECKPOINT_BYTES || self.changed.len() >= CHECKPOINT_SLOTS {
            self.checkpoint(false);
        }
    }

    /// Puts entries into the index, unless a reader holds it: then they are added with the next.
    pub(super) fn publish(&mut self, entry: Option<SlotEntry>) {
        self.unpublished.extend(entry);
        if self.unpublished.is_empty() {
            return;
        }
        let mut index = match self.shared.index.try_write() {
            Some(index) => index,
            None if self.unpublished.len() < UNPUBLISHED_MAX => return,
            None => self.shared.index.write(),
        };
        let oldest = self.shared.oldest_segment.load(SeqCst);
        // A slot longer than the whole log loses its start while it is written: it is not kept.
        self.unpublished.drain(..).filter(|e| e.first.segment() >= oldest).for_each(|e| index.put(e));
    }

    pub(super) fn ask_for_sync(&mut self, end: LogPosition, whole: Option<u64>) {
        let shared = &self.shared;
        let raise_whole = |mark: &std::sync::atomic::AtomicU64| {
            whole.inspect(|slot| {
                mark.fetch_max(slot + 1, SeqCst);
            })
        };
        match self.config.sync {
            SyncPolicy::Kernel => {
                shared.durable.store(end.to_bits(), SeqCst);
                raise_whole(&shared.whole_slot);
                raise_whole(&shared.durable_slot);
                return;
            }
            SyncPolicy::EachSlot if whole.is_none() => return,
            SyncPolicy::EachSlot | SyncPolicy::Every(_) => {}
        }
        // The keeper reads `whole_slot` first, so that slot precedes the `sync_to` that it reads next.
        shared.sync_to.store(end.to_bits(), SeqCst);
        raise_whole(&shared.whole_slot);
        if shared.idle.load(SeqCst) && shared.idle.swap(false, SeqCst) {
            let _ = self.jobs.send(Job::Wake);
        }
    }

    pub(super) fn checkpoint(&mut self, sealed: bool) {
        let entries = std::mem::take(&mut self.changed).into_values().collect();
        self.checkpoint_at = self.tail.at();
        let _ = self.jobs.send(Job::Checkpoint(Checkpoint { upto: self.tail.position(), sealed, entries }));
    }
}

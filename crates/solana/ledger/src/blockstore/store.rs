//! store: the writing side of the block store.
//!
//! reads   FEC sets
//! writes  the last segment of the log, one write(2) per set
//! memory  8 KiB at most for each slot being written, [`OPEN_SLOTS_MAX`] slots; entries since the last checkpoint
//! drops   duplicate sets, and those from `disable_from_slot` on: reported by [`AppendResult`]
//! source  mod.rs

mod publish;
mod segments;
mod slot;

use super::background::{BackgroundThread, Job, Shared};
use super::index::{Checkpoint, SlotEntry};
use super::record::{
    COMPLETE_SIZE, DISCARD_SIZE, FecSetRecord, encode_complete, encode_discard, encode_dump, encode_set,
    set_record_size,
};
use super::{Config, LogPosition, Reader, SHREDS_PER_SET, StoreError};
use hearth_wal::Volume;
use slot::{OpenSlot, malformed};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

pub(super) use segments::{LogTail, create_segment};

/// Maximum slots whose sets are tracked. Beyond it the lowest is untracked, and reread from the log when it continues.
const OPEN_SLOTS_MAX: usize = 256;

/// The result of appending a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendResult {
    /// It is in the log.
    Stored {
        /// Whether it was the slot's last missing set.
        slot_whole: bool,
    },
    /// A set of this slot and index is already in the log, or the slot is whole.
    Duplicate,
    /// Storing is disabled for this slot.
    Disabled,
}

/// The writer of a block store. Dropping it syncs and closes the store.
pub struct BlockStore {
    config: Config,
    volume: Arc<dyn Volume>,
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    keeper: Option<JoinHandle<()>>,
    tail: LogTail,
    sealed: VecDeque<(u32, u64)>,
    open_slots: BTreeMap<u64, OpenSlot>,
    /// Entries that could not be put into the index because a reader held it.
    unpublished: Vec<SlotEntry>,
    /// Entries changed since the last checkpoint.
    changed: BTreeMap<u64, SlotEntry>,
    checkpoint_at: u64,
    whole: VecDeque<(u64, u64)>,
    lock: File,
}

impl BlockStore {
    pub(super) fn start(
        lock: File,
        volume: Arc<dyn Volume>,
        config: Config,
        shared: Arc<Shared>,
        tail: LogTail,
        sealed: VecDeque<(u32, u64)>,
    ) -> (Self, BackgroundThread) {
        let (jobs, inbox) = channel();
        let keeper = BackgroundThread::new(shared.clone(), inbox, config.sync);
        let _ = jobs.send(Job::Segment { segment: tail.segment, file: tail.end.disk().clone() });
        let store = Self {
            config,
            volume,
            shared,
            jobs,
            keeper: None,
            checkpoint_at: tail.at(),
            tail,
            sealed,
            open_slots: BTreeMap::new(),
            unpublished: Vec::new(),
            changed: BTreeMap::new(),
            whole: VecDeque::new(),
            lock,
        };
        (store, keeper)
    }

    /// Gives the keeper a thread of its own.
    pub(super) fn run_keeper(&mut self, keeper: BackgroundThread) {
        let spawned = std::thread::Builder::new().name("blockstore".into()).spawn(move || keeper.run());
        self.keeper = Some(spawned.expect("a process that cannot start a thread cannot start tiles either"));
    }

    /// Completes the index files, closes slots whose sets are all present but whose closing record was torn, and drops
    /// what is over the limit.
    pub(super) fn resume(&mut self, checkpoints: Vec<Checkpoint>) -> Result<(), StoreError> {
        for checkpoint in checkpoints {
            let _ = self.jobs.send(Job::Checkpoint(checkpoint));
        }
        let unfinished: Vec<SlotEntry> = {
            let index = self.shared.index.read();
            index.slots.values().rev().filter(|e| !e.complete).take(OPEN_SLOTS_MAX).copied().collect()
        };
        for entry in unfinished {
            // A slot that cannot be read stays unfinished; readers get the error.
            let Ok(open) = self.track(entry) else { continue };
            self.open_slots.insert(entry.slot, open);
            self.close_if_whole(entry.slot)?;
        }
        self.make_room();
        Ok(())
    }

    /// A handle for reading on any thread.
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// Appends one FEC set: a write(2) that does not wait for the device. Once all of a slot's sets are stored it is
    /// closed.
    ///
    /// # Errors
    ///
    /// [`StoreError::NoRoom`]: nothing was appended, and the call may be retried. [`StoreError::BadSet`]: the set
    /// cannot belong to its slot. [`StoreError::SyncFailed`]: the device lost data; no later call succeeds.
    pub fn append_set(&mut self, set: &FecSetRecord<'_>) -> Result<AppendResult, StoreError> {
        if let Some(why) = self.shared.failure.get() {
            return Err(StoreError::SyncFailed(why.clone()));
        }
        if self.config.disable_from_slot.is_some_and(|from| set.slot >= from) {
            return Ok(AppendResult::Disabled);
        }
        let bad = |why| Err(StoreError::BadSet { slot: set.slot, fec_set_index: set.fec_set_index, why });
        if let Some(why) = malformed(set) {
            return bad(why);
        }
        if !self.open_slots.contains_key(&set.slot) && !self.open_slot(set)? {
            return Ok(AppendResult::Duplicate);
        }
        let open = &self.open_slots[&set.slot];
        if open.has(set.fec_set_index / SHREDS_PER_SET) {
            return Ok(AppendResult::Duplicate);
        }
        if let Some(why) = open.contradiction(set) {
            return bad(why);
        }
        let slot_whole = open.completes(set);
        self.write_set(set, slot_whole)?;
        Ok(AppendResult::Stored { slot_whole })
    }

    /// Calls `tell`, on another thread, whenever slots may have become durable or a sync has failed. Only the first
    /// callback is kept. Under [`SyncPolicy::Kernel`](super::SyncPolicy::Kernel) it is never called: slots are durable
    /// at once.
    pub fn on_durable(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.on_durable.set(Box::new(tell));
    }

    /// The slots that became durable since the last call, in the order in which they became whole. Call it regularly:
    /// it also publishes entries that a busy index kept back.
    pub fn durable_slots(&mut self) -> impl Iterator<Item = u64> {
        self.publish(None);
        let durable = self.shared.durable.load(SeqCst);
        let count = self.whole.partition_point(|(end, _)| *end <= durable);
        self.whole.drain(..count).map(|(_, slot)| slot)
    }

    /// Discards `slot` and all higher slots, whole or not, so that they can be written again: a leader that restarts
    /// after a kill makes other blocks in their place. Returns how many there were. For startup only: it waits for
    /// running syncs.
    ///
    /// # Errors
    ///
    /// As [`append_set`](Self::append_set); then nothing was discarded.
    pub fn discard_from(&mut self, slot: u64) -> Result<usize, StoreError> {
        self.publish(None);
        let shared = self.shared.clone();
        if shared.index.read().slots.range(slot..).next().is_none() {
            return Ok(0);
        }
        // A sync that ends later would restore the marks of the discarded slots.
        while shared.durable.load(SeqCst) < shared.sync_to.load(SeqCst) {
            if let Some(why) = shared.failure.get() {
                return Err(StoreError::SyncFailed(why.clone()));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.reserve(DISCARD_SIZE)?;
        let bytes = encode_discard(slot, self.tail.position());
        self.append(&mut [IoSlice::new(&bytes)])?;
        let mut index = shared.index.write();
        let forgotten = index.discard(slot);
        let whole = index.slots.values().rev().find(|e| e.complete).map_or(0, |e| e.slot + 1);
        drop(index);
        shared.whole_slot.store(whole, SeqCst);
        shared.durable_slot.store(whole, SeqCst);
        self.open_slots.retain(|s, _| *s < slot);
        self.whole.retain(|(_, s)| *s < slot);
        self.unpublished.retain(|e| e.slot < slot);
        let end = self.tail.position();
        self.changed.extend(forgotten.iter().map(|e| (e.slot, SlotEntry::gone(e.slot, end))));
        shared.written.store(end.to_bits(), SeqCst);
        self.ask_for_sync(end, None);
        Ok(forgotten.len())
    }

    /// Discards one slot, whole or not, so that another block can be stored in its place: its leader equivocated, and
    /// this version is not the cluster's. False if nothing is stored of it. A running sync may still report the slot as
    /// durable for a moment; what is written next gets its own sync.
    ///
    /// # Errors
    ///
    /// As [`append_set`](Self::append_set); then nothing was discarded.
    /// As [`append_set`](Self::append_set); then nothing was forgotten.
    pub fn dump(&mut self, slot: u64) -> Result<bool, StoreError> {
        if let Some(why) = self.shared.failure.get() {
            return Err(StoreError::SyncFailed(why.clone()));
        }
        let shared = self.shared.clone();
        let is_indexed = shared.index.read().slots.contains_key(&slot);
        if !is_indexed && !self.unpublished.iter().any(|e| e.slot == slot) {
            return Ok(false);
        }
        self.reserve(DISCARD_SIZE)?;
        let bytes = encode_dump(slot, self.tail.position());
        self.append(&mut [IoSlice::new(&bytes)])?;
        self.open_slots.remove(&slot);
        self.whole.retain(|(_, s)| *s != slot);
        self.unpublished.retain(|e| e.slot != slot);
        let mut index = shared.index.write();
        index.remove(slot);
        let whole = index.slots.values().rev().find(|e| e.complete).map_or(0, |e| e.slot + 1);
        drop(index);
        shared.whole_slot.fetch_min(whole, SeqCst);
        shared.durable_slot.fetch_min(whole, SeqCst);
        let end = self.tail.position();
        self.changed.insert(slot, SlotEntry::gone(slot, end));
        shared.written.store(end.to_bits(), SeqCst);
        self.ask_for_sync(end, None);
        Ok(true)
    }

    /// The highest whole slot that survives a power failure.
    pub fn durable_slot(&self) -> Option<u64> {
        self.shared.durable_slot.load(SeqCst).checked_sub(1)
    }

    /// Bytes that the store takes on disk, including segments being deleted.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(SeqCst)
    }

    /// Starts to track a slot. False if it is whole already.
    fn open_slot(&mut self, set: &FecSetRecord<'_>) -> Result<bool, StoreError> {
        let kept_back = self.unpublished.iter().rev().find(|e| e.slot == set.slot).copied();
        let held = kept_back.or_else(|| self.shared.index.read().slots.get(&set.slot).copied());
        let open = match held {
            Some(entry) if entry.complete => return Ok(false),
            Some(entry) => self.track(entry)?,
            None => OpenSlot::new(SlotEntry {
                slot: set.slot,
                parent_slot: set.parent_slot,
                first: self.tail.position(),
                end: self.tail.position(),
                set_count: 0,
                complete: false,
            }),
        };
        if self.open_slots.len() >= OPEN_SLOTS_MAX {
            self.open_slots.pop_first();
        }
        self.open_slots.insert(set.slot, open);
        Ok(true)
    }

    /// Reads from the log which sets of a slot are stored.
    fn track(&self, entry: SlotEntry) -> Result<OpenSlot, StoreError> {
        let mut open = OpenSlot::new(SlotEntry { set_count: 0, ..entry });
        self.reader().visit(&entry, |set| open.add(set))?;
        Ok(open)
    }

    fn write_set(&mut self, set: &FecSetRecord<'_>, slot_whole: bool) -> Result<(), StoreError> {
        let size = set_record_size(set.data.len());
        self.reserve(size + if slot_whole { COMPLETE_SIZE } else { 0 })?;
        let at = self.tail.position();
        let (head, padding) = encode_set(set, at);
        let open = self.open_slots.get_mut(&set.slot).expect("append_set opened it");
        let closing = slot_whole.then(|| {
            let mut record = open.closing();
            record.set_count += 1;
            record.data_bytes += set.data.len() as u64;
            if set.last_in_slot {
                record.block_id = set.merkle_root;
            }
            encode_complete(&record, LogPosition::new(at.segment(), at.offset() + size as u32))
        });
        let closing = closing.as_ref().map_or(&[][..], |c| &c[..]);
        let mut parts = [&head[..], set.data, padding, closing].map(IoSlice::new);
        self.append(&mut parts)?;
        let open = self.open_slots.get_mut(&set.slot).expect("append_set opened it");
        if open.entry.set_count == 0 {
            open.entry.first = at;
        }
        open.add(set);
        self.finish_append(set.slot, slot_whole);
        Ok(())
    }

    fn close_if_whole(&mut self, slot: u64) -> Result<(), StoreError> {
        let open = &self.open_slots[&slot];
        if open.last.is_none_or(|last| last + 1 != open.entry.set_count) {
            return Ok(());
        }
        let record = open.closing();
        self.reserve(COMPLETE_SIZE)?;
        let bytes = encode_complete(&record, self.tail.position());
        self.append(&mut [IoSlice::new(&bytes)])?;
        self.finish_append(slot, true);
        Ok(())
    }

    /// Waits until readers see everything appended, including what a busy index kept back, and no deletion is running.
    #[cfg(test)]
    pub(super) fn settle_all(&mut self) {
        self.shared.delete_doomed();
        while !self.unpublished.is_empty() {
            self.publish(None);
        }
    }
}

impl Drop for BlockStore {
    fn drop(&mut self) {
        let _ = self.cut_tail();
        self.publish(None);
        self.checkpoint(false);
        let _ = self.jobs.send(Job::Stop);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
        // Closing the file would release the lock, unless a child process that is just being started has inherited it.
        let _ = self.lock.unlock();
    }
}

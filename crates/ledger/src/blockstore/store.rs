//! store: the writing side of the block store.
//!
//! reads   FEC sets
//! writes  the last segment of the log, one write(2) for each set
//! memory  8 KiB at most for each slot being written, [`OPEN_SLOTS_MAX`] slots; entries since the last checkpoint
//! drops   sets seen before, and those from `disable_from_slot` on: told by [`Appended`]
//! source  mod.rs

use super::index::{Checkpoint, SlotEntry};
use super::keeper::{Job, Keeper, Shared};
use super::medium::{Medium, Volume, append_all};
use super::open::gone;
use super::record::{
    COMPLETE_SIZE, CompleteRecord, DISCARD_SIZE, FecSetRecord, SEGMENT_HEAD_SIZE, SET_DATA_SIZE_MAX, SegmentRecord,
    VERSION, encode_complete, encode_discard, encode_segment, encode_set, set_record_size,
};
use super::{Config, LogPosition, Reader, SHREDS_PER_SET, StoreError, SyncPolicy, log_path};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// Slots whose sets are being tracked; one more and the lowest is looked up in the log again when it goes on.
const OPEN_SLOTS_MAX: usize = 256;
/// FEC sets of one slot at most: twice what a million data shreds need.
const SET_COUNT_MAX: u32 = 65_536;
/// The log is at most this far ahead of its index, so that a start scans little.
const CHECKPOINT_BYTES: u64 = 16 << 20;
const CHECKPOINT_SLOTS: usize = 4096;
/// Index entries kept back while a reader holds the index.
const UNPUBLISHED_MAX: usize = 1024;
/// Whole slots whose durability was not asked for yet; the oldest are forgotten beyond.
const WHOLE_SLOTS_MAX: usize = 65_536;

/// What became of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is in the log.
    Stored {
        /// It was the last one missing of its slot.
        slot_whole: bool,
    },
    /// A set of this slot and index is in the log already, or the slot is whole.
    Duplicate,
    /// Storing is switched off for this slot.
    Disabled,
}

/// The end of the log.
pub(super) struct Tail {
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

/// The block store, to append to. Dropping it syncs and closes it.
pub struct BlockStore {
    config: Config,
    volume: Arc<dyn Volume>,
    shared: Arc<Shared>,
    jobs: Sender<Job>,
    keeper: Option<JoinHandle<()>>,
    tail: Tail,
    /// An append failed and its bytes could not be cut off yet.
    tail_dirty: bool,
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

/// Which sets of a slot are in the log.
struct OpenSlot {
    entry: SlotEntry,
    seen: Vec<u64>,
    highest: u32,
    /// The number of the last set, when it is known.
    last: Option<u32>,
    last_root: [u8; 32],
    data_bytes: u64,
}

impl OpenSlot {
    fn new(entry: SlotEntry) -> Self {
        Self { entry, seen: Vec::new(), highest: 0, last: None, last_root: [0; 32], data_bytes: 0 }
    }

    fn has(&self, number: u32) -> bool {
        self.seen.get(number as usize / 64).is_some_and(|w| w >> (number % 64) & 1 == 1)
    }

    /// Why `set` cannot belong to the block whose other sets are here.
    fn contradiction(&self, set: &FecSetRecord<'_>) -> Option<&'static str> {
        let number = set.fec_set_index / SHREDS_PER_SET;
        let any = self.entry.set_count > 0;
        if any && set.parent_slot != self.entry.parent_slot {
            Some("its parent is not that of the slot's other sets")
        } else if self.last.is_some_and(|last| number > last || set.last_in_slot) {
            Some("another set was the slot's last")
        } else if any && set.last_in_slot && number < self.highest {
            Some("it claims to be the last but a higher one is there")
        } else {
            None
        }
    }

    fn completes(&self, set: &FecSetRecord<'_>) -> bool {
        let last = if set.last_in_slot { Some(set.fec_set_index / SHREDS_PER_SET) } else { self.last };
        last == Some(self.entry.set_count)
    }

    fn add(&mut self, set: &FecSetRecord<'_>) {
        let number = set.fec_set_index / SHREDS_PER_SET;
        let word = number as usize / 64;
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        self.seen[word] |= 1 << (number % 64);
        self.highest = self.highest.max(number);
        self.entry.set_count += 1;
        self.data_bytes += set.data.len() as u64;
        if set.last_in_slot {
            self.last = Some(number);
            self.last_root = set.merkle_root;
        }
    }

    fn closing(&self) -> CompleteRecord {
        let SlotEntry { slot, parent_slot, set_count, .. } = self.entry;
        CompleteRecord { slot, parent_slot, set_count, data_bytes: self.data_bytes, block_id: self.last_root }
    }
}

impl BlockStore {
    pub(super) fn start(
        lock: File,
        volume: Arc<dyn Volume>,
        config: Config,
        shared: Arc<Shared>,
        tail: Tail,
        sealed: VecDeque<(u32, u64)>,
    ) -> Self {
        let (jobs, inbox) = channel();
        let keeper = Keeper::new(shared.clone(), inbox, config.sync);
        let spawned = std::thread::Builder::new().name("blockstore".into()).spawn(move || keeper.run());
        let _ = jobs.send(Job::Segment { segment: tail.segment, file: tail.file.clone() });
        Self {
            config,
            volume,
            shared,
            jobs,
            keeper: Some(spawned.expect("a process that cannot start a thread cannot start tiles either")),
            checkpoint_at: tail.at,
            tail,
            tail_dirty: false,
            sealed,
            open_slots: BTreeMap::new(),
            unpublished: Vec::new(),
            changed: BTreeMap::new(),
            whole: VecDeque::new(),
            lock,
        }
    }

    /// Completes the index files, closes slots whose sets are all there but whose closing record was torn, and
    /// drops what is over the limit.
    pub(super) fn resume(&mut self, checkpoints: Vec<Checkpoint>) -> Result<(), StoreError> {
        for checkpoint in checkpoints {
            let _ = self.jobs.send(Job::Checkpoint(checkpoint));
        }
        let unfinished: Vec<SlotEntry> = {
            let index = self.shared.index.read().unwrap_or_else(PoisonError::into_inner);
            index.slots.values().rev().filter(|e| !e.complete).take(OPEN_SLOTS_MAX).copied().collect()
        };
        for entry in unfinished {
            // A slot that cannot be read stays unfinished; a reader is told why.
            let Ok(open) = self.track(entry) else { continue };
            self.open_slots.insert(entry.slot, open);
            self.close_if_whole(entry.slot)?;
        }
        self.make_room();
        Ok(())
    }

    /// A handle to read with, for any thread.
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// Appends one FEC set: a write(2), no wait for the device. When all of a slot's sets are there it is closed.
    ///
    /// # Errors
    /// [`StoreError::NoRoom`]: nothing was appended, and the call may be made again. [`StoreError::BadSet`]: the
    /// set cannot belong to its slot. [`StoreError::SyncFailed`]: the device lost data; no call succeeds any more.
    pub fn append_set(&mut self, set: &FecSetRecord<'_>) -> Result<Appended, StoreError> {
        if let Some(why) = self.shared.failure.get() {
            return Err(StoreError::SyncFailed(why.clone()));
        }
        if self.config.disable_from_slot.is_some_and(|from| set.slot >= from) {
            return Ok(Appended::Disabled);
        }
        let bad = |why| Err(StoreError::BadSet { slot: set.slot, fec_set_index: set.fec_set_index, why });
        if let Some(why) = malformed(set) {
            return bad(why);
        }
        if !self.open_slots.contains_key(&set.slot) && !self.open_slot(set)? {
            return Ok(Appended::Duplicate);
        }
        let open = &self.open_slots[&set.slot];
        if open.has(set.fec_set_index / SHREDS_PER_SET) {
            return Ok(Appended::Duplicate);
        }
        if let Some(why) = open.contradiction(set) {
            return bad(why);
        }
        let slot_whole = open.completes(set);
        self.write_set(set, slot_whole)?;
        Ok(Appended::Stored { slot_whole })
    }

    /// Has `tell` called, from another thread, whenever slots may have become durable or a sync has failed. The
    /// first one given stays. Under [`SyncPolicy::Kernel`] it is not called: slots are durable at once.
    pub fn on_durable(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.shared.on_durable.set(Box::new(tell));
    }

    /// The slots that became durable since the last call, in the order in which they became whole. Call it now
    /// and then; it also shows readers what a busy index kept back.
    pub fn durable_slots(&mut self) -> impl Iterator<Item = u64> {
        self.publish(None);
        let durable = self.shared.durable.load(SeqCst);
        let count = self.whole.partition_point(|(end, _)| *end <= durable);
        self.whole.drain(..count).map(|(_, slot)| slot)
    }

    /// Forgets `slot` and all above it, whole or not, so that they can be written anew: a leader that starts
    /// again after a kill makes other blocks in their place. Returns how many there were. For the start: it waits
    /// for syncs under way.
    ///
    /// # Errors
    /// As [`append_set`](Self::append_set); then nothing was forgotten.
    pub fn discard_from(&mut self, slot: u64) -> Result<usize, StoreError> {
        self.publish(None);
        let shared = self.shared.clone();
        if shared.index.read().unwrap_or_else(PoisonError::into_inner).slots.range(slot..).next().is_none() {
            return Ok(0);
        }
        // A sync that ends later would bring the marks of the forgotten slots back.
        while shared.durable.load(SeqCst) < shared.sync_to.load(SeqCst) {
            if let Some(why) = shared.failure.get() {
                return Err(StoreError::SyncFailed(why.clone()));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        self.reserve(DISCARD_SIZE)?;
        let bytes = encode_discard(slot, self.tail.position());
        let written = append_all(&*self.tail.file, &mut [IoSlice::new(&bytes)]);
        self.settle(written, DISCARD_SIZE)?;
        let mut index = shared.index.write().unwrap_or_else(PoisonError::into_inner);
        let forgotten = index.discard(slot);
        let whole = index.slots.values().rev().find(|e| e.complete).map_or(0, |e| e.slot + 1);
        drop(index);
        shared.whole_slot.store(whole, SeqCst);
        shared.durable_slot.store(whole, SeqCst);
        self.open_slots.retain(|s, _| *s < slot);
        self.whole.retain(|(_, s)| *s < slot);
        self.unpublished.retain(|e| e.slot < slot);
        let end = self.tail.position();
        self.changed.extend(forgotten.iter().map(|e| (e.slot, gone(e.slot, end))));
        shared.written.store(end.to_bits(), SeqCst);
        self.ask_for_sync(end, None);
        Ok(forgotten.len())
    }

    /// The highest whole slot that survives a power failure.
    pub fn durable_slot(&self) -> Option<u64> {
        self.shared.durable_slot.load(SeqCst).checked_sub(1)
    }

    /// Bytes the store takes on disk, those being deleted included.
    pub fn disk_bytes(&self) -> u64 {
        self.shared.disk_bytes.load(SeqCst)
    }

    /// Begins to track a slot. False when it is whole already.
    fn open_slot(&mut self, set: &FecSetRecord<'_>) -> Result<bool, StoreError> {
        let kept_back = self.unpublished.iter().rev().find(|e| e.slot == set.slot).copied();
        let held = kept_back
            .or_else(|| self.shared.index.read().unwrap_or_else(PoisonError::into_inner).slots.get(&set.slot).copied());
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

    /// Finds out from the log which sets of a slot are there.
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
        let written = append_all(&*self.tail.file, &mut parts);
        self.settle(written, size + closing.len())?;
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
        let written = append_all(&*self.tail.file, &mut [IoSlice::new(&bytes)]);
        self.settle(written, COMPLETE_SIZE)?;
        self.finish_append(slot, true);
        Ok(())
    }

    /// Waits until readers see all that was appended, also what a busy index kept back, and nothing is being deleted.
    #[cfg(test)]
    pub(super) fn settle_all(&mut self) {
        self.shared.delete_doomed();
        while !self.unpublished.is_empty() {
            self.publish(None);
        }
    }

    /// Makes sure that `size` bytes fit into the last segment and that it ends where it should.
    fn reserve(&mut self, size: usize) -> Result<(), StoreError> {
        self.cut_tail()?;
        if self.tail.at + size as u64 > self.config.segment_size {
            self.roll()?;
        }
        Ok(())
    }

    /// After an append of `size` bytes: moves the end, or cuts off what was written of it.
    fn settle(&mut self, written: io::Result<()>, size: usize) -> Result<(), StoreError> {
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

    fn cut_tail(&mut self) -> Result<(), StoreError> {
        if self.tail_dirty {
            let path = log_path(&self.shared.dir, self.tail.segment);
            self.tail.file.truncate(self.tail.at).map_err(|e| StoreError::io("truncating", &path, e))?;
            self.tail_dirty = false;
        }
        Ok(())
    }

    /// After an append that the kernel has taken: tells readers and the keeper.
    fn finish_append(&mut self, slot: u64, whole: bool) {
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
        if self.tail.at >= self.checkpoint_at + CHECKPOINT_BYTES || self.changed.len() >= CHECKPOINT_SLOTS {
            self.checkpoint(false);
        }
    }

    /// Puts entries into the index unless a reader holds it: then they go with the next.
    fn publish(&mut self, entry: Option<SlotEntry>) {
        self.unpublished.extend(entry);
        if self.unpublished.is_empty() {
            return;
        }
        let index = match self.shared.index.try_write() {
            Ok(index) => Some(index),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if self.unpublished.len() < UNPUBLISHED_MAX => None,
            Err(TryLockError::WouldBlock) => Some(self.shared.index.write().unwrap_or_else(PoisonError::into_inner)),
        };
        let Some(mut index) = index else { return };
        let oldest = self.shared.oldest_segment.load(SeqCst);
        // A slot longer than the whole log loses its beginning while it is written: it is not kept.
        self.unpublished.drain(..).filter(|e| e.first.segment() >= oldest).for_each(|e| index.put(e));
    }

    fn ask_for_sync(&mut self, end: LogPosition, whole: Option<u64>) {
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
        // The keeper reads `whole_slot` first: what it finds there lies before the `sync_to` it reads then.
        shared.sync_to.store(end.to_bits(), SeqCst);
        raise_whole(&shared.whole_slot);
        if shared.idle.load(SeqCst) && shared.idle.swap(false, SeqCst) {
            let _ = self.jobs.send(Job::Wake);
        }
    }

    fn checkpoint(&mut self, sealed: bool) {
        let entries = std::mem::take(&mut self.changed).into_values().collect();
        self.checkpoint_at = self.tail.at;
        let _ = self.jobs.send(Job::Checkpoint(Checkpoint { upto: self.tail.position(), sealed, entries }));
    }

    /// Begins a new segment. On an error nothing has changed.
    fn roll(&mut self) -> Result<(), StoreError> {
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
    fn make_room(&mut self) {
        let Config { limit_size, segment_size, .. } = self.config;
        self.drop_oldest(self.shared.wanted_after.load(SeqCst), limit_size - 2 * segment_size);
        self.drop_oldest(self.shared.needed_after.load(SeqCst), limit_size - segment_size);
        if self.disk_bytes() + segment_size > limit_size {
            self.shared.delete_doomed();
        }
    }

    /// Marks the oldest segments until the others take `bytes` or hold blocks after slot `held_after`.
    fn drop_oldest(&mut self, held_after: u64, bytes: u64) {
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
    fn refuse_to_drop(&self) -> Result<(), StoreError> {
        let (limit_size, needed_after) = (self.config.limit_size, self.shared.needed_after.load(SeqCst));
        if self.disk_bytes() + self.config.segment_size > limit_size && needed_after != u64::MAX {
            return Err(StoreError::Held { limit_size, needed_after });
        }
        Ok(())
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
        // Closing the file would do, were it not for a child process that is just being started and has it too.
        let _ = self.lock.unlock();
    }
}

/// Why a set cannot belong to any block.
fn malformed(set: &FecSetRecord<'_>) -> Option<&'static str> {
    if !set.fec_set_index.is_multiple_of(SHREDS_PER_SET) {
        Some("its index is not a multiple of 32")
    } else if set.fec_set_index / SHREDS_PER_SET >= SET_COUNT_MAX {
        Some("its index is beyond what a slot may have")
    } else if set.data.len() > SET_DATA_SIZE_MAX {
        Some("its data are longer than a set can carry")
    } else if set.parent_slot > set.slot || (set.parent_slot == set.slot && set.slot != 0) {
        Some("its parent is not before it")
    } else {
        None
    }
}

/// A new segment file with its first record.
pub(super) fn create_segment(
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

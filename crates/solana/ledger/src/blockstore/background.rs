//! background: the store's background thread, which does everything that may block.
//!
//! reads   positions that the writer has reached, jobs from the writer
//! writes  index checkpoints; syncs segments; deletes dropped ones
//! memory  one job per segment and per checkpoint; a checkpoint holds 56 B for each slot that changed
//! source  fdatasync(2): after a failure the kernel may have dropped the pages, so a failure is final

use super::index::{Checkpoint, Index};
use super::{Config, LogPosition, StoreError, SyncPolicy, index_path, log_path};
use hearth_wal::{Disk, files};
use parking_lot::{Mutex, RwLock};
use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Index entries removed under one hold of the lock.
const FORGET_AT_ONCE: usize = 128;

/// The state that the writer, the keeper and the readers share.
pub(super) struct Shared {
    pub dir: PathBuf,
    pub index: RwLock<Index>,
    /// End of the data that the kernel has.
    pub written: AtomicU64,
    /// End of the data that the keeper must sync.
    pub sync_to: AtomicU64,
    /// End of the durable data.
    pub durable: AtomicU64,
    /// One above the highest complete slot; 0 if there is none.
    pub whole_slot: AtomicU64,
    /// One above the highest complete slot that is durable; 0 if there is none.
    pub durable_slot: AtomicU64,
    /// Bytes of all files, including segments about to be deleted.
    pub disk_bytes: AtomicU64,
    /// Bytes of segments about to be deleted.
    pub doomed_bytes: AtomicU64,
    /// The oldest segment that is not about to be deleted.
    pub oldest_segment: AtomicU32,
    /// Blocks after this slot should be kept even beyond the limit; `u64::MAX` if none need be.
    pub wanted_after: AtomicU64,
    /// Blocks after this slot must be kept; the store refuses appends rather than dropping them.
    pub needed_after: AtomicU64,
    pub limit_size: u64,
    pub segment_size: u64,
    /// Whether the keeper is waiting for a job and nothing else.
    pub idle: AtomicBool,
    /// Why the keeper could not sync data.
    pub failure: OnceLock<String>,
    /// Called on the keeper's thread after each sync, and after a failed one.
    pub on_durable: OnceLock<Box<dyn Fn() + Send + Sync>>,
    doomed: Mutex<VecDeque<DoomedSegment>>,
}

struct DoomedSegment {
    segment: u32,
    bytes: u64,
}

impl Shared {
    /// The state of a store with this `index`, whose log is durable up to its end at `end`.
    pub fn new(
        dir: &Path,
        config: &Config,
        index: Index,
        end: LogPosition,
        oldest_segment: u32,
        disk_bytes: u64,
    ) -> Self {
        let whole = index.slots.values().rev().find(|e| e.complete).map_or(0, |e| e.slot + 1);
        Self {
            dir: dir.to_path_buf(),
            index: RwLock::new(index),
            written: AtomicU64::new(end.to_bits()),
            sync_to: AtomicU64::new(end.to_bits()),
            durable: AtomicU64::new(end.to_bits()),
            whole_slot: AtomicU64::new(whole),
            durable_slot: AtomicU64::new(whole),
            disk_bytes: AtomicU64::new(disk_bytes),
            doomed_bytes: AtomicU64::new(0),
            oldest_segment: AtomicU32::new(oldest_segment),
            wanted_after: AtomicU64::new(u64::MAX),
            needed_after: AtomicU64::new(u64::MAX),
            limit_size: config.limit_size,
            segment_size: config.segment_size,
            idle: AtomicBool::new(false),
            failure: OnceLock::new(),
            on_durable: OnceLock::new(),
            doomed: Mutex::default(),
        }
    }

    /// The first segment in which a block after `slot` begins; `None` if there is none.
    pub fn first_segment_after(&self, slot: u64) -> Option<u32> {
        let from = slot.checked_add(1)?;
        let index = self.index.read();
        index.slots.range(from..).map(|(_, entry)| entry.first.segment()).min()
    }

    /// Marks a segment for deletion.
    pub fn doom(&self, segment: u32, log_bytes: u64) {
        let index_bytes = fs::metadata(index_path(&self.dir, segment)).map_or(0, |m| m.len());
        let bytes = log_bytes + index_bytes;
        self.oldest_segment.store(segment + 1, SeqCst);
        self.doomed_bytes.fetch_add(bytes, SeqCst);
        self.doomed.lock().push_back(DoomedSegment { segment, bytes });
    }

    /// Deletes the marked segments; returns once they are gone, even if another thread was deleting them.
    pub fn delete_doomed(&self) {
        let mut doomed = self.doomed.lock();
        while let Some(DoomedSegment { segment, bytes }) = doomed.pop_front() {
            while self.index.write().forget(segment, FORGET_AT_ONCE) {}
            // Readers that have the file open keep it until they are done. A file that cannot be deleted is found and
            // counted at the next start.
            let _ = fs::remove_file(index_path(&self.dir, segment));
            let _ = fs::remove_file(log_path(&self.dir, segment));
            self.disk_bytes.fetch_sub(bytes, SeqCst);
            self.doomed_bytes.fetch_sub(bytes, SeqCst);
        }
    }
}

/// A job from the writer to the keeper.
pub(super) enum Job {
    /// A new segment is being written; the previous one is complete.
    Segment { segment: u32, file: Arc<dyn Disk> },
    /// To be written once the log is durable up to its position.
    Checkpoint(Checkpoint),
    /// Segments were marked for deletion.
    Delete,
    /// `sync_to` has moved while the keeper was idle.
    Wake,
    /// Sync everything and end.
    Stop,
}

/// A keeper without a thread: the opener of the store decides when it works, and so how long a sync takes.
pub struct SteppedKeeper(BackgroundThread);

impl SteppedKeeper {
    pub(super) fn new(keeper: BackgroundThread) -> Self {
        Self(keeper)
    }

    /// Whether there is something to sync. Under [`SyncPolicy::Every`] this goes by the machine's clock.
    pub fn is_due(&self) -> bool {
        self.0.sync_due().is_some_and(|due| due.is_zero())
    }

    /// Syncs what is due, as one turn of the thread would, and writes the index that goes with it.
    pub fn step(&mut self) {
        self.0.work();
    }
}

pub(super) struct BackgroundThread {
    shared: Arc<Shared>,
    jobs: Receiver<Job>,
    policy: SyncPolicy,
    /// Segments written to since their last final sync; the last is the one being written.
    unsynced: VecDeque<(u32, Arc<dyn Disk>)>,
    checkpoints: VecDeque<Checkpoint>,
    new_names: bool,
    last_sync: Instant,
    stopping: bool,
}

impl BackgroundThread {
    pub fn new(shared: Arc<Shared>, jobs: Receiver<Job>, policy: SyncPolicy) -> Self {
        Self {
            shared,
            jobs,
            policy,
            unsynced: VecDeque::new(),
            checkpoints: VecDeque::new(),
            new_names: false,
            last_sync: Instant::now(),
            stopping: false,
        }
    }

    /// Runs until it is stopped or the writer is gone.
    pub fn run(mut self) {
        while !self.stopping {
            self.wait();
            self.work();
        }
        if self.policy != SyncPolicy::Kernel && self.shared.failure.get().is_none() {
            let (whole, target) = (self.shared.whole_slot.load(SeqCst), self.shared.written.load(SeqCst));
            self.sync(target, whole);
        }
        self.write_checkpoints();
    }

    /// Takes the pending jobs, and carries out the syncs and writes that are due.
    fn work(&mut self) {
        // In this order: complete slots precede the sync target, and the segments that the target needs were
        // announced before it was set.
        let whole = self.shared.whole_slot.load(SeqCst);
        let target = self.shared.sync_to.load(SeqCst);
        self.take_jobs();
        if self.sync_due().is_some_and(|due| due.is_zero()) {
            self.sync(target, whole);
        }
        self.write_checkpoints();
    }

    /// How long until the next sync; `None` if there is nothing to sync.
    fn sync_due(&self) -> Option<Duration> {
        let shared = &self.shared;
        let behind = shared.sync_to.load(SeqCst) > shared.durable.load(SeqCst);
        (behind && shared.failure.get().is_none()).then(|| match self.policy {
            SyncPolicy::EachSlot | SyncPolicy::Kernel => Duration::ZERO,
            SyncPolicy::Every(period) => period.saturating_sub(self.last_sync.elapsed()),
        })
    }

    /// Waits for a job or until a sync is due.
    fn wait(&mut self) {
        let job = match self.sync_due() {
            Some(due) if due.is_zero() => return,
            Some(due) => self.jobs.recv_timeout(due),
            None => {
                self.shared.idle.store(true, SeqCst);
                if self.sync_due().is_some() {
                    self.shared.idle.store(false, SeqCst);
                    return;
                }
                let job = self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected);
                self.shared.idle.store(false, SeqCst);
                job
            }
        };
        match job {
            Ok(job) => self.take(job),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.stopping = true,
        }
    }

    fn take_jobs(&mut self) {
        loop {
            match self.jobs.try_recv() {
                Ok(job) => self.take(job),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    return;
                }
            }
        }
    }

    fn take(&mut self, job: Job) {
        match job {
            Job::Segment { segment, file } => {
                self.unsynced.push_back((segment, file));
                self.new_names = true;
            }
            Job::Checkpoint(checkpoint) => self.checkpoints.push_back(checkpoint),
            Job::Delete => self.shared.delete_doomed(),
            Job::Wake => {}
            Job::Stop => self.stopping = true,
        }
    }

    fn sync(&mut self, target: u64, whole: u64) {
        self.last_sync = Instant::now();
        match self.try_sync() {
            Ok(()) => {
                self.shared.durable.fetch_max(target, SeqCst);
                self.shared.durable_slot.fetch_max(whole, SeqCst);
            }
            Err(e) => {
                let _ = self.shared.failure.set(e.to_string());
            }
        }
        if let Some(tell) = self.shared.on_durable.get() {
            tell();
        }
    }

    fn try_sync(&mut self) -> Result<(), StoreError> {
        let dir = &self.shared.dir;
        if self.new_names {
            files::sync_dir(dir).map_err(|e| StoreError::io("syncing", dir, e))?;
            self.new_names = false;
        }
        while let Some((segment, file)) = self.unsynced.front() {
            file.sync().map_err(|e| StoreError::io("syncing", &log_path(dir, *segment), e))?;
            if self.unsynced.len() == 1 {
                break;
            }
            self.unsynced.pop_front();
        }
        Ok(())
    }

    /// Writes the checkpoints that the durable log has reached. If one cannot be written it is retried later, before
    /// those after it, which would otherwise claim its entries.
    fn write_checkpoints(&mut self) {
        while let Some(checkpoint) = self.checkpoints.front() {
            let reached = checkpoint.upto.to_bits() <= self.shared.durable.load(SeqCst);
            if !reached || self.append_checkpoint(checkpoint).is_err() {
                return;
            }
            self.checkpoints.pop_front();
        }
    }

    fn append_checkpoint(&self, checkpoint: &Checkpoint) -> std::io::Result<()> {
        let segment = checkpoint.upto.segment();
        if segment < self.shared.oldest_segment.load(SeqCst) {
            return Ok(());
        }
        let block = checkpoint.encode();
        let path = index_path(&self.shared.dir, segment);
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        let before = file.metadata()?.len();
        if let Err(e) = file.write_all(&block) {
            file.set_len(before)?;
            return Err(e);
        }
        self.shared.disk_bytes.fetch_add(block.len() as u64, SeqCst);
        match checkpoint.sealed && self.policy != SyncPolicy::Kernel {
            true => file.sync_data(),
            false => Ok(()),
        }
    }
}

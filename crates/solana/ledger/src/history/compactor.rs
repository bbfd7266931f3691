//! compactor: the history's background thread. It indexes new records, seals full segments, and drops old ones.
//!
//! reads   the log behind the writer
//! writes  the index in memory; tables, in a parallel thread; syncs segments; deletes old ones
//! memory  the blocks that are not closed; a full segment's index until its table is written, one at a time
//! drops   the oldest segments beyond the limit

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::batch::Batch;
use super::index::{ClosedSlot, Index, PendingTransactions, push_run};
use super::meta::BlockMeta;
use super::record::Kind;
use super::scan::{Step, Walk};
use super::table::Table;
use super::{Config, HistoryError, HistoryKey, log_path, table_path};

/// Interval between syncs of the segment that is being written.
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// Retry interval for a table that the disk did not accept.
const RETRY_EVERY: Duration = Duration::from_millis(500);

/// The state that readers see.
#[derive(Default)]
pub(super) struct State {
    /// Full segments with their tables, the oldest first.
    pub tables: VecDeque<Arc<Table>>,
    /// Full segments whose tables are being written, the oldest first.
    pub full: VecDeque<InMemory>,
    /// The segment that is being written.
    pub open: InMemory,
}

/// The index of one segment while it is in memory.
pub(super) type InMemory = Arc<RwLock<Index>>;

/// The state that the writer, the historian and the readers share.
pub(super) struct Shared {
    pub dir: PathBuf,
    pub config: Config,
    pub key: HistoryKey,
    pub state: RwLock<State>,
    /// One above the last indexed block; 0 if there is none.
    pub indexed_slot: AtomicU64,
    /// Bytes of the log indexed since the start.
    pub indexed_bytes: AtomicU64,
    /// Bytes of all files.
    pub disk_bytes: AtomicU64,
    /// The node is stopping: tables that the disk does not accept are abandoned.
    pub stopping: AtomicBool,
    /// Why indexing has stopped.
    pub failure: OnceLock<String>,
    /// Called on the historian's thread after each block, and when indexing failed.
    pub on_indexed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    pub fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }

    /// Calls `look` on the index of the segment that is being written.
    pub fn open<T>(&self, look: impl FnOnce(&Index) -> T) -> T {
        let open = self.state().open.clone();
        look(&open.read())
    }

    /// Publishes a block in the index.
    pub fn publish(&self, mut closed: ClosedSlot) {
        let (mut signatures, mut addresses) = self.open(|index| (index.signatures.clone(), index.addresses.clone()));
        // Merged without the lock: no other thread changes the index.
        push_run(&mut signatures, std::mem::take(&mut closed.signatures));
        push_run(&mut addresses, std::mem::take(&mut closed.addresses));
        let open = self.state().open.clone();
        open.write().join(&closed, signatures, addresses);
        self.indexed_slot.store(closed.slot.slot + 1, SeqCst);
    }

    /// Adds an existing table behind the others.
    pub fn show(&self, table: Table) -> Arc<Table> {
        let table = Arc::new(table);
        self.state_mut().tables.push_back(table.clone());
        table
    }

    /// Starts with this segment.
    pub fn begin(&self, segment: u32) {
        self.state_mut().open = Arc::new(RwLock::new(Index::new(segment)));
    }

    /// Moves the open segment to the full ones and opens another. `pending` are the blocks that are not closed.
    pub fn fill(&self, next: u32, pending: &PendingTransactions) -> InMemory {
        let mut state = self.state_mut();
        let full = std::mem::replace(&mut state.open, Arc::new(RwLock::new(Index::new(next))));
        full.write().unclosed_from = pending.first().unwrap_or((next, 0));
        state.full.push_back(full.clone());
        full
    }

    /// Writes the table of a full segment and replaces the index in memory with it.
    pub fn seal(&self, full: &InMemory) -> Result<(), HistoryError> {
        let index = &*full.read();
        let log = log_path(&self.dir, index.segment);
        let file = File::open(&log).map_err(|e| HistoryError::io("opening", &log, e))?;
        if self.config.sync {
            file.sync_data().map_err(|e| HistoryError::io("syncing", &log, e))?;
        }
        let bytes = file.metadata().map_err(|e| HistoryError::io("looking at", &log, e))?.len();
        let table = Table::create(&self.dir, index, bytes, self.config.sync)?;
        self.disk_bytes.fetch_add(table.disk_bytes - bytes, SeqCst);
        let mut state = self.state_mut();
        state.full.retain(|other| !Arc::ptr_eq(other, full));
        state.tables.push_back(Arc::new(table));
        Ok(())
    }

    /// Deletes the oldest segments until two more fit below the limit.
    pub fn make_room(&self) {
        let Config { limit_size, segment_size, .. } = self.config;
        while self.disk_bytes.load(SeqCst) + 2 * segment_size > limit_size {
            let Some(oldest) = self.state_mut().tables.pop_front() else { return };
            // Readers that have a file open keep it until they are done.
            let _ = fs::remove_file(table_path(&self.dir, oldest.segment));
            let _ = fs::remove_file(log_path(&self.dir, oldest.segment));
            self.disk_bytes.fetch_sub(oldest.disk_bytes, SeqCst);
        }
    }

    fn fail(&self, why: &impl std::fmt::Display) {
        let _ = self.failure.set(why.to_string());
        self.tell();
    }

    fn tell(&self) {
        if let Some(tell) = self.on_indexed.get() {
            tell();
        }
    }
}

/// A job from the writer to the historian.
pub(super) enum Job {
    /// The current segment is written up to this offset.
    Written(u64),
    /// The segment is full, and this is the next.
    Next(u32),
    /// Index everything and end.
    Stop,
}

/// A scan over a segment that feeds its index.
pub(super) struct Feed<'s> {
    pub shared: &'s Shared,
    pub pending: &'s mut PendingTransactions,
}

/// The result of a record in a [`Feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordOutcome {
    /// It is in the index, or is retained until its block is closed.
    Indexed,
    /// It closes a block with missing batches.
    Misfit,
    /// It closes a block above the last one wanted.
    Beyond,
}

impl Feed<'_> {
    /// Indexes the record of `segment` between `at` and `end`.
    pub fn take(
        &mut self,
        (segment, at, end): (u32, u64, u64),
        kind: Kind,
        body: &[u8],
        keep_to: u64,
    ) -> RecordOutcome {
        match kind {
            Kind::Head => {}
            Kind::Reopened => self.pending.clear(),
            Kind::Batch => self.pending.add(&self.shared.key, segment, at, &Batch::read(body)),
            Kind::Close => {
                let Some(block) = BlockMeta::decode(body) else { return RecordOutcome::Misfit };
                if block.slot > keep_to {
                    return RecordOutcome::Beyond;
                }
                let ends = self.shared.open(Index::ends);
                let Some(closed) = self.pending.close(&ends, &block, (at, end)) else { return RecordOutcome::Misfit };
                self.shared.publish(closed);
                self.shared.tell();
            }
        }
        RecordOutcome::Indexed
    }

    /// Indexes the records of `segment` from `at` to `end`; returns the offset of the first bad one, if any.
    pub fn records(&mut self, file: &File, segment: u32, (at, end): (u64, u64)) -> std::io::Result<Option<u64>> {
        let mut walk = Walk::new(file, segment, at, end);
        loop {
            match walk.step()? {
                Step::End => return Ok(None),
                Step::Damage { at, .. } => return Ok(Some(at)),
                Step::Record { kind, body, at, end } => {
                    if self.take((segment, at, end), kind, body, u64::MAX) != RecordOutcome::Indexed {
                        return Ok(Some(at));
                    }
                }
            }
        }
    }
}

pub(super) struct Compactor {
    shared: Arc<Shared>,
    jobs: Receiver<Job>,
    pending: PendingTransactions,
    segment: u32,
    file: Option<File>,
    /// The indexed length of the segment.
    at: u64,
    synced_at: Instant,
    unsynced: bool,
    sealer: Option<JoinHandle<()>>,
}

impl Compactor {
    /// A historian that continues at `at` of the open segment, where all blocks are closed.
    pub fn new(shared: Arc<Shared>, jobs: Receiver<Job>, at: u64) -> Self {
        let segment = shared.open(|index| index.segment);
        let (pending, synced_at) = (PendingTransactions::default(), Instant::now());
        Self { shared, jobs, pending, segment, file: None, at, synced_at, unsynced: false, sealer: None }
    }

    /// Runs until it is stopped or the writer is gone.
    pub fn run(mut self) {
        loop {
            let wait = if self.unsynced { SYNC_EVERY.saturating_sub(self.synced_at.elapsed()) } else { Duration::MAX };
            let job = match self.jobs.recv_timeout(wait.min(Duration::from_secs(1 << 30))) {
                Ok(job) => Some(job),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Job::Stop),
            };
            let done = match job {
                Some(Job::Written(to)) => self.index(to),
                Some(Job::Next(segment)) => {
                    self.next(segment);
                    Ok(())
                }
                Some(Job::Stop) => break,
                None => Ok(()),
            };
            if let Err(error) = done.and_then(|()| self.sync()) {
                self.shared.fail(&error);
                return;
            }
        }
        if let Some(sealer) = self.sealer.take() {
            let _ = sealer.join();
        }
        self.synced_at -= SYNC_EVERY;
        let _ = self.sync();
    }

    fn index(&mut self, to: u64) -> Result<(), HistoryError> {
        let path = log_path(&self.shared.dir, self.segment);
        if self.file.is_none() {
            self.file = Some(File::open(&path).map_err(|e| HistoryError::io("opening", &path, e))?);
        }
        let file = self.file.as_ref().expect("it was opened above");
        let mut feed = Feed { shared: &self.shared, pending: &mut self.pending };
        let bad = feed.records(file, self.segment, (self.at, to));
        if let Some(offset) = bad.map_err(|e| HistoryError::io("reading", &path, e))? {
            return Err(HistoryError::Corrupt { file: path, offset, what: "a record is not as it was written" });
        }
        self.shared.indexed_bytes.fetch_add(to - self.at, SeqCst);
        self.at = to;
        self.unsynced = self.shared.config.sync;
        Ok(())
    }

    /// Syncs the segment at intervals.
    fn sync(&mut self) -> Result<(), HistoryError> {
        if self.unsynced && self.synced_at.elapsed() >= SYNC_EVERY {
            let path = log_path(&self.shared.dir, self.segment);
            let synced = self.file.as_ref().map_or(Ok(()), File::sync_data);
            synced.map_err(|e| HistoryError::io("syncing", &path, e))?;
            (self.synced_at, self.unsynced) = (Instant::now(), false);
        }
        Ok(())
    }

    /// Opens another segment, while the full one is sealed.
    fn next(&mut self, segment: u32) {
        if let Some(sealer) = self.sealer.take() {
            let _ = sealer.join();
        }
        let full = self.shared.fill(segment, &self.pending);
        (self.segment, self.file, self.at) = (segment, None, 0);
        let shared = self.shared.clone();
        let seal = move || {
            while let Err(error) = shared.seal(&full) {
                // The disk is full: the index stays in memory until there is room.
                if shared.stopping.load(SeqCst) || !matches!(error, HistoryError::NoRoom { .. }) {
                    shared.fail(&error);
                    return;
                }
                shared.make_room();
                std::thread::sleep(RETRY_EVERY);
            }
            shared.make_room();
        };
        // If no thread can be started it is done here, and blocks wait for it.
        match std::thread::Builder::new().name("history-table".into()).spawn(seal.clone()) {
            Ok(sealer) => self.sealer = Some(sealer),
            Err(_) => seal(),
        }
    }
}

/// Removes a segment beyond the end of the log.
pub(super) fn remove_segment(dir: &Path, segment: u32) -> Result<(), HistoryError> {
    for path in [table_path(dir, segment), log_path(dir, segment)] {
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(HistoryError::io("removing", &path, e)),
            _ => {}
        }
    }
    Ok(())
}

//! schedule: decides when a snapshot or an archive is due, and tracks pending cuts and existing snapshots.
//!
//! reads   the bytes that the block store has taken since the last snapshot
//! writes  cuts to the snapshot thread; which blocks the block store must keep for the kept snapshots
//! memory  a cut, about 50 KB
//! drops   a snapshot that is due while another is being written, until that is done
//! source  mod.rs
//!
//! The ledger calls this at each slot's end, and does not know the thread that writes ([`crate::snapshot_taker`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

use hearth_wire::Hash;
use parking_lot::Mutex;

use super::error::SnapshotError;
use super::folder::{Folder, SnapshotFile};
use super::manifest::Manifest;
use crate::blockstore::Reader;
use crate::features::ActiveFeatures;

/// Slots after which a failed snapshot that was due for want of room is retried.
const RETRY_SLOTS: u64 = 50;
/// A snapshot is due early if the blocks since the last one take this fraction of the block store's limit, so that the
/// blocks since the last two, which are kept, leave room.
const BLOCKS_PART: u64 = 4;

/// The schedule of snapshots.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotConfig {
    /// A snapshot is taken at the first block at or after each multiple of this many slots.
    pub interval_slots: u64,
    /// Number of snapshots to keep, at least one.
    pub keep: usize,
}

/// The ledger at the end of a slot, without accounts and statuses, which preserve their state themselves.
pub(crate) struct Cut {
    /// Lacks the block's id and the bank's hash, which are not known yet.
    pub(crate) manifest: Manifest,
    /// The features of the block.
    pub(crate) features: Arc<ActiveFeatures>,
    /// The era that the block ended.
    pub(crate) era: u32,
    /// The files that it was made for.
    pub(crate) due: DueSnapshots,
}

/// The files that are due at the end of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DueSnapshots {
    /// A snapshot of our own format.
    pub(crate) own: bool,
    /// An archive of the cluster's.
    pub(crate) archive: Option<DueArchive>,
}

/// The kind of an archive that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DueArchive {
    /// A full one, which holds all accounts.
    Full,
    /// An incremental one on this full one.
    Incremental(Base),
}

impl DueArchive {
    /// The full archive on which it builds.
    pub(crate) fn base(self) -> Option<Base> {
        match self {
            Self::Full => None,
            Self::Incremental(base) => Some(base),
        }
    }
}

/// A full archive that was written since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    /// The slot at whose end its state was captured.
    pub(crate) slot: u64,
    /// The era that its block ended.
    pub(crate) era: u32,
}

/// A job for the snapshot thread.
pub(crate) enum Job {
    /// Writes what is due at this cut.
    Cut(Box<Cut>),
    /// Ends the thread, which reads no later job.
    Stop,
}

/// The snapshots of a running chain.
pub struct Snapshots {
    config: SnapshotConfig,
    pub(crate) folder: Folder,
    pub(crate) blocks: Reader,
    jobs: Sender<Job>,
    stopping: AtomicBool,
    /// Whether a cut exists that is not written yet.
    busy: AtomicBool,
    /// Whether the block at whose end it was made was undone.
    undone: AtomicBool,
    last_cut: AtomicU64,
    newest: AtomicU64,
    /// The newest snapshot and its bank hash, if that is known.
    proved: Mutex<Option<(u64, Hash)>>,
    taken: AtomicU64,
    given_up: AtomicU64,
    /// Whether the last snapshot failed.
    failed: AtomicBool,
    /// The archives that are written beside them, if any are.
    archives: Option<Archives>,
}

/// The schedule of archives.
struct Archives {
    /// Slots between two incremental ones; 0: there are none.
    interval_slots: u64,
    /// The newest full one that was written since the start.
    base: Mutex<Option<Base>>,
    /// Whether the turn of a full one, and of a snapshot, came while another was being written.
    is_owed: AtomicBool,
    written: AtomicU64,
    given_up: AtomicU64,
}

impl Archives {
    /// The files that are due at the end of `slot`, if it is no turn of a full archive.
    fn due(&self, slot: u64, parent: u64) -> DueSnapshots {
        if !is_turn(self.interval_slots, slot, parent) {
            return DueSnapshots::default();
        }
        if self.is_owed.swap(false, Relaxed) {
            return DueSnapshots { own: true, archive: Some(DueArchive::Full) };
        }
        // What changed since an archive of an earlier run is not known.
        let archive = self.base.lock().map_or(DueArchive::Full, DueArchive::Incremental);
        DueSnapshots { own: false, archive: Some(archive) }
    }
}

/// Whether the block of `slot`, which follows that of `parent`, is the first at or after a multiple of `interval`.
fn is_turn(interval: u64, slot: u64, parent: u64) -> bool {
    interval > 0 && slot / interval > parent / interval
}

impl Snapshots {
    /// The snapshots in `folder`, and the inbox of the snapshot thread. `bank_hash` returns the bank hash of a recent
    /// slot. With `incremental_slots` archives are written, too: full ones with the snapshots, and incremental ones at
    /// this interval, which may be 0 for none.
    pub(crate) fn new(
        config: SnapshotConfig,
        incremental_slots: Option<u64>,
        folder: Folder,
        blocks: Reader,
        bank_hash: impl Fn(u64) -> Option<Hash>,
    ) -> Result<(Self, Receiver<Job>), SnapshotError> {
        let files = folder.files()?;
        let (jobs, inbox) = channel();
        let slot_of = |file: Option<&SnapshotFile>| file.map_or(0, |file| file.slot);
        let (oldest, newest) = (slot_of(files.last()), slot_of(files.first()));
        let snapshots = Self {
            config,
            folder,
            blocks,
            jobs,
            stopping: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            undone: AtomicBool::new(false),
            last_cut: AtomicU64::new(newest),
            newest: AtomicU64::new(0),
            proved: Mutex::new(files.first().and_then(|file| Some((file.slot, bank_hash(file.slot)?)))),
            taken: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            archives: incremental_slots.map(|interval_slots| Archives {
                interval_slots,
                base: Mutex::new(None),
                is_owed: AtomicBool::new(false),
                written: AtomicU64::new(0),
                given_up: AtomicU64::new(0),
            }),
        };
        snapshots.hold(oldest, newest);
        Ok((snapshots, inbox))
    }

    /// The slot of the newest complete snapshot.
    pub fn newest_slot(&self) -> Option<u64> {
        Some(self.newest.load(SeqCst)).filter(|slot| *slot != 0)
    }

    /// The newest complete snapshot and its bank hash. `None` if there is none, or if its hash is unknown because at
    /// startup it was older than the ledger's recent blocks.
    pub fn newest(&self) -> Option<(u64, Hash)> {
        let proved = *self.proved.lock();
        proved.filter(|(slot, _)| Some(*slot) == self.newest_slot())
    }

    /// The file of the snapshot of this slot, if there is one.
    pub fn file(&self, slot: u64) -> Option<PathBuf> {
        self.folder.files().ok()?.into_iter().find(|file| file.slot == slot).map(|file| file.path)
    }

    /// The numbers of snapshots taken and failed since startup.
    pub fn counts(&self) -> (u64, u64) {
        (self.taken.load(Relaxed), self.given_up.load(Relaxed))
    }

    /// The numbers of archives written and failed since startup.
    pub fn archive_counts(&self) -> (u64, u64) {
        let counts = |archives: &Archives| (archives.written.load(Relaxed), archives.given_up.load(Relaxed));
        self.archives.as_ref().map_or((0, 0), counts)
    }

    /// The files that are due at the end of `slot`, whose block follows that of `parent`.
    pub(crate) fn due(&self, slot: u64, parent: u64) -> DueSnapshots {
        if self.stopping.load(Relaxed) {
            return DueSnapshots::default();
        }
        // All nodes of a chain snapshot the same slots, whenever they started, so that their snapshots are
        // interchangeable. A node that is still writing one skips to the next; where archives are written, which take
        // turns more often, to the next of these.
        let is_turn = is_turn(self.config.interval_slots.max(1), slot, parent);
        if self.busy.load(SeqCst) {
            if is_turn && let Some(archives) = &self.archives {
                archives.is_owed.store(true, Relaxed);
            }
            return DueSnapshots::default();
        }
        let since = slot.saturating_sub(self.last_cut.load(Relaxed));
        let (after, limit) = (self.blocks.bytes_after(self.newest.load(Relaxed)), self.blocks.limit_size());
        let pause = if self.failed.load(Relaxed) { RETRY_SLOTS } else { 1 };
        let wants_room = since >= pause && after > limit / BLOCKS_PART;
        let due = match &self.archives {
            Some(archives) if is_turn => {
                archives.is_owed.store(false, Relaxed);
                DueSnapshots { own: true, archive: Some(DueArchive::Full) }
            }
            Some(archives) => archives.due(slot, parent),
            None => DueSnapshots { own: is_turn, archive: None },
        };
        DueSnapshots { own: due.own || wants_room, ..due }
    }

    /// Queues a cut to be written.
    pub(crate) fn take(&self, cut: Cut) {
        self.undone.store(false, SeqCst);
        self.busy.store(true, SeqCst);
        self.last_cut.store(cut.manifest.last().slot, Relaxed);
        let _ = self.jobs.send(Job::Cut(Box::new(cut)));
    }

    /// The ledger rewinds to the end of `slot`: a later cut is abandoned.
    pub(crate) fn went_back(&self, slot: u64) {
        if self.last_cut.load(Relaxed) > slot {
            // The next is due as if that cut had not been made.
            self.last_cut.store(self.newest.load(SeqCst), Relaxed);
            self.undone.store(true, SeqCst);
        }
    }

    /// Abandons the snapshot in progress, and ends the thread.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, SeqCst);
        let _ = self.jobs.send(Job::Stop);
    }

    /// Whether the snapshot in progress is abandoned because the node is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Whether the snapshot in progress is of an undone block.
    pub(crate) fn is_undone(&self) -> bool {
        self.undone.load(SeqCst)
    }

    /// Adds the completed snapshot of `slot`: surplus old ones are removed, and the block store keeps what the others
    /// need.
    pub(crate) fn add(&self, slot: u64, bank_hash: Hash) -> Result<(), SnapshotError> {
        *self.proved.lock() = Some((slot, bank_hash));
        let oldest = self.folder.prune(self.config.keep)?.map_or(slot, |oldest| oldest.slot);
        self.hold(oldest, slot);
        Ok(())
    }

    /// Records the result of the last cut. The next may be made.
    pub(crate) fn end(&self, due: DueSnapshots, result: Result<(), &SnapshotError>) {
        if due.own {
            let count = if result.is_ok() { &self.taken } else { &self.given_up };
            count.fetch_add(1, Relaxed);
            // If the block was undone nothing is wrong with the disk.
            let failed = result.is_err_and(|why| !matches!(why, SnapshotError::Undone { .. }));
            self.failed.store(failed, Relaxed);
        }
        self.busy.store(false, SeqCst);
    }

    /// Counts an archive that was due, and whether it was written. A full one, whose block ended `era`, is the base of
    /// the incremental ones to come.
    pub(crate) fn end_archive(&self, archive: DueArchive, (slot, era): (u64, u32), is_written: bool) {
        let Some(archives) = &self.archives else { return };
        let count = if is_written { &archives.written } else { &archives.given_up };
        count.fetch_add(1, Relaxed);
        if is_written && archive == DueArchive::Full {
            *archives.base.lock() = Some(Base { slot, era });
        }
    }

    /// No more archives build on the full one: the next is full again.
    pub(crate) fn forget_base(&self) {
        self.archives.iter().for_each(|archives| *archives.base.lock() = None);
    }

    /// Makes the block store keep what the kept snapshots need.
    fn hold(&self, oldest: u64, newest: u64) {
        self.newest.store(newest, SeqCst);
        self.blocks.hold_after(oldest, newest);
    }
}

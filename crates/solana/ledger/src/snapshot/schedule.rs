//! schedule: when a snapshot is due, what was cut and waits to be written, and which snapshots there are.
//!
//! reads   how many bytes the block store has taken since the last snapshot
//! writes  cuts to the thread that writes them; what the block store must keep for the snapshots that are kept
//! memory  a cut, about 50 KB
//! drops   a snapshot that is due while another is written, until that is done
//! source  mod.rs
//!
//! The ledger asks this at each slot's end and knows nothing of the thread that writes ([`crate::snapshot_taker`]).

use std::path::PathBuf;
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

/// Slots after which a snapshot that was due for want of room and failed is tried again.
const RETRY_SLOTS: u64 = 50;
/// A snapshot is due early when the blocks since the last take this part of what the block store may take: so the
/// blocks since the last two, which are kept, leave room.
const BLOCKS_PART: u64 = 4;

/// When snapshots are taken.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotConfig {
    /// One is taken of the first block from each multiple of so many slots on.
    pub interval_slots: u64,
    /// How many are kept, at least one.
    pub keep: usize,
}

/// The ledger at the end of a slot, but for accounts and statuses, which keep what they were.
pub(crate) struct Cut {
    /// Without the block's id and the bank's hash, which are not known yet.
    pub(crate) manifest: Manifest,
}

/// What the thread that writes is asked for.
pub(crate) enum Job {
    /// Write this.
    Cut(Box<Cut>),
    /// End.
    Stop,
}

/// The snapshots of a running chain.
pub struct Snapshots {
    config: SnapshotConfig,
    pub(crate) folder: Folder,
    pub(crate) blocks: Reader,
    jobs: Sender<Job>,
    stopping: AtomicBool,
    /// A cut has been made and is not written yet.
    busy: AtomicBool,
    /// The block at whose end it was made never was.
    undone: AtomicBool,
    last_cut: AtomicU64,
    newest: AtomicU64,
    /// The newest and the hash of its bank, where that is known.
    proved: Mutex<Option<(u64, Hash)>>,
    taken: AtomicU64,
    given_up: AtomicU64,
    /// The last one was given up.
    failed: AtomicBool,
}

impl Snapshots {
    /// The snapshots that `folder` has, and the inbox of the thread that writes more. `bank_hash` returns the hash of
    /// the bank of a recent slot.
    pub(crate) fn new(
        config: SnapshotConfig,
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
        };
        snapshots.hold(oldest, newest);
        Ok((snapshots, inbox))
    }

    /// The slot of the newest that is whole; `None` while there is none.
    pub fn newest_slot(&self) -> Option<u64> {
        Some(self.newest.load(SeqCst)).filter(|slot| *slot != 0)
    }

    /// The newest that is whole and the hash of its bank; `None` where there is none, or its hash is not known: of one
    /// that is older than the ledger's recent blocks at the start.
    pub fn newest(&self) -> Option<(u64, Hash)> {
        let proved = *self.proved.lock();
        proved.filter(|(slot, _)| Some(*slot) == self.newest_slot())
    }

    /// The file of a snapshot, if there is one of this slot.
    pub fn file(&self, slot: u64) -> Option<PathBuf> {
        self.folder.files().ok()?.into_iter().find(|file| file.slot == slot).map(|file| file.path)
    }

    /// How many were taken since the start, and how many given up.
    pub fn counts(&self) -> (u64, u64) {
        (self.taken.load(Relaxed), self.given_up.load(Relaxed))
    }

    /// Whether the ledger is to be cut at the end of `slot`, whose block is on that of `parent`.
    pub(crate) fn is_due(&self, slot: u64, parent: u64) -> bool {
        if self.busy.load(SeqCst) || self.stopping.load(Relaxed) {
            return false;
        }
        let (last, interval) = (self.last_cut.load(Relaxed), self.config.interval_slots.max(1));
        let since = slot.saturating_sub(last);
        // All nodes of a chain take the same ones, whenever they began, so that one can stand in for another's: one
        // that is at work on the last waits for the next.
        let is_turn = slot / interval > parent / interval;
        let (after, limit) = (self.blocks.bytes_after(self.newest.load(Relaxed)), self.blocks.limit_size());
        let pause = if self.failed.load(Relaxed) { RETRY_SLOTS } else { 1 };
        is_turn || (since >= pause && after > limit / BLOCKS_PART)
    }

    /// Takes a cut to be written.
    pub(crate) fn take(&self, cut: Cut) {
        self.undone.store(false, SeqCst);
        self.busy.store(true, SeqCst);
        self.last_cut.store(cut.manifest.last().slot, Relaxed);
        let _ = self.jobs.send(Job::Cut(Box::new(cut)));
    }

    /// The ledger goes back to the end of `slot`: a cut that was made later is given up.
    pub(crate) fn went_back(&self, slot: u64) {
        if self.last_cut.load(Relaxed) > slot {
            // The next is due as if that had not been.
            self.last_cut.store(self.newest.load(SeqCst), Relaxed);
            self.undone.store(true, SeqCst);
        }
    }

    /// Gives up what is being written, and ends the thread that writes.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, SeqCst);
        let _ = self.jobs.send(Job::Stop);
    }

    /// Whether what is being written is given up, because the node stops.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// Whether what is being written is of a block that was undone.
    pub(crate) fn is_undone(&self) -> bool {
        self.undone.load(SeqCst)
    }

    /// Adds the snapshot of `slot`, which is whole: older ones that are too many go, and the block store keeps what the
    /// others need.
    pub(crate) fn add(&self, slot: u64, bank_hash: Hash) -> Result<(), SnapshotError> {
        *self.proved.lock() = Some((slot, bank_hash));
        let oldest = self.folder.prune(self.config.keep)?.map_or(slot, |oldest| oldest.slot);
        self.hold(oldest, slot);
        Ok(())
    }

    /// Counts what became of the last cut. The next may be made.
    pub(crate) fn end(&self, result: Result<(), &SnapshotError>) {
        let count = if result.is_ok() { &self.taken } else { &self.given_up };
        count.fetch_add(1, Relaxed);
        // Nothing is wrong with the disk where the block was undone.
        let failed = result.is_err_and(|why| !matches!(why, SnapshotError::Undone { .. }));
        self.failed.store(failed, Relaxed);
        self.busy.store(false, SeqCst);
    }

    /// Has the block store keep what the kept snapshots need.
    fn hold(&self, oldest: u64, newest: u64) {
        self.newest.store(newest, SeqCst);
        self.blocks.hold_after(oldest, newest);
    }
}

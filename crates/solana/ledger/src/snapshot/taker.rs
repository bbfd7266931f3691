//! taker: has the ledger cut when a snapshot is due, and writes what was cut in a thread of its own.
//!
//! reads   the ledger's accounts and statuses at the cut; from the block store, that the block is durable and its id
//! writes  snapshots, and what the block store must keep for them
//! memory  one shard and the chunks of the writer
//! drops   a snapshot that is due while another is written, until that is done; one that fails, counted and told
//! source  mod.rs
//!
//! A snapshot gets its name only when its block is durable: so no snapshot is ahead of the blocks that were promised.
//! Where forks are kept it waits until its block is rooted, and is given up when the ledger goes back below it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_wire::Hash;
use parking_lot::Mutex;

use super::error::SnapshotError;
use super::folder::{Folder, SnapshotFile};
use super::manifest::Manifest;
use super::writer::Writer;
use crate::accounts::Accounts;
use crate::blockstore::Reader;
use crate::ledger::Ledger;
use crate::status_cache::StatusCache;

/// How often it is looked whether the block of a snapshot is durable.
const LOOK_EVERY: Duration = Duration::from_millis(20);
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

/// What became of a snapshot.
#[derive(Debug)]
pub enum SnapshotEvent {
    /// It is whole.
    Taken {
        /// The file.
        file: SnapshotFile,
        /// Bytes of it.
        bytes: u64,
        /// How long it took from the cut on.
        took: Duration,
    },
    /// It was given up; nothing is left of it.
    GivenUp {
        /// Its slot.
        slot: u64,
        /// Why.
        why: SnapshotError,
    },
}

/// The ledger at the end of a slot, but for accounts and statuses, which keep what they were.
pub(crate) struct Cut {
    /// Without the block's id and the bank's hash, which are not known yet.
    pub(crate) manifest: Manifest,
}

enum Job {
    Cut(Box<Cut>),
    Stop,
}

/// The snapshots of a running chain.
pub struct Snapshots {
    config: SnapshotConfig,
    folder: Folder,
    blocks: Reader,
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

    /// Has the block store keep what the kept snapshots need.
    fn hold(&self, oldest: u64, newest: u64) {
        self.newest.store(newest, SeqCst);
        self.blocks.hold_after(oldest, newest);
    }
}

/// The thread that writes. Dropping it gives up what is under way.
pub struct Taker {
    snapshots: Arc<Snapshots>,
    thread: Option<JoinHandle<()>>,
}

impl Taker {
    /// Starts taking snapshots of `ledger`, whose blocks `blocks` reads. `prepare` is called first in the thread,
    /// `tell` after each.
    pub fn start(
        ledger: &Arc<Ledger>,
        config: SnapshotConfig,
        folder: Folder,
        blocks: Reader,
        prepare: impl FnOnce() + Send + 'static,
        tell: impl Fn(SnapshotEvent) + Send + 'static,
    ) -> Result<Self, SnapshotError> {
        let files = folder.files()?;
        let (jobs, inbox) = channel();
        let snapshots = Arc::new(Snapshots {
            config,
            folder,
            blocks,
            jobs,
            stopping: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            undone: AtomicBool::new(false),
            last_cut: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            proved: Mutex::new(files.first().and_then(|file| Some((file.slot, ledger.bank_hash(file.slot)?)))),
            taken: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            failed: AtomicBool::new(false),
        });
        let slot_of = |file: Option<&SnapshotFile>| file.map_or(0, |file| file.slot);
        snapshots.hold(slot_of(files.last()), slot_of(files.first()));
        snapshots.last_cut.store(slot_of(files.first()), Relaxed);
        let (shared, chain) = (snapshots.clone(), ledger.clone());
        let run = move || {
            prepare();
            run(&shared, &chain, &inbox, &tell);
        };
        let thread = std::thread::Builder::new().name("snapshots".into()).spawn(run);
        let thread = thread.expect("a process that cannot start a thread cannot start tiles either");
        ledger.take_snapshots(snapshots.clone());
        Ok(Self { snapshots, thread: Some(thread) })
    }

    /// What is known of the snapshots.
    pub fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.snapshots.stopping.store(true, SeqCst);
        let _ = self.snapshots.jobs.send(Job::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(snapshots: &Snapshots, ledger: &Ledger, inbox: &Receiver<Job>, tell: &dyn Fn(SnapshotEvent)) {
    while let Ok(Job::Cut(cut)) = inbox.recv() {
        let (start, slot) = (Instant::now(), cut.manifest.last().slot);
        let event = match write(snapshots, ledger, *cut) {
            Ok((file, bytes)) => {
                snapshots.taken.fetch_add(1, Relaxed);
                SnapshotEvent::Taken { file, bytes, took: start.elapsed() }
            }
            Err(why) => {
                ledger.accounts().forget_cut();
                ledger.statuses().forget_cut();
                snapshots.given_up.fetch_add(1, Relaxed);
                SnapshotEvent::GivenUp { slot, why }
            }
        };
        // Nothing is wrong with the disk where the block was undone.
        let is_undone = matches!(event, SnapshotEvent::GivenUp { why: SnapshotError::Undone { .. }, .. });
        snapshots.failed.store(!is_undone && matches!(event, SnapshotEvent::GivenUp { .. }), Relaxed);
        snapshots.busy.store(false, SeqCst);
        if !matches!(event, SnapshotEvent::GivenUp { why: SnapshotError::Stopped { .. }, .. }) {
            tell(event);
        }
    }
}

fn write(snapshots: &Snapshots, ledger: &Ledger, cut: Cut) -> Result<(SnapshotFile, u64), SnapshotError> {
    let (statuses, accounts, mut manifest) = (ledger.statuses(), ledger.accounts(), cut.manifest);
    let (slot, height) = (manifest.last().slot, manifest.last().height);
    let folder = &snapshots.folder;
    let mut writer = Writer::create(folder, ledger.genesis_hash(), (slot, height), statuses.seed())?;
    let stopped = |writer: &Writer| {
        if snapshots.stopping.load(Relaxed) {
            return Err(SnapshotError::Stopped { file: writer.part().to_path_buf() });
        }
        if snapshots.undone.load(SeqCst) { Err(SnapshotError::Undone { slot }) } else { Ok(()) }
    };
    // Statuses first: what is kept of them is more than of accounts.
    for shard in 0..StatusCache::SHARDS {
        stopped(&writer)?;
        let (claims, results) = statuses.read_cut(shard, height + 1);
        claims.iter().try_for_each(|entry| writer.claim(entry))?;
        results.iter().try_for_each(|entry| writer.status(entry))?;
    }
    for shard in 0..Accounts::SHARDS {
        stopped(&writer)?;
        accounts.read_cut(shard).iter().try_for_each(|(key, account)| writer.account(key, account))?;
    }
    let mut known = None;
    (manifest.hashes, manifest.block_id) = loop {
        if let Some(hashes) = known.take().or_else(|| ledger.cut_hashes(slot)) {
            match durable_block(ledger, &snapshots.blocks, slot)? {
                Some(block_id) => {
                    // Another block of this slot, or above it, may be meant where this one was undone before.
                    stopped(&writer)?;
                    break (hashes, block_id);
                }
                None => known = Some(hashes),
            }
        }
        stopped(&writer)?;
        std::thread::park_timeout(LOOK_EVERY);
    };
    let (file, bytes) = writer.finish(&manifest)?;
    *snapshots.proved.lock() = Some((slot, manifest.bank_hash()));
    let oldest = folder.prune(snapshots.config.keep)?.map_or(slot, |oldest| oldest.slot);
    snapshots.hold(oldest, slot);
    Ok((file, bytes))
}

/// The id of a block once it is durable, and settled: then whatever else is kept of it is on its way to the disk too.
fn durable_block(ledger: &Ledger, blocks: &Reader, slot: u64) -> Result<Option<Hash>, SnapshotError> {
    let durable = blocks.durable_slot().is_some_and(|durable| durable >= slot);
    if !durable || !ledger.is_settled(slot) {
        return Ok(None);
    }
    let block = blocks.block(slot).map_err(|source| SnapshotError::Block { slot, source: Box::new(source) })?;
    Ok(block.map(|block| block.block_id))
}

//! The snapshot thread: writes the state that the ledger has cut at a slot's end.
//!
//! reads   the ledger's accounts and statuses at the cut; from the block store, that the block is durable and its id,
//!         and for an archive the last 300 blocks
//! writes  snapshots, and archives of the cluster's
//! memory  one shard and the chunks of the writer; for an archive what [`archiver`](crate::archiver) takes
//! drops   a snapshot or an archive that fails: counted and reported
//!
//! A snapshot gets its final name only once its block is durable, so no snapshot is ahead of the promised blocks. Where
//! forks are kept it waits until its block is rooted, and is abandoned if the ledger rewinds below it. This is a module
//! beside [`snapshot`](crate::snapshot), which the ledger imports, because it reads the ledger.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_wire::Hash;

use crate::accounts::{Accounts, DELETED_MAX};
use crate::archive::ArchiveError;
use crate::archiver::{ArchiveConfig, Archiver, EndedCut, Part, WrittenArchive};
use crate::bank_hash::Hashes;
use crate::blockstore::Reader;
use crate::features::ActiveFeatures;
use crate::ledger::Ledger;
use crate::snapshot::{
    Cut, DueSnapshots, Folder, Job, Manifest, SnapshotConfig, SnapshotError, SnapshotFile, Snapshots, Writer,
};
use crate::status_cache::StatusCache;

/// Polling interval while a snapshot waits for its block to become durable.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The outcome of a snapshot.
#[derive(Debug)]
pub enum SnapshotEvent {
    /// The snapshot is complete.
    Taken {
        /// The finished file, and its slot.
        file: SnapshotFile,
        /// Size of the file in bytes.
        bytes: u64,
        /// Time since the cut.
        took: Duration,
    },
    /// The snapshot was abandoned and removed.
    GivenUp {
        /// The slot at whose end the state was captured.
        slot: u64,
        /// Why it was abandoned, with the file or the slot.
        why: SnapshotError,
    },
    /// An archive is complete.
    Archived {
        /// The finished file, with its name and counts.
        archive: WrittenArchive,
        /// Time since the cut.
        took: Duration,
    },
    /// The archive was abandoned and removed.
    ArchiveGivenUp {
        /// The slot at whose end the state was captured.
        slot: u64,
        /// The failure, which names the file.
        why: ArchiveError,
    },
}

/// The snapshot thread. Dropping it abandons the snapshot in progress.
pub struct Taker {
    snapshots: Arc<Snapshots>,
    thread: Option<JoinHandle<()>>,
}

impl Taker {
    /// Starts the thread for snapshots of `ledger`, and for `archives`, if these are to be written; `blocks` reads its
    /// blocks. The thread calls `prepare` first, and `tell` after each snapshot and each archive.
    pub fn start(
        ledger: &Arc<Ledger>,
        config: SnapshotConfig,
        archives: Option<ArchiveConfig>,
        folder: Folder,
        blocks: Reader,
        prepare: impl FnOnce() + Send + 'static,
        tell: impl Fn(SnapshotEvent) + Send + 'static,
    ) -> Result<Self, SnapshotError> {
        let incremental_slots = archives.as_ref().map(|archives| archives.incremental_interval_slots);
        let known = |slot| ledger.bank_hash(slot);
        let (snapshots, inbox) = Snapshots::new(config, incremental_slots, folder, blocks, known)?;
        let snapshots = Arc::new(snapshots);
        // Full archives need none of it.
        if incremental_slots.is_some_and(|slots| slots > 0) {
            ledger.accounts().remember_deleted();
        }
        let to = Target { snapshots: snapshots.clone(), ledger: ledger.clone(), archiver: archives.map(Archiver::new) };
        let run = move || {
            prepare();
            run(&to, &inbox, &tell);
        };
        let thread = std::thread::Builder::new().name("snapshots".into()).spawn(run);
        let thread = thread.expect("a process that cannot start a thread cannot start tiles either");
        ledger.take_snapshots(snapshots.clone());
        Ok(Self { snapshots, thread: Some(thread) })
    }

    /// The list of snapshots.
    pub fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }
}

impl Drop for Taker {
    fn drop(&mut self) {
        self.snapshots.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The ledger that is written, and the destinations.
struct Target {
    snapshots: Arc<Snapshots>,
    ledger: Arc<Ledger>,
    archiver: Option<Archiver>,
}

/// Takes snapshots without a thread: its owner calls [`SteppedTaker::step`], so that a node can run on virtual time. It
/// writes no archives.
pub struct SteppedTaker {
    target: Target,
    inbox: Receiver<Job>,
    cut: Option<Box<Cut>>,
    written: Option<WrittenSnapshot>,
}

impl SteppedTaker {
    /// Takes snapshots of `ledger` in `folder`; `blocks` reads its blocks.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn new(
        ledger: &Arc<Ledger>,
        config: SnapshotConfig,
        folder: Folder,
        blocks: Reader,
    ) -> Result<Self, SnapshotError> {
        let (snapshots, inbox) = Snapshots::new(config, None, folder, blocks, |slot| ledger.bank_hash(slot))?;
        let snapshots = Arc::new(snapshots);
        ledger.take_snapshots(snapshots.clone());
        let target = Target { snapshots, ledger: ledger.clone(), archiver: None };
        Ok(Self { target, inbox, cut: None, written: None })
    }

    /// Whether a snapshot is due or in progress.
    pub fn has_work(&mut self) -> bool {
        if self.cut.is_none()
            && self.written.is_none()
            && let Ok(Job::Cut(cut)) = self.inbox.try_recv()
        {
            self.cut = Some(cut);
        }
        self.cut.is_some() || self.written.is_some()
    }

    /// Writes what was cut, or looks whether the block is permanent by now. Returns the snapshot's file once it is
    /// complete, or why it was abandoned.
    pub fn step(&mut self) -> Option<Result<SnapshotFile, SnapshotError>> {
        let result = self.work().transpose()?;
        self.target.end(DueSnapshots { own: true, archive: None }, &result);
        Some(result)
    }

    fn work(&mut self) -> Result<Option<SnapshotFile>, SnapshotError> {
        if !self.has_work() {
            return Ok(None);
        }
        if let Some(cut) = self.cut.take() {
            self.written = Some(WrittenSnapshot::new(&self.target, *cut)?);
        }
        let Some(mut written) = self.written.take() else { return Ok(None) };
        if written.is_permanent(&self.target)? {
            return written.finish(&self.target).map(|done| done.own.map(|(file, _)| file));
        }
        self.written = Some(written);
        Ok(None)
    }
}

fn run(to: &Target, inbox: &Receiver<Job>, tell: &dyn Fn(SnapshotEvent)) {
    while let Ok(Job::Cut(cut)) = inbox.recv() {
        let (start, slot, due) = (Instant::now(), cut.manifest.last().slot, cut.due);
        let result = write(to, *cut);
        to.end(due, &result);
        let took = start.elapsed();
        match result {
            Ok(TakenCut { own, archive }) => {
                own.into_iter().for_each(|(file, bytes)| tell(SnapshotEvent::Taken { file, bytes, took }));
                match archive {
                    Some(Ok(archive)) => tell(SnapshotEvent::Archived { archive, took }),
                    // What is abandoned because the node stops is no failure.
                    Some(Err(why)) if !to.snapshots.is_stopping() => {
                        tell(SnapshotEvent::ArchiveGivenUp { slot, why });
                    }
                    Some(Err(_)) | None => {}
                }
            }
            Err(SnapshotError::Stopped { .. }) => {}
            Err(why) => tell(SnapshotEvent::GivenUp { slot, why }),
        }
    }
}

impl Target {
    /// Records the result of a cut. Of one that failed nothing is preserved any more.
    fn end<T>(&self, due: DueSnapshots, result: &Result<T, SnapshotError>) {
        if result.is_err() {
            self.ledger.accounts().forget_cut();
            self.ledger.statuses().forget_cut();
        }
        self.snapshots.end(due, result.as_ref().map(|_| ()));
    }

    /// Forgets which accounts were deleted before a full archive of the block that ended `era`. If that could not be
    /// written, incremental ones on the one before need them, until they are too many.
    fn forget_deleted(&self, era: u32, is_written: bool) {
        let accounts = self.ledger.accounts();
        if !is_written {
            if accounts.deleted_count() <= DELETED_MAX {
                return;
            }
            self.snapshots.forget_base();
        }
        accounts.forget_deleted(era);
    }
}

fn write(to: &Target, cut: Cut) -> Result<TakenCut, SnapshotError> {
    let (due, slot, era) = (cut.due, cut.manifest.last().slot, cut.era);
    let result = permanent(to, cut).and_then(|written| written.finish(to));
    let is_left = matches!(result, Err(SnapshotError::Undone { .. } | SnapshotError::Stopped { .. }));
    if let Some(archive) = due.archive.filter(|_| !is_left) {
        let is_written = result.as_ref().is_ok_and(|done| matches!(done.archive, Some(Ok(_))));
        to.snapshots.end_archive(archive, (slot, era), is_written);
        if archive.base().is_none() {
            to.forget_deleted(era, is_written);
        }
    }
    result
}

/// Writes what was cut, and waits until its block is permanent.
fn permanent(to: &Target, cut: Cut) -> Result<WrittenSnapshot, SnapshotError> {
    let mut written = WrittenSnapshot::new(to, cut)?;
    while !written.is_permanent(to)? {
        std::thread::park_timeout(LOOK_EVERY);
    }
    Ok(written)
}

/// The files that were made of a cut.
struct TakenCut {
    /// The snapshot, and its size in bytes.
    own: Option<(SnapshotFile, u64)>,
    archive: Option<Result<WrittenArchive, ArchiveError>>,
}

/// A snapshot or an archive, or both, whose statuses and accounts are written, and whose block may not be permanent
/// yet.
struct WrittenSnapshot {
    own: Option<Writer>,
    /// An archive that failed does not hold up the snapshot.
    archive: Option<Result<Part, ArchiveError>>,
    /// Lacks the block's id and the bank's hash until the block is permanent.
    manifest: Manifest,
    features: Arc<ActiveFeatures>,
    /// The hashes at the cut, once they are computed.
    hashes: Option<Hashes>,
}

impl WrittenSnapshot {
    /// Writes statuses and accounts as they were at the cut.
    fn new(to: &Target, cut: Cut) -> Result<Self, SnapshotError> {
        let (ledger, Cut { manifest, features, due, .. }) = (&to.ledger, cut);
        let (slot, height) = (manifest.last().slot, manifest.last().height);
        let create =
            || Writer::create(&to.snapshots.folder, ledger.genesis_hash(), (slot, height), ledger.statuses().seed());
        let own = due.own.then(create).transpose()?;
        let base = due.archive.and_then(|archive| archive.base());
        let begin = |archiver: &Archiver| archiver.begin(base.map(|base| base.slot), slot);
        let archive = to.archiver.as_ref().filter(|_| due.archive.is_some()).map(begin);
        let mut written = Self { own, archive, manifest, features, hashes: None };
        // Statuses first: their cut retains more memory than that of the accounts.
        written.statuses(to)?;
        written.accounts(to, base.map(|base| base.era))?;
        Ok(written)
    }

    fn statuses(&mut self, to: &Target) -> Result<(), SnapshotError> {
        let height = self.manifest.last().height;
        for shard in 0..StatusCache::SHARDS {
            self.stopped(to)?;
            let (claims, results) = to.ledger.statuses().read_cut(shard, height);
            if let Some(Ok(part)) = &mut self.archive {
                part.statuses(&results);
            }
            // A start continues with the next block.
            if let Some(own) = &mut self.own {
                let mut claims = claims.iter().filter(|entry| entry.is_alive(height + 1));
                claims.try_for_each(|entry| own.claim(entry))?;
                let mut results = results.iter().filter(|entry| entry.is_alive(height + 1));
                results.try_for_each(|entry| own.status(entry))?;
            }
        }
        Ok(())
    }

    /// An archive has all accounts, or with `since` those that changed after the end of that era.
    fn accounts(&mut self, to: &Target, since: Option<u32>) -> Result<(), SnapshotError> {
        let accounts = to.ledger.accounts();
        for shard in 0..Accounts::SHARDS {
            self.stopped(to)?;
            let cut = accounts.read_cut(shard);
            if let Some(own) = &mut self.own {
                cut.iter().try_for_each(|(key, account)| own.account(key, account))?;
            }
            let Some(Ok(part)) = &mut self.archive else { continue };
            // What changed after the cut is among these, too, and is written as it was at the cut.
            let changed = since.map(|era| accounts.changed_since(shard, era));
            if let Err(why) = part.shard(&cut, changed) {
                self.archive = Some(Err(why));
            }
        }
        Ok(())
    }

    /// An error if all is to be abandoned.
    fn stopped(&self, to: &Target) -> Result<(), SnapshotError> {
        if to.snapshots.is_stopping() {
            let part = self.own.as_ref().map(Writer::part);
            let file = part.or(to.archiver.as_ref().map(Archiver::folder)).unwrap_or(to.snapshots.folder.path());
            return Err(SnapshotError::Stopped { file: file.to_path_buf() });
        }
        let slot = self.manifest.last().slot;
        if to.snapshots.is_undone() { Err(SnapshotError::Undone { slot }) } else { Ok(()) }
    }

    /// Whether the block is durable and settled. Only then is the manifest complete.
    fn is_permanent(&mut self, to: &Target) -> Result<bool, SnapshotError> {
        let slot = self.manifest.last().slot;
        self.hashes = self.hashes.take().or_else(|| to.ledger.cut_hashes(slot));
        let block_id = match self.hashes {
            Some(_) => durable_block(&to.ledger, &to.snapshots.blocks, slot)?,
            None => None,
        };
        // After a rewind, another block may have this slot or a slot above it.
        self.stopped(to)?;
        let Some(block_id) = block_id else { return Ok(false) };
        self.manifest.block_id = block_id;
        self.manifest.hashes = self.hashes.take().expect("they were there before the block was looked for");
        Ok(true)
    }

    /// Completes the snapshot and the archive, and adds the snapshot to the list.
    fn finish(self, to: &Target) -> Result<TakenCut, SnapshotError> {
        let Self { own, archive, manifest, features, .. } = self;
        let own = own.map(|own| own.finish(&manifest)).transpose()?;
        if own.is_some() {
            to.snapshots.add(manifest.last().slot, manifest.bank_hash())?;
        }
        let stops = || to.snapshots.is_stopping();
        let cut = EndedCut {
            ledger: &to.ledger,
            blocks: &to.snapshots.blocks,
            manifest: &manifest,
            features: &features,
            stops: &stops,
        };
        let finish = |part: Part| to.archiver.as_ref().expect("who began it").finish(part, &cut);
        Ok(TakenCut { own, archive: archive.map(|part| part.and_then(finish)) })
    }
}

/// The id of a block once it is durable and settled: then everything else that is stored of it is being written too.
fn durable_block(ledger: &Ledger, blocks: &Reader, slot: u64) -> Result<Option<Hash>, SnapshotError> {
    let durable = blocks.durable_slot().is_some_and(|durable| durable >= slot);
    if !durable || !ledger.is_settled(slot) {
        return Ok(None);
    }
    let block = blocks.block(slot).map_err(|source| SnapshotError::Block { slot, source: Box::new(source) })?;
    Ok(block.map(|block| block.block_id))
}

#[cfg(test)]
mod tests;

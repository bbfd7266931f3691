//! The snapshot thread: writes the state that the ledger has cut at a slot's end.
//!
//! reads   the ledger's accounts and statuses at the cut; from the block store, that the block is durable and its id
//! writes  snapshots
//! memory  one shard and the chunks of the writer
//! drops   a snapshot that fails: counted and reported
//!
//! A snapshot gets its final name only once its block is durable, so no snapshot is ahead of the promised blocks. Where
//! forks are kept it waits until its block is rooted, and is abandoned if the ledger rewinds below it. This is a module
//! beside [`snapshot`](crate::snapshot), which the ledger imports, because it reads the ledger.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_wire::Hash;

use crate::accounts::Accounts;
use crate::bank_hash::Hashes;
use crate::blockstore::Reader;
use crate::ledger::Ledger;
use crate::snapshot::{Cut, Folder, Job, Manifest, SnapshotConfig, SnapshotError, SnapshotFile, Snapshots, Writer};
use crate::status_cache::StatusCache;

/// Polling interval while a snapshot waits for its block to become durable.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The outcome of a snapshot.
#[derive(Debug)]
pub enum SnapshotEvent {
    /// The snapshot is complete.
    Taken {
        /// The snapshot's file.
        file: SnapshotFile,
        /// Size in bytes.
        bytes: u64,
        /// Time since the cut.
        took: Duration,
    },
    /// The snapshot was abandoned and removed.
    GivenUp {
        /// The snapshot's slot.
        slot: u64,
        /// The reason.
        why: SnapshotError,
    },
}

/// The snapshot thread. Dropping it abandons the snapshot in progress.
pub struct Taker {
    snapshots: Arc<Snapshots>,
    thread: Option<JoinHandle<()>>,
}

impl Taker {
    /// Starts the thread for snapshots of `ledger`; `blocks` reads its blocks. The thread calls `prepare` first, and
    /// `tell` after each snapshot.
    pub fn start(
        ledger: &Arc<Ledger>,
        config: SnapshotConfig,
        folder: Folder,
        blocks: Reader,
        prepare: impl FnOnce() + Send + 'static,
        tell: impl Fn(SnapshotEvent) + Send + 'static,
    ) -> Result<Self, SnapshotError> {
        let (snapshots, inbox) = Snapshots::new(config, folder, blocks, |slot| ledger.bank_hash(slot))?;
        let snapshots = Arc::new(snapshots);
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

/// Takes snapshots without a thread: its owner calls [`SteppedTaker::step`], so that a node can run on virtual time.
pub struct SteppedTaker {
    snapshots: Arc<Snapshots>,
    ledger: Arc<Ledger>,
    inbox: Receiver<Job>,
    cut: Option<Box<Cut>>,
    written: Option<Written>,
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
        let (snapshots, inbox) = Snapshots::new(config, folder, blocks, |slot| ledger.bank_hash(slot))?;
        let snapshots = Arc::new(snapshots);
        ledger.take_snapshots(snapshots.clone());
        Ok(Self { snapshots, ledger: ledger.clone(), inbox, cut: None, written: None })
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
        end(&self.snapshots, &self.ledger, &result);
        Some(result)
    }

    fn work(&mut self) -> Result<Option<SnapshotFile>, SnapshotError> {
        if !self.has_work() {
            return Ok(None);
        }
        if let Some(cut) = self.cut.take() {
            self.written = Some(Written::new(&self.snapshots, &self.ledger, *cut)?);
        }
        let Some(mut written) = self.written.take() else { return Ok(None) };
        if written.is_permanent(&self.snapshots, &self.ledger)? {
            return written.finish(&self.snapshots).map(|(file, _)| Some(file));
        }
        self.written = Some(written);
        Ok(None)
    }
}

fn run(snapshots: &Snapshots, ledger: &Ledger, inbox: &Receiver<Job>, tell: &dyn Fn(SnapshotEvent)) {
    while let Ok(Job::Cut(cut)) = inbox.recv() {
        let (start, slot) = (Instant::now(), cut.manifest.last().slot);
        let result = write(snapshots, ledger, *cut);
        end(snapshots, ledger, &result);
        let event = match result {
            Ok((file, bytes)) => SnapshotEvent::Taken { file, bytes, took: start.elapsed() },
            Err(why) => SnapshotEvent::GivenUp { slot, why },
        };
        if !matches!(event, SnapshotEvent::GivenUp { why: SnapshotError::Stopped { .. }, .. }) {
            tell(event);
        }
    }
}

/// Records the result of a cut. Of one that failed nothing is preserved any more.
fn end<T>(snapshots: &Snapshots, ledger: &Ledger, result: &Result<T, SnapshotError>) {
    if result.is_err() {
        ledger.accounts().forget_cut();
        ledger.statuses().forget_cut();
    }
    snapshots.end(result.as_ref().map(|_| ()));
}

fn write(snapshots: &Snapshots, ledger: &Ledger, cut: Cut) -> Result<(SnapshotFile, u64), SnapshotError> {
    let mut written = Written::new(snapshots, ledger, cut)?;
    while !written.is_permanent(snapshots, ledger)? {
        std::thread::park_timeout(LOOK_EVERY);
    }
    written.finish(snapshots)
}

/// A snapshot whose statuses and accounts are written, and whose block may not be permanent yet.
struct Written {
    writer: Writer,
    /// Lacks the block's id and the bank's hash until the block is permanent.
    manifest: Manifest,
    /// The hashes at the cut, once they are computed.
    hashes: Option<Hashes>,
}

impl Written {
    /// Writes statuses and accounts as they were at the cut.
    fn new(snapshots: &Snapshots, ledger: &Ledger, cut: Cut) -> Result<Self, SnapshotError> {
        let (statuses, accounts, manifest) = (ledger.statuses(), ledger.accounts(), cut.manifest);
        let (slot, height) = (manifest.last().slot, manifest.last().height);
        let writer = Writer::create(&snapshots.folder, ledger.genesis_hash(), (slot, height), statuses.seed())?;
        let mut written = Self { writer, manifest, hashes: None };
        // Statuses first: their cut retains more memory than that of the accounts.
        for shard in 0..StatusCache::SHARDS {
            written.stopped(snapshots)?;
            let (claims, results) = statuses.read_cut(shard, height + 1);
            claims.iter().try_for_each(|entry| written.writer.claim(entry))?;
            results.iter().try_for_each(|entry| written.writer.status(entry))?;
        }
        for shard in 0..Accounts::SHARDS {
            written.stopped(snapshots)?;
            let cut = accounts.read_cut(shard);
            cut.iter().try_for_each(|(key, account)| written.writer.account(key, account))?;
        }
        Ok(written)
    }

    /// An error if the snapshot is to be abandoned.
    fn stopped(&self, snapshots: &Snapshots) -> Result<(), SnapshotError> {
        if snapshots.is_stopping() {
            return Err(SnapshotError::Stopped { file: self.writer.part().to_path_buf() });
        }
        let slot = self.manifest.last().slot;
        if snapshots.is_undone() { Err(SnapshotError::Undone { slot }) } else { Ok(()) }
    }

    /// Whether the block is durable and settled. Only then is the manifest complete.
    fn is_permanent(&mut self, snapshots: &Snapshots, ledger: &Ledger) -> Result<bool, SnapshotError> {
        let slot = self.manifest.last().slot;
        self.hashes = self.hashes.take().or_else(|| ledger.cut_hashes(slot));
        let block_id = match self.hashes {
            Some(_) => durable_block(ledger, &snapshots.blocks, slot)?,
            None => None,
        };
        // After a rewind, another block may have this slot or a slot above it.
        self.stopped(snapshots)?;
        let Some(block_id) = block_id else { return Ok(false) };
        self.manifest.block_id = block_id;
        self.manifest.hashes = self.hashes.take().expect("they were there before the block was looked for");
        Ok(true)
    }

    /// Completes the file. Also returns its size in bytes.
    fn finish(self, snapshots: &Snapshots) -> Result<(SnapshotFile, u64), SnapshotError> {
        let Self { writer, manifest, .. } = self;
        let (file, bytes) = writer.finish(&manifest)?;
        snapshots.add(manifest.last().slot, manifest.bank_hash())?;
        Ok((file, bytes))
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

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
use crate::blockstore::Reader;
use crate::ledger::Ledger;
use crate::snapshot::{Cut, Folder, Job, SnapshotConfig, SnapshotError, SnapshotFile, Snapshots, Writer};
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

fn run(snapshots: &Snapshots, ledger: &Ledger, inbox: &Receiver<Job>, tell: &dyn Fn(SnapshotEvent)) {
    while let Ok(Job::Cut(cut)) = inbox.recv() {
        let (start, slot) = (Instant::now(), cut.manifest.last().slot);
        let event = match write(snapshots, ledger, *cut) {
            Ok((file, bytes)) => SnapshotEvent::Taken { file, bytes, took: start.elapsed() },
            Err(why) => {
                ledger.accounts().forget_cut();
                ledger.statuses().forget_cut();
                SnapshotEvent::GivenUp { slot, why }
            }
        };
        snapshots.end(match &event {
            SnapshotEvent::Taken { .. } => Ok(()),
            SnapshotEvent::GivenUp { why, .. } => Err(why),
        });
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
        if snapshots.is_stopping() {
            return Err(SnapshotError::Stopped { file: writer.part().to_path_buf() });
        }
        if snapshots.is_undone() { Err(SnapshotError::Undone { slot }) } else { Ok(()) }
    };
    // Statuses first: their cut retains more memory than that of the accounts.
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
                    // After a rewind, another block may have this slot or a slot above it.
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
    snapshots.add(slot, manifest.bank_hash())?;
    Ok((file, bytes))
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

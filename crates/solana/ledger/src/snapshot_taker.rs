//! The thread that takes snapshots: it writes what the ledger has cut at a slot's end.
//!
//! reads   the ledger's accounts and statuses at the cut; from the block store, that the block is durable and its id
//! writes  snapshots
//! memory  one shard and the chunks of the writer
//! drops   a snapshot that fails, counted and told
//!
//! A snapshot gets its name only when its block is durable: so no snapshot is ahead of the blocks that were promised.
//! Where forks are kept it waits until its block is rooted, and is given up when the ledger goes back below it. It is a
//! module beside [`snapshot`](crate::snapshot), which the ledger imports, since it reads the ledger.

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

/// How often it is looked whether the block of a snapshot is durable.
const LOOK_EVERY: Duration = Duration::from_millis(20);

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

    /// What is known of the snapshots.
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
    snapshots.add(slot, manifest.bank_hash())?;
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

#[cfg(test)]
mod tests;

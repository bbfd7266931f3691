//! `hearth ledger snapshot create`: writes the state of a chain as an archive that the cluster's nodes start from.
//!
//! reads   the newest snapshot up to the slot, the blocks after it, and the last 300 blocks; for an incremental archive
//!         the full one on which it builds
//! writes  one archive; progress on standard error
//! memory  the state, and 64 B for each transaction of the last 300 blocks; 140 B an account while a base is read
//! drops   the unfinished archive, if it does not become whole
//!
//! Blocks are executed as a start does. The results of the last 300 blocks' transactions are in the status cache by
//! then, which a snapshot has, too: only the messages and signatures are read from the blocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_command::numbers::grouped;
use hearth_command::output::{CommandOutput, note};
use hearth_command::progress::Progress;
use hearth_ledger::Ledger;
use hearth_ledger::archive::{ArchiveError, ArchiveName, Fault, Progress as Reading};
use hearth_ledger::archiver::{ChainFacts, Changes, last_statuses, write_archive, write_incremental};
use hearth_ledger::snapshot::SnapshotError;
use hearth_pipeline::tower;
use hearth_wire::Signature;
use hearth_wire::base58::encode_32;

use super::tower::{TowerFailure, identity};
use super::{LedgerError, OfflineChain};
use crate::config::Config;
use crate::replay::{self, ReplayControl, ReplaySummary};
use crate::restore::{self, RestoredState, StateFolders, archive_progress};

/// Number of accounts between two progress updates.
const SHOWN_EVERY: u64 = 1 << 16;

/// Writes the state at the end of `slot`, or of the last final block, as an archive into `out`, or into the chain's
/// snapshot folder. With `base` it writes an incremental archive on that full one.
pub fn run(
    chain: &OfflineChain,
    config: &Config,
    (slot, base): (Option<u64>, Option<&Path>),
    out: Option<&Path>,
    say: &CommandOutput,
) -> Result<(), LedgerError> {
    let out = folder(chain, config, out)?;
    let mut shown = Progress::new();
    let until = last(chain, config, slot)?;
    let (ledger, done) = state(chain, config, until, &mut shown)?;
    let missing = |slot| LedgerError::NoBlock { slot, last: chain.recovery.last_whole_slot.unwrap_or(0) };
    if let Some(slot) = until.filter(|slot| *slot != done.last_slot) {
        return Err(missing(slot));
    }
    let block_id = done.block_id.ok_or_else(|| missing(slot.unwrap_or(1)))?;
    let mut reading = |archive: &ArchiveName, progress: Reading| shown.tell(|| archive_progress(archive, progress));
    let changes = base.map(|base| Changes::since(base, &ledger, &mut reading)).transpose()?;
    let newest = ledger.recent_blocks(1)[0];
    let landed = |signature: &Signature| ledger.statuses().status(signature, newest.height);
    let reading = |slot| shown.tell(|| format!("reading the transactions of slot {slot}"));
    let statuses = last_statuses(&chain.reader, &newest, landed, reading)?;
    let facts = ChainFacts::of(&ledger, &chain.genesis, statuses, block_id);
    let (all, mut written) = (ledger.accounts().count() as u64, 0);
    let writing = |count: u64| {
        written = count;
        if count.is_multiple_of(SHOWN_EVERY) {
            shown.tell(|| format!("writing: {} of {} accounts", grouped(count), grouped(all)));
        }
    };
    let path = match &changes {
        Some(changes) => write_incremental(&ledger, &facts, &out, changes, writing)?,
        None => write_archive(&ledger, &facts, &out, writing)?,
    };
    shown.clear();
    let (slot, hash) = ledger.hash_all();
    say.line(format_args!("archive   {}", path.display()));
    say.line(format_args!("bank      slot {slot}, hash {}", encode_32(&hash)));
    match changes.map(|changes| changes.base()) {
        Some(base) => say.line(format_args!("accounts  {} since slot {base}, of {}", grouped(written), grouped(all))),
        None => say.line(format_args!("accounts  {}", grouped(all))),
    }
    Ok(())
}

/// Returns the folder for the archive. Creates it if it is missing.
fn folder(chain: &OfflineChain, config: &Config, given: Option<&Path>) -> Result<PathBuf, ArchiveError> {
    let folder = given.map_or_else(|| restore::folder(config, &chain.folder), Path::to_path_buf);
    std::fs::create_dir_all(&folder).map_err(|e| ArchiveError::of(&folder, Fault::Write(e)))?;
    Ok(folder)
}

/// The slot whose state is written; `None` for the last block of a chain without forks.
fn last(chain: &OfflineChain, config: &Config, wanted: Option<u64>) -> Result<Option<u64>, LedgerError> {
    // As a start does: above the root there may be forks.
    if !config.gossip.enabled {
        return if wanted.is_some() { Ok(wanted) } else { saved_final(chain, config) };
    }
    let node = identity(config, &chain.folder, None).map_err(TowerFailure::from)?.public;
    let root = tower::final_slot(&chain.folder, &node).map_err(TowerFailure::from)?.unwrap_or(0);
    // The node takes snapshots of final blocks alone.
    let root = chain.snapshots.first().map_or(root, |newest| newest.slot.max(root));
    match wanted {
        Some(slot) if !is_ancestor_or_self(chain, root, slot) => Err(LedgerError::NotFinal { slot, root }),
        wanted => Ok(Some(wanted.unwrap_or(root))),
    }
}

/// Returns the final slot of a chain whose folder shows that its node was in a cluster, although the configuration does
/// not say so: the slot of its root, its tower, or its newest snapshot. `None` for a node alone.
fn saved_final(chain: &OfflineChain, config: &Config) -> Result<Option<u64>, LedgerError> {
    let root = match tower::saved_root(&chain.folder) {
        Some(root) => root.slot,
        None if chain.folder.join("tower.bin").exists() => {
            let node = identity(config, &chain.folder, None).map_err(TowerFailure::from)?.public;
            tower::final_slot(&chain.folder, &node).map_err(TowerFailure::from)?.unwrap_or(0)
        }
        None => return Ok(None),
    };
    let root = chain.snapshots.first().map_or(root, |newest| newest.slot.max(root));
    note(format_args!("notice: this node was in a cluster: slot {root} is its root; --slot names another block"));
    Ok(Some(root))
}

/// Returns whether the block of `slot` is that of `root` or one of its ancestors.
fn is_ancestor_or_self(chain: &OfflineChain, root: u64, slot: u64) -> bool {
    let mut at = root;
    while at > slot
        && let Some(info) = chain.reader.slot(at).filter(|info| info.parent_slot < at)
    {
        at = info.parent_slot;
    }
    at == slot
}

/// Rebuilds the ledger at the end of block `until`, or of the last block that can be reached.
fn state(
    chain: &OfflineChain,
    config: &Config,
    until: Option<u64>,
    shown: &mut Progress,
) -> Result<(Arc<Ledger>, ReplaySummary), LedgerError> {
    shown.tell(|| "reading the newest snapshot");
    let refused = |why: &SnapshotError| note(format_args!("notice: {why}; it is not used"));
    let highest = until.unwrap_or(u64::MAX);
    let folders = StateFolders::of(config, &chain.folder);
    let restored = restore::up_to(config, &chain.genesis, &folders, highest, refused)?;
    let Some(RestoredState { ledger, block_id }) = restored else {
        return Err(LedgerError::NoBlock { slot: highest, last: chain.genesis.config().genesis_slot });
    };
    ledger.check_features()?;
    let last = chain.recovery.last_whole_slot.unwrap_or(0).min(highest);
    let executing = |done: &ReplaySummary| {
        let (slot, count) = (done.last_slot, grouped(done.transactions));
        shown.tell(|| format!("executing: slot {slot} of {last}, {count} transactions"));
        ReplayControl::Continue(())
    };
    let done = replay::replay(&ledger, block_id, &chain.genesis, &chain.reader, until, None, executing)?;
    Ok((ledger, done))
}

//! `hearth ledger snapshot create`: writes the state of a chain as an archive that the cluster's nodes start from.
//!
//! reads   the newest snapshot up to the slot, the blocks after it, and the last 300 blocks
//! writes  one archive; progress on standard error
//! memory  the state, and 64 B for each transaction of the last 300 blocks
//! drops   the unfinished archive, if it does not become whole
//!
//! Blocks are executed as a start does. The results of the last 300 blocks' transactions are in the status cache by
//! then, which a snapshot has, too: only the messages and signatures are read from the blocks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hearth_command::numbers::grouped;
use hearth_command::output::{Say, note};
use hearth_command::progress::Progress;
use hearth_ledger::Ledger;
use hearth_ledger::archive::{ArchiveError, Fault, SLOTS_MAX, SlotStatuses};
use hearth_ledger::archiver::{ChainFacts, block_statuses, write_archive};
use hearth_ledger::snapshot::SnapshotError;
use hearth_pipeline::tower;
use hearth_wire::base58::encode_32;

use super::tower::{TowerFailure, identity};
use super::{LedgerError, Offline};
use crate::config::Config;
use crate::replay::{self, Go, Replayed, entries};
use crate::restore::{self, Restored, StateFolders};

/// Accounts after which progress is shown again.
const SHOWN_EVERY: u64 = 1 << 16;

/// Writes the state at the end of `slot`, or of the last block that is final, into `out`, or into the folder of the
/// chain's snapshots.
pub fn run(
    chain: &Offline,
    config: &Config,
    slot: Option<u64>,
    out: Option<&Path>,
    say: &Say,
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
    let statuses = statuses(chain, &ledger, &mut shown)?;
    let facts = ChainFacts::of(&ledger, &chain.genesis, statuses, block_id);
    let all = ledger.accounts().count() as u64;
    let path = write_archive(&ledger, &facts, &out, |count| {
        if count.is_multiple_of(SHOWN_EVERY) {
            shown.tell(|| format!("writing: {} of {} accounts", grouped(count), grouped(all)));
        }
    })?;
    shown.clear();
    let (slot, hash) = ledger.hash_all();
    say.line(format_args!("archive   {}", path.display()));
    say.line(format_args!("bank      slot {slot}, hash {}", encode_32(&hash)));
    say.line(format_args!("accounts  {}", grouped(all)));
    Ok(())
}

/// The folder for the archive, which is made if it is not there.
fn folder(chain: &Offline, config: &Config, given: Option<&Path>) -> Result<PathBuf, ArchiveError> {
    let folder = given.map_or_else(|| restore::folder(config, &chain.folder), Path::to_path_buf);
    std::fs::create_dir_all(&folder).map_err(|e| ArchiveError::of(&folder, Fault::Write(e)))?;
    Ok(folder)
}

/// The slot whose state is written; `None` for the last block of a chain without forks.
fn last(chain: &Offline, config: &Config, wanted: Option<u64>) -> Result<Option<u64>, LedgerError> {
    // As a start does: above the root there may be forks.
    if !config.gossip.enabled {
        return Ok(wanted);
    }
    let node = identity(config, &chain.folder, None).map_err(TowerFailure::from)?.public;
    let root = tower::final_slot(&chain.folder, &node).map_err(TowerFailure::from)?.unwrap_or(0);
    // The node takes snapshots of final blocks alone.
    let root = chain.snapshots.first().map_or(root, |newest| newest.slot.max(root));
    match wanted {
        Some(slot) if !is_on_way(chain, root, slot) => Err(LedgerError::NotFinal { slot, root }),
        wanted => Ok(Some(wanted.unwrap_or(root))),
    }
}

/// Whether the block of `slot` is that of `root`, or one on which that is built.
fn is_on_way(chain: &Offline, root: u64, slot: u64) -> bool {
    let mut at = root;
    while at > slot
        && let Some(info) = chain.reader.slot(at).filter(|info| info.parent_slot < at)
    {
        at = info.parent_slot;
    }
    at == slot
}

/// The ledger at the end of the block of `until`, or of the last one, as far as the blocks lead there.
fn state(
    chain: &Offline,
    config: &Config,
    until: Option<u64>,
    shown: &mut Progress,
) -> Result<(Arc<Ledger>, Replayed), LedgerError> {
    shown.tell(|| "reading the newest snapshot");
    let refused = |why: &SnapshotError| note(format_args!("notice: {why}; it is not used"));
    let highest = until.unwrap_or(u64::MAX);
    let folders = StateFolders::of(config, &chain.folder);
    let restored = restore::up_to(config, &chain.genesis, &folders, highest, refused)?;
    let Some(Restored { ledger, block_id }) = restored else {
        return Err(LedgerError::NoBlock { slot: highest, last: chain.genesis.config().genesis_slot });
    };
    ledger.check_features()?;
    let last = chain.recovery.last_whole_slot.unwrap_or(0).min(highest);
    let executing = |done: &Replayed| {
        let (slot, count) = (done.last_slot, grouped(done.transactions));
        shown.tell(|| format!("executing: slot {slot} of {last}, {count} transactions"));
        Go::Continue(())
    };
    let done = replay::replay(&ledger, block_id, &chain.genesis, &chain.reader, until, None, executing)?;
    Ok((ledger, done))
}

/// The transactions of the last 300 blocks, the oldest first.
fn statuses(chain: &Offline, ledger: &Ledger, shown: &mut Progress) -> Result<Vec<SlotStatuses>, LedgerError> {
    let mut all = vec![];
    let newest = ledger.recent_blocks(1)[0];
    // A ledger that an archive started knows no block before that one's, but what became of their transactions.
    let (mut slot, oldest) = (newest.slot, (newest.height + 1).saturating_sub(SLOTS_MAX as u64));
    for height in (oldest..=newest.height).rev() {
        shown.tell(|| format!("reading the transactions of slot {slot}"));
        if height == 0 {
            // The genesis has none, and a chain may lack it as a block.
            all.push(SlotStatuses { slot, hashes: vec![] });
            break;
        }
        let stored = chain.reader.block(slot)?.ok_or(LedgerError::NoStatuses { slot })?;
        let entries = entries(&stored.data).map_err(|source| LedgerError::Entries { slot, source })?;
        let transactions = entries.iter().flat_map(|entry| entry.transactions());
        all.push(block_statuses(ledger, slot, transactions).ok_or(LedgerError::NoStatuses { slot })?);
        slot = stored.info.parent_slot;
    }
    all.reverse();
    Ok(all)
}

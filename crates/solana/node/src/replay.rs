//! Rebuilds the ledger from the blocks on disk.
//!
//! reads   the block store, from the block after the ledger's last, which is that of the genesis or of a snapshot
//! writes  the ledger: accounts, statuses and blockhashes as at the end of the last whole block; missing blocks of the
//!         history
//! memory  one block; that of [`Pool`]
//! drops   nothing: a block that fails verification or executes differently is an error that names the slot
//!
//! Every block is checked as by a follower: its hash chain, its ticks, and that each of its transactions lands.

use std::collections::BTreeSet;

use hearth_crypto::ed25519::verify_strict;
use hearth_ledger::blockstore::{Block, Reader, StoreError};
use hearth_ledger::history::{History, HistoryError};
use hearth_ledger::{BlockLimits, Genesis, Ledger, SlotError};
use hearth_pipeline::bank::RecorderConfig;
use hearth_pipeline::exec::WorkerConfig;
use hearth_pipeline::replay::{Job, Pool, Rules};
use hearth_pipeline::store::block_meta;
use hearth_wire::txn::Txn;

/// Bytes of tables for keys that sign often in other nodes' blocks: some 3,800 keys, each with one table per worker.
pub const TABLE_BYTES: usize = 64 << 20;

/// Why the ledger cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The first blocks are gone.
    #[error(
        "the blocks from slot {after} to slot {first} are gone and no snapshot has their state, so the accounts cannot be rebuilt: `ledger.limit_size` dropped them. Delete the ledger folder to begin a new chain, and let it take snapshots"
    )]
    BeginningGone {
        /// The newest slot with a state.
        after: u64,
        /// The first stored slot.
        first: u64,
    },
    /// The progress callback ended the replay.
    #[error("stopped after slot {0}")]
    Stopped(u64),
    /// The block store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The transaction history cannot be read or written.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A block is invalid.
    #[error(transparent)]
    Block(#[from] hearth_pipeline::replay::ReplayError),
}

/// Whether the error is damage of blocks.
pub fn is_store_damaged(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt(_))
}

/// Whether the error is damage of the history.
pub fn is_history_damaged(error: &HistoryError) -> bool {
    matches!(error, HistoryError::Corrupt { .. })
}

/// Whether damage is the reason why blocks cannot be replayed.
pub fn is_replay_of_damage(error: &ReplayError) -> bool {
    match error {
        ReplayError::Store(error) => is_store_damaged(error),
        ReplayError::History(error) => is_history_damaged(error),
        ReplayError::BeginningGone { .. } | ReplayError::Stopped(_) | ReplayError::Block(_) => false,
    }
}

/// Whether the blocks lead to a slot from which on the chain has rules that this program lacks.
pub fn is_replay_of_unsupported(error: &ReplayError) -> bool {
    matches!(
        error,
        ReplayError::Block(hearth_pipeline::replay::ReplayError::Slot { source: SlotError::Feature { .. }, .. })
    )
}

/// Whether all signatures of a transaction are valid.
pub fn signatures_are_valid(txn: &Txn<'_>) -> bool {
    let pairs = txn.signatures().iter().zip(txn.signer_keys());
    pairs.into_iter().all(|(signature, key)| verify_strict(key, signature, txn.message()).is_ok())
}

/// Whether to continue with the next block.
pub type ReplayControl = std::ops::ControlFlow<()>;

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Number of blocks that were executed.
    pub blocks: u64,
    /// The slot that it started after: a snapshot's, or that of the genesis.
    pub from_slot: u64,
    /// Number of transactions in these blocks.
    pub transactions: u64,
    /// The slot of the last block.
    pub last_slot: u64,
    /// The hash of the last block's bank.
    pub bank_hash: [u8; 32],
    /// The last block's id: the Merkle root of its last FEC set. The next block's first set chains to it.
    pub block_id: Option<[u8; 32]>,
}

/// Replays blocks one after the other.
pub struct Replayer<'a> {
    /// The ledger that they change.
    pub ledger: &'a Ledger,
    genesis: &'a Genesis,
    pool: Pool,
    history: Option<&'a mut History>,
    parent_hash: [u8; 32],
    done: ReplaySummary,
}

impl<'a> Replayer<'a> {
    /// Continues after the ledger's last block. Blocks that `history` lacks are recorded, with logs and inner calls if
    /// its flag is set.
    pub fn new(ledger: &'a Ledger, genesis: &'a Genesis, history: Option<(&'a mut History, bool)>) -> Self {
        let last = ledger.recent_blocks(1)[0];
        let (history, extended) = history.unzip();
        let recording = history.as_ref().map(|history| history.key()).zip(extended);
        let recording = recording.map(|(key, extended)| RecorderConfig { key, extended });
        let pool = pool(0, recording);
        let done = ReplaySummary { from_slot: last.slot, last_slot: last.slot, ..ReplaySummary::default() };
        Self { ledger, genesis, pool, history, parent_hash: last.blockhash, done }
    }

    /// Replays the block that follows the last.
    ///
    /// # Errors
    ///
    /// It executes differently than on its leader.
    pub fn block(&mut self, block: &Block) -> Result<(), ReplayError> {
        let Self { ledger, genesis, pool, history, parent_hash, done } = self;
        let missing = history.as_mut().filter(|history| block.info.slot > history.last_slot());
        // Blocks on this disk were verified when they were received.
        let job = Job { records: missing.is_some(), is_known: true, ..job(genesis, block, *parent_hash) };
        let executed = pool.batches(ledger, job, &block.data, block.batch_ends.clone())?;
        let ended = executed.block;
        if let Some(history) = missing {
            for batch in &executed.batches {
                history.append(batch);
                history.write_some()?;
            }
            let rewards = ledger.rewards(&ended).unwrap_or_default();
            history.close(&block_meta(&ended, &ledger.recent_blocks(2)[1], &rewards))?;
        }
        ledger.mark_stored(ended.slot);
        // With forks: blocks replayed at startup are final.
        ledger.mark_rooted(ended.slot);
        *parent_hash = ended.blockhash;
        done.transactions += ended.counts.committed;
        done.blocks += 1;
        (done.last_slot, done.block_id) = (block.info.slot, Some(block.block_id));
        Ok(())
    }
}

/// Replays every whole block after the ledger's last, in order, up to the first gap. `block_id` is that of the ledger's
/// last block. If there may be forks, replays only the ancestors of the block at slot `root`: none if that is not above
/// the ledger's last. Blocks that `history` lacks are recorded, with logs and inner calls if its flag is set.
/// `progress` is called after each block with the count so far, and may end the replay.
pub fn replay(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    genesis: &Genesis,
    reader: &Reader,
    root: Option<u64>,
    history: Option<(&mut History, bool)>,
    progress: impl FnMut(&ReplaySummary) -> ReplayControl,
) -> Result<ReplaySummary, ReplayError> {
    let which = root.map_or(BlockSelection::All, |root| {
        BlockSelection::Below(ancestors(reader, ledger.recent_blocks(1)[0].slot, root))
    });
    execute(ledger, block_id, (genesis, reader), history, &which, progress)
}

/// Selects the blocks to replay.
enum BlockSelection {
    All,
    Until(u64),
    Below(BTreeSet<u64>),
}

impl BlockSelection {
    fn has(&self, slot: u64) -> bool {
        match self {
            Self::All => true,
            Self::Until(until) => slot <= *until,
            Self::Below(line) => line.contains(&slot),
        }
    }
}

/// The slots of the blocks above `after` up to `root`.
fn ancestors(reader: &Reader, after: u64, root: u64) -> BTreeSet<u64> {
    let mut line = BTreeSet::new();
    let mut at = root;
    while at > after
        && let Some(info) = reader.slot(at).filter(|info| info.parent_slot < at)
    {
        line.insert(at);
        at = info.parent_slot;
    }
    // Ancestors that do not reach `after` cannot be replayed.
    if at == after { line } else { BTreeSet::new() }
}

/// [`replay`] up to the block at slot `until`, without recording.
pub fn replay_until(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    genesis: &Genesis,
    reader: &Reader,
    until: u64,
    mut progress: impl FnMut(&ReplaySummary),
) -> Result<ReplaySummary, ReplayError> {
    let to_the_end = |done: &ReplaySummary| {
        progress(done);
        ReplayControl::Continue(())
    };
    execute(ledger, block_id, (genesis, reader), None, &BlockSelection::Until(until), to_the_end)
}

fn execute(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    (genesis, reader): (&Genesis, &Reader),
    history: Option<(&mut History, bool)>,
    which: &BlockSelection,
    mut progress: impl FnMut(&ReplaySummary) -> ReplayControl,
) -> Result<ReplaySummary, ReplayError> {
    let last = ledger.recent_blocks(1)[0];
    let mut replayer = Replayer::new(ledger, genesis, history);
    replayer.done.block_id = block_id;
    for info in reader.slots(last.slot + 1.., usize::MAX).into_iter().filter(|info| info.whole && which.has(info.slot))
    {
        let done = &replayer.done;
        if done.blocks == 0 && info.parent_slot > last.slot {
            return Err(ReplayError::BeginningGone { after: last.slot, first: info.slot });
        }
        if info.parent_slot != done.last_slot {
            // A kill left a gap: the blocks after it were not confirmed, and the store tile discards them.
            break;
        }
        let block = reader.block(info.slot)?.expect("the index has it");
        replayer.block(&block)?;
        if progress(&replayer.done).is_break() {
            return Err(ReplayError::Stopped(info.slot));
        }
    }
    let mut done = replayer.done;
    done.bank_hash = ledger.hash_all().1;
    Ok(done)
}

/// A pool of one worker per core, with `table_bytes` of tables for keys that sign often.
pub fn pool(table_bytes: usize, recording: Option<RecorderConfig>) -> Pool {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    Pool::new(workers, &WorkerConfig { table_bytes, recording })
}

/// A job to replay a block on the ledger's last, which ended with `parent_hash`: verifies signatures and returns the
/// effects of its transactions.
pub fn job(genesis: &Genesis, block: &Block, parent_hash: [u8; 32]) -> Job {
    let rules = rules(genesis);
    let (slot, parent) = (block.info.slot, block.info.parent_slot);
    Job { rules, slot, parent, parent_hash, is_known: false, records: true }
}

/// The rules of a chain for its blocks.
pub fn rules(genesis: &Genesis) -> Rules {
    let config = genesis.config();
    let (ticks_per_slot, hashes_per_tick) = (config.ticks_per_slot, config.hashes_per_tick);
    Rules { ticks_per_slot, hashes_per_tick, limits: BlockLimits::CLUSTER }
}

#[cfg(test)]
mod tests;

//! Rebuilding the ledger from the blocks on disk.
//!
//! reads   the block store, from the block after the ledger's last on: the genesis', or a snapshot's
//! writes  the ledger: accounts, statuses, blockhashes, as they were when the last whole block ended; the history, of
//!         blocks that it lacks
//! memory  one block; that of [`Pool`]
//! drops   nothing: a block that does not verify or does not execute as it did is an error that names the slot
//!
//! Every block is checked as a follower would: its hash chain, its ticks, and that each transaction in it lands.

use std::collections::BTreeSet;

use hearth_crypto::ed25519::verify_strict;
use hearth_ledger::blockstore::{Block, Reader, StoreError};
use hearth_ledger::history::{History, HistoryError};
use hearth_ledger::{Genesis, Ledger};
use hearth_pipeline::bank::Recording;
use hearth_pipeline::exec::WorkerConfig;
use hearth_pipeline::replay::{Job, Pool, Rules};
use hearth_pipeline::store::block_meta;
use hearth_wire::entry::{Entries, Entry, EntryError};
use hearth_wire::txn::Txn;

/// Bytes for the tables of keys that sign again and again in blocks of others: some 3,800 keys, each of which has one
/// with every worker.
pub const TABLE_BYTES: usize = 64 << 20;

/// Why the ledger cannot be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The beginning is gone.
    #[error(
        "the blocks from slot {after} to slot {first} are gone and no snapshot has their state, so the accounts cannot be rebuilt: `ledger.limit_size` dropped them. Delete the ledger folder to begin a new chain, and let it take snapshots"
    )]
    BeginningGone {
        /// The last slot whose state there is.
        after: u64,
        /// The first slot there is.
        first: u64,
    },
    /// Whoever was told of the progress has ended it.
    #[error("stopped after slot {0}")]
    Stopped(u64),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The history.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A block.
    #[error(transparent)]
    Block(#[from] hearth_pipeline::replay::ReplayError),
}

/// Whether blocks are not as they were written.
pub fn is_store_damaged(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt(_))
}

/// Whether the history is not as it was written.
pub fn is_history_damaged(error: &HistoryError) -> bool {
    matches!(error, HistoryError::Corrupt { .. })
}

/// Whether that is why blocks cannot be executed.
pub fn is_replay_of_damage(error: &ReplayError) -> bool {
    match error {
        ReplayError::Store(error) => is_store_damaged(error),
        ReplayError::History(error) => is_history_damaged(error),
        ReplayError::BeginningGone { .. } | ReplayError::Stopped(_) | ReplayError::Block(_) => false,
    }
}

/// Whether every signature of a transaction is its signer's.
pub fn signatures_are_valid(txn: &Txn<'_>) -> bool {
    let pairs = txn.signatures().iter().zip(txn.signer_keys());
    pairs.into_iter().all(|(signature, key)| verify_strict(key, signature, txn.message()).is_ok())
}

/// Whether to go on with the next block.
pub type Go = std::ops::ControlFlow<()>;

/// What was rebuilt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Blocks.
    pub blocks: u64,
    /// The slot that it began after: a snapshot's, or the genesis'.
    pub from_slot: u64,
    /// Transactions.
    pub transactions: u64,
    /// The last block's slot.
    pub last_slot: u64,
    /// The hash of the last block's bank.
    pub bank_hash: [u8; 32],
    /// The last block's id: the Merkle root of its last FEC set. The next block's first set chains to it.
    pub block_id: Option<[u8; 32]>,
}

/// Executes blocks one after the other.
pub struct Replayer<'a> {
    /// What they change.
    pub ledger: &'a Ledger,
    genesis: &'a Genesis,
    pool: Pool,
    history: Option<&'a mut History>,
    parent_hash: [u8; 32],
    done: Replayed,
}

impl<'a> Replayer<'a> {
    /// Goes on behind the ledger's last block. What `history` lacks is recorded, with logs and calls where it has
    /// those.
    pub fn new(ledger: &'a Ledger, genesis: &'a Genesis, history: Option<(&'a mut History, bool)>) -> Self {
        let last = ledger.recent_blocks(1)[0];
        let (history, extended) = history.unzip();
        let recording = history.as_ref().map(|history| history.key()).zip(extended);
        let recording = recording.map(|(key, extended)| Recording { key, extended });
        let pool = pool(0, recording);
        let done = Replayed { from_slot: last.slot, last_slot: last.slot, ..Replayed::default() };
        Self { ledger, genesis, pool, history, parent_hash: last.blockhash, done }
    }

    /// Executes the block that follows on the last.
    ///
    /// # Errors
    /// It does not execute as its leader did.
    pub fn block(&mut self, block: &Block) -> Result<(), ReplayError> {
        let Self { ledger, genesis, pool, history, parent_hash, done } = self;
        let missing = history.as_mut().filter(|history| block.info.slot > history.last_slot());
        // What is on this disk was checked when it came.
        let job = Job { records: missing.is_some(), is_known: true, ..job(genesis, block, *parent_hash) };
        let executed = pool.block(ledger, job, &block.data)?;
        let ended = executed.block;
        if let Some(history) = missing {
            for batch in &executed.batches {
                history.append(batch);
                history.write_some()?;
            }
            history.close(&block_meta(&ended, &ledger.recent_blocks(2)[1]))?;
        }
        ledger.mark_stored(ended.slot);
        // Where forks are kept: what is executed at the start is final.
        ledger.mark_rooted(ended.slot);
        *parent_hash = ended.blockhash;
        done.transactions += ended.counts.committed;
        done.blocks += 1;
        (done.last_slot, done.block_id) = (block.info.slot, Some(block.block_id));
        Ok(())
    }
}

/// Executes every whole block after the ledger's last again, in order, up to the first hole. `block_id` is that of the
/// ledger's last block. Where there may be forks, only those are executed that lead to the block of the slot `root`:
/// none where that is not above the ledger's last.
/// What `history` lacks is recorded anew, with logs and calls where it has those. `progress` is called after each with
/// the count so far, and may end it.
pub fn replay(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    genesis: &Genesis,
    reader: &Reader,
    root: Option<u64>,
    history: Option<(&mut History, bool)>,
    progress: impl FnMut(&Replayed) -> Go,
) -> Result<Replayed, ReplayError> {
    let which = root.map_or(Which::All, |root| Which::Below(ancestors(reader, ledger.recent_blocks(1)[0].slot, root)));
    execute(ledger, block_id, (genesis, reader), history, &which, progress)
}

/// Which blocks are executed.
enum Which {
    All,
    Until(u64),
    Below(BTreeSet<u64>),
}

impl Which {
    fn has(&self, slot: u64) -> bool {
        match self {
            Self::All => true,
            Self::Until(until) => slot <= *until,
            Self::Below(line) => line.contains(&slot),
        }
    }
}

/// The slots of the blocks from above `after` up to `root`.
fn ancestors(reader: &Reader, after: u64, root: u64) -> BTreeSet<u64> {
    let mut line = BTreeSet::new();
    let mut at = root;
    while at > after
        && let Some(info) = reader.slot(at).filter(|info| info.parent_slot < at)
    {
        line.insert(at);
        at = info.parent_slot;
    }
    // A line that does not come down to what there is leads nowhere.
    if at == after { line } else { BTreeSet::new() }
}

/// [`replay`] up to the block of the slot `until`, with nothing recorded.
pub fn replay_until(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    genesis: &Genesis,
    reader: &Reader,
    until: u64,
    mut progress: impl FnMut(&Replayed),
) -> Result<Replayed, ReplayError> {
    let to_the_end = |done: &Replayed| {
        progress(done);
        Go::Continue(())
    };
    execute(ledger, block_id, (genesis, reader), None, &Which::Until(until), to_the_end)
}

fn execute(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    (genesis, reader): (&Genesis, &Reader),
    history: Option<(&mut History, bool)>,
    which: &Which,
    mut progress: impl FnMut(&Replayed) -> Go,
) -> Result<Replayed, ReplayError> {
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
            // A kill left a hole: what lies behind it was not confirmed, and the store tile discards it.
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

/// Workers for as many threads as there are cores, with so many bytes for the tables of keys that sign often.
pub fn pool(table_bytes: usize, recording: Option<Recording>) -> Pool {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    Pool::new(workers, &WorkerConfig { table_bytes, recording })
}

/// To execute a block on the ledger's last, which ended with `parent_hash`: signatures are checked, and what
/// its transactions did is wanted.
pub fn job(genesis: &Genesis, block: &Block, parent_hash: [u8; 32]) -> Job {
    let rules = rules(genesis);
    let (slot, parent) = (block.info.slot, block.info.parent_slot);
    Job { rules, slot, parent, parent_hash, is_known: false, records: true }
}

/// The rules of a chain for its blocks.
pub fn rules(genesis: &Genesis) -> Rules {
    let config = genesis.config();
    Rules { ticks_per_slot: config.ticks_per_slot, hashes_per_tick: config.hashes_per_tick }
}

/// The entries of all batches of a block.
pub fn entries(data: &[u8]) -> Result<Vec<Entry<'_>>, EntryError> {
    let (mut all, mut rest) = (vec![], data);
    while !rest.is_empty() {
        let mut batch = Entries::parse_prefix(rest)?;
        for entry in &mut batch {
            all.push(entry?);
        }
        rest = batch.rest();
    }
    Ok(all)
}

#[cfg(test)]
mod tests;

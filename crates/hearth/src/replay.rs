//! Rebuilding the ledger from the blocks on disk.
//!
//! reads   the block store, from the block after the ledger's last on: the genesis', or a snapshot's
//! writes  the ledger: accounts, statuses, blockhashes, as they were when the last whole block ended; the history, of
//!         blocks that it lacks
//! memory  one block
//! drops   nothing: a block that does not verify or does not execute as it did is an error that names the slot
//!
//! Every block is checked as a follower would: its hash chain, its ticks, and that each transaction in it lands.

use std::collections::BTreeSet;

use hearth_ledger::blockstore::{Block, Reader, StoreError};
use hearth_ledger::history::{BatchWriter, History, HistoryError};
use hearth_ledger::{BlockSummary, Executor, Genesis, Ledger, Outcome, SlotError};
use hearth_pipeline::bank::record_transaction;
use hearth_pipeline::poh;
use hearth_pipeline::store::block_meta;
use hearth_wire::entry::{Entries, Entry, EntryError};
use hearth_wire::txn::Txn;

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
    /// The ledger does not take the block.
    #[error("slot {slot}: {source}")]
    Slot {
        /// The slot.
        slot: u64,
        /// Why.
        source: SlotError,
    },
    /// The block is no sequence of entries.
    #[error("slot {slot}: {source}")]
    Entries {
        /// The slot.
        slot: u64,
        /// Why.
        source: EntryError,
    },
    /// The block's hash chain or its ticks are wrong.
    #[error("slot {slot}: {source}")]
    Chain {
        /// The slot.
        slot: u64,
        /// Why.
        source: poh::check::BlockError,
    },
    /// A signature in a block.
    #[error("slot {slot}: a transaction of the block has a wrong signature, {signature}")]
    Signature {
        /// The slot.
        slot: u64,
        /// The transaction's first signature.
        signature: String,
    },
    /// A transaction of the block does not land.
    #[error("slot {slot}: transaction {index} of the block does not land: {outcome:?}")]
    DoesNotLand {
        /// The slot.
        slot: u64,
        /// Which transaction of the block, from 0.
        index: usize,
        /// What became of it.
        outcome: Outcome,
    },
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
    worker: Worker<'a>,
    parent_hash: [u8; 32],
    done: Replayed,
}

impl<'a> Replayer<'a> {
    /// Goes on behind the ledger's last block. What `history` lacks is recorded, with logs and calls where it has
    /// those.
    pub fn new(ledger: &'a Ledger, genesis: &'a Genesis, history: Option<(&'a mut History, bool)>) -> Self {
        let last = ledger.recent_blocks(1)[0];
        let worker = Worker { executor: Executor::new(), missing: history.map(Missing::new) };
        let done = Replayed { from_slot: last.slot, last_slot: last.slot, ..Replayed::default() };
        Self { ledger, genesis, worker, parent_hash: last.blockhash, done }
    }

    /// Executes the block that follows on the last.
    ///
    /// # Errors
    /// It does not execute as its leader did.
    pub fn block(&mut self, block: &Block) -> Result<(), ReplayError> {
        let Self { ledger, genesis, worker, parent_hash, done } = self;
        *parent_hash = one_block(ledger, genesis, block, parent_hash, worker, done)?;
        done.blocks += 1;
        (done.last_slot, done.block_id) = (block.info.slot, Some(block.block_id));
        Ok(())
    }
}

/// Executes every whole block after the ledger's last again, in order, up to the first hole. `block_id` is that of the
/// ledger's last block. Where there may be forks, only those are executed that lead to the block of the slot `root`.
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

fn one_block(
    ledger: &Ledger,
    genesis: &Genesis,
    block: &Block,
    parent_hash: &[u8; 32],
    worker: &mut Worker<'_>,
    done: &mut Replayed,
) -> Result<[u8; 32], ReplayError> {
    let mut missing = worker.missing.as_mut().filter(|missing| block.info.slot > missing.history.last_slot());
    let mut record = missing.as_mut().map(|missing| {
        |at: (u64, u64), txns: &[Txn<'_>], outcomes: &[Outcome], executor: &Executor| {
            missing.record(at, txns, outcomes, executor)
        }
    });
    let record = record.as_mut().map(|record| record as &mut Record<'_>);
    let ended = execute_block(ledger, genesis, block, parent_hash, &mut worker.executor, record)?;
    done.transactions += ended.counts.committed;
    if let Some(missing) = missing {
        missing.history.close(&block_meta(&ended, &ledger.recent_blocks(2)[1]))?;
    }
    ledger.mark_stored(ended.slot);
    // Where forks are kept: what is executed at the start is final.
    ledger.mark_rooted(ended.slot);
    Ok(ended.blockhash)
}

/// Told of what became of each entry's transactions: slot and number of the entry, the transactions, their outcomes,
/// and who executed them, with its records.
pub type Record<'a> = dyn FnMut((u64, u64), &[Txn<'_>], &[Outcome], &Executor) -> Result<(), HistoryError> + 'a;

/// Executes a block on the ledger's last, which ended with `parent_hash`, once its hash chain and its ticks are found
/// to be right. Signatures are not checked.
///
/// # Errors
/// It does not execute as its leader did; then its slot may have begun and not ended.
pub fn execute_block(
    ledger: &Ledger,
    genesis: &Genesis,
    block: &Block,
    parent_hash: &[u8; 32],
    executor: &mut Executor,
    mut record: Option<&mut Record<'_>>,
) -> Result<BlockSummary, ReplayError> {
    let (slot, parent) = (block.info.slot, block.info.parent_slot);
    let entries = entries(&block.data).map_err(|source| ReplayError::Entries { slot, source })?;
    let config = genesis.config();
    let ticks = config.ticks_per_slot * (slot - parent);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let hash = poh::check::verify_entries(parent_hash, &entries, config.hashes_per_tick, ticks, threads)
        .map_err(|source| ReplayError::Chain { slot, source })?;
    let bank = ledger.begin_slot(slot, parent).map_err(|source| ReplayError::Slot { slot, source })?;
    let (mut outcomes, mut index) = (vec![], 0);
    executor.set_recording(record.is_some());
    for (number, entry) in (0..).zip(entries.iter().filter(|e| !e.is_tick())) {
        let txns: Vec<Txn<'_>> = entry.transactions().collect();
        bank.execute(executor, &txns, &mut outcomes);
        if let Some(at) = outcomes.iter().position(|o| !o.is_committed()) {
            return Err(ReplayError::DoesNotLand { slot, index: index + at, outcome: outcomes[at] });
        }
        if let Some(record) = &mut record {
            record((slot, number), &txns, &outcomes, executor)?;
        }
        index += txns.len();
    }
    ledger.end_slot(slot, hash).map_err(|source| ReplayError::Slot { slot, source })
}

/// What executes, and what remembers.
struct Worker<'h> {
    executor: Executor,
    missing: Option<Missing<'h>>,
}

/// The blocks that the history lacks: it is not brought to stable storage before they are.
struct Missing<'h> {
    history: &'h mut History,
    extended: bool,
    writer: BatchWriter,
}

impl<'h> Missing<'h> {
    fn new((history, extended): (&'h mut History, bool)) -> Self {
        let writer = BatchWriter::new(history.key());
        Self { history, extended, writer }
    }

    fn record(
        &mut self,
        (slot, number): (u64, u64),
        txns: &[Txn<'_>],
        outcomes: &[Outcome],
        executor: &Executor,
    ) -> Result<(), HistoryError> {
        self.writer.begin(slot, number);
        for ((txn, outcome), record) in txns.iter().zip(outcomes).zip(executor.records()) {
            record_transaction(&mut self.writer, self.extended, txn, outcome, record.as_deref());
        }
        if let Some(batch) = self.writer.finish() {
            self.history.append(batch);
        }
        self.history.write_some()
    }
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

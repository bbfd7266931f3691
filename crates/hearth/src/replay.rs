//! Rebuilding the ledger from the blocks on disk.
//!
//! reads   the block store, from the block after the ledger's last on: the genesis', or a snapshot's
//! writes  the ledger: accounts, statuses, blockhashes, as they were when the last whole block ended
//! memory  one block
//! drops   nothing: a block that does not verify or does not execute as it did is an error that names the slot
//!
//! Every block is checked as a follower would: its hash chain, its ticks, and that each transaction in it lands.

use hearth_ledger::blockstore::{Block, Reader, StoreError};
use hearth_ledger::{Executor, Genesis, Ledger, Outcome, SlotError};
use hearth_pipeline::poh;
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
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
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

/// Executes every whole block after the ledger's last again, in order, up to the first hole. `block_id` is that of the
/// ledger's last block. `progress` is called after each with the count so far.
pub fn replay(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    genesis: &Genesis,
    reader: &Reader,
    progress: impl FnMut(&Replayed),
) -> Result<Replayed, ReplayError> {
    replay_until(ledger, block_id, genesis, reader, u64::MAX, progress)
}

/// [`replay`] up to the block of the slot `until`.
pub fn replay_until(
    ledger: &Ledger,
    block_id: Option<[u8; 32]>,
    genesis: &Genesis,
    reader: &Reader,
    until: u64,
    mut progress: impl FnMut(&Replayed),
) -> Result<Replayed, ReplayError> {
    let last = ledger.recent_blocks(1)[0];
    let mut done = Replayed { from_slot: last.slot, last_slot: last.slot, block_id, ..Replayed::default() };
    let mut executor = Executor::new();
    let mut parent_hash = last.blockhash;
    for info in reader.slots(last.slot + 1.., usize::MAX).into_iter().filter(|info| info.whole && info.slot <= until) {
        if done.blocks == 0 && info.parent_slot > last.slot {
            return Err(ReplayError::BeginningGone { after: last.slot, first: info.slot });
        }
        if info.parent_slot != done.last_slot {
            // A kill left a hole: what lies behind it was not confirmed, and the store tile discards it.
            break;
        }
        let block = reader.block(info.slot)?.expect("the index has it");
        parent_hash = one_block(ledger, genesis, &block, &parent_hash, &mut executor, &mut done)?;
        done.blocks += 1;
        done.last_slot = info.slot;
        done.block_id = Some(block.block_id);
        progress(&done);
    }
    done.bank_hash = ledger.hash_all().1;
    Ok(done)
}

fn one_block(
    ledger: &Ledger,
    genesis: &Genesis,
    block: &Block,
    parent_hash: &[u8; 32],
    executor: &mut Executor,
    done: &mut Replayed,
) -> Result<[u8; 32], ReplayError> {
    let (slot, parent) = (block.info.slot, block.info.parent_slot);
    let entries = entries(&block.data).map_err(|source| ReplayError::Entries { slot, source })?;
    let config = genesis.config();
    let ticks = config.ticks_per_slot * (slot - parent);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let hash = poh::check::verify_entries(parent_hash, &entries, config.hashes_per_tick, ticks, threads)
        .map_err(|source| ReplayError::Chain { slot, source })?;
    let bank = ledger.begin_slot(slot, parent).map_err(|source| ReplayError::Slot { slot, source })?;
    let (mut outcomes, mut index) = (vec![], 0);
    for entry in entries.iter().filter(|e| !e.is_tick()) {
        let txns: Vec<Txn<'_>> = entry.transactions().collect();
        bank.execute(executor, &txns, &mut outcomes);
        if let Some(at) = outcomes.iter().position(|o| !o.is_committed()) {
            return Err(ReplayError::DoesNotLand { slot, index: index + at, outcome: outcomes[at] });
        }
        index += txns.len();
    }
    done.transactions += index as u64;
    ledger.end_slot(slot, hash).map_err(|source| ReplayError::Slot { slot, source })?;
    ledger.mark_stored(slot);
    Ok(hash)
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

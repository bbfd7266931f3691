//! executor: the blocks that [`super::position`] wants executed, by a [`Pool`].
//!
//! reads   a block
//! writes  the ledger
//! memory  that of the pool
//! drops   –
//! source  –

use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Block;
use hearth_wire::Txn;

use super::position::{BlockExecutor, Executed};
use super::{Job, Pool, ReplayError, Rules, cast};

/// Executes blocks with workers in the process.
pub struct PoolExecutor {
    pool: Pool,
    rules: Rules,
    /// Whether a history is kept.
    records: bool,
}

impl PoolExecutor {
    /// Executes by the chain's rules, and records what a history wants.
    pub fn new(pool: Pool, rules: Rules, records: bool) -> Self {
        Self { pool, rules, records }
    }
}

impl BlockExecutor for PoolExecutor {
    fn execute(&mut self, ledger: &Ledger, block: &Block, is_known: bool) -> Result<Executed, ReplayError> {
        let Self { pool, rules, records } = self;
        let parent_hash = ledger.recent_blocks(1)[0].blockhash;
        let (slot, parent) = (block.info.slot, block.info.parent_slot);
        let job = Job { rules: *rules, slot, parent, parent_hash, is_known, records: *records };
        let done = pool.block(ledger, job, &block.data)?;
        let txns = done.votes.iter().map(|place| Txn::parse(place.of(&block.data)).expect("it was executed"));
        Ok(Executed {
            transactions: done.block.counts.committed,
            votes: txns.filter_map(|txn| cast(ledger, &txn)).collect(),
            batches: records.then_some(done.batches),
        })
    }
}

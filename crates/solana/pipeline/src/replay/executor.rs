//! executor: executes the blocks that [`super::position`] chooses, as orders for workers.
//!
//! reads   a block; workers' reports
//! writes  the ledger; orders
//! memory  one block; that of [`Replay`]

use hearth_ledger::Ledger;
use hearth_ledger::blockstore::Block;
use hearth_wire::Txn;

use super::position::{BlockExecutor, ExecutionSummary, Progress};
use super::{Job, Replay, Rules, Step, cast};
use crate::exec::{Report, WorkOrder};

/// Issues a block's orders, and takes the reports.
pub struct Dispatcher {
    replay: Replay,
    rules: Rules,
    /// Whether to record the history.
    records: bool,
    block: Option<Block>,
}

impl Dispatcher {
    /// Creates an executor with the chain's parameters; `records` asks for the history.
    pub fn new(rules: Rules, records: bool) -> Self {
        Self { replay: Replay::default(), rules, records, block: None }
    }

    /// Returns the next order that needs no outstanding report, and the bytes to which its places refer.
    pub fn order(&mut self) -> Option<(WorkOrder, &[u8])> {
        let block = self.block.as_ref()?;
        Some((self.replay.order()?, &block.data))
    }

    /// Takes the report of an order.
    pub fn report(&mut self, report: Report) {
        if let Some(block) = &self.block {
            self.replay.take(report, &block.data);
        }
    }
}

impl BlockExecutor for Dispatcher {
    fn begin(&mut self, ledger: &Ledger, block: Block, is_known: bool) {
        let parent_hash = ledger.recent_blocks(1)[0].blockhash;
        let (slot, parent) = (block.info.slot, block.info.parent_slot);
        let job = Job { rules: self.rules, slot, parent, parent_hash, is_known, records: self.records };
        self.replay.begin(job, block.batch_ends.clone());
        self.block = Some(block);
    }

    fn step(&mut self, ledger: &Ledger) -> Progress {
        let Some(block) = &self.block else { return Progress::Waits };
        let end = match self.replay.step(ledger, &block.data) {
            Step::Busy => return Progress::Busy,
            Step::Waits => return Progress::Waits,
            Step::Ended(end) => end,
        };
        let cast = |place: &crate::exec::TransactionRange| {
            let txn = Txn::parse(place.of(&block.data)).expect("it was executed");
            cast(ledger, &txn)
        };
        let end = end.map(|done| ExecutionSummary {
            transactions: done.block.counts.committed,
            votes: done.votes.iter().filter_map(cast).collect(),
            batches: self.records.then_some(done.batches),
        });
        self.block = None;
        Progress::Ended(end)
    }
}

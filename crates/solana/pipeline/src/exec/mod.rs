//! exec: executes parts of another node's block, and verifies its signatures and hashes.
//!
//! reads   `replay_exec`, reliable: orders, each with transactions that conflict with none in flight, or entries to
//!         hash
//! writes  `exec_replay`, reliable: with a history, the transactions' records in several frags; then the verdict
//! memory  one order and its report; precomputed tables for keys that sign often, at most `table_bytes`
//! drops   the transactions of an order after the first wrong one: the verdict names it, and replay discards the block
//! source  [`crate::replay`] issues the orders and collects the verdicts
//!
//! A turn is bounded to 32 signatures, 32 transactions or 4,096 hashes, so that a tile on a shared core yields in
//! between. The tile takes its next order once the previous report has been sent.

mod messages;
mod order;
mod worker;

pub use messages::{ExecOrder, ExecVerdict};
pub use order::{Failure, ORDER_ENTRIES, Report, TransactionRange, Work, WorkOrder};
pub use worker::{StepOutcome, Worker, WorkerConfig};

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ring::FragMeta;
use hearth_tile::{Filter, Frag, Host, In, InitError, Out, Poll, Port, Tile};

use crate::links::{EXEC_REPLAY, MICROBLOCK_MTU, MORE, REPLAY_EXEC};

hearth_tile::counters! {
    /// The counters of exec.
    pub struct Counters {
        /// Orders of replay that were done.
        orders: Counter,
        /// Orders that found their block wrong.
        orders_failed: Counter,
        /// Transactions executed, of blocks of others.
        transactions: Counter,
        /// Signatures checked, right or wrong.
        signatures: Counter,
        /// Time that checking signatures took, nanoseconds.
        signatures_ns: Counter,
    }
}

/// The configuration of an exec tile.
pub struct Config {
    /// Shared with banks, poh, store and the RPC.
    pub ledger: Arc<Ledger>,
    /// Key tables and the history.
    pub worker: WorkerConfig,
}

/// Works on one order at a time.
pub struct Exec {
    ledger: Arc<Ledger>,
    bank: Option<Arc<hearth_ledger::Bank>>,
    worker: Worker,
    order: Option<WorkOrder>,
    /// The order's message; its places refer to these bytes.
    payload: Vec<u8>,
    report: Option<Report>,
    /// Bytes of the report's history already sent.
    sent: usize,
    replay: Port,
    mtu: usize,
}

impl Tile for Exec {
    const NAME: &'static str = "exec";
    const FRAGS_PER_RUN: usize = 1;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        host.input(REPLAY_EXEC)?;
        let replay = host.output(EXEC_REPLAY)?;
        host.elective(replay);
        Ok(Self {
            ledger: config.ledger,
            bank: None,
            worker: Worker::new(&config.worker),
            order: None,
            payload: Vec::with_capacity(MICROBLOCK_MTU),
            report: None,
            sent: 0,
            replay,
            mtu: host.mtu(replay),
        })
    }

    fn filter(&mut self, _meta: &FragMeta, _input: In) -> Filter {
        if self.order.is_none() { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, _out: &mut Out<'_, Self>) {
        self.payload.clear();
        self.payload.extend_from_slice(frag.payload());
        let order = ExecOrder::read(&self.payload);
        // The bank changes with the block, and replay may restart a block.
        if let Work::Execute { .. } = order.work
            && self.bank.as_ref().is_none_or(|bank| bank.slot() != order.slot || bank.has_ended())
        {
            self.bank = self.ledger.bank(order.slot);
        }
        self.worker.begin(&order);
        self.order = Some(order);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let Some(order) = &self.order else { return Poll::Idle };
        if self.report.is_none() {
            let begun = out.fresh_now();
            match self.worker.step(order, &self.payload, self.bank.as_deref()) {
                StepOutcome::Signatures(count) => {
                    out.count.signatures += count as u64;
                    out.count.signatures_ns += out.fresh_now() - begun;
                }
                StepOutcome::Transactions(count) => out.count.transactions += count as u64,
                StepOutcome::Hashes => {}
            }
            self.report = self.worker.take_report();
            self.sent = 0;
        }
        if self.send(out) { Poll::Busy } else { Poll::Idle }
    }
}

impl Exec {
    /// Sends as much of the report as there is room for; its last frag completes the order. Returns `false` if the link
    /// is full: replay wakes this tile when it has room.
    fn send(&mut self, out: &mut Out<'_, Self>) -> bool {
        let Some(Report { id, failure, history, costs }) = &self.report else { return true };
        while out.credits(self.replay, 1) > 0 {
            if self.sent < history.len() {
                let end = history.len().min(self.sent + self.mtu);
                out.publish_control(self.replay, *id, MORE, &history[self.sent..end]);
                self.sent = end;
                continue;
            }
            out.publish_with(self.replay, *id, |buffer| ExecVerdict::write(buffer, *failure, costs));
            out.count.orders += 1;
            out.count.orders_failed += u64::from(failure.is_some());
            self.report = None;
            self.order = None;
            return true;
        }
        out.held_up();
        false
    }
}

#[cfg(test)]
mod tests;

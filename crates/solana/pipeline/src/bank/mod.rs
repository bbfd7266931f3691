//! bank: executes microblocks and commits the transactions that land.
//!
//! reads   `pack_bank`, reliable: microblocks that conflict with nothing in flight
//! writes  `bank_poh`, reliable: the committed transactions, in order, and their mixin; `bank_pack`, reliable: the
//!         microblock's completion, with the compute units that each transaction used; with a transaction history,
//!         `bank_store`, reliable: the outcome of each transaction that landed
//! memory  the accounts of one microblock; records that store has not accepted yet; the ledger is shared by all banks
//! drops   transactions that may not land, each counted by its error; they leave no trace in the block
//! source  [`hearth_ledger::Bank`]
//!
//! Between microblocks, bank hashes the accounts of the last frozen slot, a bounded piece per turn.
//!
//! poh receives a microblock before pack receives its completion. Pack therefore schedules a conflicting microblock
//! only after this one is on its way into the block, and the block's order is the order of execution.

mod recorder;

pub use recorder::{RecorderConfig, push as record_transaction};

use std::sync::Arc;

use hearth_crypto::merkle::MixinTree;
use hearth_ledger::{Executor, Ledger, Outcome, TransactionError};
use hearth_ring::FragMeta;
use hearth_tile::latency::TAKEN;
use hearth_tile::{Filter, Frag, Host, In, InitError, LatencyDecl, Out, Poll, Port, Tile};
use hearth_wire::txn::Txn;
use hearth_wire::vote::is_vote;

use recorder::Recorder;

use crate::drops::DropLog;
use crate::links::{
    BANK_PACK, BANK_POH, BANK_STORE, Completion, ExecutedMicroblock, MICROBLOCK_TXNS, Microblock, PACK_BANK,
};

hearth_tile::counters! {
    /// The counters of bank.
    pub struct Counters {
        /// Microblocks executed by the bank.
        microblocks: Counter,
        /// Transactions committed with success.
        landed: Counter,
        /// Transactions committed with an error; the fee was paid.
        failed: Counter,
        /// Transactions dropped: their blockhash is unknown or too old.
        dropped_blockhash_not_found: Counter,
        /// Transactions dropped: they have landed before.
        dropped_already_processed: Counter,
        /// Transactions dropped: the payer cannot pay the fee.
        dropped_insufficient_funds_for_fee: Counter,
        /// Transactions dropped: the payer does not exist.
        dropped_account_not_found: Counter,
        /// Transactions dropped: any other error that keeps a transaction out of the block.
        dropped_other: Counter,
        /// Transactions dropped: they need a program that this node does not run.
        dropped_unsupported: Counter,
        /// Transactions dropped: the block had ended.
        dropped_slot_ended: Counter,
        /// Compute units of committed transactions.
        compute_units: Counter,
        /// The node's own votes that landed, and are not counted otherwise.
        votes: Counter,
        /// Votes that did not land.
        votes_dropped: Counter,
    }
}

/// Latency from a transaction's entry into the node to its commit.
pub const EXECUTED: LatencyDecl = LatencyDecl {
    name: "received_to_executed",
    help: "Time from the receipt of a transaction until its changes are committed.",
    by_loop: false,
};

/// Changed accounts hashed per turn: about a quarter of a millisecond.
const HASHED_IN_TURN: usize = 128;

/// Compute units after which a turn ends, so that other tiles on the core get their turn: one to two milliseconds,
/// eight microblocks of transfers or fewer of programs.
const UNITS_IN_TURN: u64 = 1_000_000;

/// The configuration of a bank tile.
#[derive(Clone)]
pub struct Config {
    /// Shared by all banks, poh, store and the RPC.
    pub ledger: Arc<Ledger>,
    /// Set if a transaction history is kept.
    pub recording: Option<RecorderConfig>,
    /// Receives the tag and reason of each dropped transaction.
    pub drops: DropLog,
}

/// Executes microblocks against the shared ledger.
pub struct Bank {
    ledger: Arc<Ledger>,
    drops: DropLog,
    current: Option<Arc<hearth_ledger::Bank>>,
    executor: Executor,
    recorder: Option<Recorder>,
    outcomes: Vec<Outcome>,
    /// Compute units that each transaction of the microblock used.
    costs: Vec<u32>,
    /// Compute units spent in this turn.
    turn_units: u64,
    mixin: MixinTree,
    poh: Port,
    pack: Port,
}

impl Tile for Bank {
    const NAME: &'static str = "bank";
    const LATENCIES: &'static [LatencyDecl] = &[LatencyDecl { by_loop: false, ..TAKEN }, EXECUTED];
    const FRAGS_PER_RUN: usize = 8;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        host.input(PACK_BANK)?;
        let mut executor = Executor::new();
        let recorder = match &config.recording {
            None => None,
            Some(recording) => {
                let port = host.output(BANK_STORE)?;
                host.elective(port);
                executor.set_recording(true);
                Some(Recorder::new(recording, port, host.mtu(port)))
            }
        };
        Ok(Self {
            ledger: config.ledger,
            drops: config.drops,
            current: None,
            executor,
            recorder,
            outcomes: Vec::with_capacity(MICROBLOCK_TXNS),
            costs: Vec::with_capacity(MICROBLOCK_TXNS),
            turn_units: 0,
            mixin: MixinTree::with_capacity(2 * MICROBLOCK_TXNS),
            poh: host.output(BANK_POH)?,
            pack: host.output(BANK_PACK)?,
        })
    }

    fn filter(&mut self, _meta: &FragMeta, _input: In) -> Filter {
        let may = self.turn_units < UNITS_IN_TURN && self.recorder.as_ref().is_none_or(Recorder::is_idle);
        if may { Filter::Take } else { Filter::Later }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        self.turn_units = 0;
        let sent = self.recorder.as_mut().is_some_and(|recorder| recorder.send(out));
        let hashed = self.ledger.hash_some(HASHED_IN_TURN);
        if sent || hashed { Poll::Busy } else { Poll::Idle }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let microblock = Microblock::read(frag.payload());
        let txns: Vec<Txn<'_>> =
            microblock.txns().map(|t| Txn::parse(t.bytes).expect("verify has parsed it")).collect();
        match bank_of(&mut self.current, &self.ledger, microblock.slot) {
            Some(bank) => {
                self.executor.set_locked(microblock.txns().map(|txn| txn.locked));
                bank.execute(&mut self.executor, &txns, &mut self.outcomes);
            }
            None => {
                self.outcomes.clear();
                self.outcomes.resize(txns.len(), Outcome::SlotEnded);
            }
        }
        note_latencies(&microblock, &self.outcomes, out);
        self.costs.clear();
        for (txn, outcome) in txns.iter().zip(&self.outcomes) {
            count(out.count, txn, outcome);
            let cost = outcome.cost(txn);
            out.count.compute_units += cost;
            self.turn_units += cost;
            self.costs.push(u32::try_from(cost).expect("less than a block may cost"));
            if outcome.is_committed() {
                txn.signatures().iter().for_each(|s| self.mixin.push(s));
            } else {
                self.drops.record_outcome(txn.first_signature(), outcome, out);
            }
        }
        out.count.microblocks += 1;
        if let Some(recorder) = &mut self.recorder {
            recorder.record((microblock.slot, microblock.id), &txns, &self.outcomes, &self.executor);
            recorder.send(out);
        }
        let committed = txns.iter().zip(&self.outcomes).filter(|(_, o)| o.is_committed()).map(|(txn, _)| txn);
        let mixin = self.mixin.take_root();
        let (slot, id) = (microblock.slot, microblock.id);
        out.publish_with(self.poh, id, |buffer| {
            let (mut at, mut txn_count) = (ExecutedMicroblock::HEADER, 0);
            for txn in committed {
                buffer[at..at + txn.bytes().len()].copy_from_slice(txn.bytes());
                at += txn.bytes().len();
                txn_count += 1;
            }
            ExecutedMicroblock::write_header(buffer, slot, id, &mixin, txn_count, at - ExecutedMicroblock::HEADER)
        });
        // A completion belongs to no single transaction.
        out.set_origin(0);
        out.publish_with(self.pack, id, |buffer| Completion::write(buffer, slot, id, self.costs.iter().copied()));
    }
}

/// Returns the bank of `slot`, cached because it changes once per slot.
fn bank_of<'a>(
    current: &'a mut Option<Arc<hearth_ledger::Bank>>,
    ledger: &Ledger,
    slot: u64,
) -> Option<&'a hearth_ledger::Bank> {
    if current.as_ref().is_none_or(|bank| bank.slot() != slot) {
        *current = ledger.bank(slot);
    }
    current.as_deref()
}

/// Records the latency of each transaction. The tile's loop cannot, because one frag carries many transactions.
fn note_latencies(microblock: &Microblock<'_>, outcomes: &[Outcome], out: &mut Out<'_, Bank>) {
    let (taken, executed) = (out.now(), out.fresh_now());
    for (txn, outcome) in microblock.txns().zip(outcomes) {
        out.record_latency(0, txn.origin_us, taken);
        if outcome.is_committed() {
            out.record_latency(1, txn.origin_us, executed);
        }
    }
}

fn count(count: &mut Counters, txn: &Txn<'_>, outcome: &Outcome) {
    if is_vote(txn) {
        let counter = if outcome.is_committed() { &mut count.votes } else { &mut count.votes_dropped };
        *counter += 1;
        return;
    }
    let counter = match outcome {
        Outcome::Committed(landed) if landed.err.is_none() => &mut count.landed,
        Outcome::Committed(_) => &mut count.failed,
        Outcome::Unsupported => &mut count.dropped_unsupported,
        Outcome::SlotEnded => &mut count.dropped_slot_ended,
        Outcome::NotCommitted(error) => match error {
            TransactionError::BlockhashNotFound => &mut count.dropped_blockhash_not_found,
            TransactionError::AlreadyProcessed => &mut count.dropped_already_processed,
            TransactionError::InsufficientFundsForFee => &mut count.dropped_insufficient_funds_for_fee,
            TransactionError::AccountNotFound => &mut count.dropped_account_not_found,
            _ => &mut count.dropped_other,
        },
    };
    *counter += 1;
}

#[cfg(test)]
mod tests;

//! recorder: sends each transaction's outcome to store, if a history is kept.
//!
//! reads   a microblock's transactions, their outcomes and records
//! writes  `bank_store`: one batch per microblock, split into frags of the link's size
//! memory  one batch, at most 16 MiB
//! drops   nothing: while frags wait for room the bank accepts no microblock
//! source  [`hearth_ledger::history`]

use hearth_ledger::bank::Record;
use hearth_ledger::history::{BatchWriter, DetailsParts, HistoryKey, MetaParts, memos};
use hearth_ledger::{Executor, Outcome};
use hearth_tile::{Out, Port};
use hearth_wire::txn::Txn;

use super::Bank;
use crate::links::MORE;

/// How a bank records transactions.
#[derive(Clone)]
pub struct RecorderConfig {
    /// Key under which the history hashes addresses and signatures.
    pub key: HistoryKey,
    /// Whether logs, calls and return data are kept too.
    pub extended: bool,
}

/// Sends the outcomes of one microblock to store.
pub(super) struct Recorder {
    writer: BatchWriter,
    extended: bool,
    port: Port,
    pub mtu: usize,
    /// The microblock's id, and the offset in its batch of the first byte not yet sent.
    id: u64,
    sent: usize,
    size: usize,
}

impl Recorder {
    pub fn new(recording: &RecorderConfig, port: Port, mtu: usize) -> Self {
        let writer = BatchWriter::new(recording.key.clone());
        Self { writer, extended: recording.extended, port, mtu, id: 0, sent: 0, size: 0 }
    }

    /// Whether the whole batch has been sent.
    pub fn is_idle(&self) -> bool {
        self.sent == self.size
    }

    /// Builds the batch for a microblock's outcomes.
    pub fn record(&mut self, (slot, id): (u64, u64), txns: &[Txn<'_>], outcomes: &[Outcome], executor: &Executor) {
        self.writer.begin(slot, id);
        for ((txn, outcome), record) in txns.iter().zip(outcomes).zip(executor.records()) {
            push(&mut self.writer, self.extended, txn, outcome, record.as_deref());
        }
        self.id = id;
        self.sent = 0;
        self.size = self.writer.finish().map_or(0, <[u8]>::len);
    }

    /// Sends as many frags as there is room for; returns whether it sent any.
    pub fn send(&mut self, out: &mut Out<'_, Bank>) -> bool {
        let before = self.sent;
        while self.sent < self.size && out.credits(self.port, 1) > 0 {
            let batch = self.writer.finish().expect("it has something to send");
            let end = (self.sent + self.mtu).min(self.size);
            let control = if end < self.size { MORE } else { 0 };
            out.publish_control(self.port, self.id, control, &batch[self.sent..end]);
            self.sent = end;
        }
        self.sent > before
    }
}

/// Appends a transaction to a batch if it landed.
pub fn push(writer: &mut BatchWriter, extended: bool, txn: &Txn<'_>, outcome: &Outcome, record: Option<&Record>) {
    let Outcome::Committed(landed) = outcome else { return };
    let record = record.expect("what landed has a record while recording");
    let details = DetailsParts { logs: &record.logs, inner: &record.inner, return_data: record.return_data.as_ref() };
    writer.push(&MetaParts {
        signature: txn.first_signature(),
        static_accounts: txn.account_keys(),
        result: landed.err.map_or(Ok(()), Err),
        fee: landed.fee,
        compute_units: landed.compute_units,
        cost_units: outcome.cost(txn),
        balances: &record.balances,
        pre_token_balances: &record.tokens_before,
        post_token_balances: &record.tokens_after,
        loaded_writable: &record.loaded_writable,
        loaded_readonly: &record.loaded_readonly,
        memo: memos(txn).as_deref(),
        details: extended.then_some(details),
    });
}

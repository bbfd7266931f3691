//! worker: verifies signatures in bursts, executes transactions and verifies hashes, one bounded step at a time.
//!
//! reads   an order and the bytes that it refers to
//! writes  the bank; a report
//! memory  precomputed tables for keys that sign often, at most `table_bytes`; an executor; the history of one order
//! drops   the transactions after the first wrong one: their block is not executed
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2

use hearth_crypto::ed25519::{Verifier, VerifierConfig, VerifyError, VerifyItem};
use hearth_ledger::history::BatchWriter;
use hearth_ledger::{Bank, Executor, LandedCost, Outcome};
use hearth_wire::Txn;

use super::order::{Failure, Report, TransactionRange, Work, WorkOrder};
use crate::bank::{RecorderConfig, record_transaction};
use crate::poh::check::ChainCheck;

/// Transactions per step: their signatures take up to half a millisecond when no key has a table.
const STEP_TXNS: usize = 32;
/// Hashes per step: about a quarter of a millisecond.
const STEP_HASHES: u64 = 4_096;

/// The configuration of a worker.
#[derive(Clone)]
pub struct WorkerConfig {
    /// Memory in bytes for the tables of keys that sign repeatedly.
    pub table_bytes: usize,
    /// Set if a history is kept.
    pub recording: Option<RecorderConfig>,
}

/// The work that one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// Verified this many signatures.
    Signatures(usize),
    /// Executed this many transactions.
    Transactions(usize),
    /// Verified the hashes of some entries.
    Hashes,
}

/// Works on one order at a time, in bounded steps.
pub struct Worker {
    verifier: Verifier,
    verdicts: Vec<Result<(), VerifyError>>,
    executor: Executor,
    outcomes: Vec<Outcome>,
    /// Whether the order's block is charged for them, and the costs of those executed so far.
    charges: bool,
    costs: Vec<LandedCost>,
    recorder: Option<(BatchWriter, bool)>,
    chain: ChainCheck,
    /// How many transactions have verified signatures, and how many were executed.
    checked: usize,
    executed: usize,
    /// Where execution stops: before the first transaction with a wrong signature.
    end: usize,
    report: Option<Report>,
}

impl Worker {
    /// Creates a worker without any key tables.
    pub fn new(config: &WorkerConfig) -> Self {
        let tables = VerifierConfig { cache_bytes: config.table_bytes, ..VerifierConfig::default() };
        let recorder = |recording: &RecorderConfig| (BatchWriter::new(recording.key.clone()), recording.extended);
        Self {
            verifier: Verifier::new(tables),
            verdicts: vec![],
            executor: Executor::new(),
            outcomes: vec![],
            charges: false,
            costs: vec![],
            recorder: config.recording.as_ref().map(recorder),
            chain: ChainCheck::new([0; 32]),
            checked: 0,
            executed: 0,
            end: 0,
            report: None,
        }
    }

    /// Starts an order in place of the one before.
    pub fn begin(&mut self, order: &WorkOrder) {
        self.report = None;
        self.costs.clear();
        match &order.work {
            Work::Hash { before, .. } => self.chain = ChainCheck::new(*before),
            Work::Execute { txns, is_known, records } => {
                self.end = txns.len();
                self.checked = if *is_known { self.end } else { 0 };
                self.charges = !is_known;
                self.executed = 0;
                self.executor.set_recording(*records && self.recorder.is_some());
                if let Some((writer, _)) = &mut self.recorder {
                    writer.begin(order.slot, order.id);
                }
            }
        }
    }

    /// Advances the current order by one step. `data` holds the bytes that the order's places refer to; `bank` is the
    /// bank of its slot, if that slot is in progress.
    pub fn step(&mut self, order: &WorkOrder, data: &[u8], bank: Option<&Bank>) -> StepOutcome {
        match &order.work {
            Work::Hash { entries, .. } => {
                let verdict = self.chain.step(entries, STEP_HASHES);
                self.report = verdict.map(|verdict| {
                    let failure = verdict.err().map(|entry| Failure::Hash { entry: entry as u32 });
                    Report { id: order.id, failure, history: vec![], costs: vec![] }
                });
                StepOutcome::Hashes
            }
            Work::Execute { txns, .. } if self.checked < self.end => StepOutcome::Signatures(self.check(txns, data)),
            Work::Execute { txns, records, .. } => {
                StepOutcome::Transactions(self.execute(order.id, txns, data, bank, *records))
            }
        }
    }

    /// Returns the report once the order is complete.
    pub fn take_report(&mut self) -> Option<Report> {
        self.report.take()
    }

    /// Verifies the signatures of the next transactions; returns how many.
    fn check(&mut self, txns: &[TransactionRange], data: &[u8]) -> usize {
        let from = self.checked;
        self.checked = self.end.min(from + STEP_TXNS);
        let txns: Vec<Txn<'_>> = parse(&txns[from..self.checked], data).collect();
        let items: Vec<VerifyItem<'_>> = txns.iter().flat_map(items).collect();
        self.verifier.verify_burst(&items, &mut self.verdicts);
        let mut verdicts = self.verdicts.iter();
        let wrong = txns.iter().position(|txn| verdicts.by_ref().take(txn.signatures().len()).any(Result::is_err));
        if let Some(at) = wrong {
            self.end = from + at;
        }
        items.len()
    }

    /// Executes the next transactions; returns how many.
    fn execute(
        &mut self,
        id: u64,
        txns: &[TransactionRange],
        data: &[u8],
        bank: Option<&Bank>,
        records: bool,
    ) -> usize {
        let from = self.executed;
        self.executed = self.end.min(from + STEP_TXNS);
        let slice: Vec<Txn<'_>> = parse(&txns[from..self.executed], data).collect();
        match bank {
            Some(bank) => bank.execute(&mut self.executor, &slice, &mut self.outcomes),
            None => {
                self.outcomes.clear();
                self.outcomes.resize(slice.len(), Outcome::SlotEnded);
            }
        }
        if let Some((writer, extended)) = self.recorder.as_mut().filter(|_| records) {
            let landed = slice.iter().zip(&self.outcomes).zip(self.executor.records());
            for ((txn, outcome), record) in landed.take_while(|((_, outcome), _)| outcome.is_committed()) {
                record_transaction(writer, *extended, txn, outcome, record.as_deref());
            }
        }
        let refused = self.outcomes.iter().position(|outcome| !outcome.is_committed());
        if let Some(bank) = bank.filter(|_| self.charges) {
            let landed = slice.iter().zip(&self.outcomes).take_while(|(_, outcome)| outcome.is_committed());
            self.costs.extend(landed.map(|(txn, outcome)| bank.landed_cost(txn, outcome)));
        }
        let failure = match refused {
            Some(at) => Some(Failure::Outcome { txn: (from + at) as u32, outcome: self.outcomes[at] }),
            None if self.executed < self.end => return slice.len(),
            // Everything before it has landed.
            None => (self.end < txns.len()).then_some(Failure::Signature { txn: self.end as u32 }),
        };
        let recorder = self.recorder.as_mut().filter(|_| records);
        let history = recorder.and_then(|(writer, _)| writer.finish().map(<[u8]>::to_vec)).unwrap_or_default();
        self.report = Some(Report { id, failure, history, costs: std::mem::take(&mut self.costs) });
        slice.len()
    }
}

fn parse<'a>(places: &[TransactionRange], data: &'a [u8]) -> impl Iterator<Item = Txn<'a>> {
    places.iter().map(|place| Txn::parse(place.of(data)).expect("the sender of the order has parsed it"))
}

fn items<'a>(txn: &Txn<'a>) -> impl Iterator<Item = VerifyItem<'a>> + use<'a> {
    let message = txn.message();
    let pairs = txn.signatures().iter().zip(txn.signer_keys());
    pairs.map(move |(signature, public_key)| VerifyItem { public_key, signature, message })
}

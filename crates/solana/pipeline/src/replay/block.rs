//! block: takes one block from its bytes to its frozen bank, in bounded steps.
//!
//! reads   the block's bytes, with each call; reports of orders
//! writes  the ledger: the slot starts and ends here; orders
//! memory  for one block at a time: 16 B and the conflicts of each transaction, 73 B per entry, the history; in a block
//!         that may exceed the limit of an account, 40 B per account
//! drops   everything after the first fault: the block ends with an error that names it, and its slot may have started
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2
//!
//! ```text
//! parse → ticks → the slot begins → conflicts, a piece a step   ┐
//!                                   orders out, reports back    ┘ → the slot ends → history by entries
//! ```
//!
//! Hashes are verified while transactions execute. The first fault in block order is the one reported: once a fault is
//! found, everything before it is still checked, and nothing after it. The error therefore does not depend on the
//! workers.

use std::ops::Range;
use std::sync::Arc;

use hearth_crypto::merkle::MixinTree;
use hearth_ledger::history::Batch;
use hearth_ledger::{
    AccountHash, Bank, BlockCosts, BlockLimits, BlockSummary, LandedCost, Ledger, Outcome, TransactionError,
};
use hearth_wire::Hash;
use hearth_wire::base58::encode_64;
use hearth_wire::entry::{Cursor, EntryError, EntryErrorKind, Part};
use hearth_wire::txn::Txn;
use hearth_wire::vote::is_vote;

use super::conflicts::Conflicts;
use super::error::ReplayError;
use crate::exec::{ExecOrder, Failure, ORDER_ENTRIES, Report, TransactionRange, Work, WorkOrder};
use crate::links::MICROBLOCK_TXNS;
use crate::poh::check::{BlockError, ChainEntry, TickCheck};

/// Parts of a block parsed per step: about 50 µs.
const PARSED_IN_STEP: usize = 128;
/// Transactions whose conflicts are added per step: about 20 µs.
const ADDED_IN_STEP: usize = 64;
/// Transactions whose costs are added per step, and of those the ones whose accounts are charged: about 20 µs.
const SUMMED_IN_STEP: usize = 4_096;
const CHARGED_IN_STEP: usize = 64;
/// Hashes per order: about a quarter of a millisecond, unless a single entry has more.
const ORDER_HASHES: u64 = 4_096;

/// The chain's parameters for a block.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// How many ticks end a slot.
    pub ticks_per_slot: u64,
    /// Hashes per tick; `None` in low power.
    pub hashes_per_tick: Option<u64>,
    /// Limits on the cost of the transactions of a block that is new here.
    pub limits: BlockLimits,
}

/// A block to execute.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The chain's parameters by which the block is checked.
    pub rules: Rules,
    /// The slot that the block is executed as.
    pub slot: u64,
    /// The slot of its parent.
    pub parent: u64,
    /// The last hash of its parent.
    pub parent_hash: Hash,
    /// Whether it was executed before: its signatures are verified, and it is within the limits.
    pub is_known: bool,
    /// Whether to record the history.
    pub records: bool,
}

/// The result of executing a block.
#[derive(Debug, PartialEq)]
pub struct ExecutedBlock {
    /// The ledger's summary of the block.
    pub block: BlockSummary,
    /// The effects of its transactions, entry by entry, if recorded.
    pub batches: Vec<Vec<u8>>,
    /// The places of its votes in the block's bytes.
    pub votes: Vec<TransactionRange>,
}

/// The outcome of a step.
#[derive(Debug)]
pub enum Step {
    /// It did some work; there may be an order now, and there is more to do.
    Busy,
    /// Nothing to do until orders are taken or reports arrive.
    Waits,
    /// The block has ended.
    Ended(Result<ExecutedBlock, ReplayError>),
}

/// Executes blocks, one at a time.
#[derive(Default)]
pub struct Replay {
    job: Option<Job>,
    cursor: Cursor,
    is_parsed: bool,
    /// Where each batch of entries ends in the block's bytes, if the shreds say so.
    batch_ends: Option<Vec<u32>>,
    entries: Vec<ChainEntry>,
    /// For each parsed batch, the number of entries up to its end.
    batches: Vec<u32>,
    /// Index of the first transaction of each entry, and at the end the total.
    firsts: Vec<u32>,
    txns: Vec<TransactionRange>,
    votes: Vec<TransactionRange>,
    tree: MixinTree,
    bank: Option<Arc<Bank>>,
    conflicts: Conflicts,
    touched: Vec<(AccountHash, bool)>,
    costs: Costs,
    /// Entries whose hashes were issued in orders.
    hashed: usize,
    flights: Vec<Flight>,
    next_id: u64,
    fault: Option<Fault>,
    history: Vec<Vec<u8>>,
    /// For each transaction: the index of its batch in `history`, and the range in it.
    pieces: Vec<(u32, Range<u32>)>,
}

/// An issued order without a report.
struct Flight {
    id: u64,
    work: InFlight,
}

enum InFlight {
    Transactions(Vec<u32>),
    /// Hashes from this entry on.
    Hashes(usize),
}

/// The costs of the block's transactions, added in block order.
#[derive(Default)]
struct Costs {
    /// The cost of each transaction; 0 units before it is executed.
    of: Vec<LandedCost>,
    sums: BlockCosts,
    /// Transactions that are in the sums, and of those the ones whose accounts are charged.
    summed: usize,
    charged: usize,
    accounts: Vec<AccountHash>,
}

/// The first fault found so far, in block order.
struct Fault {
    /// Transactions before the fault, and entries before it, which must still be checked.
    txns: u32,
    entries: usize,
    error: ReplayError,
}

impl Replay {
    /// Starts a block, abandoning any previous one. `batch_ends` says where its batches of entries end: what follows a
    /// batch's last entry is then ignored. Without it a batch follows another directly.
    pub fn begin(&mut self, job: Job, batch_ends: Option<Vec<u32>>) {
        self.costs.begin(job.rules.limits);
        self.job = Some(job);
        self.cursor = Cursor::default();
        self.is_parsed = false;
        self.batch_ends = batch_ends;
        self.batches.clear();
        self.entries.clear();
        self.firsts.clear();
        self.txns.clear();
        self.votes.clear();
        self.tree.take_root();
        self.bank = None;
        self.conflicts.clear();
        self.hashed = 0;
        self.flights.clear();
        self.fault = None;
        self.history.clear();
        self.pieces.clear();
    }

    /// The number of transactions in the block, once the slot has started.
    pub fn transactions(&self) -> Option<usize> {
        self.bank.as_ref().map(|_| self.txns.len())
    }

    /// The bank, once the slot has started.
    pub fn bank(&self) -> Option<&Arc<Bank>> {
        self.bank.as_ref()
    }

    /// Does a bounded piece of work. `data` is the block's bytes, the same at every call.
    pub fn step(&mut self, ledger: &Ledger, data: &[u8]) -> Step {
        let Some(job) = self.job else { return Step::Waits };
        let step = match self.bank.clone() {
            None if !self.is_parsed => self.parse(&job, data),
            None => self.begin_slot(&job, ledger),
            Some(bank) => self.run(&job, ledger, &bank, data),
        };
        if matches!(step, Step::Ended(_)) {
            self.job = None;
            self.bank = None;
        }
        step
    }

    fn parse(&mut self, job: &Job, data: &[u8]) -> Step {
        for _ in 0..PARSED_IN_STEP {
            let Some(end) = self.batch_end(data) else {
                self.end_parsing();
                break;
            };
            let part = match self.cursor.next(&data[..end]) {
                // The shreds say that a batch ends here, and it has not begun.
                Ok(None) if self.batch_ends.is_some() => Err(EntryError { kind: EntryErrorKind::Truncated, offset: 0 }),
                part => part,
            };
            match part {
                Ok(Some(Part::Entry { num_hashes, hash, .. })) => {
                    self.end_entry();
                    self.firsts.push(self.txns.len() as u32);
                    self.entries.push(ChainEntry { num_hashes, mixin: None, hash: *hash });
                }
                Ok(Some(Part::Transaction { at, txn })) => {
                    txn.signatures().iter().for_each(|signature| self.tree.push(signature));
                    let place = TransactionRange { at: at as u32, len: txn.bytes().len() as u16 };
                    self.txns.push(place);
                    if is_vote(&txn) {
                        self.votes.push(place);
                    }
                }
                Ok(None) => {
                    self.end_parsing();
                    break;
                }
                Err(source) => return Step::Ended(Err(ReplayError::Entries { slot: job.slot, source })),
            }
        }
        Step::Busy
    }

    /// Where the bytes of the batch end in which the next part is, or which it begins; `None` after the last batch.
    fn batch_end(&mut self, data: &[u8]) -> Option<usize> {
        let is_between = self.cursor.is_between_batches();
        if is_between && !self.entries.is_empty() {
            self.batches.push(self.entries.len() as u32);
        }
        let Some(ends) = &self.batch_ends else { return Some(data.len()) };
        let (ended, end) = (self.batches.len(), *ends.get(self.batches.len())?);
        if is_between {
            self.cursor.skip_to(ended.checked_sub(1).map_or(0, |last| ends[last] as usize));
        }
        Some(end as usize)
    }

    fn end_parsing(&mut self) {
        self.end_entry();
        self.firsts.push(self.txns.len() as u32);
        self.is_parsed = true;
    }

    fn end_entry(&mut self) {
        let (Some(entry), Some(first)) = (self.entries.last_mut(), self.firsts.last()) else { return };
        if *first < self.txns.len() as u32 {
            entry.mixin = Some(self.tree.take_root());
        }
    }

    fn begin_slot(&mut self, job: &Job, ledger: &Ledger) -> Step {
        let slot = job.slot;
        if let Err(source) = self.check_ticks(job) {
            return Step::Ended(Err(ReplayError::Chain { slot, source }));
        }
        match ledger.begin_slot(slot, job.parent) {
            Ok(bank) => self.bank = Some(bank),
            Err(source) => return Step::Ended(Err(ReplayError::Slot { slot, source })),
        }
        self.costs.of.resize(self.txns.len(), LandedCost::default());
        if job.records {
            self.pieces.resize(self.txns.len(), (0, 0..0));
        }
        Step::Busy
    }

    /// Checks the ticks batch by batch, as the cluster does: the last tick must be in the last batch.
    fn check_ticks(&self, job: &Job) -> Result<(), BlockError> {
        let ticks = job.rules.ticks_per_slot.saturating_mul(job.slot.saturating_sub(job.parent));
        let mut check = TickCheck::new(job.rules.hashes_per_tick, ticks);
        let whole = [self.entries.len() as u32];
        let batches = if self.batches.is_empty() { &whole[..] } else { &self.batches[..] };
        let mut start = 0;
        for (at, end) in batches.iter().enumerate() {
            let entries = self.entries[start..*end as usize].iter();
            check.counts(entries.map(|entry| (entry.num_hashes, entry.mixin.is_none())), at + 1 == batches.len())?;
            start = *end as usize;
        }
        Ok(())
    }

    fn run(&mut self, job: &Job, ledger: &Ledger, bank: &Bank, data: &[u8]) -> Step {
        let (txns, _) = self.ends();
        if self.conflicts.len() < txns as usize {
            let from = self.conflicts.len();
            for place in &self.txns[from..(txns as usize).min(from + ADDED_IN_STEP)] {
                let txn = Txn::parse(place.of(data)).expect("parsed before");
                self.touched.clear();
                bank.touched(&txn, &mut self.touched);
                self.conflicts.add(&self.touched);
            }
            return Step::Busy;
        }
        if !job.is_known && self.add_costs(bank, data) {
            return Step::Busy;
        }
        // The costs may have been the fault.
        let (txns, entries) = self.ends();
        if !self.flights.is_empty() || self.hashed < entries || self.conflicts.has(txns) {
            return Step::Waits;
        }
        Step::Ended(match self.fault.take() {
            Some(fault) => Err(fault.error),
            None => self.end(job, ledger),
        })
    }

    /// Adds the costs of executed transactions in block order, up to the first that is not; returns whether there were
    /// any. The accounts are charged late, and only if they may exceed their limit.
    fn add_costs(&mut self, bank: &Bank, data: &[u8]) -> bool {
        let before = (self.costs.summed, self.costs.charged);
        let end = self.ends().0 as usize;
        if let Err((txn, error)) = self.costs.sum(end) {
            self.fail_at(txn, error);
        }
        let end = self.ends().0 as usize;
        for _ in 0..CHARGED_IN_STEP {
            let txn = self.costs.charged;
            if !self.costs.sums.counts_accounts() || txn >= self.costs.summed.min(end) {
                break;
            }
            let parsed = Txn::parse(self.txns[txn].of(data)).expect("parsed before");
            if let Err(error) = self.costs.charge(bank, &parsed) {
                self.fail_at(txn, error);
            }
        }
        before != (self.costs.summed, self.costs.charged)
    }

    /// Records that the block has no room for a transaction.
    fn fail_at(&mut self, txn: usize, error: TransactionError) {
        let slot = self.job.expect("a block is executed").slot;
        let error = ReplayError::DoesNotLand { slot, index: txn, outcome: Outcome::NotCommitted(error) };
        self.fail(txn as u32, self.entries_through(txn as u32), error);
    }

    /// The number of entries up to that of a transaction.
    fn entries_through(&self, txn: u32) -> usize {
        self.firsts.partition_point(|first| *first <= txn)
    }

    /// Transactions and entries to check: those before the first fault.
    fn ends(&self) -> (u32, usize) {
        match &self.fault {
            Some(fault) => (fault.txns, fault.entries),
            None => (self.txns.len() as u32, self.entries.len()),
        }
    }

    fn end(&mut self, job: &Job, ledger: &Ledger) -> Result<ExecutedBlock, ReplayError> {
        let slot = job.slot;
        let hash = self.entries.last().map_or(job.parent_hash, |entry| entry.hash);
        let block = ledger.end_slot(slot, hash).map_err(|source| ReplayError::Slot { slot, source })?;
        let batches = if self.history.is_empty() { vec![] } else { self.batches(slot) };
        Ok(ExecutedBlock { block, batches, votes: std::mem::take(&mut self.votes) })
    }

    /// Joins the history into batches by entry, in block order.
    fn batches(&self, slot: u64) -> Vec<Vec<u8>> {
        let entries = self.firsts.windows(2).map(|ends| &self.pieces[ends[0] as usize..ends[1] as usize]);
        let pieces = entries.flat_map(|entry| entry.chunks(MICROBLOCK_TXNS));
        let piece =
            |(batch, at): &(u32, Range<u32>)| &self.history[*batch as usize][at.start as usize..at.end as usize];
        pieces.zip(0..).map(|(pieces, number)| Batch::join(slot, number, pieces.iter().map(piece))).collect()
    }

    /// Returns the next order that needs no outstanding report. Transactions come before hashes, since other
    /// transactions may wait for them.
    pub fn order(&mut self) -> Option<WorkOrder> {
        let job = self.job?;
        self.bank.as_ref()?;
        let (end, entries) = self.ends();
        let (places, mut room) = (&self.txns, ExecOrder::TXNS_MAX);
        let fits = |txn: u32| {
            let size = ExecOrder::TXN_HEADER + usize::from(places[txn as usize].len);
            let fits = size <= room;
            room = room.saturating_sub(size);
            fits
        };
        let batch = self.conflicts.take(MICROBLOCK_TXNS, end, fits);
        let (work, in_flight) = if !batch.is_empty() {
            let txns = batch.iter().map(|txn| places[*txn as usize]).collect();
            let work = Work::Execute { txns, is_known: job.is_known, records: job.records };
            (work, InFlight::Transactions(batch))
        } else if self.hashed < entries {
            let first = self.hashed;
            let before = if first == 0 { job.parent_hash } else { self.entries[first - 1].hash };
            let mut hashes = 0u64;
            let fits = |entry: &&ChainEntry| {
                let fits = hashes == 0 || hashes + entry.num_hashes <= ORDER_HASHES;
                hashes = hashes.saturating_add(entry.num_hashes + 1);
                fits
            };
            let all = self.entries[first..entries].iter().take(ORDER_ENTRIES);
            let entries: Vec<ChainEntry> = all.take_while(fits).copied().collect();
            self.hashed += entries.len();
            (Work::Hash { before, entries }, InFlight::Hashes(first))
        } else {
            return None;
        };
        let id = self.next_id;
        self.next_id += 1;
        self.flights.push(Flight { id, work: in_flight });
        Some(WorkOrder { id, slot: job.slot, work })
    }

    /// Takes the report of an order. Reports for an earlier block are ignored.
    pub fn take(&mut self, report: Report, data: &[u8]) {
        let Some(at) = self.flights.iter().position(|flight| flight.id == report.id) else { return };
        let slot = self.job.expect("an order is out").slot;
        match self.flights.swap_remove(at).work {
            InFlight::Hashes(first) => {
                if let Some(Failure::Hash { entry }) = report.failure {
                    let entry = first + entry as usize;
                    let source = BlockError::InvalidEntryHash { entry };
                    self.fail(self.firsts[entry], entry, ReplayError::Chain { slot, source });
                }
            }
            InFlight::Transactions(batch) => {
                self.conflicts.finish(&batch);
                for (txn, cost) in batch.iter().zip(report.costs) {
                    self.costs.of[*txn as usize] = cost;
                }
                if !report.history.is_empty() {
                    self.keep(&batch, report.history);
                }
                let (txn, outcome) = match report.failure {
                    Some(Failure::Outcome { txn, outcome }) => (batch[txn as usize], Some(outcome)),
                    Some(Failure::Signature { txn }) => (batch[txn as usize], None),
                    _ => return,
                };
                let error = match outcome {
                    Some(outcome) => ReplayError::DoesNotLand { slot, index: txn as usize, outcome },
                    None => {
                        let bytes = self.txns[txn as usize].of(data);
                        let txn = Txn::parse(bytes).expect("parsed before");
                        ReplayError::Signature { slot, signature: encode_64(txn.first_signature()).to_string() }
                    }
                };
                // The hash of its own entry precedes it.
                self.fail(txn, self.entries_through(txn), error);
            }
        }
    }

    /// Records a fault after this many transactions and entries, unless an earlier fault is known.
    fn fail(&mut self, txns: u32, entries: usize, error: ReplayError) {
        let is_first = |fault: &Fault| (entries, txns) < (fault.entries, fault.txns);
        if self.fault.as_ref().is_none_or(is_first) {
            self.fault = Some(Fault { txns, entries, error });
        }
    }

    /// Stores the history of a batch's transactions.
    fn keep(&mut self, batch: &[u32], history: Vec<u8>) {
        let number = self.history.len() as u32;
        let sizes: Vec<u32> = Batch::read(&history).pieces().map(|piece| piece.len() as u32).collect();
        let mut at = history.len() as u32 - sizes.iter().sum::<u32>();
        for (txn, size) in batch.iter().zip(sizes) {
            self.pieces[*txn as usize] = (number, at..at + size);
            at += size;
        }
        self.history.push(history);
    }
}

impl Costs {
    fn begin(&mut self, limits: BlockLimits) {
        self.of.clear();
        self.sums = BlockCosts::new(limits);
        self.summed = 0;
        self.charged = 0;
    }

    /// Adds the next executed transactions before `end` to the sums. The error names the one that exceeds a limit.
    fn sum(&mut self, end: usize) -> Result<(), (usize, TransactionError)> {
        for txn in self.summed..end.min(self.summed + SUMMED_IN_STEP) {
            let cost = self.of[txn];
            if cost.units == 0 {
                break;
            }
            self.sums.add(cost).map_err(|error| (txn, error))?;
            self.summed += 1;
        }
        Ok(())
    }

    /// Charges the accounts of the next transaction.
    fn charge(&mut self, bank: &Bank, txn: &Txn<'_>) -> Result<(), TransactionError> {
        let cost = self.of[self.charged];
        self.charged += 1;
        self.accounts.clear();
        bank.charged(txn, &mut self.accounts);
        self.sums.charge(cost, &self.accounts)
    }
}

//! block: one block from its bytes to its bank, in bounded steps.
//!
//! reads   the block's bytes, with each call; reports of orders
//! writes  the ledger: the slot begins and ends here; orders
//! memory  for one block at a time: 8 B and the conflicts of each transaction, 73 B an entry, the history
//! drops   what follows the first fault: the block ends with an error that names the fault, and its slot may have begun
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2
//!
//! ```text
//! parse → ticks → the slot begins → conflicts, a piece a step   ┐
//!                                   orders out, reports back    ┘ → the slot ends → history by entries
//! ```
//!
//! Hashes are checked while transactions run. Of several faults the first in the block is reported: when one is found,
//! what lies before it is still checked, and nothing behind it. So the error does not depend on the workers.

use std::ops::Range;
use std::sync::Arc;

use hearth_crypto::merkle::MixinTree;
use hearth_ledger::history::Batch;
use hearth_ledger::{AccountHash, Bank, BlockSummary, Ledger};
use hearth_wire::Hash;
use hearth_wire::base58::encode_64;
use hearth_wire::entry::{Cursor, Part};
use hearth_wire::txn::Txn;
use hearth_wire::vote::is_vote;

use super::conflicts::Conflicts;
use super::error::ReplayError;
use crate::exec::{ExecOrder, Failure, ORDER_ENTRIES, Order, Place, Report, Work};
use crate::links::MICROBLOCK_TXNS;
use crate::poh::check::{BlockError, ChainEntry, TickCheck};

/// Parts of a block that a step parses, about 50 µs.
const PARSED_IN_STEP: usize = 128;
/// Transactions whose conflicts a step adds, about 20 µs.
const ADDED_IN_STEP: usize = 64;
/// Hashes of an order, about a quarter of a millisecond, unless one entry has more.
const ORDER_HASHES: u64 = 4_096;

/// The chain's rules for a block.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Ticks of a slot.
    pub ticks_per_slot: u64,
    /// Hashes of a tick; `None` at low power.
    pub hashes_per_tick: Option<u64>,
}

/// A block to execute.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// The rules.
    pub rules: Rules,
    /// Its slot.
    pub slot: u64,
    /// The slot of the block that it follows.
    pub parent: u64,
    /// The last hash of that one.
    pub parent_hash: Hash,
    /// Whether its signatures need no check.
    pub is_known: bool,
    /// Whether the history is wanted.
    pub records: bool,
}

/// A block that was executed.
#[derive(Debug, PartialEq)]
pub struct Executed {
    /// What it came to.
    pub block: BlockSummary,
    /// What its transactions did, entry by entry, where that is recorded.
    pub batches: Vec<Vec<u8>>,
    /// Where its votes are.
    pub votes: Vec<Place>,
}

/// What a step did.
#[derive(Debug)]
pub enum Step {
    /// Something; there may be an order now, and there is more to do.
    Busy,
    /// Nothing: orders are to be taken, or reports to be waited for.
    Waits,
    /// The block's end.
    Ended(Result<Executed, ReplayError>),
}

/// Executes blocks, one at a time.
#[derive(Default)]
pub struct Replay {
    job: Option<Job>,
    cursor: Cursor,
    is_parsed: bool,
    entries: Vec<ChainEntry>,
    /// The first transaction of each entry, and how many there are behind the last.
    firsts: Vec<u32>,
    txns: Vec<Place>,
    votes: Vec<Place>,
    tree: MixinTree,
    bank: Option<Arc<Bank>>,
    conflicts: Conflicts,
    touched: Vec<(AccountHash, bool)>,
    /// Entries whose hashes were handed out.
    hashed: usize,
    flights: Vec<Flight>,
    next_id: u64,
    fault: Option<Fault>,
    history: Vec<Vec<u8>>,
    /// Of each transaction: which of those has its history, and where.
    pieces: Vec<(u32, Range<u32>)>,
}

/// An order that is out.
struct Flight {
    id: u64,
    work: InFlight,
}

enum InFlight {
    Transactions(Vec<u32>),
    /// From this entry on.
    Hashes(usize),
}

/// The first fault that was found so far.
struct Fault {
    /// Transactions and entries before it: they are still of interest.
    txns: u32,
    entries: usize,
    error: ReplayError,
}

impl Replay {
    /// Begins a block, whatever became of the one before.
    pub fn begin(&mut self, job: Job) {
        self.job = Some(job);
        self.cursor = Cursor::default();
        self.is_parsed = false;
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

    /// The transactions of the block, once the slot has begun.
    pub fn transactions(&self) -> Option<usize> {
        self.bank.as_ref().map(|_| self.txns.len())
    }

    /// The bank, once the slot has begun.
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
            match self.cursor.next(data) {
                Ok(Some(Part::Entry { num_hashes, hash, .. })) => {
                    self.end_entry();
                    self.firsts.push(self.txns.len() as u32);
                    self.entries.push(ChainEntry { num_hashes, mixin: None, hash: *hash });
                }
                Ok(Some(Part::Transaction { at, txn })) => {
                    txn.signatures().iter().for_each(|signature| self.tree.push(signature));
                    let place = Place { at: at as u32, len: txn.bytes().len() as u16 };
                    self.txns.push(place);
                    if is_vote(&txn) {
                        self.votes.push(place);
                    }
                }
                Ok(None) => {
                    self.end_entry();
                    self.firsts.push(self.txns.len() as u32);
                    self.is_parsed = true;
                    break;
                }
                Err(source) => return Step::Ended(Err(ReplayError::Entries { slot: job.slot, source })),
            }
        }
        Step::Busy
    }

    fn end_entry(&mut self) {
        let (Some(entry), Some(first)) = (self.entries.last_mut(), self.firsts.last()) else { return };
        if *first < self.txns.len() as u32 {
            entry.mixin = Some(self.tree.take_root());
        }
    }

    fn begin_slot(&mut self, job: &Job, ledger: &Ledger) -> Step {
        let slot = job.slot;
        let ticks = job.rules.ticks_per_slot.saturating_mul(slot.saturating_sub(job.parent));
        let counts = self.entries.iter().map(|entry| (entry.num_hashes, entry.mixin.is_none()));
        if let Err(source) = TickCheck::new(job.rules.hashes_per_tick, ticks).counts(counts, true) {
            return Step::Ended(Err(ReplayError::Chain { slot, source }));
        }
        match ledger.begin_slot(slot, job.parent) {
            Ok(bank) => self.bank = Some(bank),
            Err(source) => return Step::Ended(Err(ReplayError::Slot { slot, source })),
        }
        if job.records {
            self.pieces.resize(self.txns.len(), (0, 0..0));
        }
        Step::Busy
    }

    fn run(&mut self, job: &Job, ledger: &Ledger, bank: &Bank, data: &[u8]) -> Step {
        let (txns, entries) = self.ends();
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
        if !self.flights.is_empty() || self.hashed < entries || self.conflicts.has(txns) {
            return Step::Waits;
        }
        Step::Ended(match self.fault.take() {
            Some(fault) => Err(fault.error),
            None => self.end(job, ledger),
        })
    }

    /// Transactions and entries that are of interest: those before the first fault.
    fn ends(&self) -> (u32, usize) {
        match &self.fault {
            Some(fault) => (fault.txns, fault.entries),
            None => (self.txns.len() as u32, self.entries.len()),
        }
    }

    fn end(&mut self, job: &Job, ledger: &Ledger) -> Result<Executed, ReplayError> {
        let slot = job.slot;
        let hash = self.entries.last().map_or(job.parent_hash, |entry| entry.hash);
        let block = ledger.end_slot(slot, hash).map_err(|source| ReplayError::Slot { slot, source })?;
        let batches = if self.history.is_empty() { vec![] } else { self.batches(slot) };
        Ok(Executed { block, batches, votes: std::mem::take(&mut self.votes) })
    }

    /// The history by entries, as the block's order has it.
    fn batches(&self, slot: u64) -> Vec<Vec<u8>> {
        let entries = self.firsts.windows(2).map(|ends| &self.pieces[ends[0] as usize..ends[1] as usize]);
        let pieces = entries.flat_map(|entry| entry.chunks(MICROBLOCK_TXNS));
        let piece =
            |(batch, at): &(u32, Range<u32>)| &self.history[*batch as usize][at.start as usize..at.end as usize];
        pieces.zip(0..).map(|(pieces, number)| Batch::join(slot, number, pieces.iter().map(piece))).collect()
    }

    /// The next order, where there is one that waits for no report. Transactions come before hashes, since others may
    /// wait for them.
    pub fn order(&mut self) -> Option<Order> {
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
        Some(Order { id, slot: job.slot, work })
    }

    /// Takes the report of an order. One of a block before is of no interest.
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
                // The hash of its own entry comes before it.
                self.fail(txn, self.firsts.partition_point(|first| *first <= txn), error);
            }
        }
    }

    /// Notes a fault behind so many transactions and entries, unless there is one before it.
    fn fail(&mut self, txns: u32, entries: usize, error: ReplayError) {
        let is_first = |fault: &Fault| (entries, txns) < (fault.entries, fault.txns);
        if self.fault.as_ref().is_none_or(is_first) {
            self.fault = Some(Fault { txns, entries, error });
        }
    }

    /// Keeps the history of a batch's transactions.
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

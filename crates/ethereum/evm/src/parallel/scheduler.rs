//! A run of transactions of all kinds: idle threads execute ahead, and one thread at a time settles in order.
//!
//! reads   the block's transactions; the multi-version memory
//! writes  the multi-version memory; the block's [`Ledger`]
//! memory  a slot for each transaction that may be ahead: [`WINDOW`] per thread
//! drops   executions whose reads are stale; they are executed again
//! source  Block-STM, with one difference: reads are validated when the transaction's turn to settle comes, so each
//!         transaction is executed at most twice, the second time alone and on final values
//!
//! Two things that every transaction touches are settled in order and cause no conflict: the block's remaining gas and
//! blob gas, and the beneficiary's fees, kept as a sum beside its account. A transaction that reads the beneficiary's
//! account waits for its turn. If executing ahead does not pay, by the clock, one thread executes in order alone.
//!
//! An idle thread sleeps until [`Run::is_due`] may have become true, and no run depends on it:
//!
//! - Each store that makes it true is followed by [`Barrier::wake`]: the end of the run, the switch back from in-order
//!   execution, room for more ahead, and the first transaction that is not settled becoming ready.
//! - The release of the ledger needs no wake-up: the thread that held it checks afterwards, before it does anything
//!   else, and does not sleep while the next transaction is ready.
//! - While all others sleep and the next transaction is not ready, the thread that took it is executing it.

use super::adaptive::{AdaptiveClock, Mode};
use super::memory::{FIRST, Memory, Origin, ReadRecord, Spot, Write, WriterIndex};
use super::plain_transfer::PlainTransfers;
use super::thread_team::Barrier;
use super::worker::{Execution, ViewError, Worker};
use crate::blobs;
use crate::exec::{BlockEnv, Refusal, Verdict};
use crate::tx::SharedTx;
use alloy_consensus::Transaction;
use alloy_primitives::U256;
use parking_lot::{Mutex, MutexGuard};
use revm::DatabaseRef;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How far execution runs ahead of settlement, in transactions per thread.
const WINDOW: usize = 64;
/// How many consecutive transactions a thread takes at once: neighbours often have the same sender.
const CHUNK: usize = 4;
/// Room for this many transactions is worth waking a thread: it gets a few chunks before it sleeps again.
const ROOM: usize = 4 * CHUNK;

const _: () = assert!(ROOM <= WINDOW, "a run without room has taken the next transaction to settle");

/// The settled part of the block, in order.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub verdicts: Vec<Verdict>,
    pub gas_used: u64,
    pub blob_gas_used: u64,
    /// The beneficiary's fees that are not yet in its account.
    pub fees: U256,
    pub any_included: bool,
}

/// The data that all stages of a block share.
pub(super) struct Shared<'a, 'b, D> {
    pub memory: &'a Memory<'a, D>,
    pub env: &'a BlockEnv,
    pub txs: &'a [SharedTx],
    pub plains: &'b PlainTransfers,
    pub barrier: &'b Barrier,
}

impl<'a, D: DatabaseRef> Shared<'a, '_, D> {
    fn execute(
        &self,
        worker: &mut Worker<'a, D>,
        index: usize,
        fees: Option<U256>,
    ) -> Result<Execution, ViewError<D::Error>> {
        let place = index as WriterIndex + FIRST;
        worker.execute(place, fees, self.plains.get(index), &self.txs[index])
    }

    /// Whether the block has gas left for a transaction. All before it are settled.
    fn has_gas(&self, ledger: &Ledger, index: usize) -> bool {
        self.txs[index].envelope.gas_limit() <= self.env.gas_limit - ledger.gas_used
    }

    /// Settles the next transaction; all before it are settled. Returns whether it was executed here, and its gas.
    pub fn settle(
        &self,
        worker: &mut Worker<'a, D>,
        ledger: &mut Ledger,
        index: usize,
        ahead: &mut SpeculativeRun,
    ) -> (bool, u64) {
        let (tx, place) = (&self.txs[index], index as WriterIndex + FIRST);
        let take_back = |spots: &[Spot]| self.memory.remove(Origin { place, attempt: 0 }, spots);
        let SpeculativeRun { reads, spots, execution } = ahead;
        let execution = execution.take().filter(|_| self.memory.is_current(reads, place).unwrap_or(false));
        if !self.has_gas(ledger, index) {
            take_back(spots);
            ledger.verdicts.push(Verdict::Refused(Refusal::block_gas()));
            return (false, 0);
        }
        if !self.env.has_room_for_blobs(tx, ledger.blob_gas_used) {
            take_back(spots);
            ledger.verdicts.push(Verdict::Refused(Refusal::blob_gas()));
            return (false, 0);
        }
        let here = execution.is_none();
        let execution = execution.unwrap_or_else(|| {
            let execution =
                self.execute(worker, index, Some(ledger.fees)).unwrap_or_else(|error| self.unreadable(&error));
            let beneficiary = |write: &Write| matches!(write, Write::Account(of, _) if *of == self.env.beneficiary);
            if worker.writes.iter().any(beneficiary) {
                ledger.fees = U256::ZERO;
            }
            self.memory.settle(Origin { place, attempt: 1 }, &mut worker.writes);
            take_back(spots);
            execution
        });
        let gas_before = ledger.gas_used;
        ledger.verdicts.push(match execution.ending {
            Ok(outcome) => {
                ledger.fees += execution.fee;
                ledger.gas_used += outcome.gas_used;
                ledger.blob_gas_used += blobs::gas_of(&tx.envelope);
                ledger.any_included = true;
                Verdict::Included(outcome)
            }
            Err(invalid) => Verdict::Refused(Refusal::new(&invalid, tx, self.env.base_fee)),
        });
        (here, ledger.gas_used - gas_before)
    }

    /// Panics because the store cannot be read: execution must not continue from a guess.
    pub fn unreadable(&self, error: &dyn std::fmt::Display) -> ! {
        panic!("the state before block {} cannot be read: {error}", self.env.number)
    }
}

/// The result of executing a transaction ahead of its turn.
#[derive(Default)]
pub(super) struct SpeculativeRun {
    reads: Vec<ReadRecord>,
    spots: Vec<Spot>,
    /// `None` if it has to wait for its turn.
    execution: Option<Execution>,
}

impl SpeculativeRun {
    fn clear(&mut self) {
        self.reads.clear();
        self.spots.clear();
        self.execution = None;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Running,
    Ready,
    Settled,
}

/// The place of one transaction that is executed ahead. Later transactions reuse it, with its allocated lists.
#[repr(align(128))]
struct Slot {
    /// The transaction that uses the slot, or used it last.
    of: Option<usize>,
    state: State,
    ahead: SpeculativeRun,
}

impl Default for Slot {
    fn default() -> Self {
        Self { of: None, state: State::Settled, ahead: SpeculativeRun::default() }
    }
}

/// A run of consecutive transactions: the indices `range` of the block.
pub(super) struct Run {
    range: Range<usize>,
    /// One for each transaction that can be ahead; they are reused.
    slots: Vec<Mutex<Slot>>,
    /// The next transaction to take.
    next: AtomicUsize,
    /// The first that is not settled.
    settled: AtomicUsize,
    in_order: AtomicBool,
}

impl Run {
    /// Creates a run for this many threads.
    pub fn new(range: Range<usize>, threads: usize) -> Self {
        let ahead = if threads > 1 { WINDOW * threads } else { 0 };
        Self {
            slots: (0..ahead).map(|_| Mutex::default()).collect(),
            next: AtomicUsize::new(range.start),
            settled: AtomicUsize::new(range.start),
            in_order: AtomicBool::new(false),
            range,
        }
    }

    /// Executes the whole run in order, on the only thread.
    pub fn work_alone<'a, D: DatabaseRef>(
        &self,
        shared: &Shared<'a, '_, D>,
        worker: &mut Worker<'a, D>,
        ledger: &mut Ledger,
    ) {
        for index in self.range.clone() {
            shared.settle(worker, ledger, index, &mut SpeculativeRun::default());
        }
    }

    /// Does one thread's part of the run, until all transactions are settled.
    pub fn work<'a, D: DatabaseRef>(
        &self,
        shared: &Shared<'a, '_, D>,
        worker: &mut Worker<'a, D>,
        ledger: &Mutex<(Ledger, AdaptiveClock)>,
    ) {
        let mut ahead = SpeculativeRun::default();
        loop {
            shared.barrier.check();
            let settled = self.settled.load(Ordering::Acquire);
            if settled >= self.range.end {
                return;
            }
            let in_order = self.in_order.load(Ordering::Acquire);
            if in_order || self.is_ready(settled) {
                if let Some(mut ledger) = ledger.try_lock() {
                    let (ledger, pace) = &mut *ledger;
                    self.settle(shared, worker, ledger, pace, &mut ahead);
                    continue;
                }
            }
            let chunk = if in_order { None } else { self.take(settled) };
            match chunk {
                Some(chunk) => {
                    for index in chunk {
                        self.execute_ahead(shared, worker, index);
                    }
                }
                None => shared.barrier.wait_until(|| self.is_due(ledger)),
            }
        }
    }

    /// Whether a thread of the run has something to do: to return, to settle, or to execute ahead. While another thread
    /// executes in order, there is nothing; that lasts until the run or the mode ends.
    fn is_due(&self, ledger: &Mutex<(Ledger, AdaptiveClock)>) -> bool {
        let settled = self.settled.load(Ordering::Acquire);
        if settled >= self.range.end {
            return true;
        }
        !self.in_order.load(Ordering::Acquire)
            && (self.has_room(settled) || (!ledger.is_locked() && self.is_ready(settled)))
    }

    /// Whether [`ROOM`] more transactions may be taken, if all before `settled` are settled.
    fn has_room(&self, settled: usize) -> bool {
        let next = self.next.load(Ordering::Acquire);
        next < self.range.end && next + ROOM <= settled + self.slots.len()
    }

    fn slot(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.slots[(index - self.range.start) % self.slots.len()].lock()
    }

    fn is_ready(&self, index: usize) -> bool {
        let slot = self.slot(index);
        slot.of == Some(index) && slot.state == State::Ready
    }

    fn take(&self, settled: usize) -> Option<Range<usize>> {
        let limit = self.range.end.min(settled + self.slots.len());
        let from = self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| {
            (next < limit).then(|| (next + CHUNK).min(limit))
        });
        from.ok().map(|from| from..(from + CHUNK).min(limit))
    }

    fn execute_ahead<'a, D: DatabaseRef>(&self, shared: &Shared<'a, '_, D>, worker: &mut Worker<'a, D>, index: usize) {
        if self.in_order.load(Ordering::Acquire) {
            return;
        }
        {
            let mut slot = self.slot(index);
            // Its turn may have passed; then the slot says so, or belongs to a later transaction already.
            if slot.of >= Some(index) {
                return;
            }
            (slot.of, slot.state) = (Some(index), State::Running);
        }
        let execution = shared.execute(worker, index, None).ok();
        if execution.is_none() {
            worker.writes.clear();
        }
        // Under the slot's lock: if its turn came meanwhile, this execution must not become visible.
        let mut slot = self.slot(index);
        if slot.of != Some(index) || slot.state != State::Running {
            return;
        }
        let settled = self.settled.load(Ordering::Acquire);
        let origin = Origin { place: index as WriterIndex + FIRST, attempt: 0 };
        let Slot { state, ahead, .. } = &mut *slot;
        shared.memory.publish(origin, &mut worker.writes, settled as WriterIndex + FIRST, &mut ahead.spots);
        std::mem::swap(&mut ahead.reads, worker.reads());
        (*state, ahead.execution) = (State::Ready, execution);
        drop(slot);
        // A thread that found nothing here had seen `settled` at this index and then took the slot's lock, so the load
        // above, under the same lock, sees it too. A later thread finds the slot ready.
        if settled == index {
            shared.barrier.wake();
        }
    }

    /// Settles all that can be settled now. `ahead` is empty before and after.
    fn settle<'a, D: DatabaseRef>(
        &self,
        shared: &Shared<'a, '_, D>,
        worker: &mut Worker<'a, D>,
        ledger: &mut Ledger,
        pace: &mut AdaptiveClock,
        ahead: &mut SpeculativeRun,
    ) {
        let first = self.settled.load(Ordering::Acquire);
        let mut index = first;
        let mut in_order = self.in_order.load(Ordering::Acquire);
        while index < self.range.end {
            let mut slot = self.slot(index);
            let was_ahead = slot.of == Some(index) && slot.state == State::Ready;
            // What has no gas left is refused without being executed.
            if !in_order && !was_ahead && shared.has_gas(ledger, index) {
                break;
            }
            if was_ahead {
                std::mem::swap(&mut slot.ahead, ahead);
            }
            (slot.of, slot.state) = (Some(index), State::Settled);
            drop(slot);
            let (here, gas) = shared.settle(worker, ledger, index, ahead);
            ahead.clear();
            index += 1;
            self.settled.store(index, Ordering::Release);
            let mode = pace.settled(gas, here, was_ahead);
            if in_order != (mode == Mode::InOrder) {
                in_order = !in_order;
                self.in_order.store(in_order, Ordering::Release);
                if !in_order {
                    // Stored after the flag, so that threads which take transactions later see the flag. Transactions
                    // taken before are offered again.
                    self.next.store(index, Ordering::Release);
                    shared.barrier.wake();
                }
            }
            if !in_order && index.is_multiple_of(ROOM) && self.has_room(index) {
                shared.barrier.wake();
            }
        }
        // `next` only grows, except by the store above: without room here, a sleeping thread finds none either.
        if index >= self.range.end || (index > first && self.has_room(index)) {
            shared.barrier.wake();
        }
    }
}

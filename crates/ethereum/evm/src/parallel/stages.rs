//! The stages that all threads of a block go through together, and which stage comes next.
//!
//! reads   the block's transactions
//! writes  the memory and the ledger, by the stages
//! memory  the plain transfers found; the changes as each thread collects them

use super::adaptive::AdaptiveClock;
use super::collect::{Part, collect, merge};
use super::memory::{FIRST, Memory, OPENING, Origin, Write, WriterIndex};
use super::plain_transfer::{GAS, PlainTransfers, Rules, transferred};
use super::scheduler::{self, Ledger, Shared};
use super::thread_team::Barrier;
use super::transfers::{self, Cells, OwnedShards};
use super::worker::{Worker, with_fees};
use crate::exec::{BlockEnv, BlockExecution, RequestsMade, SystemOutput, Verdict, system};
use crate::state::Accounts;
use crate::tx::SharedTx;
use alloy_primitives::U256;
use parking_lot::Mutex;
use revm::primitives::hardfork::SpecId;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Plain transfers in a row from which on they are a run of their own.
const RUN_MIN: usize = 48;
/// How often a run of transfers may break before the rest of the block is executed the other way.
const BREAKS_MAX: usize = 8;

#[derive(Clone)]
enum Stage {
    Transfers(Arc<transfers::Run>),
    General(Arc<scheduler::Run>),
    End,
}

/// The next stage, which the first thread decides.
struct Plan {
    at: usize,
    /// The transfer at which a run of transfers broke: it is executed the other way.
    broken_at: Option<usize>,
    breaks: usize,
    /// The outputs of the request contracts, once all is executed.
    outputs: Vec<(system::SystemCall, SystemOutput)>,
}

/// One block, shared by its threads.
pub(super) struct Block<'a, D> {
    memory: &'a Memory<'a, D>,
    env: &'a BlockEnv,
    txs: &'a [SharedTx],
    threads: usize,
    rules: Rules,
    plains: PlainTransfers,
    cells: Cells,
    barrier: Barrier,
    stage: Mutex<Stage>,
    plan: Mutex<Plan>,
    ledger: Mutex<(Ledger, AdaptiveClock)>,
    parts: Mutex<Vec<Part>>,
}

impl<'a, D: Accounts> Block<'a, D> {
    pub fn new(memory: &'a Memory<'a, D>, env: &'a BlockEnv, txs: &'a [SharedTx], threads: usize) -> Self {
        let ledger = Ledger { verdicts: Vec::with_capacity(txs.len()), ..Ledger::default() };
        Self {
            memory,
            env,
            txs,
            threads,
            rules: Rules::new(env),
            plains: PlainTransfers::new(txs.len(), threads),
            cells: Cells::new(txs.len()),
            barrier: Barrier::new(threads),
            stage: Mutex::new(Stage::End),
            plan: Mutex::new(Plan { at: 0, broken_at: None, breaks: 0, outputs: Vec::new() }),
            ledger: Mutex::new((ledger, AdaptiveClock::new())),
            parts: Mutex::new(Vec::new()),
        }
    }

    /// Works on the whole block: `start` starts each thread but the first, which is the caller's. If it panics because
    /// a thread cannot be started, the threads already started panic too: otherwise they would wait for that thread for
    /// ever.
    pub fn work_on_all(&self, start: impl FnMut(usize)) {
        let _guard = self.barrier.guard();
        (1..self.threads).for_each(start);
        self.work(0);
    }

    /// One thread's part in the whole block.
    pub fn work(&self, thread: usize) {
        let _guard = self.barrier.guard();
        let mut worker = None;
        if thread == 0 {
            self.begin(self.worker(&mut worker));
        }
        self.plains.find(&self.rules, self.txs);
        self.barrier.wait();
        let all = || self.plains.ends(thread, 0..self.txs.len());
        let found = OwnedShards::new(self.memory, thread, self.threads).find(self.memory, all, &self.cells);
        found.unwrap_or_else(|error| self.shared().unreadable(&error));
        self.barrier.wait();
        loop {
            if thread == 0 {
                let stage = self.next(&mut self.plan.lock());
                if matches!(stage, Stage::End) {
                    self.end(self.worker(&mut worker));
                }
                *self.stage.lock() = stage;
            }
            self.barrier.wait();
            let stage = self.stage.lock().clone();
            match stage {
                Stage::Transfers(run) => self.transfers(&run, thread),
                Stage::General(run) => self.general(&run, self.worker(&mut worker)),
                Stage::End => break,
            }
            self.barrier.wait();
        }
        let part = collect(self.memory, thread, self.threads);
        self.parts.lock().push(part);
    }

    /// Returns the changes of all threads, once all have ended.
    pub fn finish(self) -> BlockExecution {
        let (ledger, _) = self.ledger.into_inner();
        let parts = self.parts.into_inner();
        let changes = merge(self.memory, parts).unwrap_or_else(|error| {
            panic!("the state before block {} cannot be read: {error}", self.env.number);
        });
        let mut made = RequestsMade::by_logs(self.env, &ledger.verdicts);
        for (call, output) in self.plan.into_inner().outputs {
            made.by_call(call.request_type, call.contract, output);
        }
        let RequestsMade { requests, fault } = made;
        BlockExecution {
            verdicts: ledger.verdicts,
            changes,
            gas_used: ledger.gas_used,
            requests,
            fault,
            console: false,
        }
    }

    fn worker<'w>(&self, worker: &'w mut Option<Worker<'a, D>>) -> &'w mut Worker<'a, D> {
        worker.get_or_insert_with(|| Worker::new(self.memory, &self.env.block(), &self.env.cfg()))
    }

    fn shared(&self) -> Shared<'a, '_, D> {
        Shared { memory: self.memory, env: self.env, txs: self.txs, plains: &self.plains, barrier: &self.barrier }
    }

    /// The calls before the first transaction.
    fn begin(&self, worker: &mut Worker<'a, D>) {
        for (attempt, call) in system::before(self.env).into_iter().enumerate() {
            let called = worker.system_call(OPENING, call.contract, call.data);
            // If there is no such contract, or it fails, the block continues without.
            let _ = called.unwrap_or_else(|error| self.shared().unreadable(&error));
            let origin = Origin { place: OPENING, attempt: attempt as u32 };
            self.memory.settle(origin, &mut worker.writes);
        }
    }

    /// The fees, and the calls after the last transaction.
    fn end(&self, worker: &mut Worker<'a, D>) {
        let place = self.txs.len() as WriterIndex + FIRST;
        self.pay_beneficiary(place);
        for (call, place) in system::after(self.env).into_iter().zip(place + 1..) {
            let called = worker.system_call(place, call.contract, call.data.clone());
            let output = called.unwrap_or_else(|error| self.shared().unreadable(&error));
            self.memory.settle(Origin { place, attempt: 0 }, &mut worker.writes);
            self.plan.lock().outputs.push((call, output));
        }
    }

    fn pay_beneficiary(&self, place: WriterIndex) {
        let (ledger, _) = &mut *self.ledger.lock();
        if !ledger.any_included {
            return;
        }
        let beneficiary = self.env.beneficiary;
        let read = self.memory.account(&beneficiary, place);
        let (held, _) = read.unwrap_or_else(|error| self.shared().unreadable(&error));
        let fees = std::mem::take(&mut ledger.fees);
        let is_empty = held.as_ref().is_some_and(|held| held.is_empty());
        let mut writes = if !fees.is_zero() {
            vec![Write::Account(beneficiary, Some(with_fees(held, fees)))]
        } else if is_empty && self.env.spec.is_enabled_in(SpecId::SPURIOUS_DRAGON) {
            // EIP-161: paying nothing touches it anyway.
            vec![Write::Wipe(beneficiary), Write::Account(beneficiary, None)]
        } else {
            return;
        };
        self.memory.settle(Origin { place, attempt: 0 }, &mut writes);
    }

    fn next(&self, plan: &mut Plan) -> Stage {
        let (ledger, pace) = &mut *self.ledger.lock();
        let count = self.txs.len();
        if plan.at >= count {
            return Stage::End;
        }
        let from = plan.at;
        if self.env.gas_limit - ledger.gas_used < GAS {
            // No transaction uses less: the rest is refused, in one run whatever it is.
            plan.at = count;
            pace.begin();
            return Stage::General(Arc::new(scheduler::Run::new(from..count, self.threads)));
        }
        let to = self.transfers_end(from, plan.broken_at, ledger.gas_used);
        if to - from >= RUN_MIN && plan.breaks <= BREAKS_MAX {
            return Stage::Transfers(Arc::new(transfers::Run::new(from, to)));
        }
        plan.broken_at = None;
        plan.at = if plan.breaks > BREAKS_MAX { count } else { self.general_end(to.max(from + 1)) };
        pace.begin();
        Stage::General(Arc::new(scheduler::Run::new(from..plan.at, self.threads)))
    }

    fn is_simple(&self, index: usize) -> bool {
        self.plains.get(index).is_some() && self.cells.are_simple(index)
    }

    /// Returns the end of the run of transfers that begins at `from`. Within it the block's gas is no question.
    fn transfers_end(&self, from: usize, broken_at: Option<usize>, gas_used: u64) -> usize {
        let end = broken_at.unwrap_or(self.txs.len());
        let mut room = self.env.gas_limit - gas_used;
        for index in from..end {
            let plain = self.plains.get(index).filter(|_| self.cells.are_simple(index));
            match plain {
                Some(plain) if plain.gas_limit <= room => room -= GAS,
                _ => return index,
            }
        }
        end
    }

    /// Returns the end of the run of other transactions that begins at `from`: before enough transfers to form a run.
    fn general_end(&self, from: usize) -> usize {
        let mut transfers = 0;
        for index in from..self.txs.len() {
            transfers = if self.is_simple(index) { transfers + 1 } else { 0 };
            if transfers == RUN_MIN {
                return index + 1 - RUN_MIN;
            }
        }
        self.txs.len()
    }

    fn transfers(&self, run: &transfers::Run, thread: usize) {
        let ends = || self.plains.ends(thread, run.from..run.to);
        let mut owned = OwnedShards::new(self.memory, thread, self.threads);
        let before = run.pay(&mut owned, &self.cells, ends());
        self.barrier.wait();
        let broken_at = run.broken_at.load(Ordering::Relaxed);
        if broken_at == run.to {
            run.receive(&mut owned, &self.cells, ends());
            if thread == 0 {
                self.plan.lock().at = run.to;
                self.enter(run.from..run.to);
            }
        } else {
            run.take_back(&mut owned, before);
            if thread == 0 {
                let mut plan = self.plan.lock();
                plan.breaks += 1;
                plan.broken_at = Some(broken_at);
            }
        }
    }

    /// Enters a run of transfers that holds into the ledger.
    fn enter(&self, range: Range<usize>) {
        let (ledger, _) = &mut *self.ledger.lock();
        ledger.gas_used += GAS * range.len() as u64;
        ledger.any_included = true;
        let fees = self.plains.within(range.clone()).map(|(_, plain)| plain.fee);
        ledger.fees += fees.fold(U256::ZERO, |sum, fee| sum + fee);
        ledger.verdicts.extend(range.map(|_| Verdict::Included(transferred())));
    }

    fn general(&self, run: &scheduler::Run, worker: &mut Worker<'a, D>) {
        let shared = self.shared();
        match self.threads {
            1 => run.work_alone(&shared, worker, &mut self.ledger.lock().0),
            _ => run.work(&shared, worker, &self.ledger),
        }
    }
}

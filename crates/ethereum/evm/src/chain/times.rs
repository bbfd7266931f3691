//! The duration of blocks, part by part, and their contents.
//!
//! writes  one log line per block, and counters
//! memory  a few words, and 64 B for each of the last [`KEPT`] blocks
//! drops   the times of older blocks

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::block::Block;
use crate::pool;
use crate::state::RetentionWindow;

/// Number of own blocks whose times are kept.
pub const KEPT: usize = 1024;

/// The parts of one block's making, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockTimes {
    /// Choosing transactions, and the calls before them.
    pub begin_us: u64,
    /// CPU time of checking submissions since the block before: decoding, senders, the pool. Summed over threads.
    pub check_us: u64,
    /// Executing the transactions, and the calls after them.
    pub deliver_us: u64,
    /// Receipts, and the roots of transactions and receipts, if they take longer than the root of the state.
    pub end_us: u64,
    /// Writing, publishing, and notifying pool and subscribers.
    pub commit_us: u64,
    /// The root of the state, and the state's own commit.
    pub evm_commit_us: u64,
}

impl BlockTimes {
    /// Returns the sum of all parts but `check_us`, which runs concurrently.
    pub fn total_us(&self) -> u64 {
        self.begin_us + self.deliver_us + self.end_us + self.commit_us + self.evm_commit_us
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Height of the newest block that was made here.
    pub head: u64,
    /// Number of blocks made here.
    pub blocks: u64,
    /// Blocks among them that were executed while the one before was being sealed and appended.
    pub ahead: u64,
    /// Transactions in blocks made here.
    pub txs: u64,
    /// Gas used by blocks made here.
    pub gas: u64,
    /// Transactions that were submitted.
    pub submitted: u64,
    /// Transactions of the side ledger among them.
    pub to_outputs: u64,
    /// Submissions that do not decode, are of another chain, or have no valid signature.
    pub undecodable: u64,
    /// Submissions that were refused, for any reason.
    pub refused: u64,
    /// Nanoseconds of CPU time of decoding transactions and recovering their senders. Summed over threads.
    pub recover_ns: u64,
    /// Nanoseconds of CPU time of the pool's checks. Summed over threads.
    pub pool_ns: u64,
    /// The times of the newest block.
    pub last: BlockTimes,
    /// The sums over all blocks made here.
    pub sum: BlockTimes,
    /// The counters of the transaction pool.
    pub pool: pool::Stats,
    /// How full the pool is.
    pub pool_status: pool::Status,
    /// The older states that are kept.
    pub states: RetentionWindow,
}

/// CPU time that this thread has used. Other threads on its core do not add to it.
pub(super) fn of_this_thread() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// The times of the last blocks.
#[derive(Default)]
struct RecentTimes {
    made: u64,
    kept: VecDeque<(u64, BlockTimes)>,
}

/// The counters behind [`Metrics`].
#[derive(Default)]
pub(super) struct Times {
    made: Mutex<Metrics>,
    last: Mutex<RecentTimes>,
    check_ns: AtomicU64,
    recover_ns: AtomicU64,
    pool_ns: AtomicU64,
    submitted: AtomicU64,
    to_outputs: AtomicU64,
    undecodable: AtomicU64,
    refused: AtomicU64,
    ahead: AtomicU64,
}

/// The size of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    /// All transactions of the burst.
    pub submitted: usize,
    /// Transactions of the side ledger.
    pub to_outputs: usize,
    /// Transactions that do not decode, or are for another chain.
    pub undecodable: usize,
    /// Refused transactions, for any reason.
    pub refused: usize,
}

impl Times {
    /// Records a burst: the CPU time of decoding and recovering, and that of the pool.
    pub(super) fn checked(&self, recover: Duration, pool: Duration, burst: Burst) {
        self.check_ns.fetch_add((recover + pool).as_nanos() as u64, Ordering::Relaxed);
        self.recover_ns.fetch_add(recover.as_nanos() as u64, Ordering::Relaxed);
        self.pool_ns.fetch_add(pool.as_nanos() as u64, Ordering::Relaxed);
        for (counter, count) in [
            (&self.submitted, burst.submitted),
            (&self.to_outputs, burst.to_outputs),
            (&self.undecodable, burst.undecodable),
            (&self.refused, burst.refused),
        ] {
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// Records that a block was executed while the one before was being sealed.
    pub(super) fn executed_ahead(&self) {
        self.ahead.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a block, and logs its line.
    pub(super) fn made(&self, block: &Block, mut times: BlockTimes) {
        times.check_us = self.check_ns.swap(0, Ordering::Relaxed) / 1000;
        let BlockTimes { begin_us, check_us, deliver_us, end_us, commit_us, evm_commit_us } = times;
        tracing::info!(
            number = block.number(),
            hash = %block.hash,
            txs = block.txs.len(),
            gas_used = block.header.gas_used,
            base_fee = block.base_fee(),
            begin_us,
            check_us,
            deliver_us,
            end_us,
            commit_us,
            evm_commit_us,
            "block"
        );
        let mut last = self.last.lock();
        if last.kept.len() == KEPT {
            last.kept.pop_front();
        }
        last.kept.push_back((block.number(), times));
        last.made += 1;
        drop(last);
        let mut made = self.made.lock();
        made.head = block.number();
        made.blocks += 1;
        made.txs += block.txs.len() as u64;
        made.gas += block.header.gas_used;
        made.last = times;
        let sum = &mut made.sum;
        sum.begin_us += begin_us;
        sum.check_us += check_us;
        sum.deliver_us += deliver_us;
        sum.end_us += end_us;
        sum.commit_us += commit_us;
        sum.evm_commit_us += evm_commit_us;
    }

    pub(super) fn read(&self, pool: pool::Stats, pool_status: pool::Status, states: RetentionWindow) -> Metrics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Metrics {
            submitted: of(&self.submitted),
            to_outputs: of(&self.to_outputs),
            undecodable: of(&self.undecodable),
            refused: of(&self.refused),
            ahead: of(&self.ahead),
            recover_ns: of(&self.recover_ns),
            pool_ns: of(&self.pool_ns),
            pool,
            pool_status,
            states,
            ..*self.made.lock()
        }
    }

    /// Returns how many blocks were made here, and number and times of those after the first `seen`, if they are kept,
    /// oldest first.
    pub(super) fn after(&self, seen: u64) -> (u64, Vec<(u64, BlockTimes)>) {
        let last = self.last.lock();
        let new = last.made.saturating_sub(seen).min(last.kept.len() as u64) as usize;
        (last.made, last.kept.range(last.kept.len() - new..).copied().collect())
    }
}

/// A stopwatch for successive parts of an operation.
pub(super) struct Lap {
    since: Instant,
}

impl Lap {
    pub(super) fn new() -> Self {
        Self { since: Instant::now() }
    }

    /// Returns the microseconds since the last lap.
    pub(super) fn us(&mut self) -> u64 {
        let now = Instant::now();
        let us = now.duration_since(self.since).as_micros() as u64;
        self.since = now;
        us
    }
}

//! The thread that makes blocks by the clock or as transactions come.
//!
//! reads   a signal
//! writes  blocks, through the chain's writer
//! memory  a few words
//! drops   nothing; an error of the store ends it, with a line in the log
//!
//! It sleeps while it is idle, and ends when the last handle of the chain is gone.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::produce::EmptyBlocks;
use super::{BlockTime, ChainError, INTERVAL_MAX, Inner};

/// Refuses an interval that is zero or too long.
pub(super) fn check(block_time: BlockTime) -> Result<(), ChainError> {
    match block_time {
        BlockTime::Every(every) if every.is_zero() || every >= INTERVAL_MAX => Err(ChainError::Interval),
        _ => Ok(()),
    }
}

/// Wakes the sequencer: for transactions, a sealed block, another block time, or the end.
pub(super) struct Signal {
    signals: Mutex<SignalState>,
    wake: Condvar,
    /// Wakes threads that wait for the sequencer's progress.
    moved: Condvar,
}

struct SignalState {
    block_time: BlockTime,
    /// How often that was set.
    set: u64,
    /// When the next block is due, where they come by the clock.
    due: Option<Instant>,
    transactions: bool,
    sealed: bool,
    stopped: bool,
    /// Whether the sequencer is making what came due.
    turn: bool,
    /// How often a block came to be seen, or a turn ended.
    moves: u64,
}

impl Signal {
    pub(super) fn new(block_time: BlockTime) -> Self {
        let (transactions, sealed, stopped, turn) = Default::default();
        let signals = SignalState { block_time, set: 0, due: None, transactions, sealed, stopped, turn, moves: 0 };
        Self { signals: Mutex::new(signals), wake: Condvar::new(), moved: Condvar::new() }
    }

    /// Returns whether the sequencer has yet to handle a new transaction in the pool, or is making blocks of it.
    pub(super) fn is_catching_up(&self) -> bool {
        let signals = self.signals.lock();
        signals.block_time == BlockTime::Instant && (signals.transactions || signals.turn) && !signals.stopped
    }

    /// How often a block came to be seen, or a turn of the sequencer ended.
    pub(super) fn moves(&self) -> u64 {
        self.signals.lock().moves
    }

    /// Waits until that happened more often than `seen`, or `patience` is over.
    pub(super) fn wait_for_move(&self, seen: u64, patience: Duration) {
        let waiting = |signals: &mut SignalState| signals.moves == seen && !signals.stopped;
        self.moved.wait_while_for(&mut self.signals.lock(), waiting, patience);
    }

    /// A block can be seen, and the pool knows.
    pub(super) fn made(&self) {
        self.moved_by(|_| {});
    }

    fn moved_by(&self, change: impl FnOnce(&mut SignalState)) {
        let mut signals = self.signals.lock();
        change(&mut signals);
        signals.moves += 1;
        self.moved.notify_all();
    }

    /// Something came into the pool.
    pub(super) fn transactions(&self) {
        let mut signals = self.signals.lock();
        if !signals.transactions {
            signals.transactions = true;
            self.wake.notify_all();
        }
    }

    pub(super) fn stop(&self) {
        self.signals.lock().stopped = true;
        self.wake.notify_all();
        self.moved.notify_all();
    }

    pub(super) fn stopped(&self) -> bool {
        self.signals.lock().stopped
    }

    pub(super) fn block_time(&self) -> BlockTime {
        self.signals.lock().block_time
    }

    /// Sets when blocks are made.
    pub(super) fn set_block_time(&self, block_time: BlockTime) {
        let mut signals = self.signals.lock();
        signals.block_time = block_time;
        signals.set += 1;
        signals.due = None;
        // What waits in the pool is looked at.
        signals.transactions = true;
        self.wake.notify_all();
    }

    /// Marks the beginning of sealing a block.
    pub(super) fn sealing(&self) {
        self.signals.lock().sealed = false;
    }

    /// Marks the end of sealing a block, and wakes the sequencer.
    pub(super) fn sealed(&self) {
        self.signals.lock().sealed = true;
        self.wake.notify_all();
    }

    /// Waits for the next block's time; nothing at the end. Tells too how often it was [set](Self::set) by then.
    fn wait(&self) -> Option<(EmptyBlocks, u64)> {
        self.moved_by(|signals| signals.turn = false);
        self.wait_unless(|_| false)
    }

    /// How often it was set how blocks come.
    fn set(&self) -> u64 {
        self.signals.lock().set
    }

    /// Waits for the next block's time while one is being sealed; nothing once that is done, or at the end. `look`:
    /// where blocks come as transactions do, there may be some that are not news.
    pub(super) fn meanwhile(&self, look: bool) -> Option<EmptyBlocks> {
        if look {
            self.signals.lock().transactions = true;
        }
        self.wait_unless(|signals| signals.sealed).map(|(empty, _)| empty)
    }

    fn wait_unless(&self, over: impl Fn(&SignalState) -> bool) -> Option<(EmptyBlocks, u64)> {
        let mut signals = self.signals.lock();
        loop {
            if signals.stopped || over(&signals) {
                return None;
            }
            match signals.due() {
                NextBlockTime::Now(empty) => {
                    signals.turn = true;
                    return Some((empty, signals.set));
                }
                NextBlockTime::In(left) => {
                    self.wake.wait_for(&mut signals, left);
                }
                NextBlockTime::WhenTold => self.wake.wait(&mut signals),
            }
        }
    }
}

/// When the next block is due.
enum NextBlockTime {
    Now(EmptyBlocks),
    In(Duration),
    WhenTold,
}

impl SignalState {
    /// Returns when the next block is due; a block that is due now counts as begun.
    fn due(&mut self) -> NextBlockTime {
        match self.block_time {
            BlockTime::Instant if self.transactions => {
                self.transactions = false;
                NextBlockTime::Now(EmptyBlocks::Skipped)
            }
            BlockTime::Every(interval) => {
                let now = Instant::now();
                let due = *self.due.get_or_insert(now + interval);
                if let Some(left) = due.checked_duration_since(now).filter(|left| !left.is_zero()) {
                    return NextBlockTime::In(left);
                }
                // A block that took too long is not made up for.
                self.due = Some((due + interval).max(now));
                NextBlockTime::Now(EmptyBlocks::Made)
            }
            BlockTime::Instant | BlockTime::Manual => NextBlockTime::WhenTold,
        }
    }
}

/// Starts the thread of a chain.
pub(super) fn start(inner: &Arc<Inner>) -> Result<JoinHandle<()>, ChainError> {
    let (chain, signal) = (Arc::downgrade(inner), inner.signal.clone());
    let thread = std::thread::Builder::new().name("sequencer".into());
    thread.spawn(move || run(&chain, &signal)).map_err(ChainError::Thread)
}

fn run(chain: &Weak<Inner>, signal: &Signal) {
    while let Some((empty, set)) = signal.wait() {
        let Some(chain) = chain.upgrade() else { return };
        if let Err(error) = turn(&chain, empty, set) {
            chain.fail(error.to_string());
            // No caller waits for a move that does not come.
            signal.moved_by(|signals| signals.turn = false);
            return;
        }
    }
}

/// Makes one block by the clock, or blocks until the pool has no transaction for another. Returns `None` if the block
/// time was changed meanwhile.
fn turn(chain: &Inner, empty: EmptyBlocks, set: u64) -> Result<(), ChainError> {
    let mut state = chain.writer()?;
    if chain.signal.set() != set {
        return Ok(());
    }
    if empty == EmptyBlocks::Made {
        return chain.make_on(&mut state, empty).map(drop);
    }
    while !chain.signal.stopped() && chain.signal.block_time() == BlockTime::Instant {
        if !chain.make_on(&mut state, empty)? {
            break;
        }
        if chain.wanted() > 0 {
            // Their turn; the pool may have more.
            chain.signal.transactions();
            break;
        }
    }
    Ok(())
}

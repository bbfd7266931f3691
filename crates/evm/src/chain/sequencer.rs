//! The thread that makes blocks by the clock or as transactions come.
//!
//! reads   a signal
//! writes  blocks, by the chain's writer
//! memory  a few words
//! drops   nothing; an error of the store ends it, with a line in the log
//!
//! It sleeps while there is nothing to do, and ends when the last handle of the chain is gone.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use super::produce::Empty;
use super::{BlockTime, ChainError, Inner, lock};

/// What wakes the sequencer.
pub(super) struct Signal {
    told: Mutex<Told>,
    wake: Condvar,
}

struct Told {
    block_time: BlockTime,
    /// When the next block is due, where they come by the clock.
    due: Option<Instant>,
    transactions: bool,
    stopped: bool,
}

impl Signal {
    pub(super) fn new(block_time: BlockTime) -> Self {
        let told = Told { block_time, due: None, transactions: false, stopped: false };
        Self { told: Mutex::new(told), wake: Condvar::new() }
    }

    /// Something came into the pool.
    pub(super) fn transactions(&self) {
        let mut told = lock(&self.told);
        if !told.transactions {
            told.transactions = true;
            self.wake.notify_all();
        }
    }

    pub(super) fn stop(&self) {
        lock(&self.told).stopped = true;
        self.wake.notify_all();
    }

    pub(super) fn stopped(&self) -> bool {
        lock(&self.told).stopped
    }

    pub(super) fn block_time(&self) -> BlockTime {
        lock(&self.told).block_time
    }

    /// From now on blocks come so.
    pub(super) fn set_block_time(&self, block_time: BlockTime) {
        let mut told = lock(&self.told);
        told.block_time = block_time;
        told.due = None;
        // What waits in the pool is looked at.
        told.transactions = true;
        self.wake.notify_all();
    }

    /// Waits for the next block's time; nothing at the end.
    fn wait(&self) -> Option<Empty> {
        let mut told = lock(&self.told);
        loop {
            if told.stopped {
                return None;
            }
            told = match told.block_time {
                BlockTime::Instant if told.transactions => {
                    told.transactions = false;
                    return Some(Empty::Skipped);
                }
                BlockTime::Every(interval) => {
                    let now = Instant::now();
                    let due = *told.due.get_or_insert(now + interval);
                    let Some(left) = due.checked_duration_since(now).filter(|left| !left.is_zero()) else {
                        // A block that took too long is not made up for.
                        told.due = Some((due + interval).max(now));
                        return Some(Empty::Made);
                    };
                    self.wake.wait_timeout(told, left).unwrap_or_else(PoisonError::into_inner).0
                }
                BlockTime::Instant | BlockTime::Manual => self.wake.wait(told).unwrap_or_else(PoisonError::into_inner),
            }
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
    while let Some(empty) = signal.wait() {
        let Some(chain) = chain.upgrade() else { return };
        if let Err(error) = turn(&chain, empty) {
            chain.fail(error.to_string());
            return;
        }
    }
}

/// One block by the clock, or as many as it takes until the pool has nothing more for one.
fn turn(chain: &Inner, empty: Empty) -> Result<(), ChainError> {
    let mut state = chain.writer()?;
    match empty {
        Empty::Made => chain.make(&mut state, empty).map(drop),
        Empty::Skipped => {
            while !chain.signal.stopped() && chain.signal.block_time() == BlockTime::Instant {
                if chain.make(&mut state, empty)?.is_none() {
                    break;
                }
            }
            Ok(())
        }
    }
}

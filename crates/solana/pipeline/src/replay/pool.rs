//! pool: executes a block with workers in the process, each on its own thread if the block is large enough.
//!
//! reads   a block's bytes
//! writes  the ledger
//! memory  that of the block's state machine and of each worker
//! drops   nothing

use hearth_ledger::{Bank, Ledger};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::block::{ExecutedBlock, Job, Replay, Step};
use super::error::ReplayError;
use crate::exec::{Report, WorkOrder, Worker, WorkerConfig};

/// Fewer transactions do not pay for a second thread.
const WORTH_A_THREAD: usize = 128;

/// Executes blocks on several threads.
pub struct Pool {
    replay: Replay,
    workers: Vec<Worker>,
}

impl Pool {
    /// Creates a pool of at least one worker; the workers share `config.table_bytes`.
    pub fn new(workers: usize, config: &WorkerConfig) -> Self {
        let count = workers.max(1);
        let config = WorkerConfig { table_bytes: config.table_bytes / count, ..config.clone() };
        Self { replay: Replay::default(), workers: (0..count).map(|_| Worker::new(&config)).collect() }
    }

    /// Executes a block on top of the ledger's last one.
    ///
    /// # Errors
    /// The block is invalid; its slot may then have started without ending.
    pub fn block(&mut self, ledger: &Ledger, job: Job, data: &[u8]) -> Result<ExecutedBlock, ReplayError> {
        self.batches(ledger, job, data, None)
    }

    /// As [`Pool::block`], with the ends of the batches of entries in the data, if the shreds say so.
    ///
    /// # Errors
    /// The block is invalid; its slot may then have started without ending.
    pub fn batches(
        &mut self,
        ledger: &Ledger,
        job: Job,
        data: &[u8],
        batch_ends: Option<Vec<u32>>,
    ) -> Result<ExecutedBlock, ReplayError> {
        let Self { replay, workers } = self;
        replay.begin(job, batch_ends);
        while replay.transactions().is_none() {
            if let Step::Ended(end) = replay.step(ledger, data) {
                return end;
            }
        }
        let threads = match replay.transactions() {
            Some(count) if count >= WORTH_A_THREAD => workers.len(),
            _ => 1,
        };
        let (own, others) = workers[..threads].split_last_mut().expect("there is a worker");
        let bank = replay.bank().expect("the slot has begun").clone();
        let board = Board { state: Mutex::new(State { replay, end: None, is_broken: false }), changed: Condvar::new() };
        let block = Block { ledger, data, bank: &bank };
        if others.is_empty() {
            board.work(own, &block);
        } else {
            std::thread::scope(|scope| {
                for worker in others {
                    scope.spawn(|| board.work(worker, &block));
                }
                board.work(own, &block);
            });
        }
        let state = board.state.into_inner();
        state.end.expect("the threads work until the end")
    }
}

struct Block<'a> {
    ledger: &'a Ledger,
    data: &'a [u8],
    bank: &'a Bank,
}

/// State shared by the threads.
struct Board<'a> {
    state: Mutex<State<'a>>,
    /// Signals that there may be an order, or that the block has ended.
    changed: Condvar,
}

struct State<'a> {
    replay: &'a mut Replay,
    end: Option<Result<ExecutedBlock, ReplayError>>,
    /// Whether a thread has panicked.
    is_broken: bool,
}

impl<'b> Board<'b> {
    fn lock(&self) -> MutexGuard<'_, State<'b>> {
        self.state.lock()
    }

    /// Works on the block until it ends.
    fn work(&self, worker: &mut Worker, block: &Block<'_>) {
        let _leaves = Leaves(self);
        let mut state = self.lock();
        while state.end.is_none() && !state.is_broken {
            match state.replay.step(block.ledger, block.data) {
                Step::Busy => continue,
                Step::Waits => {}
                Step::Ended(end) => {
                    state.end = Some(end);
                    break;
                }
            }
            match state.replay.order() {
                Some(order) => {
                    drop(state);
                    // There may be another order for another thread.
                    self.changed.notify_one();
                    let report = run(worker, &order, block);
                    state = self.lock();
                    state.replay.take(report, block.data);
                }
                None => self.changed.wait(&mut state),
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

fn run(worker: &mut Worker, order: &WorkOrder, block: &Block<'_>) -> Report {
    worker.begin(order);
    loop {
        worker.step(order, block.data, Some(block.bank));
        if let Some(report) = worker.take_report() {
            return report;
        }
    }
}

/// Notifies the other threads if this one panics.
struct Leaves<'a, 'b>(&'a Board<'b>);

impl Drop for Leaves<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().is_broken = true;
            self.0.changed.notify_all();
        }
    }
}

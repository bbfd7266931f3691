//! The writer's work for the disk: records, and checkpoints in the background.
//!
//! writes  a record a block; a checkpoint whenever the log has grown by the size of the last one; one at the end, if
//!         that saves the next start more than it costs
//! drops   logs and checkpoints that are not needed to open the state and its last 128 blocks

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use alloy_primitives::B256;

use super::disk::{Files, Log, Record, write_checkpoint, write_entries};
use super::flat_state::FlatState;
use super::write_batch::WriteBatch;
use super::{Entry, StateError, StateView, WINDOW};

/// The log's least growth between two checkpoints, bytes.
const CHECKPOINT_MIN: u64 = 256 << 20;

/// Minimum bytes of log that a checkpoint at the end must save.
const SPARED_MIN: u64 = if cfg!(test) { 1 } else { 4 << 20 };
/// About what an account or a slot takes in a checkpoint, bytes. Reading one takes a fourth of going through a log of
/// as many bytes.
const ENTRY_BYTES: u64 = if cfg!(test) { 0 } else { 85 };

/// The fate of a checkpoint at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalCheckpoint {
    /// The next start would be no quicker with one.
    Needless,
    /// The checkpoint is complete.
    Written,
    /// There was not enough time: the next start goes through the log.
    TooLong,
}

/// The blocks of the last views, oldest first, and which record made each.
#[derive(Default)]
pub(super) struct MadeBy(VecDeque<(u64, u64)>);

impl MadeBy {
    /// Record `sequence` made the state after block `number` the newest.
    pub(super) fn note(&mut self, number: u64, sequence: u64) {
        while self.0.pop_back_if(|(newer, _)| *newer >= number).is_some() {}
        self.0.push_back((number, sequence));
        if self.0.len() > WINDOW {
            self.0.pop_front();
        }
    }

    fn of(&self, number: u64) -> Option<u64> {
        self.0.iter().find(|(other, _)| *other == number).map(|(_, sequence)| *sequence)
    }
}

/// The state's open files.
pub(super) struct Persist {
    files: Files,
    pub(super) log: Log,
    genesis: B256,
    /// Number of records written, in all logs.
    sequence: u64,
    made_by: MadeBy,
    /// By a code's number, whether the files have it.
    codes: Vec<bool>,
    running: Option<(u64, JoinHandle<Result<bool, StateError>>)>,
    stop: Arc<AtomicBool>,
    /// A checkpoint that is whole, on which the oldest view of the window does not rest yet.
    whole: Option<u64>,
    pub(super) checkpoint_bytes: u64,
}

impl Persist {
    /// Files that have everything up to record `sequence`, and `flat`'s codes.
    pub(super) fn new(files: Files, log: Log, genesis: B256, sequence: u64, made_by: MadeBy, flat: &FlatState) -> Self {
        let codes = vec![true; flat.codes.count() as usize];
        let whole = files.checkpoints().ok().and_then(|all| all.last().copied());
        let (running, stop) = (None, Arc::new(AtomicBool::new(false)));
        let checkpoint_bytes = CHECKPOINT_MIN;
        Self { files, log, genesis, sequence, made_by, codes, running, stop, whole, checkpoint_bytes }
    }

    /// Writes a block's changes. On an error, nothing was written.
    pub(super) fn append(
        &mut self,
        number: u64,
        block_hash: B256,
        state_root: B256,
        applied: &WriteBatch,
        flat: &FlatState,
    ) -> Result<(), StateError> {
        let known = |number: &u32| self.codes.get(*number as usize).copied().unwrap_or(false);
        let numbers = applied.accounts.iter().filter_map(|(_, after)| after.as_ref().map(|slim| slim.code()));
        let mut codes: Vec<u32> = numbers.filter(|number| !known(number)).collect();
        codes.sort_unstable();
        codes.dedup();
        let (sequence, synced) = (self.sequence + 1, self.log.synced());
        let mut framed = Log::room();
        Record { sequence, synced, number, block_hash, state_root }.encode(applied, flat, &codes, &mut framed);
        self.log.append(sequence, &mut framed)?;
        self.sequence = sequence;
        self.made_by.note(number, sequence);
        for number in codes {
            let number = number as usize;
            if self.codes.len() <= number {
                self.codes.resize(number + 1, false);
            }
            self.codes[number] = true;
        }
        Ok(())
    }

    /// Begins a checkpoint where one is due, ends one that is done. A failure is reported and tried again: the log has
    /// everything.
    pub(super) fn maintain(&mut self, head: &StateView) {
        if self.running.as_ref().is_some_and(|(_, thread)| thread.is_finished()) {
            self.join();
        }
        let due = self.running.is_none() && self.log.size() >= self.checkpoint_bytes;
        if due && let Err(error) = self.begin(head) {
            tracing::warn!(%error, "no checkpoint of the state was begun");
            // Not retried with every block.
            self.checkpoint_bytes += CHECKPOINT_MIN / 4;
        }
        if let Some(whole) = self.whole.filter(|whole| whole + WINDOW as u64 <= self.sequence) {
            self.whole = None;
            if let Err(error) = self.files.remove_before(whole) {
                tracing::warn!(%error, "old files of the state stay");
            }
        }
    }

    /// Writes a checkpoint of `head`, the newest view, in the background.
    pub(super) fn begin(&mut self, head: &StateView) -> Result<(), StateError> {
        let (sequence, genesis, stop) = (self.sequence, self.genesis, self.stop.clone());
        self.log.rotate(&self.files.log(sequence), genesis, sequence)?;
        let (path, view) = (self.files.checkpoint(sequence), head.clone());
        let write = move || write_checkpoint(&path, &view, genesis, sequence, &stop);
        self.running = Some((sequence, std::thread::spawn(write)));
        Ok(())
    }

    /// Writes a checkpoint of the oldest view, whose entries are `entries`, if that saves the next start more log than
    /// it costs; gives up after `patience`. No view is lost by it.
    pub(super) fn shorten(
        &mut self,
        oldest: &StateView,
        entries: impl FnOnce() -> (u64, Box<dyn Iterator<Item = Entry> + Send>),
        patience: Duration,
    ) -> Result<FinalCheckpoint, StateError> {
        self.stop.store(true, Ordering::Relaxed);
        self.join();
        self.stop = Arc::default();
        let (logs, checkpoints) = (self.files.logs()?, self.files.checkpoints()?);
        let base = checkpoints.first().copied().unwrap_or(0);
        let Some(sequence) = self.made_by.of(oldest.number()).filter(|sequence| *sequence > base) else {
            return Ok(FinalCheckpoint::Needless);
        };
        let bytes: u64 = logs.iter().filter_map(|log| Some(std::fs::metadata(self.files.log(*log)).ok()?.len())).sum();
        let spared = u128::from(bytes) * u128::from(sequence - base) / u128::from(self.sequence - base);
        if spared < SPARED_MIN.into() {
            return Ok(FinalCheckpoint::Needless);
        }
        let (count, entries) = entries();
        if spared < u128::from(count * ENTRY_BYTES / 4) {
            return Ok(FinalCheckpoint::Needless);
        }
        let (path, genesis, stop) = (self.files.checkpoint(sequence), self.genesis, AtomicBool::new(false));
        let written = thread::scope(|scope| {
            let (done, ended) = mpsc::channel::<()>();
            let (path, stop) = (&path, &stop);
            let writing = scope.spawn(move || {
                let _done = done;
                write_entries(path, oldest, entries, genesis, sequence, stop)
            });
            // Reported by its end.
            let _ = ended.recv_timeout(patience);
            stop.store(true, Ordering::Relaxed);
            writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        if !written {
            return Ok(FinalCheckpoint::TooLong);
        }
        self.files.remove_before(sequence)?;
        Ok(FinalCheckpoint::Written)
    }

    /// Waits for the checkpoint being written, if one is.
    pub(super) fn join(&mut self) {
        let Some((sequence, thread)) = self.running.take() else { return };
        match thread.join() {
            Ok(Ok(true)) => {
                self.whole = Some(sequence);
                let size = std::fs::metadata(self.files.checkpoint(sequence)).map_or(0, |file| file.len());
                self.checkpoint_bytes = size.max(CHECKPOINT_MIN);
            }
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "a checkpoint of the state was not written"),
            Err(_) => tracing::warn!("writing a checkpoint of the state panicked"),
        }
    }
}

impl StateView {
    /// Writes everything to a file that [`super::StateFile`] reads; it appears when it is whole.
    pub fn save(&self, path: &Path) -> Result<(), StateError> {
        self.write(path, B256::ZERO, 0)
    }

    pub(super) fn write(&self, path: &Path, genesis: B256, sequence: u64) -> Result<(), StateError> {
        write_checkpoint(path, self, genesis, sequence, &AtomicBool::new(false)).map(|_| ())
    }
}

impl Drop for Persist {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.join();
    }
}

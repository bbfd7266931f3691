//! Prunes old records.
//!
//! Records older than the last blocks serve to rebuild the set at a start, and to look up old transactions. Once a log
//! has grown by the size of the set, a new generation begins: a thread writes the set after the newest block while the
//! chain continues, and the new log takes the records after it. When the new log holds all blocks that must be kept,
//! the older generations are removed. So there are at most two logs, with records of twice as many blocks as must be
//! kept, or as many bytes as the set if that is more. If a base cannot be written, the next attempt uses a log of its
//! own, and all earlier ones stay until an attempt succeeds.
//!
//! writes  a base and a log, in the format of [`super::files`]
//! drops   logs and bases whose records need not be kept

use std::path::PathBuf;
use std::thread::JoinHandle;

use alloy_primitives::B256;

use super::files::{self, Base, Generation};
use super::{Ledger, LedgerError, State};

/// Bytes that a log has at least before a new one begins.
const LOG_BYTES_MIN: u64 = if cfg!(test) { 1 } else { 64 << 10 };

/// A base that is being written.
pub(super) struct Compaction {
    from: u64,
    thread: JoinHandle<Result<PathBuf, LedgerError>>,
}

impl Ledger {
    /// After block `number`, the newest, of that hash: lets go of records that are not of the last `retain` blocks,
    /// where that is worth it. Never waits for the writing of the set. A ledger in memory keeps all.
    pub fn shorten(&self, number: u64, hash: B256, retain: u64) -> Result<(), LedgerError> {
        let Some(dir) = &self.0.dir else { return Ok(()) };
        let mut running = self.0.shortening.lock();
        if running.as_ref().is_some_and(|shortening| !shortening.thread.is_finished()) {
            return Ok(());
        }
        if let Some(Compaction { from, thread }) = running.take() {
            match thread.join() {
                Ok(Ok(path)) => {
                    let is_needed = self.write().end_shortening(from, path);
                    if !is_needed {
                        files::remove_base(dir, from)?;
                    }
                }
                Ok(Err(error)) => tracing::warn!(%error, "the log of outputs is not shortened"),
                Err(_) => tracing::warn!("writing the set of outputs panicked"),
            }
        }
        let state = self.read();
        let newest = state.generations.last().expect("there is always one");
        let (is_old, is_whole) = (number >= newest.from.saturating_add(retain), newest.base.is_some());
        let is_long = newest.log.end() >= LOG_BYTES_MIN.max(newest.base.as_ref().map_or(0, Base::bytes));
        let (from, count) = (newest.from, state.generations.len());
        drop(state);
        if is_old && is_whole && count > 1 {
            let _writing = self.writing();
            let gone = self.write().let_go(from);
            return gone.into_iter().try_for_each(Generation::remove);
        }
        if is_old && is_long {
            let capture = self.capture(number, hash)?;
            self.sync()?;
            // Of another block with this number, if the program ended before it could remove the file.
            files::remove_base(dir, number)?;
            let generation = Generation::create(Some(dir), self.0.chain_id, number)?;
            let writing = self.writing();
            self.write().generations.push(generation);
            drop(writing);
            let (dir, chain_id, footing) = (dir.clone(), self.0.chain_id, capture.footing().clone());
            let write = move || files::save(&dir, chain_id, &footing, capture.items());
            let thread = std::thread::Builder::new().name("outputs-base".into()).spawn(write);
            let thread = thread.map_err(|error| LedgerError::Io("outputs-base".into(), error))?;
            *running = Some(Compaction { from: number, thread });
        }
        Ok(())
    }
}

#[cfg(test)]
impl Ledger {
    /// Waits until no base is being written.
    pub(super) fn written(&self) {
        hearth_testkit::wait_until("the base is written", || {
            self.0.shortening.lock().as_ref().is_none_or(|shortening| shortening.thread.is_finished())
        });
    }
}

impl State {
    /// Returns whether the base is still needed: its generation may be gone if the chain reverted.
    fn end_shortening(&mut self, from: u64, path: PathBuf) -> bool {
        let generation = self.generations.iter_mut().find(|generation| generation.from == from);
        generation.map(|generation| generation.base = Some(Base::File(path))).is_some()
    }

    /// Removes the generations before the one after block `from` from the list, and returns them for deletion.
    fn let_go(&mut self, from: u64) -> Vec<Generation> {
        let count = self.generations.partition_point(|generation| generation.from < from);
        while self.blocks.front().is_some_and(|first| first.number <= from) {
            self.blocks.pop_front();
            self.gone += 1;
        }
        let gone = self.gone;
        self.index.retain(|_, (block, _)| *block >= gone);
        self.generations.drain(..count).collect()
    }
}

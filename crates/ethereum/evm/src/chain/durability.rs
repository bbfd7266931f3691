//! Tracks which blocks are on disk, and reports what a start found after an unclean shutdown.
//!
//! reads   the store of blocks
//! writes  wakes the requests that wait for a sync
//! memory  a few words for each of them
//!
//! The newest block may be up to [`AHEAD_MAX`] blocks ahead of the disk. A block counts as on disk once it, the blocks
//! before it and the side ledger's records of them are synced: the state follows from these by execution. So a start
//! restores every block that [`Chain::finalized`] has ever named, unless the chain itself went back.

use std::fmt;
use std::sync::{Arc, Weak};

use alloy_primitives::B256;
use parking_lot::Mutex;

use super::Chain;
use crate::block::Block;
use crate::blocks::{AHEAD_MAX, BlockStore, RunEnd};

type Wake = dyn Fn() + Send + Sync;

/// The requests that wait until a block is on disk.
#[derive(Clone, Default)]
pub(super) struct SyncWaiters(Arc<Mutex<Vec<Weak<Wake>>>>);

/// A registration to be woken after each sync; dropping it ends it.
pub struct SyncWatch {
    _wake: Arc<Wake>,
}

impl SyncWaiters {
    fn add(&self, wake: Arc<Wake>) -> SyncWatch {
        self.0.lock().push(Arc::downgrade(&wake));
        SyncWatch { _wake: wake }
    }

    /// Wakes all waiting requests.
    pub(super) fn wake(&self) {
        let live: Vec<Arc<Wake>> = {
            let mut waiting = self.0.lock();
            waiting.retain(|wake| wake.strong_count() > 0);
            waiting.iter().filter_map(Weak::upgrade).collect()
        };
        live.iter().for_each(|wake| wake());
    }
}

/// The findings of a start after an unclean shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The block that the chain continues from.
    pub head: u64,
    /// How many blocks after it are known to have been made, and are lost.
    pub lost_min: u64,
    /// How many blocks after it can be lost at most.
    pub lost_max: u64,
    /// Whether the machine has started again since.
    pub machine_stopped: bool,
}

impl Recovery {
    /// Compares `seen`, the newest block that any file knows, with `head`. Returns `None` if there is nothing to
    /// report.
    pub(super) fn of(store: &BlockStore, seen: u64, head: u64) -> Option<Self> {
        let (end, lost_min) = (store.run_end(), seen.saturating_sub(head));
        if lost_min == 0 && matches!(end, RunEnd::Stopped | RunEnd::Unknown) {
            return None;
        }
        // A killed process leaves everything that it has written.
        let lost_max = if end == RunEnd::Killed && lost_min == 0 { 0 } else { AHEAD_MAX.max(lost_min) };
        Some(Self { head, lost_min, lost_max, machine_stopped: end == RunEnd::MachineStopped })
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, lost_min, lost_max, machine_stopped } = *self;
        match machine_stopped {
            true => write!(f, "the machine stopped while the node ran")?,
            false => write!(f, "the node did not stop in order")?,
        }
        write!(f, ": the chain continues from block {head}. ")?;
        let blocks = |count: u64| if count == 1 { "block" } else { "blocks" };
        match (lost_min, lost_max) {
            (_, 0) => write!(f, "Every block that the folder knows of is there")?,
            (0, max) => write!(f, "Up to {max} newer blocks had not reached the disk and may be lost")?,
            (min, max) if min == max => write!(f, "{min} newer {} had not reached the disk: lost", blocks(min))?,
            (min, max) => write!(
                f,
                "At least {min} newer {} had not reached the disk and {} lost, {max} at most",
                blocks(min),
                if min == 1 { "is" } else { "are" }
            )?,
        }
        if lost_max > 0 { write!(f, "; none that `finalized` named") } else { Ok(()) }
    }
}

impl Chain {
    /// Returns the number up to which every block is on disk; of a chain in memory, the newest block's.
    pub fn synced(&self) -> u64 {
        let head = self.head().number();
        // A block may be on disk before it is published.
        self.inner.store.as_ref().map_or(head, |store| store.synced().min(head))
    }

    /// Returns the newest block that survives a crash of the program or the machine; of a chain in memory, the newest
    /// block.
    pub fn finalized(&self) -> Arc<Block> {
        let number = self.synced();
        // After a concurrent reorganization the head is older.
        self.block(number).unwrap_or_else(|| self.inner.zero.clone())
    }

    /// Calls `wake` after each sync. It must not wait.
    pub fn watch_synced(&self, wake: impl Fn() + Send + Sync + 'static) -> SyncWatch {
        self.inner.sync_waiters.add(Arc::new(wake))
    }

    /// The number of the block that holds a transaction, without reading from disk.
    pub fn number_of_tx(&self, hash: &B256) -> Option<u64> {
        let (found, head) = {
            let published = self.inner.published();
            (published.tx(hash).map(|(block, _)| block.number()), published.head().number())
        };
        let stored = || self.inner.store.as_ref()?.place_of(hash).map(|(number, _)| number);
        found.or_else(|| stored().filter(|number| *number <= head))
    }

    /// Returns the number of the block that may have this hash, without reading from disk; the caller compares the
    /// block's hash.
    pub fn number_of_block(&self, hash: &B256) -> Option<u64> {
        let (found, head) = {
            let published = self.inner.published();
            (published.block_by_hash(hash).map(|block| block.number()), published.head().number())
        };
        let stored = || self.inner.store.as_ref()?.number_of(hash);
        found.or_else(|| stored().filter(|number| *number <= head))
    }

    /// Returns what the start of this chain found after an unclean shutdown.
    pub fn recovery(&self) -> Option<Recovery> {
        self.inner.recovery
    }
}

#[cfg(test)]
mod tests;

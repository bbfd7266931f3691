//! Syncs blocks to disk, in an order that keeps the stores of one chain consistent across a power failure.
//!
//! reads   unsynced data
//! writes  up to which block everything is synced; why nothing more is written
//! memory  a few words
//!
//! After a failed sync nothing more is written: the kernel may have dropped what it could not write, and a later sync
//! would not report that.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use hearth_wal::Disk;
use parking_lot::{Mutex, MutexGuard};

use super::{AHEAD_MAX, BlocksError, Inner};

type Sync<T> = Box<dyn Fn() -> T + Send + std::marker::Sync>;

/// Functions that bring other data to disk with the blocks; each says why it cannot.
pub struct SyncOrder {
    /// Brings data to disk that blocks build on: called before each sync of theirs.
    pub before: Sync<Result<(), String>>,
    /// Brings data to disk that must not be there before the blocks: called after each sync.
    pub after: Sync<Result<(), String>>,
    /// Called after each sync of the blocks, once [`BlockStore::synced`](super::BlockStore::synced) says so.
    pub synced: Box<dyn Fn() + Send + std::marker::Sync>,
    /// Called once, with the reason, when nothing more is written.
    pub failed: Box<dyn Fn(String) + Send + std::marker::Sync>,
}

/// A file that is written and not on disk.
#[derive(Clone)]
pub(super) struct UnsyncedFile {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
    /// The newest block in it.
    pub upto: u64,
}

/// The part of the store that the writer and the syncing thread share.
pub(super) struct Shared {
    pub inner: Mutex<Inner>,
    pub order: OnceLock<SyncOrder>,
    /// Held while something is brought to disk or cut off, so that neither is taken for done by the other.
    pub syncing: Mutex<()>,
    /// Held while old blocks are pruned.
    pub letting_go: Mutex<()>,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }

    /// Syncs what was written before the call, and what that builds on.
    pub(super) fn bring(&self) -> Result<(), BlocksError> {
        let one = self.syncing.lock();
        self.bring_alone(&one)
    }

    /// Returns when block `number` is at most [`AHEAD_MAX`] blocks ahead of the disk.
    pub(super) fn keep_up(&self, number: u64) -> Result<(), BlocksError> {
        let is_near = || number <= self.lock().synced + AHEAD_MAX;
        if is_near() {
            return Ok(());
        }
        let one = self.syncing.lock();
        // Another thread may have synced meanwhile.
        if is_near() { Ok(()) } else { self.bring_alone(&one) }
    }

    fn bring_alone(&self, _syncing: &MutexGuard<'_, ()>) -> Result<(), BlocksError> {
        let unsynced = {
            let inner = self.lock();
            inner.check_failure()?;
            inner.unsynced.clone()
        };
        let Some(UnsyncedFile { disk, path, upto }) = unsynced else { return Ok(()) };
        let before = self.order.get().map_or(Ok(()), |order| (order.before)());
        let synced =
            before.and_then(|()| disk.sync().map_err(|error| format!("cannot sync {}: {error}", path.display())));
        if let Err(why) = synced {
            return Err(self.fail(why));
        }
        let mut inner = self.lock();
        inner.synced = inner.synced.max(upto);
        // Of a file that was written to meanwhile that is true of the blocks until then.
        if inner.unsynced.as_ref().is_some_and(|unsynced| unsynced.upto == upto) {
            inner.unsynced = None;
        }
        drop(inner);
        if let Some(order) = self.order.get() {
            (order.synced)();
        }
        Ok(())
    }

    /// As [`Shared::bring`]; then what must not be on disk before the blocks.
    pub(super) fn bring_all(&self) -> Result<(), BlocksError> {
        self.bring()?;
        let after = self.order.get().map_or(Ok(()), |order| (order.after)());
        after.map_err(|why| self.fail(why))
    }

    /// Stops all further writing.
    pub(super) fn fail(&self, why: String) -> BlocksError {
        let is_first = self.lock().failure.replace(why.clone()).is_none();
        if let Some(order) = self.order.get().filter(|_| is_first) {
            (order.failed)(why.clone());
        }
        BlocksError::NotSynced(why)
    }
}

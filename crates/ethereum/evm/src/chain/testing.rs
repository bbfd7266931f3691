//! What tests do to a chain's files: this crate's, and those of crates that are built on it.
//!
//! writes  through another disk; to disk at once, or not at all

use std::sync::Arc;

use hearth_wal::Disk;
use parking_lot::MutexGuard;

use super::speculative::AheadView;
use super::{Chain, ChainError};
use crate::blocks::BlockStore;
use crate::exec::{BlockExecution, execute};
use crate::state::Changes;

impl Chain {
    /// Stops all syncing while this is held, as tests of a slow disk do. The very first block, and one that begins a
    /// new file, cannot be made meanwhile.
    #[doc(hidden)]
    pub fn hold_syncs(&self) -> Option<MutexGuard<'_, ()>> {
        self.inner.store.as_ref().map(BlockStore::hold_syncs)
    }

    /// Syncs the blocks to disk, and what they build on.
    #[doc(hidden)]
    pub fn sync_blocks(&self) -> Result<(), ChainError> {
        self.inner.store.as_ref().map_or(Ok(()), |store| Ok(store.sync()?))
    }

    /// Does the background thread's work after a block, if the chain has no such thread.
    #[doc(hidden)]
    pub fn sync_stores(&self) {
        if let Some(store) = &self.inner.store {
            store.sync_round();
        }
    }

    /// Writes a checkpoint of the newest state.
    #[doc(hidden)]
    pub fn checkpoint(&self) -> Result<(), ChainError> {
        Ok(self.inner.writer()?.checkpoint()?)
    }

    /// Whether the files hold a block of this number, be it shown or not.
    #[doc(hidden)]
    pub fn is_stored(&self, number: u64) -> Result<bool, ChainError> {
        self.inner.store.as_ref().map_or(Ok(false), |store| Ok(store.block(number)?.is_some()))
    }

    /// Has the newest file of blocks written through another disk. The chain must have a folder.
    #[doc(hidden)]
    pub fn put_disk_of_blocks(&self, disk: Arc<dyn Disk>) {
        self.inner.store.as_ref().expect("it has a folder").put_disk(disk);
    }

    /// Has the state's log written through another disk. The chain must have a folder.
    #[doc(hidden)]
    pub fn put_disk_of_state(&self, disk: Arc<dyn Disk>) -> Result<(), ChainError> {
        self.inner.writer()?.put_disk(disk);
        Ok(())
    }

    /// Executes the newest block twice more: on its parent as that is before its hash is known, and as usual. The
    /// parent changed `parent_changes`. Nothing where no block would be executed ahead, or there are not two blocks.
    #[doc(hidden)]
    pub fn execute_ahead(&self, parent_changes: Arc<Changes>) -> Option<(BlockExecution, BlockExecution)> {
        let head = self.head();
        let parent = self.block(head.number().checked_sub(1)?)?;
        let before = self.view_at(parent.number().checked_sub(1)?)?;
        let mut env = self.env_of(&head);
        let usual = execute(&self.view_at(parent.number())?, &env, &head.txs);
        let (mut view, teller) = AheadView::new(before, parent.number(), parent_changes);
        if !view.is_usual() {
            return None;
        }
        view.begin(env.spec);
        env.parent_hash = None;
        // Nobody seals it meanwhile, so a caller that asks for its hash would wait for ever.
        teller.tell(parent.hash);
        let mut ahead = execute(&view, &env, &head.txs);
        view.complete(parent.hash, &mut env, &mut ahead.changes).ok()?;
        Some((ahead, usual))
    }
}

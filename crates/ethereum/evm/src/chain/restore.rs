//! Starts a chain from another node's state instead of its genesis.
//!
//! reads   the block, and the state and the side ledger's set after it, from a snapshot
//! writes  a new chain folder; then what all readers see
//! memory  the restored state, and the old one until it is complete
//! drops   a snapshot that does not have the roots of the block's header: nothing has changed then
//!
//! The headers are trusted: the caller has them from a consensus engine. Everything else must follow from them. A
//! marker file exists while the folder is written. A start that finds the marker removes what was written, and the
//! chain begins with its genesis again.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::B256;

use super::{Chain, ChainError, ChainEvent, Inner, ReadView};
use crate::block::Block;
use crate::blocks::BlocksError;
use crate::genesis::Genesis;
use crate::side::{SideItems, SideSet};
use crate::state::{Entry, State, StateError, StateView};

/// The name of the marker file.
const MARK: &str = "restoring";

/// Why a snapshot is refused.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The chain has executed blocks of its own.
    #[error("a chain that has executed block {0} cannot be restored from a snapshot; use an empty folder")]
    NotNew(u64),
    /// The snapshot does not match the headers.
    #[error("the snapshot is not of its block: {0}")]
    Wrong(String),
    /// The snapshot cannot be written. The chain must be opened again before it is used.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// The newest block, and both ledgers after it, to be read while the chain continues.
pub struct ChainSnapshot {
    /// The newest block when the snapshot was taken.
    pub block: Arc<Block>,
    /// The headers of the block and of those before it that `BLOCKHASH` can reach, newest first.
    pub headers: Vec<Header>,
    /// The state after it.
    pub view: StateView,
    /// The side ledger's set, to which the block's header commits; `None` if the chain has no such ledger.
    pub side: Option<SideItems>,
}

impl Chain {
    /// Returns the number of the first block that is kept besides block zero.
    pub fn first_block(&self) -> u64 {
        self.inner.store.as_ref().map_or_else(|| self.inner.published().oldest(), |store| store.first())
    }

    /// The header of that number: of every block that is kept, and of the 256 before the first of them.
    pub fn header(&self, number: u64) -> Option<Header> {
        let (head, recent) = {
            let published = self.inner.published();
            (published.head().number(), published.block(number))
        };
        match (recent, &self.inner.store) {
            (Some(block), _) => Some(block.header.clone()),
            (None, _) if number == 0 => Some(self.inner.zero.header.clone()),
            (None, Some(store)) if number < head => store.header(number).unwrap_or_else(|error| {
                tracing::error!(%error, "a header cannot be read");
                None
            }),
            _ => None,
        }
    }

    /// Freezes the chain as it is now. Returns `None` if the header does not commit to the side ledger: before Cancun.
    pub fn freeze(&self) -> Result<Option<ChainSnapshot>, ChainError> {
        let state = self.inner.writer()?;
        let (block, view) = self.head_and_view();
        let side = self.side().map(|side| side.items_of_header(block.number(), block.hash)).transpose()?;
        let is_touched = self.side().is_some_and(|side| !side.is_untouched());
        if block.header.parent_beacon_block_root.is_none() && is_touched {
            return Ok(None);
        }
        // Some headers may be on disk only, so release the lock first: blocks need not wait for the reads.
        drop(state);
        let headers = self.headers_to(&block)?;
        Ok(Some(ChainSnapshot { block, headers, view, side }))
    }

    /// Returns the headers of a block and of those before it, newest first, that `BLOCKHASH` can reach and that are
    /// kept.
    fn headers_to(&self, block: &Block) -> Result<Vec<Header>, ChainError> {
        let mut headers = vec![block.header.clone()];
        for number in (0..block.number()).rev().take(crate::state::HASHES - 1) {
            let Some(header) = self.header(number) else { break };
            let parent = headers.last().expect("there is one").parent_hash;
            if header.hash_slow() != parent {
                return Err(ChainError::OtherParent { number: number + 1, parent });
            }
            headers.push(header);
        }
        Ok(headers)
    }

    /// Sets the chain to the block of the first of `headers` (newest first; each is the parent of the one before it),
    /// with the side ledger that its header commits to and the state after it. The chain must not have executed a block
    /// since its genesis, or since an earlier restore.
    pub fn restore(
        &self,
        headers: &[Header],
        block: Block,
        side: Option<Box<dyn SideSet>>,
        entries: impl Iterator<Item = Result<Entry, StateError>>,
    ) -> Result<(), RestoreError> {
        let inner = &*self.inner;
        let mut state = inner.writer()?;
        let head = self.head().number();
        if head != 0 && self.first_block() != head {
            return Err(RestoreError::NotNew(head));
        }
        let wrong = |what: &dyn std::fmt::Display| RestoreError::Wrong(what.to_string());
        if headers.first() != Some(&block.header) || block.number() == 0 {
            return Err(wrong(&"its block is not that of the newest header"));
        }
        let hashes: Vec<B256> = headers.iter().rev().map(Header::hash_slow).collect();
        let genesis = &inner.config.genesis;
        let mut fresh = State::load(None, genesis, block.number(), &hashes, entries).map_err(|error| wrong(&error))?;
        let root = fresh.head().state_root();
        if root != block.header.state_root {
            return Err(wrong(&format!("its state has the root {root}, its header says {}", block.header.state_root)));
        }
        let empty = || self.side().map_or(B256::ZERO, |side| side.set().commitment());
        let wanted = block.header.parent_beacon_block_root.unwrap_or_else(empty);
        let found = side.as_ref().map_or(B256::ZERO, |side| side.commitment());
        if found != wanted {
            return Err(wrong(&format!("its outputs are {found}, its header says {wanted}")));
        }
        if let Err(error) = inner.begin_with(&mut state, &mut fresh, headers, &block, side) {
            inner.fail(error.to_string());
            return Err(error.into());
        }
        state.adopt(fresh);
        *inner.syncer.lock() = state.syncer();
        let (block, view) = (Arc::new(block), state.head());
        let (gone, unaware) = {
            let mut published = inner.published.write();
            let gone = std::mem::replace(&mut *published, ReadView::new(block.clone(), view.clone()));
            (gone, inner.hub.tell(&ChainEvent::Block(block.clone())))
        };
        drop(gone);
        let spec = genesis.spec(block.number() + 1, block.header.timestamp);
        inner.pool.set_spec(spec);
        inner.tell_blobs(&(&*block).into());
        inner.pool.reset(&view, inner.base_fee_after(&(&*block).into()));
        if let Some(side) = inner.side() {
            side.reset_pool();
        }
        unaware.wake();
        Ok(())
    }
}

impl Inner {
    /// Writes everything to the folder, under the mark.
    fn begin_with(
        &self,
        state: &mut State,
        fresh: &mut State,
        headers: &[Header],
        block: &Block,
        side: Option<Box<dyn SideSet>>,
    ) -> Result<(), ChainError> {
        let dir = self.config.dir.as_deref();
        dir.map_or(Ok(()), mark)?;
        if let Some(dir) = dir {
            state.detach();
            let path = dir.join("state");
            fs::remove_dir_all(&path).map_err(failed("remove", &path))?;
            fresh.keep(&path, &self.config.genesis)?;
        }
        side.map_or(Ok(()), |side| side.restore(block))?;
        if let Some(store) = &self.store {
            store.begin_with(block, &headers[1..])?;
        }
        dir.map_or(Ok(()), unmark)
    }
}

fn failed(what: &'static str, path: &Path) -> impl Fn(io::Error) -> ChainError {
    move |source| ChainError::Folder { what, path: path.to_owned(), source }
}

fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn mark(dir: &Path) -> Result<(), ChainError> {
    let path = dir.join(MARK);
    File::create(&path).and_then(|file| file.sync_all()).and_then(|()| sync(dir)).map_err(failed("write", &path))
}

fn unmark(dir: &Path) -> Result<(), ChainError> {
    let path = dir.join(MARK);
    sync(dir).and_then(|()| fs::remove_file(&path)).and_then(|()| sync(dir)).map_err(failed("remove", &path))
}

/// Removes what an interrupted restore has left in the folder.
pub(super) fn clean(dir: &Path, genesis: &Genesis) -> Result<(), ChainError> {
    if !dir.join(MARK).exists() {
        return Ok(());
    }
    let blocks = dir.join("blocks");
    fs::create_dir_all(&blocks).map_err(failed("make the folder", &blocks))?;
    let path = blocks.join("lock");
    let lock = File::create(&path).map_err(failed("lock", &path))?;
    if lock.try_lock().is_err() {
        return Err(BlocksError::InUse(blocks).into());
    }
    for folder in [&blocks, &dir.join("state")].into_iter().filter(|folder| folder.exists()) {
        for entry in fs::read_dir(folder).map_err(failed("read", folder))? {
            let path = entry.map_err(failed("read", folder))?.path();
            if !path.ends_with("lock") {
                fs::remove_file(&path).map_err(failed("remove", &path))?;
            }
        }
    }
    genesis.side.as_ref().map_or(Ok(()), |side| side.kind().clear(dir))?;
    unmark(dir)
}

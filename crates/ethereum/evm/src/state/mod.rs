//! The state: accounts, their storage and code, after each of the last blocks, and the roots that prove it.
//!
//! reads   the genesis, and the changes of each block
//! writes  versions of the state, each with its root
//! memory  the newest state with its tries, and what each of the last 128 blocks replaced, or of more: [`retention`]
//! source  on disk: [`disk`]; in memory: [`version`] for the last blocks' values, [`tries`] for their proofs,
//!         [`version_history`] for values of long ago

mod account;
mod changes;
mod code;
mod disk;
mod dump;
mod error;
mod flat_state;
mod hypothetical;
mod open;
mod persist;
mod proof;
#[cfg(test)]
mod rebuild;
mod retention;
mod revert;
mod sorted;
#[cfg(test)]
mod tests;
mod tries;
mod version;
mod version_history;
mod version_index;
mod view;
mod write_batch;

pub use account::Account;
pub use changes::{AccountChange, Changes};
pub use code::bytecode;
pub use disk::Syncer;
pub use dump::{Dump, Entry};
pub use error::StateError;
pub use hypothetical::HypotheticalState;
pub use open::BlockZero;
pub use persist::FinalCheckpoint;
pub use proof::{AccountProof, StorageProof};
pub use retention::{History, RetentionWindow, StateHandle};
pub use view::{Accounts, StateView};

use std::borrow::Borrow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy_primitives::B256;
use parking_lot::Mutex;

use disk::Checkpoint;
use flat_state::FlatState;
use persist::Persist;
use tries::{PreparedNodes, Tries};
use version::{Hashes, Version};
use version_history::VersionHistory;
use write_batch::{Fingerprint, WriteBatch};

pub use version::HASHES;

/// Number of blocks whose state is kept by default, in memory and on disk.
pub const WINDOW: usize = 128;

/// The newest values, and the tries of all versions.
struct Tables {
    flat: FlatState,
    tries: Tries,
    /// An index of older values, if more versions are kept than can be looked through.
    past: OnceLock<VersionHistory>,
}

/// How much a state has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Number of accounts that exist.
    pub accounts: usize,
    /// Slots of storage that hold something.
    pub slots: usize,
    /// Number of known codes.
    pub codes: usize,
    /// Bytes of the tries of all kept versions.
    pub trie_bytes: usize,
    /// Bytes among them that only older versions need.
    pub retired_bytes: usize,
}

/// The state and its one writer.
pub struct State {
    tables: Arc<Tables>,
    handle: StateHandle,
    /// The last root computed ahead of its commit.
    ahead: Mutex<Option<PreparedCommit>>,
    fingerprint: Fingerprint,
    disk: Option<Persist>,
}

/// A file with a whole state, being read: an iterator of its entries.
pub struct StateFile(Checkpoint);

/// The changes that something was prepared of.
enum ChangesId {
    /// These: nobody can change them while they are shared.
    Shared(Arc<Changes>),
    /// The changes with this fingerprint.
    Hashed(u128),
}

/// The result of changes, computed before they are committed.
struct PreparedCommit {
    /// The version that they change.
    on: Arc<Version>,
    of: ChangesId,
    applied: WriteBatch,
    prepared: PreparedNodes,
}

impl State {
    /// Returns the newest state.
    pub fn head(&self) -> StateView {
        self.handle.head()
    }

    /// The state after block `number`, if it is kept.
    pub fn at(&self, number: u64) -> Option<StateView> {
        self.handle.at(number)
    }

    /// Finds views, from any thread.
    pub fn handle(&self) -> StateHandle {
        self.handle.clone()
    }

    /// How many threads compute a root: as many as there are cores, four at most, until this says otherwise.
    pub fn set_threads(&self, threads: usize) {
        self.tables.tries.set_threads(threads);
    }

    /// Returns the root of the state that `changes` would make of the head, and caches the work for [`State::commit`].
    /// Panics if a change names an unknown code without carrying it.
    pub fn root_after(&self, changes: &Changes) -> B256 {
        self.prepare_ahead(changes, None)
    }

    /// As [`State::root_after`], for [`State::commit_shared`]: that recognizes the same changes without a look at each
    /// of them.
    pub fn root_after_shared(&self, changes: &Arc<Changes>) -> B256 {
        self.prepare_ahead(changes, Some(changes))
    }

    fn prepare_ahead(&self, changes: &Changes, shared: Option<&Arc<Changes>>) -> B256 {
        let ahead = self.prepare(changes, shared).expect("a new code comes with the change that sets it");
        let root = ahead.prepared.root();
        let before = self.ahead.lock().replace(ahead);
        self.forget(before);
        root
    }

    /// Makes `changes` the state after block `number`, which must follow the head; returns the state root. It is
    /// written, so it survives this process' end; a power failure only after [`State::sync`]. If it cannot be written,
    /// nothing changes.
    pub fn commit(&mut self, number: u64, block_hash: B256, changes: impl Borrow<Changes>) -> Result<B256, StateError> {
        self.commit_changes(number, block_hash, changes.borrow(), None)
    }

    /// As [`State::commit`] of the changes that [`State::root_after_shared`] was given, or of others.
    pub fn commit_shared(&mut self, number: u64, block_hash: B256, changes: &Arc<Changes>) -> Result<B256, StateError> {
        self.commit_changes(number, block_hash, changes, Some(changes))
    }

    fn commit_changes(
        &mut self,
        number: u64,
        block_hash: B256,
        changes: &Changes,
        shared: Option<&Arc<Changes>>,
    ) -> Result<B256, StateError> {
        let head = self.head();
        if Some(number) != head.number().checked_add(1) {
            return Err(StateError::NotNext { number, head: head.number() });
        }
        let PreparedCommit { applied, prepared, .. } = self.prepare(changes, shared)?;
        let root = prepared.root();
        self.write_and_advance(number, head.version.hashes().with(block_hash), applied, prepared)?;
        Ok(root)
    }

    /// Goes back to the state after block `number`. Views of the blocks taken back stay valid.
    pub fn rewind(&mut self, number: u64) -> Result<(), StateError> {
        let Some(target) = self.at(number) else {
            let (oldest, head) = (self.handle.oldest(), self.head().number());
            return Err(StateError::NotKept { number, oldest, head });
        };
        self.rewind_to(&target)
    }

    /// Goes back to a state that the caller has held since it was the newest, however long ago that was.
    pub fn rewind_to(&mut self, target: &StateView) -> Result<(), StateError> {
        let head = self.head();
        if !Arc::ptr_eq(&target.tables, &self.tables) {
            let (number, oldest) = (target.number(), self.handle.oldest());
            return Err(StateError::NotKept { number, oldest, head: head.number() });
        }
        if Arc::ptr_eq(&target.version, &head.version) {
            return Ok(());
        }
        // Going back is a version like any other, which sets old values and replaces the current ones.
        let applied = WriteBatch::back(target.version.replaced_since());
        let Tables { flat, tries, .. } = &*self.tables;
        let prepared = tries.prepare(flat, &head.version.top, &applied.accounts, &applied.slots);
        assert_eq!(prepared.root(), target.state_root(), "what was there before has the root that it had");
        self.write_and_advance(target.number(), target.version.hashes().clone(), applied, prepared)
    }

    /// Completes the hashes for `BLOCKHASH` if a start has not found all of them, because the state was set back by
    /// more blocks than its source knows. `hash_of` returns those of older blocks.
    pub fn complete_hashes<E>(&self, hash_of: impl Fn(u64) -> Result<Option<B256>, E>) -> Result<(), E> {
        let window = self.handle.window.read();
        for version in window.views.iter().map(|view| &view.version).filter(|version| version.lacks_hashes()) {
            let mut hashes = version.hashes().to_vec();
            hashes.reverse();
            while hashes.len() < HASHES
                && let Some(number) = version.number.checked_sub(hashes.len() as u64)
                && let Some(hash) = hash_of(number)?
            {
                hashes.push(hash);
            }
            hashes.reverse();
            version.complete(&hashes);
        }
        Ok(())
    }

    /// Returns when every committed block is on disk. See [`State::syncer`] for syncing while the state is written.
    pub fn sync(&self) -> Result<(), StateError> {
        self.syncer().sync()
    }

    /// Returns a handle that brings blocks to disk from any thread, while the next block is executed and committed.
    pub fn syncer(&self) -> Syncer {
        self.disk.as_ref().map_or_else(Syncer::none, |disk| disk.log.syncer())
    }

    /// Writes a checkpoint of the newest state now and waits for it: the next start is quick then. Nothing to do for a
    /// state in memory.
    pub fn checkpoint(&mut self) -> Result<(), StateError> {
        let head = self.head();
        let Some(disk) = &mut self.disk else { return Ok(()) };
        disk.join();
        disk.begin(&head)?;
        disk.join();
        disk.maintain(&head);
        Ok(())
    }

    /// For the end: writes a checkpoint of the oldest of the last [`WINDOW`] views where that makes the next start
    /// quicker, within about `patience`. The next start has all these views.
    pub fn shorten(&mut self, patience: Duration) -> Result<FinalCheckpoint, StateError> {
        let Some(mut disk) = self.disk.take() else { return Ok(FinalCheckpoint::Needless) };
        let last = self.head().number().saturating_sub(WINDOW as u64 - 1);
        let oldest = self.handle.at(last.max(self.handle.oldest())).expect("there is an oldest one");
        let entries = || {
            let (accounts, slots) = self.tables.flat.counts();
            let entries: Box<dyn Iterator<Item = Entry> + Send> = Box::new(revert::RevertedEntries::new(self, &oldest));
            ((accounts + slots) as u64, entries)
        };
        let shortened = disk.shorten(&oldest, entries, patience);
        self.disk = Some(disk);
        shortened
    }

    /// Has the log written through another, as tests of a full disk do.
    pub(crate) fn put_disk(&mut self, disk: Arc<dyn hearth_wal::Disk>) {
        self.disk.as_mut().expect("it is on disk").log.put_disk(disk);
    }

    fn write_and_advance(
        &mut self,
        number: u64,
        hashes: Hashes,
        applied: WriteBatch,
        prepared: PreparedNodes,
    ) -> Result<(), StateError> {
        let block_hash = hashes.last().expect("a block has a hash");
        if let Some(disk) = &mut self.disk {
            let written = disk.append(number, block_hash, prepared.root(), &applied, &self.tables.flat);
            if let Err(error) = written {
                self.tables.tries.discard(prepared);
                return Err(error);
            }
        }
        self.advance(number, hashes, applied, prepared);
        let head = self.head();
        if let Some(disk) = &mut self.disk {
            disk.maintain(&head);
        }
        Ok(())
    }

    /// Makes the prepared changes the newest version.
    fn advance(&self, number: u64, hashes: Hashes, mut applied: WriteBatch, prepared: PreparedNodes) {
        let Tables { flat, tries, past } = &*self.tables;
        let top = tries.install(prepared);
        let version = self.head().version.link(number, hashes, top, applied.replaced(flat));
        if let Some(past) = past.get() {
            past.add(version.clone());
        }
        // Only now: a reader that finds a new value must find the version that knows the old one.
        applied.set(flat);
        self.handle.publish(StateView { tables: self.tables.clone(), version });
        self.trim();
    }

    /// Returns the state's sizes.
    pub fn sizes(&self) -> Sizes {
        let (accounts, slots) = self.tables.flat.counts();
        let (trie_bytes, retired_bytes) = self.tables.tries.size();
        Sizes { accounts, slots, codes: self.tables.flat.codes.count() as usize - 1, trie_bytes, retired_bytes }
    }

    /// Prepares `changes` of the head, or takes the cached work if it is of the same changes. `shared` is where they
    /// are shared.
    fn prepare(&self, changes: &Changes, shared: Option<&Arc<Changes>>) -> Result<PreparedCommit, StateError> {
        let on = self.head().version;
        let known = self.ahead.lock().take();
        match known {
            Some(known) if Arc::ptr_eq(&known.on, &on) && self.is_of(&known.of, changes, shared) => return Ok(known),
            other => self.forget(other),
        }
        let hashed = || ChangesId::Hashed(self.fingerprint.of(changes));
        let of = shared.map_or_else(hashed, |shared| ChangesId::Shared(shared.clone()));
        let Tables { flat, tries, .. } = &*self.tables;
        let applied = WriteBatch::new(&self.tables, &on, changes)?;
        let prepared = tries.prepare(flat, &on.top, &applied.accounts, &applied.slots);
        Ok(PreparedCommit { on, of, applied, prepared })
    }

    /// Whether work that was prepared of `known` is of `changes`.
    fn is_of(&self, known: &ChangesId, changes: &Changes, shared: Option<&Arc<Changes>>) -> bool {
        match (known, shared) {
            (ChangesId::Shared(known), Some(shared)) => Arc::ptr_eq(known, shared),
            (ChangesId::Shared(known), None) => self.fingerprint.of(known) == self.fingerprint.of(changes),
            (ChangesId::Hashed(known), _) => *known == self.fingerprint.of(changes),
        }
    }

    fn forget(&self, ahead: Option<PreparedCommit>) {
        if let Some(PreparedCommit { prepared, .. }) = ahead {
            self.tables.tries.discard(prepared);
        }
    }
}

//! The sidecars of pending transactions, and of those in the newest blocks.
//!
//! reads   verified sidecars; the blocks' transactions, and those that the pool dropped
//! writes  the sidecar of a transaction, and the blob of a hash
//! memory  a bounded number of bytes of sidecars ([`SIDECAR_BYTES`] by default)
//! drops   those of included transactions after [`SIDECAR_BLOCKS`] blocks, or earlier if a new transaction of the pool
//!         needs room; those of transactions that the pool dropped. A pending transaction's sidecar stays
//!
//! Only the pool's journal is on disk: a restart forgets the sidecars of included transactions. Clients that need them
//! longer store them elsewhere, as with Ethereum, whose nodes forget them after 4096 epochs.

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::B256;
use alloy_primitives::map::B256Map;
use parking_lot::Mutex;

use super::SharedSidecar;

/// Bytes of sidecars that are kept: about 480 blobs.
pub const SIDECAR_BYTES: usize = 64 << 20;
/// Blocks after which the sidecars of a block are forgotten.
pub const SIDECAR_BLOCKS: u64 = 4096;

#[derive(Debug)]
struct Entry {
    sidecar: SharedSidecar,
    /// The block that has its transaction; `None` while the transaction is pending.
    block: Option<u64>,
}

#[derive(Debug, Default)]
struct RetainedSidecars {
    entries: B256Map<Entry>,
    /// Block number and hash of included transactions, the oldest first. A transaction that moved to another block is
    /// listed twice; its entry has the block that counts.
    included: VecDeque<(u64, B256)>,
    bytes: usize,
    /// The part of `bytes` that belongs to pending transactions.
    waiting_bytes: usize,
}

impl RetainedSidecars {
    fn remove(&mut self, hash: &B256) {
        if let Some(gone) = self.entries.remove(hash) {
            let bytes = gone.sidecar.size();
            self.bytes -= bytes;
            self.waiting_bytes -= if gone.block.is_none() { bytes } else { 0 };
        }
    }

    /// Removes the oldest sidecar of an included transaction. Returns whether there was one.
    fn remove_oldest(&mut self) -> bool {
        let Some((number, hash)) = self.included.pop_front() else { return false };
        if self.entries.get(&hash).is_some_and(|entry| entry.block == Some(number)) {
            self.remove(&hash);
        }
        true
    }
}

/// A bounded store of sidecars.
#[derive(Debug)]
pub struct Sidecars {
    bytes_max: usize,
    blocks_max: u64,
    kept: Mutex<RetainedSidecars>,
}

impl Default for Sidecars {
    fn default() -> Self {
        Self::new(SIDECAR_BYTES, SIDECAR_BLOCKS)
    }
}

impl Sidecars {
    /// Creates an empty store of at most `bytes_max` bytes. It keeps the sidecars of a block until `blocks_max` more
    /// blocks follow.
    pub fn new(bytes_max: usize, blocks_max: u64) -> Self {
        Self { bytes_max, blocks_max, kept: Mutex::default() }
    }

    /// Stores the sidecar of the transaction `hash`, which is or will be pending. Returns whether there was room
    /// beside the sidecars of other pending ones. It evicts nothing, since the pool may refuse the transaction at no
    /// cost for the sender. Until [`Sidecars::make_room`] the bytes may exceed the limit.
    pub fn put(&self, hash: B256, sidecar: SharedSidecar) -> bool {
        let mut kept = self.kept.lock();
        if kept.entries.contains_key(&hash) {
            return true;
        }
        let bytes = sidecar.size();
        if kept.waiting_bytes + bytes > self.bytes_max {
            return false;
        }
        kept.bytes += bytes;
        kept.waiting_bytes += bytes;
        kept.entries.insert(hash, Entry { sidecar, block: None });
        true
    }

    /// Removes the oldest sidecars of included transactions until the rest is within the bound.
    pub fn make_room(&self) {
        let mut kept = self.kept.lock();
        while kept.bytes > self.bytes_max && kept.remove_oldest() {}
    }

    /// Removes the sidecar of a transaction that is no longer pending, unless a block has it.
    pub fn forget(&self, hash: &B256) {
        let mut kept = self.kept.lock();
        if kept.entries.get(hash).is_some_and(|entry| entry.block.is_none()) {
            kept.remove(hash);
        }
    }

    /// Records that the newest block is `number` and has these transactions.
    pub fn include<'a>(&self, number: u64, hashes: impl IntoIterator<Item = &'a B256>) {
        let mut kept = self.kept.lock();
        for hash in hashes {
            if let Some(entry) = kept.entries.get_mut(hash) {
                let bytes = entry.sidecar.size();
                if entry.block.replace(number).is_none() {
                    kept.waiting_bytes -= bytes;
                }
                kept.included.push_back((number, *hash));
            }
        }
        while kept.included.front().is_some_and(|(block, _)| block.saturating_add(self.blocks_max) < number) {
            kept.remove_oldest();
        }
    }

    /// Removes the sidecars of the blocks after `number`, which were undone.
    pub fn rewind(&self, number: u64) {
        let mut kept = self.kept.lock();
        let is_gone = |entry: &Entry| entry.block.is_some_and(|block| block > number);
        let gone: Vec<B256> = kept.entries.iter().filter(|(_, entry)| is_gone(entry)).map(|(hash, _)| *hash).collect();
        gone.iter().for_each(|hash| kept.remove(hash));
        kept.included.retain(|(block, _)| *block <= number);
    }

    /// Returns the sidecar of a transaction if it is still stored.
    pub fn get(&self, hash: &B256) -> Option<SharedSidecar> {
        self.kept.lock().entries.get(hash).map(|entry| Arc::clone(&entry.sidecar))
    }

    /// Finds a sidecar with the blob of this versioned hash. Returns it with the blob's index.
    pub fn find_blob(&self, versioned: &B256) -> Option<(SharedSidecar, usize)> {
        let all: Vec<SharedSidecar> =
            self.kept.lock().entries.values().map(|entry| Arc::clone(&entry.sidecar)).collect();
        all.into_iter().find_map(|sidecar| {
            let index = sidecar.versioned_hash_index(versioned)?;
            Some((sidecar, index))
        })
    }

    /// Returns the bytes stored.
    pub fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

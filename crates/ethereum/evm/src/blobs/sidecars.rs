//! The sidecars of transactions that wait, and of those in the newest blocks.
//!
//! reads   sidecars that were checked; which transactions blocks hold, and which the pool gave up
//! writes  the sidecar of a transaction, and the blob of a hash
//! memory  at most so many bytes of sidecars ([`SIDECAR_BYTES`] unless another bound is set)
//! drops   those of included transactions after so many blocks ([`SIDECAR_BLOCKS`]), and the oldest of them where a
//!         new one that the pool has taken needs room; those of transactions that the pool gave up. While a transaction
//!         waits its sidecar stays
//!
//! Nothing is on disk but what the pool's journal has: a restart forgets the sidecars of included transactions. Who
//! needs them longer stores them elsewhere, as with Ethereum, whose nodes forget them after 4096 epochs.

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
    /// The block that has its transaction; nothing while that waits.
    block: Option<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: B256Map<Entry>,
    /// Block and transaction of those in blocks, the oldest first. One that came into another block since is here
    /// twice; its entry says which holds.
    included: VecDeque<(u64, B256)>,
    bytes: usize,
    /// Of these, the bytes of what is in no block.
    waiting_bytes: usize,
}

impl Kept {
    fn remove(&mut self, hash: &B256) {
        if let Some(gone) = self.entries.remove(hash) {
            let bytes = gone.sidecar.size();
            self.bytes -= bytes;
            self.waiting_bytes -= if gone.block.is_none() { bytes } else { 0 };
        }
    }

    /// Forgets the oldest of an included transaction; says whether there was one.
    fn remove_oldest(&mut self) -> bool {
        let Some((number, hash)) = self.included.pop_front() else { return false };
        if self.entries.get(&hash).is_some_and(|entry| entry.block == Some(number)) {
            self.remove(&hash);
        }
        true
    }
}

/// The sidecars.
#[derive(Debug)]
pub struct Sidecars {
    bytes_max: usize,
    blocks_max: u64,
    kept: Mutex<Kept>,
}

impl Default for Sidecars {
    fn default() -> Self {
        Self::new(SIDECAR_BYTES, SIDECAR_BLOCKS)
    }
}

impl Sidecars {
    /// None yet, and at most `bytes_max` of them; those of a block for the `blocks_max` blocks after it.
    pub fn new(bytes_max: usize, blocks_max: u64) -> Self {
        Self { bytes_max, blocks_max, kept: Mutex::default() }
    }

    /// Keeps the sidecar of the transaction `hash`, which waits or will; says whether there was room beside those of
    /// others that wait. It drives nothing out: the pool may refuse its transaction, and sending that costs nothing.
    /// Until [`Sidecars::make_room`] there may be more bytes than the bound.
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

    /// Forgets the oldest of included transactions until the rest is within the bound.
    pub fn make_room(&self) {
        let mut kept = self.kept.lock();
        while kept.bytes > self.bytes_max && kept.remove_oldest() {}
    }

    /// Forgets the sidecar of a transaction that waits no longer, unless a block has it.
    pub fn forget(&self, hash: &B256) {
        let mut kept = self.kept.lock();
        if kept.entries.get(hash).is_some_and(|entry| entry.block.is_none()) {
            kept.remove(hash);
        }
    }

    /// The newest block is `number` and has these transactions.
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

    /// The blocks after `number` are no more, nor are their sidecars.
    pub fn rewind(&self, number: u64) {
        let mut kept = self.kept.lock();
        let is_gone = |entry: &Entry| entry.block.is_some_and(|block| block > number);
        let gone: Vec<B256> = kept.entries.iter().filter(|(_, entry)| is_gone(entry)).map(|(hash, _)| *hash).collect();
        gone.iter().for_each(|hash| kept.remove(hash));
        kept.included.retain(|(block, _)| *block <= number);
    }

    /// The sidecar of a transaction, while it is kept.
    pub fn get(&self, hash: &B256) -> Option<SharedSidecar> {
        self.kept.lock().entries.get(hash).map(|entry| Arc::clone(&entry.sidecar))
    }

    /// A sidecar that has the blob of this versioned hash, and which of its blobs that is.
    pub fn find_blob(&self, versioned: &B256) -> Option<(SharedSidecar, usize)> {
        let all: Vec<SharedSidecar> =
            self.kept.lock().entries.values().map(|entry| Arc::clone(&entry.sidecar)).collect();
        all.into_iter().find_map(|sidecar| {
            let index = sidecar.versioned_hash_index(versioned)?;
            Some((sidecar, index))
        })
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }
}

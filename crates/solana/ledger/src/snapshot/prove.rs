//! prove: what a snapshot of somebody else's is of.
//!
//! reads   a snapshot file, all of it
//! writes  the slot and the hash of its bank, computed anew
//! memory  what it holds
//! drops   a snapshot whose accounts are not those of the hash that it names: a [`SnapshotError`]
//! source  `freeze` of `solana-runtime` 4.2 for what the hash covers
//!
//! The hash covers every account, the block's last hash, its signatures, and by its parent's hash all before. Statuses,
//! the stakes of epochs that have begun and samples are not covered, as in the cluster's own snapshots.

use std::path::Path;

use hearth_wire::Hash;

use super::error::{Fault, SnapshotError};
use super::load::{Loaded, load};
use crate::bank_hash::hash_all;
use crate::status_cache::StatusCacheConfig;

/// The slot of a snapshot of the chain of this genesis, and the hash of its bank, which its accounts come to.
///
/// # Errors
/// The file is damaged, of another chain, or not of the state whose hash it names.
pub fn prove(path: &Path, genesis_hash: &Hash) -> Result<(u64, Hash), SnapshotError> {
    // Statuses are read, and not kept.
    let config = StatusCacheConfig { enabled: false, capacity_txns: 0 };
    let Loaded { accounts, manifest, .. } = load(path, genesis_hash, &config)?;
    let last = manifest.last();
    let wrong = |what| SnapshotError::damaged(path, 0, Fault::Content(what));
    let parent = manifest.hashes.of(last.parent).ok_or_else(|| wrong("the parent's hash is not there"))?;
    let (lattice, ..) = hash_all(&accounts);
    let computed = lattice.bank_hash(&parent, last.counts.signatures, &last.blockhash);
    match computed == manifest.bank_hash() {
        true => Ok((last.slot, computed)),
        false => Err(wrong("the accounts are not those of the bank's hash")),
    }
}

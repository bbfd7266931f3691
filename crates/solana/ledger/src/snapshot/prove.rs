//! prove: recomputes the bank hash of a snapshot from another node.
//!
//! reads   a snapshot file, all of it
//! writes  the slot and the recomputed hash of its bank
//! memory  the contents of the file
//! drops   a snapshot whose accounts do not match the hash that it names: a [`SnapshotError`]
//! source  `freeze` of `solana-runtime` 4.2 for what the hash covers
//!
//! The hash covers every account, the block's last hash, its signatures and, through its parent's hash, everything
//! before. It does not cover statuses, performance samples and the stakes of epochs that have begun, as in the
//! cluster's snapshots; nor the hard forks, but for those since the parent: [`prove_on`] compares these.

use std::path::Path;

use hearth_wire::Hash;

use super::error::{Fault, SnapshotError};
use super::load::{LoadedSnapshot, load};
use super::manifest::Manifest;
use crate::bank_hash::hash_all;
use crate::hard_forks::{continued, snapshot_hash_with, union};
use crate::status_cache::StatusCacheConfig;

/// The slot of a snapshot of the chain with this genesis, and its bank hash, which its accounts are verified against.
///
/// # Errors
///
/// The file is damaged, of another chain, or does not match the hash that it names.
pub fn prove(path: &Path, genesis_hash: &Hash) -> Result<(u64, Hash), SnapshotError> {
    let manifest = proved(path, genesis_hash)?;
    Ok((manifest.last().slot, manifest.bank_hash()))
}

/// Like [`prove`], for a chain with these hard forks; a slot is named as often as it counts. The chain that continues
/// from the snapshot must have exactly these. A snapshot of an older version does not name its hard forks.
///
/// # Errors
///
/// As [`prove`], or the snapshot has other hard forks.
pub fn prove_on(path: &Path, genesis_hash: &Hash, hard_forks: &[u64]) -> Result<(u64, Hash), SnapshotError> {
    let manifest = proved(path, genesis_hash)?;
    let slot = manifest.last().slot;
    let expected = union(hard_forks, &[]);
    let agrees = |found: &[(u64, u64)]| continued(slot, found, hard_forks).is_ok_and(|forks| forks == expected);
    match manifest.hard_forks.as_deref().is_none_or(agrees) {
        true => Ok((slot, manifest.bank_hash())),
        false => Err(SnapshotError::damaged(path, 0, Fault::Content("it has other hard forks than the chain"))),
    }
}

/// The manifest of a snapshot whose accounts are those of its hash.
fn proved(path: &Path, genesis_hash: &Hash) -> Result<Manifest, SnapshotError> {
    // Statuses are parsed but not kept.
    let config = StatusCacheConfig { enabled: false, capacity_txns: 0 };
    let LoadedSnapshot { accounts, manifest, .. } = load(path, genesis_hash, &config)?;
    let last = manifest.last();
    let wrong = |what| SnapshotError::damaged(path, 0, Fault::Content(what));
    let parent = manifest.hashes.of(last.parent).ok_or_else(|| wrong("the parent's hash is not there"))?;
    let (lattice, ..) = hash_all(&accounts);
    let plain = lattice.bank_hash(&parent, last.counts.signatures, &last.blockhash);
    let forks = manifest.hard_forks.as_deref().unwrap_or_default();
    match snapshot_hash_with(forks, last.slot, last.parent, plain) == manifest.bank_hash() {
        true => Ok(manifest),
        false => Err(wrong("the accounts are not those of the bank's hash")),
    }
}

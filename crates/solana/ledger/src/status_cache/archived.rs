//! archived: what became of transactions before the archive from which the ledger started.
//!
//! reads   the keys in an archive: 20 bytes of a message's hash or of a signature
//! writes  nothing
//! memory  about 80 B a key, two keys per transaction of the archive's last 300 blocks
//! drops   everything, once no block to come is near enough to the archive's: [`STATUS_RETENTION_BLOCKS`] after it
//! source  `status_cache.rs` of `solana-runtime` 4.2, `hash_raw_message` of `solana-message` 4 for the keys
//!
//! The cache's own keys are made under a secret, so they cannot be made from an archive, which holds neither messages
//! nor whole signatures. A second table therefore holds the archive's keys as they are, and each message is looked up
//! there, too, until the table is dropped.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::{Hash, Signature, Txn};

use super::{LandedStatus, STATUS_RETENTION_BLOCKS, StatusCache, height32};
use crate::error::PackedStatus;

/// Bytes of a key.
const KEY_SIZE: usize = 20;

/// The result of a transaction, and for how long it is known.
#[derive(Clone, Copy, Debug)]
struct Entry {
    slot: u64,
    status: PackedStatus,
    /// The height from which it counts as forgotten.
    dead_from: u32,
}

/// The keys of an archive.
#[derive(Debug, Default)]
pub(crate) struct ArchivedStatuses {
    /// By the byte of a hash or signature at which these keys begin.
    tables: BTreeMap<usize, HashMap<[u8; KEY_SIZE], Entry>>,
    /// The height from which all are forgotten.
    dead_from: u32,
}

impl ArchivedStatuses {
    /// Adds a key, which is in its hash or signature from byte `at` on. Its transaction landed in the block of this
    /// height, which is below 2^32 - 300.
    pub(crate) fn add(&mut self, at: usize, key: [u8; KEY_SIZE], landed: LandedStatus, height: u64) {
        let dead_from = height32(height + STATUS_RETENTION_BLOCKS);
        let entry = Entry { slot: landed.slot, status: PackedStatus::pack(landed.result), dead_from };
        self.tables.entry(at).or_default().insert(key, entry);
        self.dead_from = self.dead_from.max(dead_from);
    }

    /// The result of the transaction with this message hash or signature.
    fn find(&self, bytes: &[u8], now: u64) -> Option<LandedStatus> {
        let find = |(at, table): (&usize, &HashMap<[u8; KEY_SIZE], Entry>)| {
            let key: &[u8; KEY_SIZE] = bytes.get(*at..)?.first_chunk()?;
            table.get(key).copied().filter(|entry| u64::from(entry.dead_from) > now)
        };
        let entry = self.tables.iter().find_map(find)?;
        Some(LandedStatus { slot: entry.slot, result: entry.status.unpack() })
    }
}

impl StatusCache {
    /// Takes the keys of the archive from which the ledger starts.
    pub(crate) fn set_archived(&self, archived: ArchivedStatuses) {
        if self.enabled {
            self.archived_until.store(archived.dead_from, Relaxed);
            *self.archived.write() = Some(archived);
        }
    }

    /// Whether there are keys of an archive: a snapshot of the cache would lack them.
    pub(crate) fn has_archived(&self) -> bool {
        self.archived_until.load(Relaxed) != 0
    }

    /// Whether a transaction's message is among those of the archive.
    #[inline]
    pub(crate) fn is_archived(&self, txn: &Txn<'_>, now: u64) -> bool {
        self.has_archived() && self.find_archived(&message_hash(txn.message()), now).is_some()
    }

    /// The archive's result of the transaction with this first signature.
    pub(super) fn archived_status(&self, signature: &Signature, now: u64) -> Option<LandedStatus> {
        if self.has_archived() { self.find_archived(signature, now) } else { None }
    }

    fn find_archived(&self, bytes: &[u8], now: u64) -> Option<LandedStatus> {
        self.archived.read().as_ref()?.find(bytes, now)
    }

    /// Drops the keys of the archive if they are of no use to the block of this height, the lowest that may begin.
    pub(crate) fn forget_archived(&self, lowest: u64) {
        let until = self.archived_until.load(Relaxed);
        if until != 0 && u64::from(until) <= lowest {
            self.archived_until.store(0, Relaxed);
            *self.archived.write() = None;
        }
    }
}

/// The hash by which the cluster knows a message.
pub(crate) fn message_hash(message: &[u8]) -> Hash {
    *blake3::Hasher::new().update(b"solana-tx-message-v1").update(message).finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::StatusCacheConfig;
    use super::*;
    use crate::builders::transfer;
    use crate::error::TransactionError;
    use crate::genesis::funded_account_key;

    #[test]
    fn archived_keys_are_found_until_they_are_old() {
        let bytes = [1, 2, 3].map(|n| transfer(&funded_account_key(0), &[9; 32], n, &[7; 32]));
        let txns = bytes.each_ref().map(|bytes| Txn::parse(bytes).unwrap());
        let failed = LandedStatus { slot: 70, result: Err(TransactionError::AccountNotFound) };
        let mut archived = ArchivedStatuses::default();
        // Keys of two kinds: from the first byte on, and from byte 11 on.
        for (n, at) in [(0, 0), (1, 11)] {
            let hash = message_hash(txns[n].message());
            archived.add(at, *hash[at..].first_chunk().unwrap(), failed, 60);
            archived.add(at, *txns[n].first_signature()[at..].first_chunk().unwrap(), failed, 60);
        }
        let cache = StatusCache::new(&StatusCacheConfig { enabled: true, capacity_txns: 0 });
        assert!(!cache.has_archived() && !cache.has_landed(&txns[0], 61));
        cache.set_archived(archived);
        assert!(cache.has_archived());
        for (n, is_there) in [(0, true), (1, true), (2, false)] {
            assert_eq!(cache.is_archived(&txns[n], 61), is_there, "{n}");
            assert_eq!(cache.has_landed(&txns[n], 61), is_there, "{n}");
            assert_eq!(cache.status(txns[n].first_signature(), 359), is_there.then_some(failed), "{n}");
            assert_eq!(cache.status(txns[n].first_signature(), 360), None, "{n}");
        }
        cache.forget_archived(359);
        assert!(cache.has_archived());
        cache.forget_archived(360);
        assert!(!cache.has_archived() && cache.archived.read().is_none());
        assert!(!cache.is_archived(&txns[0], 61));
    }

    #[test]
    fn a_cache_that_is_off_takes_no_archive() {
        let mut archived = ArchivedStatuses::default();
        archived.add(0, [1; KEY_SIZE], LandedStatus { slot: 3, result: Ok(()) }, 3);
        let cache = StatusCache::new(&StatusCacheConfig { enabled: false, capacity_txns: 0 });
        cache.set_archived(archived);
        assert!(!cache.has_archived());
    }
}

//! undo: removes the entries of undone blocks, so that their transactions may land again.
//!
//! reads   the keys of the transactions that landed in a block
//! writes  the tables: those entries become free
//! memory  24 B per transaction of a block that may be undone
//!
//! An entry whose blockhash has expired is free. At a lower height it would count again. So while blocks may be undone,
//! an entry becomes free only once it has expired for the lowest block that may begin ([`StatusCache::keep_from`]).

use std::sync::atomic::Ordering::Relaxed;

use super::{Bucket, Claim, Shard, SignatureBucket, SignatureKey, StatusCache, height32};

/// The cache keys of a block's transactions.
#[derive(Debug, Default)]
pub(crate) struct LandedKeys {
    messages: Vec<u128>,
    signatures: Vec<u64>,
}

impl LandedKeys {
    /// Adds a landed transaction.
    pub(crate) fn push(&mut self, claim: Claim, signature: SignatureKey) {
        self.messages.push(claim.0);
        self.signatures.push(signature.0);
    }

    pub(crate) fn shrink(&mut self) {
        self.messages.shrink_to_fit();
        self.signatures.shrink_to_fit();
    }

    /// Moves everything out of `other`.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.messages.append(&mut other.messages);
        self.signatures.append(&mut other.signatures);
    }
}

impl StatusCache {
    /// Keeps everything that is alive at `height`, until a greater height is given.
    pub(crate) fn keep_from(&self, height: u64) {
        self.kept_from.store(height32(height), Relaxed);
        self.forget_archived(height);
    }

    /// Removes the entries of blocks from height `now` on; `now` is the height of the next block. The shards are locked
    /// one after the other, so there must be no concurrent claims.
    pub(crate) fn take_back(&self, landed: &LandedKeys, now: u64) {
        if !self.enabled {
            return;
        }
        landed.messages.iter().for_each(|key| self.release(Claim(*key), now));
        let now = height32(now);
        for key in &landed.signatures {
            let mut table = Shard::of(&self.signatures, SignatureBucket::home(*key));
            if let Some((at, way)) = table.find(*key, now) {
                table.keep(self.cut.load(Relaxed));
                table.buckets[at].dead_from()[way] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LandedStatus, MessageKey, STATUS_RETENTION_BLOCKS, StatusCacheConfig};
    use super::*;
    use crate::seed::Seed;

    fn cache() -> StatusCache {
        StatusCache::with_seed(&StatusCacheConfig { enabled: true, capacity_txns: 0 }, Seed::random())
    }

    fn signature(n: u64) -> [u8; 64] {
        let mut signature = [7; 64];
        signature[..8].copy_from_slice(&n.to_le_bytes());
        signature
    }

    /// Lands messages `from` to `to` with the previous blockhash, at height `now`.
    fn land(cache: &StatusCache, (from, to): (u64, u64), now: u64) -> LandedKeys {
        let mut landed = LandedKeys::default();
        for n in from..to {
            let claim = cache.claim(MessageKey(u128::from(n) * 0x1234_5678_9abc_def1_1111), now - 1, now).unwrap();
            landed.push(claim, cache.record(&signature(n), LandedStatus { slot: now, result: Ok(()) }, now));
        }
        landed
    }

    #[test]
    fn only_undone_transactions_may_land_again() {
        let cache = cache();
        let key = |n: u64| MessageKey(u128::from(n) * 0x1234_5678_9abc_def1_1111);
        let kept = land(&cache, (0, 5_000), 10);
        let mut undone = land(&cache, (5_000, 9_000), 11);
        undone.append(&mut land(&cache, (9_000, 10_000), 12));
        cache.take_back(&undone, 11);
        assert_eq!(kept.messages.len(), 5_000);
        for n in 0..10_000 {
            let found = cache.status(&signature(n), 11).map(|status| status.slot);
            assert_eq!(found, (n < 5_000).then_some(10), "{n}");
            assert_eq!(cache.claim(key(n), 10, 11).is_some(), n >= 5_000, "{n}");
        }
    }

    #[test]
    fn expired_entries_count_at_lower_heights() {
        let cache = cache();
        cache.keep_from(160);
        land(&cache, (0, 20_000), 10);
        // The claims are dead from 161 on; later entries would replace them.
        let many = land(&cache, (50_000, 90_000), 10 + STATUS_RETENTION_BLOCKS);
        cache.take_back(&many, 160);
        for n in 0..20_000 {
            let message = MessageKey(u128::from(n) * 0x1234_5678_9abc_def1_1111);
            assert_eq!(cache.claim(message, 100, 160), None, "{n}");
            assert!(cache.status(&signature(n), 160).is_some(), "{n}");
        }
        let before = cache.memory_bytes();
        cache.keep_from(2_000);
        (2_000..2_010).for_each(|height| drop(land(&cache, (height * 1_000, height * 1_000 + 1_000), height)));
        assert_eq!(cache.memory_bytes(), before, "entries that have expired at every height make room");
    }
}

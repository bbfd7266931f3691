//! snapshot_view: a consistent copy of the cache at a slot's end, read while transactions continue to land, and its
//! restore.
//!
//! reads   the tables, one shard at a time
//! writes  the entries of a snapshot
//! memory  one shard's copy, and those of shards written since the cut and not read yet: at most the cache once more,
//!         and only until the reader has passed
//! drops   entries that are dead at the cut
//! source  copy on write, with a shard as the page
//!
//! Nothing is claimed between the end of a slot and the start of the next. A cut is made there, by raising the cache's
//! number. A writer to a shard with an older number copies the shard first.

use std::sync::atomic::Ordering::Relaxed;

use super::{Bucket, LandedStatus, MessageBucket, SHARDS, Shard, SignatureBucket, StatusCache, Table, height32};
use crate::error::PackedStatus;
use crate::seed::Seed;

/// A landed message, which may not land again before its blockhash expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimEntry {
    key: u128,
    dead_from: u32,
}

/// The result of a landed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatusEntry {
    key: u64,
    slot: u64,
    status: u64,
    dead_from: u32,
}

impl ClaimEntry {
    const SIZE: usize = 20;

    /// Whether it counts in the block of this height.
    pub(crate) fn is_alive(&self, height: u64) -> bool {
        u64::from(self.dead_from) > height
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..].copy_from_slice(&self.dead_from.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let (key, dead_from) = bytes.split_first_chunk().expect("16 of 20 bytes");
        let dead_from = u32::from_le_bytes(dead_from.try_into().expect("4 of 20 bytes"));
        Self { key: u128::from_le_bytes(*key), dead_from }
    }

    /// Decodes all entries in `bytes`.
    pub(crate) fn all(bytes: &[u8]) -> Option<impl Iterator<Item = Self>> {
        let (entries, rest) = bytes.as_chunks();
        rest.is_empty().then(|| entries.iter().map(Self::from_bytes))
    }
}

impl StatusEntry {
    const SIZE: usize = 28;

    /// Whether it counts in the block of this height.
    pub(crate) fn is_alive(&self, height: u64) -> bool {
        u64::from(self.dead_from) > height
    }

    /// The key of its signature, and where and how that landed.
    pub(crate) fn landed(&self) -> (u64, LandedStatus) {
        (self.key, LandedStatus { slot: self.slot, result: PackedStatus::from_bits(self.status).unpack() })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (at, word) in [self.key, self.slot, self.status].iter().enumerate() {
            bytes[8 * at..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[24..].copy_from_slice(&self.dead_from.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |at: usize| u64::from_le_bytes(*bytes[8 * at..].first_chunk().expect("8 of 28 bytes"));
        let dead_from = u32::from_le_bytes(*bytes.last_chunk().expect("4 of 28 bytes"));
        Self { key: word(0), slot: word(1), status: word(2), dead_from }
    }

    /// Decodes all entries in `bytes`.
    pub(crate) fn all(bytes: &[u8]) -> Option<impl Iterator<Item = Self>> {
        let (entries, rest) = bytes.as_chunks();
        rest.is_empty().then(|| entries.iter().map(Self::from_bytes))
    }
}

impl<B: Bucket> Table<B> {
    /// Before a write: preserves the buckets for the cut, unless they were read since.
    #[inline]
    pub(super) fn keep(&mut self, cut: u32) {
        if self.cut != cut {
            self.kept = Some(self.buckets.clone());
            self.cut = cut;
        }
    }

    /// The buckets at the cut.
    fn at_cut(&mut self, cut: u32) -> Vec<B> {
        self.keep(cut);
        self.kept.take().unwrap_or_default()
    }
}

/// Visits the entries of a shard's copy that are alive at `now`.
fn alive<B: Bucket>(buckets: Vec<B>, now: u32, mut show: impl FnMut(B::Key, B::Value, u32)) {
    for mut bucket in buckets {
        for way in 0..B::WAYS {
            let dead_from = bucket.dead_from()[way];
            if dead_from > now {
                show(bucket.key(way), bucket.value(way), dead_from);
            }
        }
    }
}

impl StatusCache {
    /// Shards to read after a cut, numbered from 0.
    pub(crate) const SHARDS: usize = SHARDS;

    /// Makes a cut: until each shard is read, its current contents are preserved. To be called between two slots.
    pub(crate) fn cut(&self) {
        self.cut.fetch_add(1, Relaxed);
    }

    /// The contents of a shard at the last cut that are alive in the block of height `now`.
    pub(crate) fn read_cut(&self, shard: usize, now: u64) -> (Vec<ClaimEntry>, Vec<StatusEntry>) {
        let (cut, now) = (self.cut.load(Relaxed), height32(now));
        let (mut claims, mut statuses) = (vec![], vec![]);
        let messages = self.messages[shard].lock().at_cut(cut);
        alive::<MessageBucket>(messages, now, |key, (), dead_from| claims.push(ClaimEntry { key, dead_from }));
        let signatures = self.signatures[shard].lock().at_cut(cut);
        alive::<SignatureBucket>(signatures, now, |key, (slot, status), dead_from| {
            statuses.push(StatusEntry { key, slot, status: status.to_bits(), dead_from });
        });
        (claims, statuses)
    }

    /// Abandons a cut: nothing is preserved for it any more.
    pub(crate) fn forget_cut(&self) {
        fn forget<B>(shards: &[Shard<B>], cut: u32)
        where
            B: Bucket,
        {
            for shard in shards {
                let mut table = shard.lock();
                (table.cut, table.kept) = (cut, None);
            }
        }
        let cut = self.cut.load(Relaxed);
        forget(&self.messages, cut);
        forget(&self.signatures, cut);
    }

    /// The seed of the keys.
    pub(crate) fn seed(&self) -> Seed {
        self.seed
    }

    /// Restores a claim from a snapshot; `now` is the height of its block.
    pub(crate) fn restore_claim(&self, entry: &ClaimEntry, now: u64) {
        if self.enabled {
            let mut table = Shard::of(&self.messages, MessageBucket::home(entry.key));
            table.insert(entry.key, (), height32(now), entry.dead_from);
        }
    }

    /// Restores a status from a snapshot.
    pub(crate) fn restore_status(&self, entry: &StatusEntry, now: u64) {
        if self.enabled {
            let value = (entry.slot, PackedStatus::from_bits(entry.status));
            let mut table = Shard::of(&self.signatures, SignatureBucket::home(entry.key));
            table.insert(entry.key, value, height32(now), entry.dead_from);
        }
    }
}

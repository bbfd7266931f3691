//! The status cache: ensures that a transaction lands only once, and answers queries for its result.
//!
//! reads   messages, signatures, block heights
//! writes  claims on messages; the slot and result of signatures
//! memory  about 71 B per transaction: 21 B per message and 26 B per signature, with tables sized to be two thirds
//!         full; allocated and touched at start for [`StatusCacheConfig::capacity_txns`], and doubled shard by shard if
//!         many more are alive
//! drops   a claim when its blockhash expires; a status [`STATUS_RETENTION_BLOCKS`] blocks after its transaction
//!         landed; both when their block is undone (undo.rs). What an archive said has its own table (archived.rs)
//! source  the rule of `solana-runtime` 4.2: keyed by the message, so that another signature of the same message does
//!         not land, and by the signature for queries
//!
//! A bucket is a pair of cache lines. Entries are never removed: each carries the block height from which it is dead,
//! and a dead entry counts as free. So a claim is one read and one write of one bucket, and expiry costs nothing. A
//! full bucket spills entries into the next and records until which height a search must continue there.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use hearth_crypto::prefetch::prefetch;
use hearth_mutation::{Mutation, active};
use hearth_wire::{Signature, Txn};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::blockhash::last_valid_block_height;
use crate::error::{PackedStatus, TransactionError};
use crate::seed::Seed;

mod archived;
mod snapshot_view;
mod undo;

pub(crate) use archived::{ArchivedStatuses, message_hash};
pub use snapshot_view::{ClaimEntry, StatusEntry};
pub(crate) use undo::LandedKeys;

/// Blocks for which a transaction's result is available, counted from the one in which it landed.
pub const STATUS_RETENTION_BLOCKS: u64 = 300;

/// Shards of each of the two tables; a power of two.
const SHARDS: usize = 256;
/// A search over more buckets than this makes the shard grow.
const MAX_SPILL_BUCKETS: usize = 24;

/// The configuration of a status cache.
#[derive(Clone, Copy, Debug)]
pub struct StatusCacheConfig {
    /// If off, nothing is remembered: a transaction may land twice, and statuses are unknown.
    pub enabled: bool,
    /// Landed transactions for which memory is allocated at start, about 71 B each: those of 151 blocks for the claims,
    /// of [`STATUS_RETENTION_BLOCKS`] for the statuses. If more are alive the tables grow.
    pub capacity_txns: usize,
}

impl Default for StatusCacheConfig {
    fn default() -> Self {
        Self { enabled: true, capacity_txns: 1 << 20 }
    }
}

/// The result of a transaction that landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LandedStatus {
    /// The slot in which it landed.
    pub slot: u64,
    /// Success, or why it failed.
    pub result: Result<(), TransactionError>,
}

/// The right to commit one message, from [`StatusCache::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim(u128);

/// The cache's key of a message, from [`StatusCache::expect`].
#[derive(Clone, Copy, Debug)]
pub struct MessageKey(u128);

/// The cache's key of a signature, from [`StatusCache::record`].
#[derive(Clone, Copy, Debug)]
pub struct SignatureKey(u64);

/// One bucket of a table: entries, each with the height from which it is dead.
trait Bucket: Copy {
    const EMPTY: Self;
    type Key: Copy + PartialEq;
    type Value: Copy;
    const WAYS: usize;

    fn dead_from(&mut self) -> &mut [u32];
    fn key(&self, way: usize) -> Self::Key;
    fn value(&self, way: usize) -> Self::Value;
    fn set(&mut self, way: usize, key: Self::Key, value: Self::Value);
    /// The height from which no entry that spilled out of this bucket is alive.
    fn spilled_until(&mut self) -> &mut u32;
    /// The bits that select the bucket.
    fn home(key: Self::Key) -> u64;

    fn find(&mut self, key: Self::Key, now: u32) -> Option<usize> {
        (0..Self::WAYS).find(|&way| self.key(way) == key && self.dead_from()[way] > now)
    }
}

/// Messages that landed: 6 entries of 128 bits.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct MessageBucket {
    keys: [u128; 6],
    dead_from: [u32; 6],
    spilled_until: u32,
}

/// Signatures that landed: 5 entries of 64 bits, each with slot and result.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct SignatureBucket {
    keys: [u64; 5],
    /// The status in the low 56 bits, above it bits 32 to 39 of the slot.
    status: [u64; 5],
    slot_low: [u32; 5],
    dead_from: [u32; 5],
    spilled_until: u32,
}

const _: () = assert!(size_of::<MessageBucket>() == 128 && size_of::<SignatureBucket>() == 128);

impl Bucket for MessageBucket {
    const EMPTY: Self = Self { keys: [0; 6], dead_from: [0; 6], spilled_until: 0 };
    type Key = u128;
    type Value = ();
    const WAYS: usize = 6;

    fn dead_from(&mut self) -> &mut [u32] {
        &mut self.dead_from
    }
    fn key(&self, way: usize) -> u128 {
        self.keys[way]
    }
    fn value(&self, _way: usize) {}
    fn set(&mut self, way: usize, key: u128, (): ()) {
        self.keys[way] = key;
    }
    fn spilled_until(&mut self) -> &mut u32 {
        &mut self.spilled_until
    }
    fn home(key: u128) -> u64 {
        key as u64
    }
}

impl Bucket for SignatureBucket {
    const EMPTY: Self = Self { keys: [0; 5], status: [0; 5], slot_low: [0; 5], dead_from: [0; 5], spilled_until: 0 };
    type Key = u64;
    type Value = (u64, PackedStatus);
    const WAYS: usize = 5;

    fn dead_from(&mut self) -> &mut [u32] {
        &mut self.dead_from
    }
    fn key(&self, way: usize) -> u64 {
        self.keys[way]
    }
    fn value(&self, way: usize) -> (u64, PackedStatus) {
        let slot = u64::from(self.slot_low[way]) | (self.status[way] >> PackedStatus::BITS) << 32;
        (slot, PackedStatus::from_bits(self.status[way]))
    }
    fn set(&mut self, way: usize, key: u64, (slot, status): (u64, PackedStatus)) {
        assert!(slot < 1 << 40, "slot {slot} is past what the status cache can hold");
        self.keys[way] = key;
        self.slot_low[way] = slot as u32;
        self.status[way] = (slot >> 32) << PackedStatus::BITS | status.to_bits();
    }
    fn spilled_until(&mut self) -> &mut u32 {
        &mut self.spilled_until
    }
    fn home(key: u64) -> u64 {
        key
    }
}

/// The buckets of a shard.
#[derive(Debug)]
struct Table<B> {
    buckets: Vec<B>,
    /// The last cut (snapshot_view.rs) for which the buckets were read or are kept below.
    cut: u32,
    /// The buckets at the time of that cut.
    kept: Option<Vec<B>>,
}

impl<B: Bucket> Table<B> {
    fn new(buckets: usize) -> Self {
        Self { buckets: vec![B::EMPTY; buckets], cut: 0, kept: None }
    }

    /// The buckets in which `key` may be, starting with its home.
    fn path(&self, key: B::Key) -> impl Iterator<Item = usize> + use<B> {
        let count = self.buckets.len();
        // The low bits selected the shard; the next 32 are scaled to the number of buckets.
        let home = ((u64::from((B::home(key) >> SHARDS.ilog2()) as u32) * count as u64) >> 32) as usize;
        (0..count).map(move |step| if home + step < count { home + step } else { home + step - count })
    }

    /// Prefetches the first bucket in which `key` is searched.
    #[inline]
    fn expect(&self, key: B::Key) {
        if let Some(bucket) = self.path(key).next().and_then(|home| self.buckets.get(home)) {
            prefetch(bucket);
        }
    }

    fn find(&mut self, key: B::Key, now: u32) -> Option<(usize, usize)> {
        for at in self.path(key) {
            let bucket = &mut self.buckets[at];
            if let Some(way) = bucket.find(key, now) {
                return Some((at, way));
            }
            if *bucket.spilled_until() <= now {
                return None;
            }
        }
        None
    }

    /// Inserts an entry that is alive until before `dead_from`, replacing one that is dead at `now`. The key must not
    /// be alive in the table.
    fn insert(&mut self, key: B::Key, value: B::Value, now: u32, dead_from: u32) {
        for (spilled, at) in self.path(key).enumerate() {
            if spilled > MAX_SPILL_BUCKETS {
                break;
            }
            let bucket = &mut self.buckets[at];
            if let Some(way) = bucket.dead_from().iter().position(|&dead| dead <= now) {
                bucket.set(way, key, value);
                bucket.dead_from()[way] = dead_from;
                return;
            }
            let until = bucket.spilled_until();
            *until = dead_from.max(*until);
        }
        self.grow(now);
        self.insert(key, value, now, dead_from);
    }

    fn grow(&mut self, now: u32) {
        let doubled = vec![B::EMPTY; self.buckets.len() * 2];
        for mut bucket in std::mem::replace(&mut self.buckets, doubled) {
            for way in 0..B::WAYS {
                let dead_from = bucket.dead_from()[way];
                if dead_from > now {
                    self.insert(bucket.key(way), bucket.value(way), now, dead_from);
                }
            }
        }
    }
}

#[derive(Debug)]
#[repr(align(128))]
struct Shard<B>(Mutex<Table<B>>);

impl<B: Bucket> Shard<B> {
    fn of(shards: &[Self], home: u64) -> MutexGuard<'_, Table<B>> {
        shards[home as usize % SHARDS].lock()
    }

    // A panic while the lock is held (an assertion on the slot) leaves the table unchanged.
    fn lock(&self) -> MutexGuard<'_, Table<B>> {
        self.0.lock()
    }

    /// Shards that hold `entries` at two thirds of their capacity.
    fn all(entries: usize) -> Box<[Self]> {
        let buckets = (entries * 3 / 2).div_ceil(B::WAYS * SHARDS).max(1);
        (0..SHARDS).map(|_| Self(Mutex::new(Table::new(buckets)))).collect()
    }
}

/// The cache of recently landed transactions.
#[derive(Debug)]
pub struct StatusCache {
    seed: Seed,
    enabled: bool,
    messages: Box<[Shard<MessageBucket>]>,
    signatures: Box<[Shard<SignatureBucket>]>,
    /// Number of the last snapshot cut.
    cut: AtomicU32,
    /// Entries alive at this height are not overwritten; `u32::MAX` if no block is ever undone.
    kept_from: AtomicU32,
    /// The statuses of the archive from which the ledger started.
    archived: RwLock<Option<ArchivedStatuses>>,
    /// The height from which that is forgotten; 0 if there is none.
    archived_until: AtomicU32,
}

/// Heights are stored in 32 bits, enough for 54 years of blocks.
fn height32(height: u64) -> u32 {
    u32::try_from(height).expect("the status cache holds block heights below 2^32")
}

impl StatusCache {
    /// An empty cache; allocates and touches its memory.
    pub fn new(config: &StatusCacheConfig) -> Self {
        Self::with_seed(config, Seed::random())
    }

    /// An empty cache that makes its keys under this seed.
    pub(crate) fn with_seed(config: &StatusCacheConfig, seed: Seed) -> Self {
        let capacity = if config.enabled { config.capacity_txns } else { 0 };
        Self {
            seed,
            enabled: config.enabled,
            messages: Shard::all(capacity),
            signatures: Shard::all(capacity),
            cut: AtomicU32::new(0),
            kept_from: AtomicU32::new(u32::MAX),
            archived: RwLock::new(None),
            archived_until: AtomicU32::new(0),
        }
    }

    /// The height at which an entry must be dead to make room for one of the height `now`.
    #[inline]
    fn free_at(&self, now: u32) -> u32 {
        now.min(self.kept_from.load(Relaxed))
    }

    /// Whether the cache is enabled.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Prefetches and returns the key of a transaction's message. The tables exceed any cache, so a caller with many
    /// messages should call this for all of them first, and wait for memory once instead of once per message.
    #[inline]
    pub fn expect(&self, txn: &Txn<'_>) -> MessageKey {
        self.expect_message(txn.message())
    }

    #[inline]
    fn expect_message(&self, message: &[u8]) -> MessageKey {
        if !self.enabled {
            return MessageKey(0);
        }
        let key = self.seed.message(message);
        Shard::of(&self.messages, MessageBucket::home(key)).expect(key);
        MessageKey(key)
    }

    /// The same for signatures that are about to be recorded.
    #[inline]
    pub fn expect_record(&self, signature: &Signature) {
        if self.enabled {
            let key = self.seed.signature(signature);
            Shard::of(&self.signatures, SignatureBucket::home(key)).expect(key);
        }
    }

    /// Claims a transaction's message for the block of height `now`: `None` if it has landed or is claimed.
    /// `blockhash_height` is the height of the block whose hash it names.
    #[inline]
    pub fn claim(&self, message: MessageKey, blockhash_height: u64, now: u64) -> Option<Claim> {
        self.claim_until(message, last_valid_block_height(blockhash_height) + 1, now)
    }

    #[inline]
    fn claim_until(&self, MessageKey(key): MessageKey, dead_from: u64, now: u64) -> Option<Claim> {
        if !self.enabled {
            return Some(Claim(0));
        }
        let (now, dead_from) = (height32(now), height32(dead_from));
        let dead_from = if active(Mutation::ForgottenStatus) { now + 1 } else { dead_from };
        let mut table = Shard::of(&self.messages, MessageBucket::home(key));
        if table.find(key, now).is_some() {
            return None;
        }
        table.keep(self.cut.load(Relaxed));
        table.insert(key, (), self.free_at(now), dead_from);
        Some(Claim(key))
    }

    /// Whether the transaction's message has landed or is claimed.
    pub fn has_landed(&self, txn: &Txn<'_>, now: u64) -> bool {
        if self.is_archived(txn, now) {
            return true;
        }
        let key = self.seed.message(txn.message());
        self.enabled && Shard::of(&self.messages, MessageBucket::home(key)).find(key, height32(now)).is_some()
    }

    /// Releases a claim: the transaction did not land and may be retried.
    pub fn release(&self, claim: Claim, now: u64) {
        if !self.enabled {
            return;
        }
        let mut table = Shard::of(&self.messages, MessageBucket::home(claim.0));
        if let Some((at, way)) = table.find(claim.0, height32(now)) {
            table.keep(self.cut.load(Relaxed));
            table.buckets[at].dead_from()[way] = 0;
        }
    }

    /// Records the result of a transaction that landed in `slot`, at height `now`.
    #[inline]
    pub fn record(&self, signature: &Signature, status: LandedStatus, now: u64) -> SignatureKey {
        if !self.enabled {
            return SignatureKey(0);
        }
        let key = self.seed.signature(signature);
        let value = (status.slot, PackedStatus::pack(status.result));
        let (now, dead_from) = (height32(now), height32(now + STATUS_RETENTION_BLOCKS));
        let mut table = Shard::of(&self.signatures, SignatureBucket::home(key));
        table.keep(self.cut.load(Relaxed));
        table.insert(key, value, self.free_at(now), dead_from);
        SignatureKey(key)
    }

    /// The result of the transaction with this first signature, if it landed recently.
    pub fn status(&self, signature: &Signature, now: u64) -> Option<LandedStatus> {
        self.recorded(signature, now).or_else(|| self.archived_status(signature, now))
    }

    fn recorded(&self, signature: &Signature, now: u64) -> Option<LandedStatus> {
        let key = self.seed.signature(signature);
        let mut table = Shard::of(&self.signatures, SignatureBucket::home(key));
        let (at, way) = table.find(key, height32(now))?;
        let (slot, status) = table.buckets[at].value(way);
        Some(LandedStatus { slot, result: status.unpack() })
    }

    /// Current size of the tables in bytes.
    pub fn memory_bytes(&self) -> usize {
        let messages = self.messages.iter().map(|shard| shard.lock().buckets.len());
        let signatures = self.signatures.iter().map(|shard| shard.lock().buckets.len());
        128 * (messages.sum::<usize>() + signatures.sum::<usize>())
    }
}

#[cfg(test)]
mod tests;

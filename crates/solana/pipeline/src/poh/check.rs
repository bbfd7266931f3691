//! check: verifies that the entries of a block form a proof-of-history chain by the cluster's rules.
//!
//! reads   the entries of one block, and the last hash of its parent
//! writes  the block's last hash, or the broken rule
//! memory  the leaves of one entry's Merkle tree
//! source  `solana-ledger` 4.2 `verify_ticks` and `block_error.rs`, `solana-entry` 4.2 `entry.rs`
//!
//! Ticks are counted before anything is hashed, so that a block cannot demand more hashing than a valid block needs.
//! The check of an entry starts from the hash that the previous entry claims, so any number of threads can share the
//! hashing ([`verify_hashes`] over parts of the block).

use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_wire::entry::Entry;

/// Maximum hashes that one entry of a low-power block may claim. The cluster sets no limit, but a block must not keep
/// us hashing forever.
pub const LOW_POWER_HASHES_MAX: u64 = 1 << 20;

/// Why a block is invalid. The variants are the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// An entry's hash does not follow from the previous one.
    #[error("invalid hash of entry {entry}")]
    InvalidEntryHash {
        /// Its index in the block.
        entry: usize,
    },
    /// The block has its last tick but was not marked as ended.
    #[error("the last tick is not marked as the last")]
    InvalidLastTick,
    /// The block was marked as ended before its last tick.
    #[error("too few ticks: {found} of {expected}")]
    TooFewTicks {
        /// Number of ticks in the block.
        found: u64,
        /// Required number of ticks.
        expected: u64,
    },
    /// The block has more ticks than allowed.
    #[error("too many ticks: {found} of {expected}")]
    TooManyTicks {
        /// Number of ticks in the block.
        found: u64,
        /// Required number of ticks.
        expected: u64,
    },
    /// A tick ends after a wrong number of hashes, or has none of its own.
    #[error("tick {tick} has a wrong number of hashes")]
    InvalidTickHashCount {
        /// Index of the tick, from 0.
        tick: u64,
    },
    /// Transactions follow the last tick.
    #[error("entries after the last tick")]
    TrailingEntry,
}

impl BlockError {
    /// The variant's name in the cluster's sources.
    pub fn cluster_name(&self) -> &'static str {
        match self {
            Self::InvalidEntryHash { .. } => "InvalidEntryHash",
            Self::InvalidLastTick => "InvalidLastTick",
            Self::TooFewTicks { .. } => "TooFewTicks",
            Self::TooManyTicks { .. } => "TooManyTicks",
            Self::InvalidTickHashCount { .. } => "InvalidTickHashCount",
            Self::TrailingEntry => "TrailingEntry",
        }
    }
}

/// Counts the ticks and hashes of a block as its entries arrive.
#[derive(Clone, Copy, Debug)]
pub struct TickCheck {
    hashes_per_tick: Option<u64>,
    tick_count: u64,
    ticks: u64,
    hashes: u64,
}

impl TickCheck {
    /// For a block of `tick_count` ticks: ticks per slot times the number of slots since the parent.
    pub fn new(hashes_per_tick: Option<u64>, tick_count: u64) -> Self {
        Self { hashes_per_tick, tick_count, ticks: 0, hashes: 0 }
    }

    /// Checks the next entries of the block; `ends` means that they include the last shred of the slot.
    ///
    /// # Errors
    /// Every [`BlockError`] except an invalid hash. The block is invalid from then on.
    pub fn entries(&mut self, entries: &[Entry<'_>], ends: bool) -> Result<(), BlockError> {
        self.counts(entries.iter().map(|entry| (entry.num_hashes, entry.is_tick())), ends)
    }

    /// Like [`TickCheck::entries`], from each entry's number of hashes and whether it is a tick.
    ///
    /// # Errors
    /// The errors of [`TickCheck::entries`].
    pub fn counts(
        &mut self,
        mut entries: impl DoubleEndedIterator<Item = (u64, bool)> + Clone,
        ends: bool,
    ) -> Result<(), BlockError> {
        let (expected, ticks) = (self.tick_count, entries.clone().filter(|(_, is_tick)| *is_tick).count() as u64);
        let found = self.ticks + ticks;
        if found > expected {
            return Err(BlockError::TooManyTicks { found, expected });
        }
        if found < expected && ends {
            return Err(BlockError::TooFewTicks { found, expected });
        }
        if found == expected {
            if entries.clone().next_back().is_some_and(|(_, is_tick)| !is_tick) {
                return Err(BlockError::TrailingEntry);
            }
            if !ends {
                return Err(BlockError::InvalidLastTick);
            }
        }
        entries.try_for_each(|(num_hashes, is_tick)| self.count(num_hashes, is_tick))?;
        // The cluster requires a remaining hash in the current tick only where a batch ends.
        let full = self.hashes_per_tick.is_some_and(|expected| self.hashes >= expected);
        if full { Err(BlockError::InvalidTickHashCount { tick: self.ticks }) } else { Ok(()) }
    }

    fn count(&mut self, num_hashes: u64, is_tick: bool) -> Result<(), BlockError> {
        self.hashes = self.hashes.saturating_add(num_hashes);
        let wrong = match self.hashes_per_tick {
            Some(expected) => is_tick && (num_hashes == 0 || self.hashes != expected),
            None => num_hashes > LOW_POWER_HASHES_MAX,
        };
        if wrong {
            return Err(BlockError::InvalidTickHashCount { tick: self.ticks });
        }
        if is_tick {
            self.ticks += 1;
            self.hashes = 0;
        }
        Ok(())
    }
}

/// An entry without its transactions: its effect on the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEntry {
    /// Hashes since the previous entry, including the one that mixes in.
    pub num_hashes: u64,
    /// The Merkle root of its transactions' signatures; `None` for a tick.
    pub mixin: Option<[u8; 32]>,
    /// The chain's hash after them, as the block claims.
    pub hash: [u8; 32],
}

/// Verifies the hashes of entries in bounded steps.
#[derive(Clone, Debug)]
pub struct ChainCheck {
    hash: [u8; 32],
    entry: usize,
    /// Hashes computed so far for that entry.
    hashed: u64,
}

impl ChainCheck {
    /// Creates a check of entries that follow the hash `start`.
    pub fn new(start: [u8; 32]) -> Self {
        Self { hash: start, entry: 0, hashed: 0 }
    }

    /// Computes at most `limit` hashes, at least 1. Returns `None` while hashes remain; then success if all `entries`
    /// are valid, or the index of the first invalid one.
    pub fn step(&mut self, entries: &[ChainEntry], limit: u64) -> Option<Result<(), usize>> {
        let mut left = limit;
        while let Some(entry) = entries.get(self.entry) {
            let chained = entry.num_hashes.saturating_sub(entry.mixin.is_some().into());
            let now = left.min(chained - self.hashed);
            self.hash = sha256_chain(self.hash, now);
            self.hashed += now;
            left -= now;
            if left == 0 {
                return None;
            }
            left -= 1;
            if let Some(mixin) = entry.mixin {
                self.hash = sha256_mix(self.hash, mixin);
            }
            if self.hash != entry.hash {
                return Some(Err(self.entry));
            }
            self.entry += 1;
            self.hashed = 0;
        }
        Some(Ok(()))
    }
}

/// Verifies that each of `entries` follows from its predecessor, the first one from `start`. Returns the last hash.
/// `first` is the index of `entries[0]` in the block, for the error.
///
/// # Errors
/// [`BlockError::InvalidEntryHash`].
pub fn verify_hashes(start: &[u8; 32], entries: &[Entry<'_>], first: usize) -> Result<[u8; 32], BlockError> {
    let mut tree = MixinTree::default();
    let mut before = *start;
    for (entry, index) in entries.iter().zip(first..) {
        if hash_of(&before, entry, &mut tree) != *entry.hash {
            return Err(BlockError::InvalidEntryHash { entry: index });
        }
        before = *entry.hash;
    }
    Ok(before)
}

/// Verifies a whole block that follows `start_hash`: ticks, hashes per tick and every hash, on up to `threads` threads.
/// Returns the block's last hash, which is its blockhash. `tick_count` is ticks per slot times the number of slots
/// since the parent.
///
/// # Errors
/// The first broken rule; ticks are counted before hashes are checked.
pub fn verify_entries(
    start_hash: &[u8; 32],
    entries: &[Entry<'_>],
    hashes_per_tick: Option<u64>,
    tick_count: u64,
    threads: usize,
) -> Result<[u8; 32], BlockError> {
    TickCheck::new(hashes_per_tick, tick_count).entries(entries, true)?;
    let parts = split(entries, threads.max(1));
    if parts.len() <= 1 {
        return verify_hashes(start_hash, entries, 0);
    }
    let start_of = |first: usize| if first == 0 { start_hash } else { entries[first - 1].hash };
    let check = |&(first, end): &(usize, usize)| verify_hashes(start_of(first), &entries[first..end], first);
    let verdicts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = parts.iter().map(|part| scope.spawn(move || check(part))).collect();
        threads.into_iter().map(|t| t.join().expect("hashing does not panic")).collect()
    });
    verdicts.into_iter().try_fold(*start_hash, |_, verdict| verdict)
}

/// Splits a block into at most `count` ranges of roughly equal numbers of hashes.
fn split(entries: &[Entry<'_>], count: usize) -> Vec<(usize, usize)> {
    let work = |e: &Entry<'_>| e.num_hashes.saturating_add(4 * e.transaction_count() as u64);
    let total = entries.iter().map(work).fold(0, u64::saturating_add);
    let share = (total / count as u64).max(1);
    let (mut parts, mut first, mut sum) = (vec![], 0, 0u64);
    for (index, entry) in entries.iter().enumerate() {
        sum = sum.saturating_add(work(entry));
        if sum >= share && parts.len() + 1 < count {
            parts.push((first, index + 1));
            (first, sum) = (index + 1, 0);
        }
    }
    if first < entries.len() {
        parts.push((first, entries.len()));
    }
    parts
}

/// Computes the expected hash of an entry. One without hashes and transactions leaves the hash unchanged.
fn hash_of(before: &[u8; 32], entry: &Entry<'_>, tree: &mut MixinTree) -> [u8; 32] {
    if entry.is_tick() {
        return sha256_chain(*before, entry.num_hashes);
    }
    let signatures = entry.transactions().flat_map(|txn| txn.signatures());
    signatures.for_each(|signature| tree.push(signature));
    sha256_mix(sha256_chain(*before, entry.num_hashes.saturating_sub(1)), tree.take_root())
}

//! check: whether the entries of a block are a proof-of-history chain, by the cluster's rules.
//!
//! reads   the entries of one block and the hash of the block before
//! writes  the block's last hash, or the rule that is broken
//! memory  the leaves of one entry's Merkle tree
//! drops   nothing
//! source  `solana-ledger` 4.2 `verify_ticks` and `block_error.rs`, `solana-entry` 4.2 `entry.rs`
//!
//! The ticks are counted before anything is hashed, so that a block cannot ask for more hashing than a block has.
//! Each entry depends on the hash that the one before claims, not on computing it: any number of threads can share
//! the hashing ([`verify_hashes`] over parts of the block).

use hearth_crypto::merkle::MixinTree;
use hearth_crypto::sha256::{sha256_chain, sha256_mix};
use hearth_wire::entry::Entry;

/// Hashes that one entry of a low-power block may claim: the cluster has no limit there, and a block must not keep
/// us hashing for ever.
pub const LOW_POWER_HASHES_MAX: u64 = 1 << 20;

/// Why a block is not one. The variants are the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// An entry's hash does not follow from the one before.
    #[error("invalid hash of entry {entry}")]
    InvalidEntryHash {
        /// Its index in the block.
        entry: usize,
    },
    /// The block's last tick is there but the block was not marked as ended.
    #[error("the last tick is not marked as the last")]
    InvalidLastTick,
    /// The block was marked as ended but ticks are missing.
    #[error("too few ticks: {found} of {expected}")]
    TooFewTicks {
        /// Ticks there are.
        found: u64,
        /// Ticks there should be.
        expected: u64,
    },
    /// More ticks than a block has.
    #[error("too many ticks: {found} of {expected}")]
    TooManyTicks {
        /// Ticks there are.
        found: u64,
        /// Ticks there should be.
        expected: u64,
    },
    /// A tick does not end its number of hashes.
    #[error("tick {tick} has a wrong number of hashes")]
    InvalidTickHashCount {
        /// The tick, from 0.
        tick: u64,
    },
    /// Transactions after the last tick.
    #[error("entries after the last tick")]
    TrailingEntry,
}

/// Counts the ticks of a block as its entries come in, and their hashes.
#[derive(Clone, Copy, Debug)]
pub struct TickCheck {
    hashes_per_tick: Option<u64>,
    tick_count: u64,
    ticks: u64,
    hashes: u64,
}

impl TickCheck {
    /// For a block of `tick_count` ticks: a slot's, times the slots since its parent's.
    pub fn new(hashes_per_tick: Option<u64>, tick_count: u64) -> Self {
        Self { hashes_per_tick, tick_count, ticks: 0, hashes: 0 }
    }

    /// Takes the next entries of the block; `ends` says that the last shred of the slot is among them.
    ///
    /// # Errors
    /// Every [`BlockError`] but an invalid hash. After one the block is lost.
    pub fn entries(&mut self, entries: &[Entry<'_>], ends: bool) -> Result<(), BlockError> {
        self.counts(entries.iter().map(|entry| (entry.num_hashes, entry.is_tick())), ends)
    }

    /// The same, of each entry's hashes and whether it is a tick.
    ///
    /// # Errors
    /// Those of [`TickCheck::entries`].
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
        // Only where a batch ends does the cluster ask that the tick under way has a hash left.
        let full = self.hashes_per_tick.is_some_and(|expected| self.hashes >= expected);
        if full { Err(BlockError::InvalidTickHashCount { tick: self.ticks }) } else { Ok(()) }
    }

    fn count(&mut self, num_hashes: u64, is_tick: bool) -> Result<(), BlockError> {
        self.hashes = self.hashes.saturating_add(num_hashes);
        let wrong = match self.hashes_per_tick {
            Some(expected) => is_tick && self.hashes != expected,
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

/// An entry without its transactions: what it does to the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainEntry {
    /// Hashes since the entry before, the mixing one included.
    pub num_hashes: u64,
    /// The Merkle root of its transactions' signatures; `None` of a tick.
    pub mixin: Option<[u8; 32]>,
    /// The chain's hash after them, as the block has it.
    pub hash: [u8; 32],
}

/// Checks the hashes of entries in pieces.
#[derive(Clone, Debug)]
pub struct ChainCheck {
    hash: [u8; 32],
    entry: usize,
    /// Hashes of that entry so far.
    hashed: u64,
}

impl ChainCheck {
    /// For entries that go on from `start`.
    pub fn new(start: [u8; 32]) -> Self {
        Self { hash: start, entry: 0, hashed: 0 }
    }

    /// Hashes at most `limit` times. `None` while there is more to hash; then whether all `entries` are right, or the
    /// index of the first that is not. `limit` is at least 1.
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

/// Checks that each of `entries` follows from the one before it, the first from `start`. Returns the last hash.
/// `first` is the index in the block of the first of them, for the error.
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

/// Checks a whole block that goes on from `start_hash`: ticks, hashes per tick, and every hash, on up to `threads`
/// threads. Returns the block's last hash, which is its blockhash. `tick_count` is a slot's ticks times the slots
/// since the parent's.
///
/// # Errors
/// The first rule that is broken: ticks are counted before hashes are checked.
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

/// Splits a block into at most `count` ranges of about equally many hashes.
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

/// The hash that an entry should have. One without hashes and without transactions changes nothing.
fn hash_of(before: &[u8; 32], entry: &Entry<'_>, tree: &mut MixinTree) -> [u8; 32] {
    if entry.is_tick() {
        return sha256_chain(*before, entry.num_hashes);
    }
    let signatures = entry.transactions().flat_map(|txn| txn.signatures());
    signatures.for_each(|signature| tree.push(signature));
    sha256_mix(sha256_chain(*before, entry.num_hashes.saturating_sub(1)), tree.take_root())
}

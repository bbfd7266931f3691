//! The versions of the state: the newest is the tables themselves, each older one is what changed since.
//!
//! reads   any thread, without a lock: a version knows the next one, and what that one replaced
//! writes  only the writer, by linking the newest version to its next
//! memory  for each version in use, and each after it, what it replaced: 65 B an account, 84 B a slot; and less than 1
//!         KiB, mostly the hashes of the newest blocks
//! source  the rule that makes it right: the writer links the next version *before* it touches the tables, a reader
//!         looks into the tables *before* it looks for next versions. A reader of a new value then finds the old one

use std::sync::{Arc, OnceLock};

use alloy_primitives::{Address, B256};

use super::flat_state::{FlatState, SlimAccount, SlotKey, Word};
use super::tries::TrieTop;

/// Hashes of blocks that a contract can ask for.
pub const HASHES: usize = 256;

/// Maximum number of hashes that successive versions do not share.
const APART: usize = 32;

/// The hashes of the last [`HASHES`] blocks. Successive versions share most of them, since a version in use keeps all
/// later ones in memory.
#[derive(Clone, Default)]
pub(crate) struct Hashes {
    /// The hashes before those of `newer`, newest last. It may have more than are needed.
    older: Arc<[B256]>,
    /// Fewer than [`APART`] hashes, newest last.
    newer: Arc<[B256]>,
}

impl Hashes {
    /// Takes the last ones of `hashes`, which has the newest last.
    pub(crate) fn of(hashes: &[B256]) -> Self {
        Self { older: hashes[hashes.len().saturating_sub(HASHES)..].into(), newer: Arc::default() }
    }

    /// Returns these hashes and that of the next block.
    pub(crate) fn with(&self, hash: B256) -> Self {
        if self.newer.len() + 1 < APART {
            let newer = self.newer.iter().copied().chain([hash]).collect();
            return Self { older: self.older.clone(), newer };
        }
        Self::of(&[&self.older[..], &self.newer, &[hash]].concat())
    }

    /// Returns all hashes, newest last.
    pub(crate) fn to_vec(&self) -> Vec<B256> {
        let all = [&self.older[..], &self.newer].concat();
        all[all.len().saturating_sub(HASHES)..].to_vec()
    }

    /// Returns the newest hash.
    pub(crate) fn last(&self) -> Option<B256> {
        self.newer.last().or(self.older.last()).copied()
    }

    /// Returns the hash of the block this many before the newest.
    fn back(&self, back: usize) -> Option<B256> {
        let from_newest = self.newer.iter().rev().chain(self.older.iter().rev());
        from_newest.take(HASHES).nth(back).copied()
    }
}

/// The values that a version replaced, sorted by key.
#[derive(Default)]
pub(crate) struct ReplacedValues {
    pub(crate) accounts: Box<[(Address, Option<SlimAccount>)]>,
    pub(crate) slots: Box<[(SlotKey, Word)]>,
}

impl ReplacedValues {
    fn bytes(&self) -> u64 {
        (size_of_val(&*self.accounts) + size_of_val(&*self.slots)) as u64
    }
}

/// The state after one block.
pub(crate) struct Version {
    pub(crate) number: u64,
    pub(crate) block_hash: B256,
    pub(crate) state_root: B256,
    /// The top levels of the tries.
    pub(crate) top: TrieTop,
    /// The hashes of the last blocks, this one's last.
    hashes: Hashes,
    /// The completed list, if `hashes` did not have all of them at first.
    completed: OnceLock<Hashes>,
    pub(crate) replaced: ReplacedValues,
    /// Memory of all versions from the first to this one, in bytes.
    bytes: u64,
    next: OnceLock<Arc<Version>>,
}

impl Version {
    /// Creates the first version: the tables as they are.
    pub(crate) fn first(number: u64, block_hash: B256, hashes: Hashes, top: TrieTop) -> Arc<Self> {
        let (replaced, completed, next) = Default::default();
        Arc::new(Self { number, block_hash, state_root: top.root(), top, hashes, completed, replaced, bytes: 0, next })
    }

    /// Links the next version after this one, which must be the newest, and returns it. `hashes` are those of the last
    /// blocks, its own last.
    pub(crate) fn link(&self, number: u64, hashes: Hashes, top: TrieTop, replaced: ReplacedValues) -> Arc<Self> {
        let block_hash = hashes.last().expect("a block has a hash");
        let own = size_of::<Self>() + (APART / 2 + HASHES / APART) * size_of::<B256>();
        let bytes = self.bytes + own as u64 + replaced.bytes();
        let (state_root, (completed, next)) = (top.root(), Default::default());
        let next = Arc::new(Self { number, block_hash, state_root, top, hashes, completed, replaced, bytes, next });
        assert!(self.next.set(next.clone()).is_ok(), "only the newest version is given a next one");
        next
    }

    /// Returns the next version, if there is one.
    pub(crate) fn next(&self) -> Option<Arc<Self>> {
        self.next.get().cloned()
    }

    /// Returns whether no version follows this one.
    pub(crate) fn is_newest(&self) -> bool {
        self.next.get().is_none()
    }

    /// The hashes of the last blocks, this version's last.
    pub(crate) fn hashes(&self) -> &Hashes {
        self.completed.get().unwrap_or(&self.hashes)
    }

    /// Returns whether hashes are missing that a contract could ask for.
    pub(crate) fn lacks_hashes(&self) -> bool {
        (self.hashes().to_vec().len() as u64) < (self.number + 1).min(HASHES as u64)
    }

    /// Adds the missing hashes. `hashes` are those of the last blocks, this version's last.
    pub(crate) fn complete(&self, hashes: &[B256]) {
        assert!(hashes.ends_with(&self.hashes.to_vec()), "what is known stays");
        // Only the opening of the state does so, and only once.
        let _ = self.completed.set(Hashes::of(hashes));
    }

    /// Returns the memory of the versions after `older`, including this one's, in bytes.
    pub(crate) fn bytes_since(&self, older: &Self) -> u64 {
        self.bytes.saturating_sub(older.bytes)
    }

    /// Returns the hash of block `number`, if it is one of the last 256.
    pub(crate) fn hash_of(&self, number: u64) -> Option<B256> {
        self.hashes().back(usize::try_from(self.number.checked_sub(number)?).ok()?)
    }

    /// Returns the account in this version.
    pub(crate) fn account(&self, flat: &FlatState, address: &Address) -> Option<SlimAccount> {
        let newest = flat.account(address);
        let was = self.later().find_map(|version| find(&version.replaced.accounts, address));
        was.unwrap_or(newest)
    }

    /// Returns many accounts in this version, in their order.
    pub(crate) fn accounts(&self, flat: &FlatState, addresses: &[Address]) -> Vec<Option<SlimAccount>> {
        let mut found = flat.accounts_of(addresses.iter());
        // The tables were read before, as in `account`. The newest version has no later ones to search.
        if self.next.get().is_some() {
            for (address, found) in addresses.iter().zip(&mut found) {
                if let Some(was) = self.later().find_map(|version| find(&version.replaced.accounts, address)) {
                    *found = was;
                }
            }
        }
        found
    }

    /// Returns the slot's value in this version.
    pub(crate) fn slot(&self, flat: &FlatState, key: &SlotKey) -> Word {
        let newest = flat.slot(key);
        let was = self.later().find_map(|version| find(&version.replaced.slots, key));
        was.unwrap_or(newest)
    }

    /// Returns all keys that later versions replaced, with their values in this version, sorted by key.
    pub(crate) fn replaced_since(&self) -> ReplacedValues {
        let (mut accounts, mut slots) = (Vec::new(), Vec::new());
        for version in self.later() {
            accounts.extend_from_slice(&version.replaced.accounts);
            slots.extend_from_slice(&version.replaced.slots);
        }
        // The sort is stable: of equal keys the earliest version comes first, which has the value of this version.
        accounts.sort_by_key(|(address, _)| *address);
        accounts.dedup_by_key(|(address, _)| *address);
        slots.sort_by_key(|(key, _)| *key);
        slots.dedup_by_key(|(key, _)| *key);
        ReplacedValues { accounts: accounts.into(), slots: slots.into() }
    }

    fn later(&self) -> impl Iterator<Item = &Version> {
        std::iter::successors(self.next.get(), |version| version.next.get()).map(AsRef::as_ref)
    }
}

pub(crate) fn find<K: Ord, V: Copy>(sorted: &[(K, V)], key: &K) -> Option<V> {
    sorted.binary_search_by(|(other, _)| other.cmp(key)).ok().map(|at| sorted[at].1)
}

impl Drop for Version {
    /// Drops the versions in a loop: recursion over a long chain would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(version) = next {
            next = Arc::into_inner(version).and_then(|mut last| last.next.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U256;

    #[test]
    fn each_version_keeps_its_values() {
        let flat = FlatState::new();
        let (a, b) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let of = |balance: u64| Some(SlimAccount::new(U256::from(balance), 0, 0));
        let zero = Version::first(0, B256::ZERO, Hashes::of(&[B256::ZERO]), TrieTop::default());
        flat.set_accounts(&[(a, of(1))]);
        let replaced = ReplacedValues { accounts: Box::new([(a, of(1))]), slots: Box::default() };
        let one = zero.link(1, zero.hashes().with(B256::repeat_byte(1)), TrieTop::default(), replaced);
        assert_eq!(zero.account(&flat, &a), of(1), "linked, and the tables are still old");
        flat.set_accounts(&[(a, of(2))]);
        let replaced = ReplacedValues { accounts: Box::new([(a, of(2)), (b, None)]), slots: Box::default() };
        let two = one.link(2, one.hashes().with(B256::repeat_byte(2)), TrieTop::default(), replaced);
        flat.set_accounts(&[(a, None), (b, of(9))]);
        assert_eq!([&zero, &one, &two].map(|version| version.account(&flat, &a)), [of(1), of(2), None]);
        assert_eq!([&zero, &one, &two].map(|version| version.account(&flat, &b)), [None, None, of(9)]);
        let both = [&zero, &one, &two].map(|version| version.accounts(&flat, &[b, a]));
        assert_eq!(both, [[None, of(1)], [None, of(2)], [of(9), None]]);
        assert_eq!(*zero.replaced_since().accounts, [(a, of(1)), (b, None)]);
        assert_eq!(two.hash_of(1), Some(B256::repeat_byte(1)));
        assert_eq!((two.hash_of(3), zero.hash_of(1)), (None, None));
    }

    #[test]
    fn neighbours_share_most_hashes_and_have_the_last_256() {
        let hash = |number: u64| B256::from(alloy_primitives::U256::from(number));
        let (mut hashes, mut all) = (Hashes::default(), Vec::new());
        for number in 0..1000 {
            let before = hashes.clone();
            hashes = hashes.with(hash(number));
            all.push(hash(number));
            let last = &all[all.len().saturating_sub(HASHES)..];
            assert_eq!((&hashes.to_vec()[..], hashes.last()), (last, Some(hash(number))));
            for back in [0, 1, 31, 32, 100, 254, 255, 256, 300] {
                assert_eq!(hashes.back(back), last.iter().nth_back(back).copied(), "{number} {back}");
            }
            assert!(Arc::ptr_eq(&hashes.older, &before.older) || number % APART as u64 == APART as u64 - 1);
        }
        assert_eq!(Hashes::of(&all).to_vec(), hashes.to_vec());
    }

    #[test]
    fn a_long_chain_is_dropped_without_a_long_stack() {
        let first = Version::first(0, B256::ZERO, Hashes::default(), TrieTop::default());
        let mut newest = first.clone();
        for number in 1..200_000 {
            newest =
                newest.link(number, first.hashes().with(B256::ZERO), TrieTop::default(), ReplacedValues::default());
        }
        drop(newest);
        drop(first);
    }
}

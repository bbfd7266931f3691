//! The versions of the state: the newest is the tables themselves, each older one is what changed since.
//!
//! reads   any thread, without a lock: a version knows the next one, and what that one replaced
//! writes  the writer alone, by giving the newest version its next
//! memory  for each version that somebody holds, and each after it, what it replaced: 65 B an account, 84 B a slot
//! source  the rule that makes it right: the writer links the next version *before* it touches the tables, a reader
//!         looks into the tables *before* it looks for next versions. Whoever has read a new value finds the old one

use std::sync::{Arc, OnceLock};

use alloy_primitives::{Address, B256};

use super::flat::{Flat, Slim, SlotKey, Word};
use super::tries::Top;

/// Hashes of blocks that a contract can ask for.
pub const HASHES: usize = 256;

/// What a version replaced, sorted by key: each value as it was before.
#[derive(Default)]
pub(crate) struct Replaced {
    pub(crate) accounts: Box<[(Address, Option<Slim>)]>,
    pub(crate) slots: Box<[(SlotKey, Word)]>,
}

/// The state after one block.
pub(crate) struct Version {
    pub(crate) number: u64,
    pub(crate) block_hash: B256,
    pub(crate) state_root: B256,
    /// The top of its tries.
    pub(crate) top: Top,
    /// The hashes of the last blocks, this one's last.
    hashes: Arc<[B256]>,
    /// The same and more of them, where not all were known at first.
    completed: OnceLock<Arc<[B256]>>,
    pub(crate) replaced: Replaced,
    next: OnceLock<Arc<Version>>,
}

impl Version {
    /// The first version: the tables as they are.
    pub(crate) fn first(number: u64, block_hash: B256, hashes: Arc<[B256]>, top: Top) -> Arc<Self> {
        let (replaced, completed, next) = Default::default();
        Arc::new(Self { number, block_hash, state_root: top.root(), top, hashes, completed, replaced, next })
    }

    /// Links the version that comes after this one, which must be the newest, and gives it. `hashes` are those of
    /// the blocks before it.
    pub(crate) fn link(&self, number: u64, hash: B256, hashes: &[B256], top: Top, replaced: Replaced) -> Arc<Self> {
        let from = (hashes.len() + 1).saturating_sub(HASHES);
        let hashes = hashes[from..].iter().copied().chain([hash]).collect();
        let (state_root, (completed, next)) = (top.root(), Default::default());
        let next = Arc::new(Self { number, block_hash: hash, state_root, top, hashes, completed, replaced, next });
        assert!(self.next.set(next.clone()).is_ok(), "only the newest version is given a next one");
        next
    }

    /// The version after this one, if there is one.
    pub(crate) fn next(&self) -> Option<Arc<Self>> {
        self.next.get().cloned()
    }

    /// The hashes of the last blocks, this version's last.
    pub(crate) fn hashes(&self) -> &Arc<[B256]> {
        self.completed.get().unwrap_or(&self.hashes)
    }

    /// Whether there are more hashes that a contract could ask for.
    pub(crate) fn lacks_hashes(&self) -> bool {
        (self.hashes().len() as u64) < (self.number + 1).min(HASHES as u64)
    }

    /// Learns the hashes of the last blocks, this one's last.
    pub(crate) fn complete(&self, hashes: Arc<[B256]>) {
        assert!(hashes.ends_with(&self.hashes), "what is known stays");
        // Nobody else does so: only who opens the state.
        let _ = self.completed.set(hashes);
    }

    /// The hash of block `number`, where it is one of the last 256.
    pub(crate) fn hash_of(&self, number: u64) -> Option<B256> {
        let back = usize::try_from(self.number.checked_sub(number)?).ok()?;
        let hashes = self.hashes();
        hashes.len().checked_sub(back + 1).map(|at| hashes[at])
    }

    /// The account as it is in this version.
    pub(crate) fn account(&self, flat: &Flat, address: &Address) -> Option<Slim> {
        let newest = flat.account(address);
        let was = self.later().find_map(|version| find(&version.replaced.accounts, address));
        was.unwrap_or(newest)
    }

    /// Many accounts as they are in this version, in their order.
    pub(crate) fn accounts(&self, flat: &Flat, addresses: &[Address]) -> Vec<Option<Slim>> {
        let mut found = flat.accounts_of(addresses.iter());
        // After the tables were read, as for one; and for the newest version there is nothing to look through.
        if self.next.get().is_some() {
            for (address, found) in addresses.iter().zip(&mut found) {
                if let Some(was) = self.later().find_map(|version| find(&version.replaced.accounts, address)) {
                    *found = was;
                }
            }
        }
        found
    }

    /// What the slot holds in this version.
    pub(crate) fn slot(&self, flat: &Flat, key: &SlotKey) -> Word {
        let newest = flat.slot(key);
        let was = self.later().find_map(|version| find(&version.replaced.slots, key));
        was.unwrap_or(newest)
    }

    /// Everything that later versions replaced, each key with its value in this version; sorted by key.
    pub(crate) fn replaced_since(&self) -> Replaced {
        let (mut accounts, mut slots) = (Vec::new(), Vec::new());
        for version in self.later() {
            accounts.extend_from_slice(&version.replaced.accounts);
            slots.extend_from_slice(&version.replaced.slots);
        }
        // Stable: of equal keys the one of the earliest version comes first, and that is the value here.
        accounts.sort_by_key(|(address, _)| *address);
        accounts.dedup_by_key(|(address, _)| *address);
        slots.sort_by_key(|(key, _)| *key);
        slots.dedup_by_key(|(key, _)| *key);
        Replaced { accounts: accounts.into(), slots: slots.into() }
    }

    fn later(&self) -> impl Iterator<Item = &Version> {
        std::iter::successors(self.next.get(), |version| version.next.get()).map(AsRef::as_ref)
    }
}

pub(crate) fn find<K: Ord, V: Copy>(sorted: &[(K, V)], key: &K) -> Option<V> {
    sorted.binary_search_by(|(other, _)| other.cmp(key)).ok().map(|at| sorted[at].1)
}

impl Drop for Version {
    /// One after the other: a long chain of versions would else be a long chain of calls.
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
        let flat = Flat::new();
        let (a, b) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let of = |balance: u64| Some(Slim::new(U256::from(balance), 0, 0));
        let zero = Version::first(0, B256::ZERO, Arc::new([B256::ZERO]), Top::default());
        flat.set_accounts(&[(a, of(1))]);
        let replaced = Replaced { accounts: Box::new([(a, of(1))]), slots: Box::default() };
        let one = zero.link(1, B256::repeat_byte(1), zero.hashes(), Top::default(), replaced);
        assert_eq!(zero.account(&flat, &a), of(1), "linked, and the tables are still old");
        flat.set_accounts(&[(a, of(2))]);
        let replaced = Replaced { accounts: Box::new([(a, of(2)), (b, None)]), slots: Box::default() };
        let two = one.link(2, B256::repeat_byte(2), one.hashes(), Top::default(), replaced);
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
    fn a_long_chain_is_dropped_without_a_long_stack() {
        let first = Version::first(0, B256::ZERO, Arc::new([]), Top::default());
        let mut newest = first.clone();
        for number in 1..200_000 {
            newest = newest.link(number, B256::ZERO, &[], Top::default(), Replaced::default());
        }
        drop(newest);
        drop(first);
    }
}

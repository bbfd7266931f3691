//! The newest state as two sharded tables: accounts by address, slots by address and slot.
//!
//! reads   any thread, one shard's lock for one lookup
//! writes  only the writer, a shard's lock for that shard's part of a block
//! memory  64 B an account and 84 B a slot, between 8/7 and 16/7 times that as the tables fill and double;
//!         each code once
//! source  a table of 1,024 shards doubles in 1,024 small steps, so that no thread waits for a copy of everything

use std::hash::BuildHasher;

use alloy_primitives::map::{DefaultHashBuilder, HashMap};
use alloy_primitives::{Address, U256};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::code::Codes;

const SHARD_BITS: u32 = 10;
/// Number of shards of a table.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;
/// Shards whose locks are held together while many values are read.
const HELD: usize = 16;

/// An account in 44 bytes without alignment: with its address exactly a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlimAccount {
    balance: [u8; 32],
    nonce: [u8; 8],
    code: [u8; 4],
}

const _: () = assert!(size_of::<(Address, SlimAccount)>() == 64);

impl SlimAccount {
    pub(crate) fn new(balance: U256, nonce: u64, code: u32) -> Self {
        Self { balance: balance.to_le_bytes(), nonce: nonce.to_le_bytes(), code: code.to_le_bytes() }
    }

    pub(crate) fn balance(&self) -> U256 {
        U256::from_le_bytes(self.balance)
    }

    pub(crate) fn nonce(&self) -> u64 {
        u64::from_le_bytes(self.nonce)
    }

    /// The number of its code among [`Codes`].
    pub(crate) fn code(&self) -> u32 {
        u32::from_le_bytes(self.code)
    }
}

/// A slot's key, or its value: big-endian, without alignment.
pub(crate) type Word = [u8; 32];
/// A slot of an account.
pub(crate) type SlotKey = (Address, Word);

const _: () = assert!(size_of::<(SlotKey, Word)>() == 84);

/// The newest state. A value is `None` or zero where nothing is there.
pub(crate) struct FlatState {
    pub(crate) accounts: Table<Address, SlimAccount>,
    pub(crate) slots: Table<SlotKey, Word>,
    pub(crate) codes: Codes,
}

impl FlatState {
    pub(crate) fn new() -> Self {
        Self { accounts: Table::new(), slots: Table::new(), codes: Codes::new() }
    }

    pub(crate) fn account(&self, address: &Address) -> Option<SlimAccount> {
        self.accounts.get(address)
    }

    /// Many accounts, in their order.
    pub(crate) fn accounts_of<'k>(
        &self,
        addresses: impl ExactSizeIterator<Item = &'k Address>,
    ) -> Vec<Option<SlimAccount>> {
        self.accounts.get_many(addresses)
    }

    /// Many slots, in their order.
    pub(crate) fn slots_of<'k>(&self, keys: impl ExactSizeIterator<Item = &'k SlotKey>) -> Vec<Word> {
        self.slots.get_many(keys).into_iter().map(Option::unwrap_or_default).collect()
    }

    pub(crate) fn slot(&self, key: &SlotKey) -> Word {
        self.slots.get(key).unwrap_or_default()
    }

    /// Sets accounts; `None` takes one away.
    pub(crate) fn set_accounts(&self, accounts: &[(Address, Option<SlimAccount>)]) {
        self.accounts.set(accounts, |after| *after);
    }

    /// Sets slots; zero takes one away.
    pub(crate) fn set_slots(&self, slots: &[(SlotKey, Word)]) {
        self.slots.set(slots, |after| (*after != [0; 32]).then_some(*after));
    }

    /// Returns the number of accounts and of slots.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.accounts.count(), self.slots.count())
    }
}

/// Values by key, in parts each with a lock of its own.
pub(crate) struct Table<K, V> {
    shards: Box<[RwLock<HashMap<K, V>>]>,
    /// The hash's random key: no client can choose addresses that collide in one shard.
    hasher: DefaultHashBuilder,
}

impl<K: std::hash::Hash + Eq + Copy, V: Copy> Table<K, V> {
    fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), hasher: DefaultHashBuilder::default() }
    }

    /// Returns the shard of a key.
    pub(crate) fn shard_of(&self, key: &K) -> usize {
        (self.hasher.hash_one(key) >> (u64::BITS - SHARD_BITS)) as usize
    }

    fn read(&self, shard: usize) -> RwLockReadGuard<'_, HashMap<K, V>> {
        self.shards[shard].read()
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, HashMap<K, V>> {
        self.shards[shard].write()
    }

    fn get(&self, key: &K) -> Option<V> {
        self.read(self.shard_of(key)).get(key).copied()
    }

    /// Returns the values of many keys, in their order. Each shard's lock is taken once, those of [`HELD`] shards
    /// together: taking a lock makes a processor wait for all its pending loads, so many values are loaded between two
    /// locks.
    fn get_many<'k>(&self, keys: impl ExactSizeIterator<Item = &'k K>) -> Vec<Option<V>>
    where
        K: 'k,
    {
        let mut values = vec![None; keys.len()];
        let keys: Vec<&K> = keys.collect();
        let order = self.by_shard(keys.iter().copied());
        let mut rest = order.as_slice();
        while let Some((first, _)) = rest.first() {
            let from = *first as usize;
            let held: Vec<_> = (from..SHARDS.min(from + HELD)).map(|shard| self.read(shard)).collect();
            let (some, after) = rest.split_at(rest.partition_point(|(shard, _)| (*shard as usize) < from + HELD));
            for (shard, at) in some {
                values[*at as usize] = held[*shard as usize - from].get(keys[*at as usize]).copied();
            }
            rest = after;
        }
        values
    }

    /// The shard of each key with the key's place, in order of the shards.
    fn by_shard<'k>(&self, keys: impl Iterator<Item = &'k K>) -> Vec<(u32, u32)>
    where
        K: 'k,
    {
        let found: Vec<u32> = keys.map(|key| self.shard_of(key) as u32).collect();
        let mut from = [0u32; SHARDS];
        for shard in &found {
            from[*shard as usize] += 1;
        }
        let mut sum = 0;
        for place in &mut from {
            sum += std::mem::replace(place, sum);
        }
        let mut order = vec![(0, 0); found.len()];
        for (shard, at) in found.into_iter().zip(0..) {
            let place = &mut from[shard as usize];
            order[*place as usize] = (shard, at);
            *place += 1;
        }
        order
    }

    /// Takes each shard's lock once, in order of the shards.
    fn set<A>(&self, changes: &[(K, A)], after: impl Fn(&A) -> Option<V>) {
        let order = self.by_shard(changes.iter().map(|(key, _)| key));
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let mut shard = self.write(group[0].0 as usize);
            for (_, at) in group {
                let (key, change) = &changes[*at as usize];
                match after(change) {
                    Some(value) => shard.insert(*key, value),
                    None => shard.remove(key),
                };
            }
        }
    }

    /// A copy of a part's keys, in no order.
    pub(crate) fn keys(&self, shard: usize) -> Vec<K> {
        self.read(shard).keys().copied().collect()
    }

    fn count(&self) -> usize {
        (0..SHARDS).map(|shard| self.read(shard).len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_values_are_found_and_removed_ones_not() {
        let flat = FlatState::new();
        let address = |number: u64| Address::left_padding_from(&number.to_be_bytes());
        let all: Vec<_> = (0..5_000).map(|n| (address(n), Some(SlimAccount::new(U256::from(n), n, 0)))).collect();
        flat.set_accounts(&all);
        let slots: Vec<_> = (0..5_000).map(|n| ((address(n), U256::from(n).to_le_bytes()), [1u8; 32])).collect();
        flat.set_slots(&slots);
        assert_eq!(flat.counts(), (5_000, 5_000));
        let gone: Vec<_> = (0..2_500).map(|n| (address(n * 2), None)).collect();
        flat.set_accounts(&gone);
        flat.set_slots(&[(slots[7].0, [0; 32])]);
        assert_eq!(flat.counts(), (2_500, 4_999));
        assert_eq!(flat.account(&address(2)), None);
        let found = flat.account(&address(4_999)).expect("odd numbers stay");
        assert_eq!((found.balance(), found.nonce(), found.code()), (U256::from(4_999), 4_999, 0));
        let (odd, even): (Vec<_>, Vec<_>) = (0..5_000).map(address).partition(|address| address[19] % 2 == 1);
        assert!(flat.accounts_of(even.iter()).iter().all(Option::is_none));
        let found = flat.accounts_of(odd.iter());
        assert!(odd.iter().zip(found).all(|(address, found)| found.is_some() && found == flat.account(address)));
        let keys: Vec<_> = slots.iter().map(|(key, _)| *key).collect();
        let found = flat.slots_of(keys.iter());
        assert!(keys.iter().zip(found).all(|(key, found)| found == flat.slot(key)));
        assert_eq!(flat.slot(&slots[7].0), [0; 32]);
        assert_eq!(flat.slot(&slots[8].0), [1; 32]);
    }
}

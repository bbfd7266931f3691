//! The account store: every account of the chain in memory, for many bank threads at once.
//!
//! reads   addresses
//! writes  accounts; one without lamports does not exist and is removed
//! memory  about 130 B an account in a table at most 7/8 full, plus its data; tables double when
//!         full, each shard by itself, so the longest pause is one shard's
//! drops   nothing
//!
//! Shards are cut by a keyed hash of the address and lie on cache lines of their own. The scheduler
//! never runs two microblocks at once that touch the same account, so a lock is held for one copy of
//! an account and is contended only when two accounts share a shard at the same instant. Whoever
//! walks all accounts holds one shard at a time, a thousandth of them.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use hashbrown::HashTable;
use hearth_wire::Pubkey;

use crate::account::Account;
use crate::seed::Seed;

/// Shards; a power of two.
const SHARDS: usize = 1024;

/// An address and its keyed hash, computed once and used for every table of the store's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey {
    /// The address.
    pub key: Pubkey,
    /// Its hash under the store's seed.
    pub hash: u64,
}

type Entry = (Pubkey, Account);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<HashTable<Entry>>);

impl Shard {
    // A panic while a lock is held leaves whole accounts behind: each is written by one move.
    fn read(&self) -> RwLockReadGuard<'_, HashTable<Entry>> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashTable<Entry>> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// All accounts of the chain.
#[derive(Debug)]
pub struct Accounts {
    seed: Seed,
    shards: Box<[Shard]>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Accounts {
    /// An empty store.
    pub fn new() -> Self {
        Self { seed: Seed::random(), shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }

    /// Hashes an address for this store.
    #[inline]
    pub fn hashed(&self, key: &Pubkey) -> HashedKey {
        HashedKey { key: *key, hash: self.seed.address(key) }
    }

    #[inline]
    fn shard(&self, key: &HashedKey) -> &Shard {
        // The table inside uses the low bits and the top seven.
        &self.shards[(key.hash >> 32) as usize % SHARDS]
    }

    /// The account at an address, if it has lamports.
    #[inline]
    pub fn load(&self, key: &Pubkey) -> Option<Account> {
        self.load_hashed(&self.hashed(key))
    }

    /// [`Accounts::load`] for an address hashed before.
    #[inline]
    pub fn load_hashed(&self, key: &HashedKey) -> Option<Account> {
        self.with_hashed(key, Account::clone)
    }

    /// What `read` makes of the account at an address, without copying it.
    pub fn with<T>(&self, key: &Pubkey, read: impl FnOnce(&Account) -> T) -> Option<T> {
        self.with_hashed(&self.hashed(key), read)
    }

    #[inline]
    fn with_hashed<T>(&self, key: &HashedKey, read: impl FnOnce(&Account) -> T) -> Option<T> {
        let table = self.shard(key).read();
        table.find(key.hash, |(address, _)| *address == key.key).map(|(_, account)| read(account))
    }

    /// Puts an account at an address; without lamports it ceases to exist.
    #[inline]
    pub fn store(&self, key: &Pubkey, account: Account) {
        self.store_hashed(&self.hashed(key), account);
    }

    /// [`Accounts::store`] for an address hashed before.
    #[inline]
    pub fn store_hashed(&self, key: &HashedKey, account: Account) {
        let mut table = self.shard(key).write();
        match table.find_mut(key.hash, |(address, _)| *address == key.key) {
            Some((_, stored)) if account.lamports != 0 => *stored = account,
            Some(_) => {
                if let Ok(entry) = table.find_entry(key.hash, |(address, _)| *address == key.key) {
                    entry.remove();
                }
            }
            None if account.lamports != 0 => {
                table.insert_unique(key.hash, (key.key, account), |(address, _)| self.seed.address(address));
            }
            None => {}
        }
    }

    /// Changes the account at an address under one lock, starting from the default when there is
    /// none, and returns what `change` returns.
    pub fn update<T>(&self, key: &Pubkey, change: impl FnOnce(&mut Account) -> T) -> T {
        let key = self.hashed(key);
        let mut table = self.shard(&key).write();
        if let Ok(mut entry) = table.find_entry(key.hash, |(address, _)| *address == key.key) {
            let result = change(&mut entry.get_mut().1);
            if entry.get().1.lamports == 0 {
                entry.remove();
            }
            return result;
        }
        let mut account = Account::default();
        let result = change(&mut account);
        if account.lamports != 0 {
            table.insert_unique(key.hash, (key.key, account), |(address, _)| self.seed.address(address));
        }
        result
    }

    /// Shows every account to `visit`, shard by shard: each is seen as it was at some instant, all
    /// at one instant only while nobody writes.
    pub fn for_each(&self, mut visit: impl FnMut(&Pubkey, &Account)) {
        for shard in &self.shards {
            shard.read().iter().for_each(|(key, account)| visit(key, account));
        }
    }

    /// How many accounts there are.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// The lamports of all accounts together.
    pub fn total_lamports(&self) -> u128 {
        let mut total = 0u128;
        self.for_each(|_, account| total += u128::from(account.lamports));
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Pubkey {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        key
    }

    #[test]
    fn keeps_what_has_lamports() {
        let accounts = Accounts::new();
        assert_eq!(accounts.load(&key(1)), None);
        accounts.store(&key(1), Account::wallet(5));
        accounts.store(&key(2), Account::wallet(0));
        assert_eq!(accounts.load(&key(1)), Some(Account::wallet(5)));
        assert_eq!((accounts.load(&key(2)), accounts.count()), (None, 1));
        assert_eq!(accounts.with(&key(1), |account| account.lamports), Some(5));
        let data = Account::with_data(7, [3; 32], b"data");
        accounts.store(&key(1), data.clone());
        assert_eq!(accounts.load(&key(1)), Some(data));
        accounts.store(&key(1), Account::wallet(0));
        assert_eq!(accounts.count(), 0);
    }

    #[test]
    fn updates_in_place() {
        let accounts = Accounts::new();
        assert_eq!(accounts.update(&key(1), |account| account.lamports), 0);
        assert_eq!(accounts.count(), 0, "a look creates nothing");
        accounts.update(&key(1), |account| account.lamports += 9);
        accounts.update(&key(1), |account| account.lamports -= 2);
        assert_eq!(accounts.load(&key(1)), Some(Account::wallet(7)));
        accounts.update(&key(1), |account| account.lamports = 0);
        assert_eq!(accounts.count(), 0);
    }

    #[test]
    fn many_threads_on_their_own_accounts() {
        let accounts = Accounts::new();
        let (threads, each) = (8u32, 10_000u32);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let accounts = &accounts;
                scope.spawn(move || {
                    for n in 0..each {
                        let key = key(thread * each + n);
                        accounts.store(&key, Account::wallet(u64::from(n) + 1));
                        let account = accounts.load(&key).unwrap();
                        accounts.store(&key, Account::wallet(account.lamports * 2));
                    }
                });
            }
        });
        assert_eq!(accounts.count(), (threads * each) as usize);
        let one_thread: u64 = (1..=u64::from(each)).map(|n| 2 * n).sum();
        assert_eq!(accounts.total_lamports(), u128::from(one_thread) * u128::from(threads));
    }
}

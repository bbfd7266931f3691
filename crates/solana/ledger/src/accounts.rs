//! The account store: every account of the chain in memory, for many bank threads at once.
//!
//! reads   addresses
//! writes  accounts; one without lamports does not exist; for each slot what its first write of an
//!         account replaced ([`changes`]), and for a snapshot what it replaced since the cut (cut.rs)
//! memory  about 140 B an account in a table at most 7/8 full, plus its data; 112 B and the replaced data for
//!         each account that a slot changed, until nobody may read the state before it (past.rs) or go back to it
//!         (rewind.rs); tables double when full, each shard by itself, so the longest pause is one shard's
//! drops   nothing
//!
//! Shards are cut by a keyed hash of the address and lie on cache lines of their own. The scheduler
//! never runs two microblocks at once that touch the same account, so a lock is held for one copy of
//! an account and is contended only when two accounts share a shard at the same instant. Whoever
//! walks all accounts holds one shard at a time, a thousandth of them.

pub mod changes;
mod cut;
mod past;
mod rewind;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use hashbrown::HashTable;
use hearth_crypto::prefetch::prefetch;
use hearth_wire::Pubkey;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::account::Account;
use crate::seed::Seed;
use changes::{Noted, Notes};
use cut::Kept;

/// Shards; a power of two.
pub(crate) const SHARDS: usize = 1024;
/// Entries of a shard from which on all shards together, 36 MB, are beyond a core's caches.
const LARGE_SHARD: usize = 256;

/// An address and its keyed hash, computed once and used for every table of the store's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey {
    /// The address.
    pub key: Pubkey,
    /// Its hash under the store's seed.
    pub hash: u64,
}

/// An account in its table. Without lamports it is there only until its slot's changes are forgotten.
#[derive(Debug)]
struct Entry {
    key: Pubkey,
    account: Account,
    noted: Noted,
}

#[derive(Debug, Default)]
struct Contents {
    table: HashTable<Entry>,
    notes: Notes,
    /// Entries without lamports.
    dead: usize,
    kept: Kept,
}

impl Contents {
    #[inline]
    fn find(&self, key: &HashedKey) -> Option<&Account> {
        let entry = self.table.find(key.hash, |entry| entry.key == key.key)?;
        (entry.account.lamports != 0).then_some(&entry.account)
    }
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(RwLock<Contents>);

impl Shard {
    // A panic while a lock is held leaves whole accounts behind: each is written by one move.
    fn read(&self) -> RwLockReadGuard<'_, Contents> {
        self.0.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Contents> {
        self.0.write()
    }
}

/// All accounts of the chain.
#[derive(Debug)]
pub struct Accounts {
    seed: Seed,
    shards: Box<[Shard]>,
    /// Counts the slots whose changes are noted; 0 while none are.
    era: AtomicU32,
    /// The oldest era at whose end accounts can be read.
    oldest: AtomicU32,
    /// Number of the last cut.
    cut: AtomicU32,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Accounts {
    /// An empty store, which notes no changes yet.
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let [era, oldest, cut] = [0; 3].map(AtomicU32::new);
        Self { seed: Seed::random(), shards, era, oldest, cut }
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

    /// Whether the tables are larger than caches are, so that [`Accounts::expect`] pays.
    pub(crate) fn is_large(&self) -> bool {
        self.shards[0].read().table.len() >= LARGE_SHARD
    }

    /// Asks for the memory of an account that is about to be loaded. Of many accounts expected together the
    /// misses of the cache overlap; each load's lock would keep them apart.
    #[inline]
    pub(crate) fn expect(&self, key: &HashedKey) {
        self.shard(key).read().table.find(key.hash, |entry| {
            prefetch(entry);
            false
        });
    }

    /// What `read` makes of the account at an address, without copying it.
    pub fn with<T>(&self, key: &Pubkey, read: impl FnOnce(&Account) -> T) -> Option<T> {
        self.with_hashed(&self.hashed(key), read)
    }

    #[inline]
    fn with_hashed<T>(&self, key: &HashedKey, read: impl FnOnce(&Account) -> T) -> Option<T> {
        self.shard(key).read().find(key).map(read)
    }

    /// Puts an account at an address; without lamports it ceases to exist.
    #[inline]
    pub fn store(&self, key: &Pubkey, account: Account) {
        self.store_hashed(&self.hashed(key), account);
    }

    /// [`Accounts::store`] for an address hashed before.
    #[inline]
    pub fn store_hashed(&self, key: &HashedKey, account: Account) {
        let mut contents = self.shard(key).write();
        contents.keep(self.cut.load(Relaxed), key);
        let Contents { table, notes, dead, .. } = &mut *contents;
        let era = self.era.load(Relaxed);
        let exists = account.lamports != 0;
        let account = if exists { account } else { Account::default() };
        match table.find_mut(key.hash, |entry| entry.key == key.key) {
            Some(entry) => {
                *dead += usize::from(entry.account.lamports != 0 && !exists);
                *dead -= usize::from(entry.account.lamports == 0 && exists);
                let before = std::mem::replace(&mut entry.account, account);
                if entry.noted.era != era {
                    entry.noted = notes.push(era, key.key, before, entry.noted);
                } else if era == 0 && !exists {
                    self.remove(&mut contents, key);
                }
            }
            None if exists => {
                let noted = if era == 0 { Noted::NEVER } else { notes.push_new(era, key.key) };
                let entry = Entry { key: key.key, account, noted };
                table.insert_unique(key.hash, entry, |entry| self.seed.address(&entry.key));
            }
            None => {}
        }
    }

    /// Changes the account at an address under one lock, starting from the default when there is
    /// none, and returns what `change` returns.
    pub fn update<T>(&self, key: &Pubkey, change: impl FnOnce(&mut Account) -> T) -> T {
        // Only this thread writes the account, so it stays what it is between the two locks.
        let before = self.load(key);
        let mut account = before.clone().unwrap_or_default();
        let result = change(&mut account);
        if before.as_ref() != Some(&account) {
            self.store(key, account);
        }
        result
    }

    fn remove(&self, contents: &mut Contents, key: &HashedKey) {
        if let Ok(entry) = contents.table.find_entry(key.hash, |entry| entry.key == key.key) {
            entry.remove();
            contents.dead -= 1;
        }
    }

    /// Shows every account to `visit`, shard by shard: each is seen as it was at some instant, all
    /// at one instant only while nobody writes.
    pub fn for_each(&self, mut visit: impl FnMut(&Pubkey, &Account)) {
        let _ = self.scan(|key, account| {
            visit(key, account);
            ControlFlow::<()>::Continue(())
        });
    }

    /// [`Accounts::for_each`] until `visit` breaks. Writers wait while their shard is walked, for as
    /// long as `visit` takes for a thousandth of all accounts: it should note what it wants and leave
    /// the work for later.
    pub fn scan<B>(&self, mut visit: impl FnMut(&Pubkey, &Account) -> ControlFlow<B>) -> ControlFlow<B> {
        (0..SHARDS).try_for_each(|shard| self.scan_shard(shard, &mut visit))
    }

    pub(crate) fn scan_shard<B>(
        &self,
        shard: usize,
        visit: &mut impl FnMut(&Pubkey, &Account) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let contents = self.shards[shard].read();
        let alive = |entry: &&Entry| entry.account.lamports != 0;
        contents.table.iter().filter(alive).try_for_each(|entry| visit(&entry.key, &entry.account))
    }

    /// How many accounts there are.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read()).map(|contents| contents.table.len() - contents.dead).sum()
    }

    /// The lamports of all accounts together.
    pub fn total_lamports(&self) -> u128 {
        let mut total = 0u128;
        self.for_each(|_, account| total += u128::from(account.lamports));
        total
    }
}

#[cfg(test)]
mod tests;

//! The account store: all accounts of the chain, in memory, accessed by many bank threads concurrently.
//!
//! reads   addresses
//! writes  accounts; one without lamports does not exist. For each slot the value that its first write of an account
//!         replaced ([`changes`]), and for a snapshot the values replaced since the cut (snapshot_view.rs)
//! memory  about 140 B per account in a table at most 7/8 full, plus its data; 112 B and the replaced data for each
//!         account that a slot changed, until no reader may ask for the state before it (account_history.rs) and no
//!         rewind may need it (rewind.rs); where archives are written, 40 B for each account deleted since the last
//!         full one (since.rs). Tables double when full, each shard on its own, so the longest pause is that of a shard
//!
//! Accounts are sharded by a keyed hash of the address, and each shard has its own cache lines. The scheduler never
//! runs two microblocks at once that touch the same account, so a lock is held for one copy of an account and is
//! contended only if two accounts of one shard are accessed at the same instant. A scan over all accounts holds one
//! shard, a thousandth of them, at a time.

mod account_history;
pub mod changes;
mod rewind;
mod since;
mod snapshot_view;

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use hashbrown::HashTable;
use hearth_crypto::prefetch::prefetch;
use hearth_wire::Pubkey;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::account::Account;
use crate::seed::Seed;
pub(crate) use account_history::Pin;
use changes::{NotePosition, Notes};
pub(crate) use since::DELETED_MAX;
use snapshot_view::ReplacedValues;

/// Number of shards; a power of two.
pub(crate) const SHARDS: usize = 1024;
/// Entries per shard above which all shards together, 36 MB, exceed a core's caches.
const LARGE_SHARD: usize = 256;

/// An address and its keyed hash, computed once and used with every table that has the store's seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedKey {
    /// The address of an account.
    pub key: Pubkey,
    /// Its hash under the store's seed.
    pub hash: u64,
}

/// An account in its table. Without lamports it stays only until its slot's changes are discarded.
#[derive(Debug)]
struct Entry {
    key: Pubkey,
    account: Account,
    noted: NotePosition,
}

#[derive(Debug, Default)]
struct Contents {
    table: HashTable<Entry>,
    notes: Notes,
    /// Number of entries without lamports.
    dead: usize,
    kept: ReplacedValues,
    /// Accounts that left the table, with the era that deleted each, where that is remembered ([`since`]).
    deleted: HashMap<Pubkey, u32>,
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
    // A panic while a lock is held leaves no partial account behind: each is written by one move.
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
    /// Counts the slots whose changes are recorded; 0 while none are.
    era: AtomicU32,
    /// The oldest era for whose end accounts can be read.
    oldest: AtomicU32,
    /// Eras whose ends are being read, with the number of their readers.
    pins: Mutex<BTreeMap<u32, usize>>,
    /// Number of the last snapshot cut.
    cut: AtomicU32,
    /// Whether deleted accounts are remembered ([`since`]).
    remembers: AtomicBool,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::new()
    }
}

impl Accounts {
    /// An empty store that does not record changes yet.
    pub fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        let [era, oldest, cut] = [0; 3].map(AtomicU32::new);
        let (pins, remembers) = (Mutex::default(), AtomicBool::new(false));
        Self { seed: Seed::random(), shards, era, oldest, pins, cut, remembers }
    }

    /// Hashes an address under the store's seed.
    #[inline]
    pub fn hashed(&self, key: &Pubkey) -> HashedKey {
        HashedKey { key: *key, hash: self.seed.address(key) }
    }

    #[inline]
    fn shard(&self, key: &HashedKey) -> &Shard {
        // The shard's table uses the low bits and the top seven.
        &self.shards[(key.hash >> 32) as usize % SHARDS]
    }

    /// The account at an address; `None` if it has no lamports.
    #[inline]
    pub fn load(&self, key: &Pubkey) -> Option<Account> {
        self.load_hashed(&self.hashed(key))
    }

    /// [`Accounts::load`] for an address that is already hashed.
    #[inline]
    pub fn load_hashed(&self, key: &HashedKey) -> Option<Account> {
        self.with_hashed(key, Account::clone)
    }

    /// Whether the tables exceed the caches, so that [`Accounts::expect`] pays off.
    pub(crate) fn is_large(&self) -> bool {
        self.shards[0].read().table.len() >= LARGE_SHARD
    }

    /// Prefetches an account that is about to be loaded. The cache misses of several prefetches overlap, whereas those
    /// of loads would be serialized by each load's lock.
    #[inline]
    pub(crate) fn expect(&self, key: &HashedKey) {
        self.shard(key).read().table.find(key.hash, |entry| {
            prefetch(entry);
            false
        });
    }

    /// Calls `read` on the account at an address, without copying it.
    pub fn with<T>(&self, key: &Pubkey, read: impl FnOnce(&Account) -> T) -> Option<T> {
        self.with_hashed(&self.hashed(key), read)
    }

    #[inline]
    fn with_hashed<T>(&self, key: &HashedKey, read: impl FnOnce(&Account) -> T) -> Option<T> {
        self.shard(key).read().find(key).map(read)
    }

    /// Stores an account; without lamports it is deleted.
    #[inline]
    pub fn store(&self, key: &Pubkey, account: Account) {
        self.store_hashed(&self.hashed(key), account);
    }

    /// [`Accounts::store`] for an address that is already hashed.
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
                    self.remove(&mut contents, key, era);
                }
            }
            None if exists => {
                let noted = if era == 0 { NotePosition::NEVER } else { notes.push_new(era, key.key) };
                let entry = Entry { key: key.key, account, noted };
                table.insert_unique(key.hash, entry, |entry| self.seed.address(&entry.key));
            }
            None => {}
        }
    }

    /// Modifies the account at an address, or a default one if there is none, and returns the result of `change`.
    pub fn update<T>(&self, key: &Pubkey, change: impl FnOnce(&mut Account) -> T) -> T {
        // Only this thread writes the account, so it cannot change between the two locks.
        let before = self.load(key);
        let mut account = before.clone().unwrap_or_default();
        let result = change(&mut account);
        if before.as_ref() != Some(&account) {
            self.store(key, account);
        }
        result
    }

    /// Removes the entry of an account that `era` deleted.
    fn remove(&self, contents: &mut Contents, key: &HashedKey, era: u32) {
        if self.remembers.load(Relaxed) {
            // One that was created since, and rewound, was deleted before that.
            let deleted_in = contents.deleted.entry(key.key).or_default();
            *deleted_in = era.max(*deleted_in);
        }
        if let Ok(entry) = contents.table.find_entry(key.hash, |entry| entry.key == key.key) {
            entry.remove();
            contents.dead -= 1;
        }
    }

    /// Visits every account, shard by shard. Each is consistent; all together are from one instant only if nobody
    /// writes.
    pub fn for_each(&self, mut visit: impl FnMut(&Pubkey, &Account)) {
        let _ = self.scan(|key, account| {
            visit(key, account);
            ControlFlow::<()>::Continue(())
        });
    }

    /// [`Accounts::for_each`] until `visit` breaks. Writers of a shard wait while `visit` walks it, a thousandth of all
    /// accounts, so `visit` should take notes and leave the work for later.
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

    /// The number of accounts.
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.read()).map(|contents| contents.table.len() - contents.dead).sum()
    }

    /// The sum of the lamports of all accounts.
    pub fn total_lamports(&self) -> u128 {
        let mut total = 0u128;
        self.for_each(|_, account| total += u128::from(account.lamports));
        total
    }
}

#[cfg(test)]
mod tests;

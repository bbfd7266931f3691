//! The accounts that a microblock touches, copied from the store once and written back once.
//!
//! reads   the account store, each account once per microblock
//! writes  the account store: the accounts that committed transactions changed, once per microblock
//! memory  136 B per account; at most 64 transactions of 35 accounts, and what the general path adds
//!
//! However many transactions name an account, the store is read once and written once.

use hashbrown::HashTable;
use hearth_wire::Pubkey;

use crate::account::Account;
use crate::accounts::{Accounts, HashedKey};

/// An account of the microblock.
#[derive(Debug)]
struct WorkingAccount {
    key: HashedKey,
    account: Account,
    changed: bool,
}

/// An account's place in the working set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkingSetIndex(u32);

#[derive(Debug, Default)]
pub(super) struct WorkingSet {
    accounts: Vec<WorkingAccount>,
    places: HashTable<u32>,
    loaded: usize,
}

impl WorkingSet {
    pub(super) fn clear(&mut self) {
        self.accounts.clear();
        self.places.clear();
        self.loaded = 0;
    }

    /// The place of an account, which the next [`WorkingSet::load`] loads.
    #[inline]
    pub(super) fn place(&mut self, store: &Accounts, key: &Pubkey) -> WorkingSetIndex {
        let key = store.hashed(key);
        let accounts = &mut self.accounts;
        let found = self.places.find(key.hash, |&place| accounts[place as usize].key.key == key.key);
        if let Some(&place) = found {
            return WorkingSetIndex(place);
        }
        let place = accounts.len() as u32;
        accounts.push(WorkingAccount { key, account: Account::default(), changed: false });
        self.places.insert_unique(key.hash, place, |&place| accounts[place as usize].key.hash);
        WorkingSetIndex(place)
    }

    /// Loads the accounts that were given a place since the last call.
    pub(super) fn load(&mut self, store: &Accounts) {
        let news = &self.accounts[self.loaded..];
        if news.len() > 1 && store.is_large() {
            news.iter().for_each(|working| store.expect(&working.key));
        }
        for working in &mut self.accounts[self.loaded..] {
            if let Some(account) = store.load_hashed(&working.key) {
                working.account = account;
            }
        }
        self.loaded = self.accounts.len();
    }

    /// Reloads an account that no transaction can write, if it has a place.
    pub(super) fn reload(&mut self, store: &Accounts, key: &Pubkey) {
        let key = store.hashed(key);
        let place = self.places.find(key.hash, |&place| self.accounts[place as usize].key.key == key.key);
        if let Some(&place) = place {
            self.accounts[place as usize].account = store.load_hashed(&key).unwrap_or_default();
        }
    }

    /// The account at a place; the default, without lamports, if it does not exist.
    #[inline]
    pub(super) fn get(&self, place: WorkingSetIndex) -> &Account {
        &self.accounts[place.0 as usize].account
    }

    /// The same, for modification. Only [`WorkingSet::commit`] makes a change permanent.
    #[inline]
    pub(super) fn get_mut(&mut self, place: WorkingSetIndex) -> &mut Account {
        &mut self.accounts[place.0 as usize].account
    }

    /// Commits the account's current state. An account without lamports is deleted.
    #[inline]
    pub(super) fn commit(&mut self, place: WorkingSetIndex) {
        let working = &mut self.accounts[place.0 as usize];
        working.changed = true;
        if working.account.lamports == 0 {
            working.account = Account::default();
        }
    }

    /// The account at an address as the microblock has left it so far.
    pub(super) fn find(&self, store: &Accounts, key: &Pubkey) -> Option<Account> {
        let key = store.hashed(key);
        let found = self.places.find(key.hash, |&place| self.accounts[place as usize].key.key == key.key);
        match found {
            Some(&place) => Some(self.get(WorkingSetIndex(place)).clone()).filter(|account| account.lamports != 0),
            None => store.load_hashed(&key),
        }
    }

    /// The committed accounts that are not yet written to the store.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&Pubkey, &Account)> {
        self.accounts.iter().filter(|working| working.changed).map(|working| (&working.key.key, &working.account))
    }

    /// Writes the committed accounts to the store.
    pub(super) fn write_back(&mut self, store: &Accounts) {
        for working in &mut self.accounts {
            if working.changed {
                store.store_hashed(&working.key, std::mem::take(&mut working.account));
            }
        }
    }
}

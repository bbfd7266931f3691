//! Iterates over all entries of a view while the writer continues.
//!
//! reads   the tables' keys, a shard at a time, and what later versions removed
//! memory  the keys of one shard, and the keys that change while it runs
//! source  a key of the view is in its shard when that is copied, or some version linked by then replaced it

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use revm::bytecode::Bytecode;

use super::flat_state::{SHARDS, SlotKey};
use super::version::Version;
use super::{Account, StateView};

/// One thing in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A code that some account has or had.
    Code {
        /// Keccak-256 of `code`, by which accounts name it.
        hash: B256,
        /// The bytes of the code.
        code: Bytes,
    },
    /// An account without its storage.
    Account {
        /// The account's address, not hashed.
        address: Address,
        /// Nonce, balance, and the hash of its code, which came before.
        account: Account,
    },
    /// A slot that holds something.
    Storage {
        /// The account's address; the account came before.
        address: Address,
        /// The slot's key, not hashed.
        slot: U256,
        /// The slot's value, never 0.
        value: U256,
    },
}

/// Iterates over a view: first all codes, then all accounts, then all slots, each in no particular order.
pub struct Dump {
    view: StateView,
    codes: std::ops::Range<u32>,
    accounts: Shards<Address>,
    slots: Shards<SlotKey>,
}

impl Dump {
    fn new(view: &StateView) -> Self {
        let codes = 1..view.tables.flat.codes.count();
        let (accounts, slots) = (Shards::new(view), Shards::new(view));
        Self { view: view.clone(), codes, accounts, slots }
    }
}

impl StateView {
    /// Everything in this state, one entry after the other, however long that takes.
    pub fn dump(&self) -> Dump {
        Dump::new(self)
    }
}

impl Iterator for Dump {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let (tables, version) = (&self.view.tables, &self.view.version);
        let flat = &tables.flat;
        if let Some(number) = self.codes.next() {
            let (hash, code) = flat.codes.get(number);
            return Some(Entry::Code { hash: *hash, code: Bytecode::original_bytes(code) });
        }
        let replaced = |version: &Version| version.replaced.accounts.iter().map(|(key, _)| *key).collect();
        while let Some(address) =
            self.accounts.next(|shard| flat.accounts.keys(shard), replaced, |key| flat.accounts.shard_of(key))
        {
            if let Some(slim) = tables.account(version, &address) {
                return Some(Entry::Account { address, account: self.view.widen(&slim) });
            }
        }
        let replaced = |version: &Version| version.replaced.slots.iter().map(|(key, _)| *key).collect();
        while let Some(key) = self.slots.next(|shard| flat.slots.keys(shard), replaced, |key| flat.slots.shard_of(key))
        {
            let value = U256::from_be_bytes(tables.slot(version, &key));
            if !value.is_zero() {
                return Some(Entry::Storage { address: key.0, slot: U256::from_be_bytes(key.1), value });
            }
        }
        None
    }
}

/// The keys of a table, each once, those taken away since the view among them.
pub(super) struct Shards<K> {
    next: usize,
    keys: Vec<K>,
    /// The newest version looked at.
    seen: Arc<Version>,
    /// By shard, what versions up to that one replaced.
    replaced: Vec<Vec<K>>,
}

impl<K: Copy + Eq + Hash> Shards<K> {
    pub(super) fn new(view: &StateView) -> Self {
        let replaced = (0..SHARDS).map(|_| Vec::new()).collect();
        Self { next: 0, keys: Vec::new(), seen: view.version.clone(), replaced }
    }

    pub(super) fn next(
        &mut self,
        keys: impl Fn(usize) -> Vec<K>,
        replaced: impl Fn(&Version) -> Vec<K>,
        shard_of: impl Fn(&K) -> usize,
    ) -> Option<K> {
        loop {
            if let Some(key) = self.keys.pop() {
                return Some(key);
            }
            if self.next == SHARDS {
                return None;
            }
            self.keys = keys(self.next);
            // After the copy: entries removed by then are in a version that is linked by now.
            while let Some(version) = self.seen.next() {
                for key in replaced(&version) {
                    self.replaced[shard_of(&key)].push(key);
                }
                self.seen = version;
            }
            let late = std::mem::take(&mut self.replaced[self.next]);
            if !late.is_empty() {
                let mut known: HashSet<K> = self.keys.iter().copied().collect();
                self.keys.extend(late.into_iter().filter(|key| known.insert(*key)));
            }
            self.next += 1;
        }
    }
}

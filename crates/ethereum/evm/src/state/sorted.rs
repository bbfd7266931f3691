//! Iterates over a view in order: accounts by their addresses, each followed by its slots by their keys.
//!
//! reads   as [`super::dump`]: while the writer continues
//! memory  the keys of one part, a sixteenth of the addresses

use alloy_primitives::{Address, U256};

use super::dump::Shards;
use super::flat_state::SlotKey;
use super::version::Version;
use super::{Entry, StateView};

/// Parts, by an address's first four bits.
const PARTS: u8 = 16;

fn part_of(address: &Address) -> u8 {
    address[0] >> 4
}

impl StateView {
    /// Accounts in the order of their addresses, each followed by its slots in the order of their keys; no codes.
    pub fn sorted(&self) -> impl Iterator<Item = Entry> + use<> {
        let view = self.clone();
        (0..PARTS).flat_map(move |part| view.part(part))
    }

    fn part(&self, part: u8) -> impl Iterator<Item = Entry> + use<> {
        let (mut addresses, mut keys) = (self.addresses(part), self.slot_keys(part));
        addresses.sort_unstable();
        keys.sort_unstable();
        let view = self.clone();
        let mut keys = keys.into_iter().peekable();
        addresses.into_iter().flat_map(move |address| {
            let slots: Vec<SlotKey> = std::iter::from_fn(|| keys.next_if(|key| key.0 == address)).collect();
            let account = view.account(&address);
            let account = account.map(|account| Entry::Account { address, account });
            let view = view.clone();
            let slots = slots.into_iter().filter_map(move |(address, slot)| {
                let slot = U256::from_be_bytes(slot);
                let value = view.storage(&address, &slot);
                (!value.is_zero()).then_some(Entry::Storage { address, slot, value })
            });
            account.into_iter().chain(slots)
        })
    }

    /// Returns the addresses of this view's accounts in a part, and maybe some that are none.
    fn addresses(&self, part: u8) -> Vec<Address> {
        let (mut shards, table) = (Shards::new(self), &self.tables.flat.accounts);
        let of_part = |address: &Address| part_of(address) == part;
        let keys = |shard| table.keys(shard).into_iter().filter(of_part).collect();
        let replaced = |version: &Version| {
            let replaced = version.replaced.accounts.iter().map(|(address, _)| *address);
            replaced.filter(of_part).collect()
        };
        let is_there = |address: &Address| self.tables.account(&self.version, address).is_some();
        std::iter::from_fn(|| shards.next(keys, replaced, |key| table.shard_of(key))).filter(is_there).collect()
    }

    /// The same of slots, each under an account that is there.
    fn slot_keys(&self, part: u8) -> Vec<SlotKey> {
        let (mut shards, table) = (Shards::new(self), &self.tables.flat.slots);
        let of_part = |key: &SlotKey| part_of(&key.0) == part;
        let keys = |shard| table.keys(shard).into_iter().filter(of_part).collect();
        let replaced = |version: &Version| {
            let replaced = version.replaced.slots.iter().map(|(key, _)| *key);
            replaced.filter(of_part).collect()
        };
        let is_there = |key: &SlotKey| self.tables.slot(&self.version, key) != [0; 32];
        std::iter::from_fn(|| shards.next(keys, replaced, |key| table.shard_of(key))).filter(is_there).collect()
    }
}

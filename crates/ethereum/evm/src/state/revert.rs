//! Iterates over an older view while nothing writes: the newest entries, with replaced ones put back.
//!
//! reads   the newest view, one entry after the other; what later versions replaced
//! memory  the replaced values, once
//!
//! [`super::Dump`] of an older view searches all later versions for each entry, which is right while blocks are being
//! made, and slow after many blocks.

use alloy_primitives::{Address, U256};

use super::dump::{Dump, Entry};
use super::flat_state::{SlimAccount, SlotKey, Word};
use super::version::{ReplacedValues, find};
use super::{State, StateView};

/// The entries of an older view: codes, then accounts, then slots; else in no order.
pub(super) struct RevertedEntries {
    was: ReplacedValues,
    head: StateView,
    newest: std::iter::Peekable<Dump>,
    /// Accounts that are no more, and slots that hold nothing any more.
    accounts: std::vec::IntoIter<(Address, SlimAccount)>,
    slots: std::vec::IntoIter<(SlotKey, Word)>,
}

impl RevertedEntries {
    /// Iterates over `view`; nothing may be committed to `state` meanwhile.
    pub(super) fn new(state: &State, view: &StateView) -> Self {
        let (head, was) = (state.head(), view.version.replaced_since());
        let flat = &state.tables.flat;
        let gone = |(address, was): &(_, Option<SlimAccount>)| {
            was.filter(|_| head.version.account(flat, address).is_none()).map(|was| (*address, was))
        };
        let accounts: Vec<_> = was.accounts.iter().filter_map(gone).collect();
        let is_zero = |word: &Word| word.iter().all(|byte| *byte == 0);
        let gone = |(key, was): &&(SlotKey, Word)| !is_zero(was) && is_zero(&head.version.slot(flat, key));
        let slots: Vec<_> = was.slots.iter().filter(gone).copied().collect();
        let newest = head.dump().peekable();
        Self { was, newest, accounts: accounts.into_iter(), slots: slots.into_iter(), head }
    }

    /// Returns the old entry for one of the newest view; `None` if it did not exist.
    fn back(&self, entry: Entry) -> Option<Entry> {
        match entry {
            Entry::Account { address, .. } => match find(&self.was.accounts, &address) {
                Some(was) => was.map(|slim| Entry::Account { address, account: self.head.widen(&slim) }),
                None => Some(entry),
            },
            Entry::Storage { address, slot, .. } => match find(&self.was.slots, &(address, slot.to_be_bytes())) {
                Some(was) => {
                    let value = U256::from_be_bytes(was);
                    (!value.is_zero()).then_some(Entry::Storage { address, slot, value })
                }
                None => Some(entry),
            },
            code @ Entry::Code { .. } => Some(code),
        }
    }
}

impl Iterator for RevertedEntries {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        loop {
            // Codes come before all accounts, and accounts before all slots.
            if !matches!(self.newest.peek(), Some(Entry::Code { .. }))
                && let Some((address, slim)) = self.accounts.next()
            {
                return Some(Entry::Account { address, account: self.head.widen(&slim) });
            }
            let Some(entry) = self.newest.next() else { break };
            if let Some(entry) = self.back(entry) {
                return Some(entry);
            }
        }
        let ((address, slot), value) = self.slots.next()?;
        let (slot, value) = (U256::from_be_bytes(slot), U256::from_be_bytes(value));
        Some(Entry::Storage { address, slot, value })
    }
}

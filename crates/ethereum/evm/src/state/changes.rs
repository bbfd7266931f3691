//! The changes of one block, each account and slot once.
//!
//! reads   the journal's state after each transaction
//! memory  as much as the block touched
//! source  EIP-161: an account that was touched and is empty is removed; the journal handles EIP-6780

use alloy_primitives::map::HashMap;
use alloy_primitives::{Address, U256};
use revm::state::{Account, AccountInfo, EvmState};

/// The changes of one block: each touched account after the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The accounts by address.
    pub accounts: HashMap<Address, AccountChange>,
}

/// The state of one account after the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountChange {
    /// Balance, nonce and code after the block; `None` if the account is removed.
    pub info: Option<AccountInfo>,
    /// Whether the old storage is wiped: only the slots in `storage` remain.
    pub storage_cleared: bool,
    /// The written slots and their values after the block; zero removes.
    pub storage: HashMap<U256, U256>,
}

impl Changes {
    /// Adds the changes of one transaction, as the journal has them, after those before it in the block.
    pub fn absorb(&mut self, state: EvmState) {
        self.absorb_under(state, true);
    }

    /// As [`Changes::absorb`]; without `clear_empty` by the rules before EIP-161, where an empty account stays.
    pub fn absorb_under(&mut self, state: EvmState, clear_empty: bool) {
        for (address, account) in state {
            if !account.is_touched() {
                continue;
            }
            let gone = account.is_selfdestructed() || (clear_empty && account.is_empty());
            let change = self.accounts.entry(address).or_default();
            if gone {
                *change = AccountChange { info: None, storage_cleared: true, storage: HashMap::default() };
            } else {
                change.take(account);
            }
        }
    }

    /// Adds the changes of a later block or transaction.
    pub fn append(&mut self, later: Changes) {
        for (address, after) in later.accounts {
            let change = self.accounts.entry(address).or_default();
            if after.storage_cleared {
                change.storage_cleared = true;
                change.storage = after.storage;
            } else {
                change.storage.extend(after.storage);
            }
            change.info = after.info;
        }
    }
}

impl AccountChange {
    fn take(&mut self, account: Account) {
        if account.is_created() {
            // What an earlier account of this address had stored is no part of the new one.
            self.storage_cleared = true;
            self.storage.clear();
        }
        let written = account.storage.iter().filter(|(_, slot)| slot.is_changed());
        self.storage.extend(written.map(|(slot, value)| (*slot, value.present_value)));
        self.info = Some(account.info);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use revm::state::{AccountStatus, EvmStorageSlot, TransactionId};

    fn account(balance: u64, status: AccountStatus, slots: &[(u64, u64, u64)]) -> Account {
        let mut account = Account::default();
        account.status = status;
        account.info.balance = U256::from(balance);
        for (slot, before, after) in slots {
            let value = EvmStorageSlot::new_changed(U256::from(*before), U256::from(*after), TransactionId::ZERO);
            account.storage.insert(U256::from(*slot), value);
        }
        account
    }

    fn of(account: Account) -> EvmState {
        EvmState::from_iter([(Address::ZERO, account)])
    }

    #[test]
    fn the_last_value_of_a_slot_counts() {
        let mut changes = Changes::default();
        changes.absorb(of(account(1, AccountStatus::Touched, &[(1, 0, 5), (2, 3, 3)])));
        changes.absorb(of(account(2, AccountStatus::Touched, &[(1, 5, 0)])));
        let change = &changes.accounts[&Address::ZERO];
        assert_eq!(change.storage.get(&U256::from(1)), Some(&U256::ZERO));
        assert_eq!(change.storage.get(&U256::from(2)), None, "what was only read is no change");
        assert_eq!(change.info.as_ref().map(|info| info.balance), Some(U256::from(2)));
        assert!(!change.storage_cleared);
    }

    #[test]
    fn touched_empty_accounts_vanish_from_eip_161_on() {
        let (mut after, mut before) = (Changes::default(), Changes::default());
        after.absorb(of(account(0, AccountStatus::Touched, &[])));
        before.absorb_under(of(account(0, AccountStatus::Touched, &[])), false);
        assert_eq!(after.accounts[&Address::ZERO].info, None);
        assert!(before.accounts[&Address::ZERO].info.is_some());
        let mut untouched = Changes::default();
        untouched.absorb(of(account(0, AccountStatus::empty(), &[])));
        assert!(untouched.accounts.is_empty());
    }

    #[test]
    fn an_account_made_again_begins_with_empty_storage() {
        let mut changes = Changes::default();
        changes.absorb(of(account(1, AccountStatus::Touched, &[(1, 0, 5)])));
        changes.absorb(of(account(1, AccountStatus::Touched | AccountStatus::SelfDestructed, &[(9, 0, 1)])));
        assert_eq!(changes.accounts[&Address::ZERO].info, None);
        changes.absorb(of(account(7, AccountStatus::Touched | AccountStatus::Created, &[(2, 0, 6)])));
        let change = &changes.accounts[&Address::ZERO];
        assert!(change.storage_cleared);
        assert_eq!(change.storage.len(), 1);
        assert_eq!(change.storage[&U256::from(2)], U256::from(6));
    }
}

//! Credits after a block's transactions, without gas: withdrawals, and before the merge rewards.
//!
//! writes  balances
//! source  EIP-4895; the yellow paper, 11.3

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, U256};
use revm::DatabaseRef;

use crate::state::{AccountChange, Changes};

/// Credits a block's withdrawals. `changes` is what its transactions changed in `before`.
pub fn credit<D: DatabaseRef>(before: &D, changes: &mut Changes, withdrawals: &[Withdrawal]) -> Result<(), D::Error> {
    let due = withdrawals.iter().filter(|one| one.amount > 0);
    credit_wei(before, changes, due.map(|one| (one.address, one.amount_wei())))
}

/// Adds wei to balances, in the given order. `changes` is what the block changed so far in `before`.
pub fn credit_wei<D: DatabaseRef>(
    before: &D,
    changes: &mut Changes,
    due: impl IntoIterator<Item = (Address, U256)>,
) -> Result<(), D::Error> {
    for (address, wei) in due {
        let change = match changes.accounts.entry(address) {
            alloy_primitives::map::Entry::Occupied(known) => known.into_mut(),
            alloy_primitives::map::Entry::Vacant(new) => {
                new.insert(AccountChange { info: before.basic_ref(address)?, ..AccountChange::default() })
            }
        };
        // An account that is gone, or never was, is created with the amount.
        let info = change.info.get_or_insert_default();
        // There are fewer wei than 2^256 by far: they all came from a genesis, or by a withdrawal of 2^64 gwei at most.
        info.balance = info.balance.saturating_add(wei);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::Genesis;
    use crate::state::State;

    #[test]
    fn a_withdrawal_is_credited_over_what_the_block_did() {
        let (rich, new, gone) = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3));
        let genesis = Genesis::dev(31337, &[(rich, U256::from(5)), (gone, U256::from(9))], 30_000_000);
        let state = State::open(None, &genesis).unwrap();
        let mut changes = Changes::default();
        changes.accounts.insert(gone, AccountChange { info: None, storage_cleared: true, ..Default::default() });
        let (index, validator_index, gwei) = (0, 0, 1_000_000_000_u64);
        let of = [rich, new, gone, rich].map(|address| Withdrawal { index, validator_index, address, amount: 1_000 });
        credit(&state.head(), &mut changes, &of).unwrap();
        let balance = |address| changes.accounts[&address].info.as_ref().unwrap().balance;
        assert_eq!(balance(rich), U256::from(2 * 1_000 * gwei + 5));
        assert_eq!((balance(new), balance(gone)), (U256::from(1_000 * gwei), U256::from(1_000 * gwei)));
        assert!(changes.accounts[&gone].storage_cleared);
    }
}

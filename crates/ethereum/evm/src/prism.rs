//! The way between this ledger and the one of outputs ([`hearth_utxo::prism`]), from this side.
//!
//! reads   receipts' logs; withdrawals that the other ledger's transactions ask for
//! writes  balances; what the other ledger makes outputs of
//! memory  as much as a block's crossings
//! source  EIP-4895: a withdrawal is credited without gas, after the transactions

use alloy_consensus::TxEip1559;
use alloy_eips::eip4895::Withdrawal;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{B256, Log};
use hearth_crypto::secp256k1::Signer;
use hearth_utxo::OwnerKey;
pub use hearth_utxo::prism::ADDRESS;
use hearth_utxo::prism::{CODE, Incoming};
use revm::DatabaseRef;

use crate::state::{AccountChange, Changes};
use crate::tx::Tx;

/// More than a call of the contract takes, which is 21,000 for the transaction, and about 3,000 for the log.
const GAS: u64 = 40_000;

/// The contract that takes value to the other ledger, as a genesis holds it.
pub fn account() -> GenesisAccount {
    GenesisAccount { nonce: Some(1), code: Some(CODE.clone()), ..Default::default() }
}

/// Withdrawals as a block of Ethereum holds them.
pub fn withdrawals(of: &[hearth_utxo::prism::Withdrawal]) -> Vec<Withdrawal> {
    let as_block = |one: &hearth_utxo::prism::Withdrawal| Withdrawal {
        index: one.index,
        validator_index: 0,
        address: one.address,
        amount: one.gwei(),
    };
    of.iter().map(as_block).collect()
}

/// Credits a block's withdrawals. `changes` is what its transactions changed in `before`.
pub fn credit<D: DatabaseRef>(before: &D, changes: &mut Changes, withdrawals: &[Withdrawal]) -> Result<(), D::Error> {
    for one in withdrawals.iter().filter(|one| one.amount > 0) {
        let change = match changes.accounts.entry(one.address) {
            alloy_primitives::map::Entry::Occupied(known) => known.into_mut(),
            alloy_primitives::map::Entry::Vacant(new) => {
                new.insert(AccountChange { info: before.basic_ref(one.address)?, ..AccountChange::default() })
            }
        };
        // An account that is gone, or never was, begins anew with what it gets.
        let info = change.info.get_or_insert_default();
        // There are fewer wei than 2^256 by far: they all came from a genesis, or by a withdrawal of 2^64 gwei at most.
        info.balance = info.balance.saturating_add(one.amount_wei());
    }
    Ok(())
}

/// Whether a transaction that logs this takes something to the other ledger.
pub fn is_crossing(log: &Log) -> bool {
    log.address == ADDRESS
}

/// What a block's transactions take to the other ledger, in order: of each its hash and its logs.
pub fn incoming<'a>(of: impl IntoIterator<Item = (B256, &'a [Log])>) -> Vec<Incoming> {
    let mut all = Vec::new();
    for (hash, logs) in of {
        for (at, log) in (0..).zip(logs).filter(|(_, log)| is_crossing(log)) {
            all.extend(Incoming::of_log(hash, at, &log.address, log.topics(), &log.data.data));
        }
    }
    all
}

/// A transaction that takes `units` of its signer's to an owner on the other ledger. It pays at most `gas_price` wei
/// for a unit of gas, and no tip.
pub fn call(chain_id: u64, nonce: u64, gas_price: u128, owner: &OwnerKey, units: u64, signer: &Signer) -> Tx {
    let transaction = TxEip1559 {
        chain_id,
        nonce,
        gas_limit: GAS,
        max_fee_per_gas: gas_price,
        max_priority_fee_per_gas: 0,
        to: ADDRESS.into(),
        value: hearth_utxo::amount::to_wei(units.into()),
        access_list: Default::default(),
        input: hearth_utxo::prism::call_data(owner),
    };
    Tx::signed(transaction.into(), signer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::Genesis;
    use crate::state::State;
    use alloy_primitives::{Address, Bytes, U256};
    use hearth_utxo::amount::{CROSSING_MAX, WEI_PER_UNIT};
    use hearth_utxo::prism::call_data;
    use revm::context::TxEnv;
    use revm::database_interface::WrapDatabaseRef;
    use revm::primitives::TxKind;
    use revm::{Context, ExecuteEvm, MainBuilder, MainContext};

    const CALLER: Address = Address::repeat_byte(0xca);

    /// What a call of the contract logs, or what it is reverted with.
    fn call(value: U256, data: Bytes) -> Result<Vec<Incoming>, Bytes> {
        let genesis = Genesis::dev(31337, &[(CALLER, U256::MAX >> 1)], 30_000_000);
        let state = State::open(None, &genesis).unwrap();
        let context = Context::mainnet().with_db(WrapDatabaseRef(state.head()));
        let tx =
            TxEnv { caller: CALLER, kind: TxKind::Call(ADDRESS), value, data, gas_limit: 100_000, ..TxEnv::default() };
        let result = context.build_mainnet().transact(tx).unwrap().result;
        match result.is_success() {
            true => Ok(incoming([(B256::repeat_byte(1), result.logs())])),
            false => Err(result.into_output().unwrap_or_default()),
        }
    }

    fn wei(units: u64) -> U256 {
        hearth_utxo::amount::to_wei(units.into())
    }

    #[test]
    fn the_contract_takes_whole_units_and_says_whose_they_are() {
        let owner = OwnerKey([7; 32]);
        for units in [1, 1_000_000, CROSSING_MAX] {
            let [one] = &call(wei(units), call_data(&owner)).unwrap()[..] else { panic!("one log") };
            assert_eq!((one.owner, one.sender, one.amount, one.log), (owner, CALLER, units, 0));
        }
    }

    #[test]
    fn the_contract_refuses_everything_else() {
        let right = call_data(&OwnerKey([7; 32]));
        let longer: Bytes = [&right[..], &[0]].concat().into();
        let other: Bytes = [&[1], &right[1..]].concat().into();
        let mut cases = vec![(U256::ZERO, right.clone()), (wei(CROSSING_MAX) + wei(1), right.clone())];
        cases.extend(
            [U256::from(1), U256::from(WEI_PER_UNIT - 1), U256::from(WEI_PER_UNIT + 1)].map(|wei| (wei, right.clone())),
        );
        cases.extend([longer, other, right.slice(..35), Bytes::new()].map(|data| (wei(1), data)));
        for (value, data) in cases {
            let said = call(value, data.clone()).expect_err(&format!("{value} wei, {data}"));
            // `Error(string)`, and the text.
            assert!(said.starts_with(&[0x08, 0xc3, 0x79, 0xa0]), "{said}");
            assert!(said.windows(14).any(|part| part == b"prism(bytes32)"), "{said}");
        }
    }

    #[test]
    fn a_withdrawal_is_credited_over_what_the_block_did() {
        let (rich, new, gone) = (Address::repeat_byte(1), Address::repeat_byte(2), Address::repeat_byte(3));
        let genesis = Genesis::dev(31337, &[(rich, U256::from(5)), (gone, U256::from(9))], 30_000_000);
        let state = State::open(None, &genesis).unwrap();
        let mut changes = Changes::default();
        changes.accounts.insert(gone, AccountChange { info: None, storage_cleared: true, ..Default::default() });
        let of = [rich, new, gone, rich].map(|address| hearth_utxo::prism::Withdrawal { index: 0, address, units: 1 });
        credit(&state.head(), &mut changes, &withdrawals(&of)).unwrap();
        let balance = |address| changes.accounts[&address].info.as_ref().unwrap().balance;
        assert_eq!(balance(rich), U256::from(2 * WEI_PER_UNIT + 5));
        assert_eq!((balance(new), balance(gone)), (U256::from(WEI_PER_UNIT), U256::from(WEI_PER_UNIT)));
        assert!(changes.accounts[&gone].storage_cleared);
    }
}

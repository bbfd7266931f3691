//! Transfers between the EVM and the UTXO ledger ([`hearth_utxo::prism`]), seen from the EVM.
//!
//! reads   receipts' logs; withdrawals requested by the UTXO ledger's transactions
//! writes  a block's credits; the transfers that become outputs of the UTXO ledger
//! memory  one block's transfers
//! source  EIP-4895: a withdrawal is credited without gas, after the transactions

use alloy_consensus::TxEip1559;
use alloy_eips::eip4895::Withdrawal;
use alloy_genesis::GenesisAccount;
use alloy_primitives::{B256, Log};
use hearth_crypto::secp256k1::Signer;
use hearth_evm::block::Receipt;
use hearth_evm::tx::{SharedTx, Tx};
use hearth_utxo::OwnerKey;
pub use hearth_utxo::prism::ADDRESS;
use hearth_utxo::prism::{CODE, Incoming};

/// More than a call of the contract takes, which is 21,000 for the transaction, and about 3,000 for the log.
const GAS: u64 = 40_000;

/// The contract that takes value to the UTXO ledger, as a genesis holds it.
pub fn account() -> GenesisAccount {
    GenesisAccount { nonce: Some(1), code: Some(CODE.clone()), ..Default::default() }
}

/// Withdrawals as a block of Ethereum holds them.
pub(crate) fn withdrawals(of: &[hearth_utxo::prism::Withdrawal]) -> Vec<Withdrawal> {
    let as_block = |one: &hearth_utxo::prism::Withdrawal| Withdrawal {
        index: one.index,
        validator_index: 0,
        address: one.address,
        amount: one.gwei(),
    };
    of.iter().map(as_block).collect()
}

/// Returns the transfers of a block's transactions to the UTXO ledger, in order.
pub(crate) fn incoming(txs: &[SharedTx], receipts: &[Receipt]) -> Vec<Incoming> {
    let mut all = Vec::new();
    for (tx, receipt) in txs.iter().zip(receipts) {
        for (at, log) in (0..).zip(&receipt.logs) {
            all.extend(of_log(tx.hash, at, log));
        }
    }
    all
}

/// Returns the transfer that a log of `transaction` describes, if any.
fn of_log(transaction: B256, at: u32, log: &Log) -> Option<Incoming> {
    Incoming::of_log(transaction, at, &log.address, log.topics(), &log.data.data)
}

/// A transaction that takes `units` of its signer's to an owner on the UTXO ledger. It pays at most `gas_price` wei
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
    use alloy_primitives::{Address, Bytes, U256};
    use hearth_evm::state::State;
    use hearth_utxo::amount::{CROSSING_MAX, WEI_PER_UNIT};
    use hearth_utxo::prism::call_data;
    use revm::context::TxEnv;
    use revm::database_interface::WrapDatabaseRef;
    use revm::primitives::TxKind;
    use revm::{Context, ExecuteEvm, MainBuilder, MainContext};

    use super::*;
    use crate::genesis;

    const CALLER: Address = Address::repeat_byte(0xca);

    /// Calls the contract; returns the logged transfers, or the revert data.
    fn call(value: U256, data: Bytes) -> Result<Vec<Incoming>, Bytes> {
        let genesis = genesis::dev(31337, &[(CALLER, U256::MAX >> 1)], 30_000_000);
        let state = State::open(None, &genesis).unwrap();
        let context = Context::mainnet().with_db(WrapDatabaseRef(state.head()));
        let tx =
            TxEnv { caller: CALLER, kind: TxKind::Call(ADDRESS), value, data, gas_limit: 100_000, ..TxEnv::default() };
        let result = context.build_mainnet().transact(tx).unwrap().result;
        match result.is_success() {
            true => {
                let logs = (0..).zip(result.logs());
                let of = |(at, log): (u32, &Log)| of_log(B256::repeat_byte(1), at, log);
                Ok(logs.filter_map(of).collect())
            }
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
}

//! What tests share, here and in the crates above: keys from small numbers, the accounts that they hold, and transfers.

use std::ops::RangeInclusive;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, TxKind, U256};
use hearth_crypto::secp256k1::Signer;

use crate::tx::Tx;

/// The key whose bytes are all this one, which is not 0.
pub fn signer(seed: u8) -> Signer {
    Signer::new(&[seed; 32]).expect("a key")
}

/// The account of that key.
pub fn account(seed: u8) -> Address {
    Address::from(signer(seed).address())
}

/// What [`rich`] accounts hold: ten thousand coins.
pub fn riches() -> U256 {
    U256::from(10u128.pow(22))
}

/// The accounts of these keys with what a genesis gives them.
pub fn rich(seeds: RangeInclusive<u8>) -> Vec<(Address, U256)> {
    seeds.map(|seed| (account(seed), riches())).collect()
}

/// A signed transfer of 1 wei to `0x7777…`, for 100 gwei a gas at most and a tip of 1 gwei.
pub fn transfer(chain_id: u64, seed: u8, nonce: u64) -> Tx {
    let transaction = TxEip1559 {
        chain_id,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(Address::repeat_byte(0x77)),
        value: U256::from(1),
        ..Default::default()
    };
    Tx::signed(transaction.into(), &signer(seed))
}

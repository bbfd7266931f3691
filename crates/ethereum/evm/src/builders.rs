//! What tests share, here and in the crates above: keys from small numbers, the accounts that they hold, transfers, and
//! transactions with blobs.

use std::ops::RangeInclusive;

use alloy_consensus::{TxEip1559, TxEip4844};
use alloy_eips::eip4844::env_settings::EnvKzgSettings;
use alloy_eips::eip4844::{Blob, BlobTransactionSidecar};
use alloy_primitives::{Address, TxKind, U256};
use hearth_crypto::secp256k1::Signer;

use crate::blobs::Sidecar;
use crate::tx::Tx;

/// Returns the key whose bytes all equal `seed`, which is not 0.
pub fn signer(seed: u8) -> Signer {
    Signer::new(&[seed; 32]).expect("a key")
}

/// The account of that key.
pub fn account(seed: u8) -> Address {
    Address::from(signer(seed).address())
}

/// Returns the balance of [`rich`] accounts: ten thousand coins.
pub fn riches() -> U256 {
    U256::from(10u128.pow(22))
}

/// Returns the accounts of these keys with a large balance, for a genesis.
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

/// Returns a sidecar of this many distinct blobs, with one proof each.
pub fn sidecar(blobs: u8) -> Sidecar {
    let blob = |number| {
        let mut blob = Blob::ZERO;
        // Two of its field elements, each far below the modulus.
        blob[31] = number;
        blob[63] = 7;
        blob
    };
    let blobs = (1..=blobs).map(blob).collect();
    let setup = EnvKzgSettings::Default;
    let sidecar = BlobTransactionSidecar::try_from_blobs_with_settings(blobs, setup.get());
    Sidecar::Eip4844(sidecar.expect("they are field elements"))
}

/// The same with a proof for each cell, as from Osaka on.
pub fn sidecar_by_cell(blobs: u8) -> Sidecar {
    let setup = EnvKzgSettings::Default;
    let sidecar = sidecar(blobs).try_convert_into_eip7594_with_settings(setup.get());
    sidecar.expect("they are field elements")
}

/// A transfer of 1 wei to `0x7777…` with the blobs of `sidecar`, for at most 100 gwei a gas and 1 gwei a unit of blob
/// gas, and a tip of 1 gwei.
pub fn with_blobs(chain_id: u64, nonce: u64, sidecar: &Sidecar) -> TxEip4844 {
    TxEip4844 {
        chain_id,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 100_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: Address::repeat_byte(0x77),
        value: U256::from(1),
        blob_versioned_hashes: sidecar.versioned_hashes().collect(),
        max_fee_per_blob_gas: 1_000_000_000,
        ..Default::default()
    }
}

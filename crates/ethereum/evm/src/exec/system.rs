//! The calls that a block makes on its own around the transactions.
//!
//! source  EIP-4788 (beacon roots), EIP-2935 (block hashes), EIP-7002 (withdrawals), EIP-7251 (consolidations)

use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_primitives::{Address, Bytes, U256};
use revm::primitives::hardfork::SpecId;

use super::BlockEnv;

/// A call by the system's address.
pub(crate) struct SystemCall {
    pub contract: Address,
    pub data: Bytes,
    /// The type of the requests it returns; 0 if it returns none.
    pub request_type: u8,
}

/// The calls before the first transaction.
pub(crate) fn before(env: &BlockEnv) -> Vec<SystemCall> {
    let mut calls = Vec::new();
    if let Some(root) = env.parent_beacon_block_root.filter(|_| env.spec.is_enabled_in(SpecId::CANCUN)) {
        let data = Bytes::copy_from_slice(root.as_slice());
        calls.push(SystemCall { contract: eip4788::BEACON_ROOTS_ADDRESS, data, request_type: 0 });
    }
    if let Some(hash) = env.parent_hash.filter(|_| env.spec.is_enabled_in(SpecId::PRAGUE)) {
        let data = Bytes::copy_from_slice(hash.as_slice());
        calls.push(SystemCall { contract: eip2935::HISTORY_STORAGE_ADDRESS, data, request_type: 0 });
    }
    calls
}

/// The slot in which the contract of EIP-2935 keeps the hash of block `number`.
pub(crate) fn history_slot(number: u64) -> U256 {
    U256::from(number % eip2935::HISTORY_SERVE_WINDOW as u64)
}

/// The calls after the last transaction, in the order of their requests' types.
pub(crate) fn after(env: &BlockEnv) -> Vec<SystemCall> {
    if !env.spec.is_enabled_in(SpecId::PRAGUE) {
        return Vec::new();
    }
    let call = |contract, request_type| SystemCall { contract, data: Bytes::new(), request_type };
    vec![
        call(eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS, eip7002::WITHDRAWAL_REQUEST_TYPE),
        call(eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, eip7251::CONSOLIDATION_REQUEST_TYPE),
    ]
}

//! An account, without its storage.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};

/// An account's balance, nonce and code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Transactions sent; of a contract: contracts created, from 1 on.
    pub nonce: u64,
    /// The balance, in wei.
    pub balance: U256,
    /// Keccak-256 of its code, or of empty code.
    pub code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK256_EMPTY }
    }
}

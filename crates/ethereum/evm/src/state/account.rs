//! An account, without its storage.

use alloy_primitives::{B256, KECCAK256_EMPTY, U256};

/// An account: what it has and what it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Transactions sent; of a contract: contracts created, from 1 on.
    pub nonce: u64,
    /// In wei.
    pub balance: U256,
    /// Keccak-256 of its code; of no code where it has none.
    pub code_hash: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK256_EMPTY }
    }
}

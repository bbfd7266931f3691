//! What proves that a view's root holds an account and its slots (EIP-1186).

use alloy_primitives::{Address, B256, Bytes, U256};

use super::Account;

/// An account with the nodes of the state's trie that prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountProof {
    /// Whose.
    pub address: Address,
    /// The account; with nothing in it where there is none.
    pub account: Account,
    /// The root of its storage's trie.
    pub storage_root: B256,
    /// The nodes from the state's root down to the account, or to where it would be.
    pub proof: Vec<Bytes>,
    /// The slots asked for, in order.
    pub storage: Vec<StorageProof>,
}

/// A slot with the nodes of the account's storage trie that prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageProof {
    /// Which slot.
    pub slot: U256,
    /// What it holds.
    pub value: U256,
    /// The nodes from the storage's root down to the slot, or to where it would be.
    pub proof: Vec<Bytes>,
}

//! What proves that a view's root holds an account and its slots (EIP-1186).

use alloy_primitives::{Address, B256, Bytes, U256};

use super::Account;

/// An account with the nodes of the state's trie that prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountProof {
    /// The account's address, whose Keccak-256 is the path in the trie.
    pub address: Address,
    /// The account; empty if it does not exist.
    pub account: Account,
    /// The root of its storage's trie.
    pub storage_root: B256,
    /// The nodes from the state root down to the account, or to where it would be.
    pub proof: Vec<Bytes>,
    /// The requested slots, in order.
    pub storage: Vec<StorageProof>,
}

/// A slot with the nodes of the account's storage trie that prove it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageProof {
    /// The slot's key, whose Keccak-256 is the path in the trie.
    pub slot: U256,
    /// The slot's value; 0 if the slot is empty.
    pub value: U256,
    /// The nodes from the storage root down to the slot, or to where it would be.
    pub proof: Vec<Bytes>,
}

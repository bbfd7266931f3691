//! Builds the tries from all accounts and slots, for comparison in tests.
//!
//! source  `alloy_trie`'s hash builder

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::Encodable;
use alloy_trie::proof::{ProofNodes, ProofRetainer};
use alloy_trie::{HashBuilder, Nibbles, TrieAccount};

use super::proof::{AccountProof, StorageProof};
use super::{Account, AccountChange, Changes, Entry, StateView};

/// All accounts of a state with their storage.
pub(crate) type AllAccounts = BTreeMap<Address, (Account, BTreeMap<U256, U256>)>;

/// Returns everything that `view` shows.
pub(crate) fn everything(view: &StateView) -> AllAccounts {
    let mut all: AllAccounts = BTreeMap::new();
    for entry in view.dump() {
        match entry {
            Entry::Code { hash, code } => assert_eq!(keccak256(code), hash),
            Entry::Account { address, account } => {
                assert!(all.insert(address, (account, BTreeMap::new())).is_none(), "each account once");
            }
            Entry::Storage { address, slot, value } => {
                let (_, storage) = all.get_mut(&address).expect("the account came before");
                assert!(storage.insert(slot, value).is_none(), "each slot once");
            }
        }
    }
    all
}

/// Changes everything as one block did.
pub(crate) fn apply(all: &mut AllAccounts, changes: &Changes) {
    for (address, change) in &changes.accounts {
        let Some(info) = &change.info else {
            all.remove(address);
            continue;
        };
        let AccountChange { storage_cleared, storage, .. } = change;
        let entry = all.entry(*address).or_default();
        entry.0 = Account { nonce: info.nonce, balance: info.balance, code_hash: info.code_hash };
        if *storage_cleared {
            entry.1.clear();
        }
        entry.1.extend(storage);
        entry.1.retain(|_, value| !value.is_zero());
    }
}

/// Returns the state root of everything.
pub(crate) fn root(all: &AllAccounts) -> B256 {
    account_trie(all, &[]).0
}

/// Returns the proof of `address` and its `slots` in everything.
pub(crate) fn proof(all: &AllAccounts, address: &Address, slots: &[U256]) -> AccountProof {
    let (_, nodes) = account_trie(all, &[*address]);
    let (account, storage) = all.get(address).cloned().unwrap_or_default();
    let (storage_root, storage_nodes) = storage_trie(&storage, slots);
    let prove = |slot: &U256| StorageProof {
        slot: *slot,
        value: storage.get(slot).copied().unwrap_or_default(),
        proof: on_path(&storage_nodes, keccak256(slot.to_be_bytes::<32>())),
    };
    let proof = on_path(&nodes, keccak256(address));
    AccountProof { address: *address, account, storage_root, proof, storage: slots.iter().map(prove).collect() }
}

fn on_path(nodes: &ProofNodes, key: B256) -> Vec<Bytes> {
    // For an empty trie the builder returns its empty node, geth nothing.
    let matching = nodes.matching_nodes_sorted(&Nibbles::unpack(key)).into_iter().map(|(_, node)| node);
    matching.filter(|node| node.as_ref() != [alloy_rlp::EMPTY_STRING_CODE]).collect()
}

fn account_trie(all: &AllAccounts, proven: &[Address]) -> (B256, ProofNodes) {
    let targets = proven.iter().map(|address| Nibbles::unpack(keccak256(address))).collect();
    let mut builder = HashBuilder::default().with_proof_retainer(ProofRetainer::new(targets));
    let mut sorted: Vec<_> = all.iter().map(|(address, entry)| (keccak256(address), entry)).collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    for (key, (account, storage)) in sorted {
        let storage_root = storage_trie(storage, &[]).0;
        let leaf = TrieAccount::new(account.nonce, account.balance, storage_root, account.code_hash);
        builder.add_leaf(Nibbles::unpack(key), &alloy_rlp::encode(leaf));
    }
    (builder.root(), builder.take_proof_nodes())
}

fn storage_trie(storage: &BTreeMap<U256, U256>, proven: &[U256]) -> (B256, ProofNodes) {
    let key = |slot: &U256| keccak256(slot.to_be_bytes::<32>());
    let targets = proven.iter().map(|slot| Nibbles::unpack(key(slot))).collect();
    let mut builder = HashBuilder::default().with_proof_retainer(ProofRetainer::new(targets));
    let mut sorted: Vec<_> = storage.iter().map(|(slot, value)| (key(slot), *value)).collect();
    sorted.sort_unstable_by_key(|(key, _)| *key);
    let mut encoded = Vec::new();
    for (key, value) in sorted {
        encoded.clear();
        value.encode(&mut encoded);
        builder.add_leaf(Nibbles::unpack(key), &encoded);
    }
    (builder.root(), builder.take_proof_nodes())
}

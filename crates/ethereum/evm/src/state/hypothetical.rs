//! A state that is never committed: changes over a view, one after the other, and the root after each.
//!
//! reads   the view, and its nodes on the way to what changes. Each node takes short locks, never the writer's: blocks
//!         are made meanwhile
//! memory  1.1 KB a node on the way to a change, read once; while it is held, what later blocks retire of the view's
//!         nodes, within the bound of pinned versions
//! drops   a view whose nodes are not kept any more: an error

use alloy_primitives::map::{Entry, HashMap};
use alloy_primitives::{Address, B256};
use alloy_rlp::Encodable;
use alloy_trie::{EMPTY_ROOT_HASH, TrieAccount};
use hearth_crypto::keccak::keccak256;

use super::flat_state::Word;
use super::tries::{AccountLeaf, SlotLeaf, encode_account, encode_slot};
use super::{AccountChange, Changes, StateError, StateView, Tables};
use crate::trie::{Base, Key, SparseTrie, StoredNode};

/// A view with changes that are never committed. The first root costs what all changes cost, each later one what has
/// changed since.
pub struct HypotheticalState {
    view: StateView,
    accounts: SparseTrie<AccountLeaf>,
    /// The storage of accounts in which something changed.
    storages: HashMap<Address, SparseTrie<SlotLeaf>>,
}

impl StateView {
    /// A hypothetical state without changes yet; an error if the view's nodes are not kept any more.
    pub fn hypothetical(&self) -> Result<HypotheticalState, StateError> {
        let top = &self.version.top;
        if !self.tables.tries.pin(top) {
            return Err(StateError::NoProofs(self.number()));
        }
        let accounts = SparseTrie::new(top.child());
        Ok(HypotheticalState { view: self.clone(), accounts, storages: HashMap::default() })
    }

    /// The root of the state that `changes` would make of this one; nothing is kept of it.
    pub fn root_with(&self, changes: &Changes) -> Result<B256, StateError> {
        let mut after = self.hypothetical()?;
        after.apply(changes)?;
        Ok(after.root())
    }

    fn without_nodes(&self) -> StateError {
        StateError::NoProofs(self.number())
    }
}

impl HypotheticalState {
    /// Adds the changes of a block or of a transaction. After an error the state is incomplete, and of no more use.
    pub fn apply(&mut self, changes: &Changes) -> Result<(), StateError> {
        // Blocks may have been made since the last time.
        self.view.tables.tries.sort_later(&self.view.version.top);
        for (address, change) in &changes.accounts {
            let storage_root = self.storage_after(address, change)?;
            let value = change.info.as_ref().map(|info| {
                let mut value = Vec::new();
                TrieAccount::new(info.nonce, info.balance, storage_root, info.code_hash).encode(&mut value);
                value
            });
            self.accounts.set(keccak256(address.as_slice()), value, &AccountNodes(&self.view))?;
        }
        Ok(())
    }

    /// Returns the state root after all changes so far.
    pub fn root(&mut self) -> B256 {
        self.accounts.root()
    }

    /// Changes an account's storage, and returns its root.
    fn storage_after(&mut self, address: &Address, change: &AccountChange) -> Result<B256, StateError> {
        let Self { view, storages, .. } = self;
        if change.info.is_none() || change.storage_cleared {
            storages.insert(*address, SparseTrie::new(None));
        }
        if change.info.is_none() {
            return Ok(EMPTY_ROOT_HASH);
        }
        let nodes = StorageNodes { view, address };
        let trie = match storages.entry(*address) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let Tables { tries, .. } = &*nodes.view.tables;
                let top = tries.storage_of(&nodes.view.version.top, address);
                let top = top.ok_or_else(|| nodes.view.without_nodes())?;
                if change.storage.is_empty() {
                    return Ok(top.map_or(EMPTY_ROOT_HASH, |top| top.reference().root()));
                }
                new.insert(SparseTrie::new(top))
            }
        };
        for (slot, value) in &change.storage {
            let key = keccak256(&slot.to_be_bytes::<32>());
            let encoded = (!value.is_zero()).then(|| encoded(&value.to_be_bytes()));
            trie.set(key, encoded, &nodes)?;
        }
        Ok(trie.root())
    }
}

impl Drop for HypotheticalState {
    fn drop(&mut self) {
        self.view.tables.tries.unpin(&self.view.version.top);
    }
}

fn encoded(value: &Word) -> Vec<u8> {
    let mut out = Vec::new();
    encode_slot(value, &mut out);
    out
}

/// The accounts' trie of a view.
struct AccountNodes<'a>(&'a StateView);

impl Base<AccountLeaf> for AccountNodes<'_> {
    type Error = StateError;

    fn node(&self, id: u32) -> Result<StoredNode<AccountLeaf>, StateError> {
        let StateView { tables, version } = self.0;
        tables.tries.account_node(&version.top, id).ok_or_else(|| self.0.without_nodes())
    }

    fn leaf(&self, leaf: &AccountLeaf) -> Result<(Key, Vec<u8>), StateError> {
        let StateView { tables, version } = self.0;
        let root = tables.tries.storage_root(&version.top, leaf).ok_or_else(|| self.0.without_nodes())?;
        let slim = tables.account(version, leaf.address()).expect("a leaf's account is there");
        let mut value = Vec::new();
        encode_account(&tables.flat, &slim, root, &mut value);
        Ok((keccak256(leaf.address().as_slice()), value))
    }
}

/// An account's storage trie in a view.
struct StorageNodes<'a> {
    view: &'a StateView,
    address: &'a Address,
}

impl Base<SlotLeaf> for StorageNodes<'_> {
    type Error = StateError;

    fn node(&self, id: u32) -> Result<StoredNode<SlotLeaf>, StateError> {
        let StateView { tables, version } = self.view;
        tables.tries.slot_node(&version.top, id).ok_or_else(|| self.view.without_nodes())
    }

    fn leaf(&self, leaf: &SlotLeaf) -> Result<(Key, Vec<u8>), StateError> {
        let StateView { tables, version } = self.view;
        let value = tables.slot(version, &(*self.address, *leaf.slot()));
        Ok((keccak256(leaf.slot()), encoded(&value)))
    }
}

#[cfg(test)]
mod tests;

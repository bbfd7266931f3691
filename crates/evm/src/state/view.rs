//! The state after one block, to be read: cheap to clone, the same for as long as it is held.
//!
//! reads   the tables' newest values, and what later blocks replaced
//! memory  while it is held, what each later block replaced

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256};
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;

use super::StateError;
use super::flat::{Flat, Slim};
use super::version::Version;

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

/// The state after one block. What it says never changes, whatever the writer does; reading waits for nobody but, for
/// moments, for the writing of a thousandth of a block.
#[derive(Clone)]
pub struct StateView {
    pub(super) flat: Arc<Flat>,
    pub(super) version: Arc<Version>,
}

impl StateView {
    /// The block's number.
    pub fn number(&self) -> u64 {
        self.version.number
    }

    /// The block's hash.
    pub fn block_hash(&self) -> B256 {
        self.version.block_hash
    }

    /// The root of the state's trie.
    pub fn state_root(&self) -> B256 {
        self.version.state_root
    }

    /// The hash of block `number`: of this block, or of one of the 255 before it.
    pub fn hash_of(&self, number: u64) -> Option<B256> {
        self.version.hash_of(number)
    }

    /// The account, where there is one.
    pub fn account(&self, address: &Address) -> Option<Account> {
        self.version.account(&self.flat, address).map(|slim| self.widen(&slim))
    }

    /// What a slot of an account holds; zero where nothing was written.
    pub fn storage(&self, address: &Address, slot: &U256) -> U256 {
        U256::from_le_bytes(self.version.slot(&self.flat, &(*address, slot.to_le_bytes())))
    }

    /// The code with this hash. Codes of later blocks are found too.
    pub fn code(&self, hash: &B256) -> Option<Bytes> {
        self.flat.codes.by_hash(hash).map(Bytecode::original_bytes)
    }

    pub(super) fn widen(&self, slim: &Slim) -> Account {
        let code_hash = self.flat.codes.get(slim.code()).0;
        Account { nonce: slim.nonce(), balance: slim.balance(), code_hash }
    }
}

impl std::fmt::Debug for StateView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateView").field("number", &self.number()).field("root", &self.state_root()).finish()
    }
}

impl revm::DatabaseRef for StateView {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        let Some(slim) = self.version.account(&self.flat, &address) else {
            return Ok(None);
        };
        let (code_hash, code) = self.flat.codes.get(slim.code());
        Ok(Some(AccountInfo::new(slim.balance(), slim.nonce(), *code_hash, code.clone())))
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        self.flat.codes.by_hash(&hash).cloned().ok_or(StateError::NoCode(hash))
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        Ok(self.storage(&address, &slot))
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        Ok(self.hash_of(number).unwrap_or_default())
    }
}

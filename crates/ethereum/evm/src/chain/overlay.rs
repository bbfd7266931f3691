//! A state with the changes of one executed block on top, which is not committed.
//!
//! reads   the state before that block
//! memory  the block's changes, shared with the thread that seals it, and the code that it deploys

use std::sync::Arc;

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, U256};
use revm::DatabaseRef;
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;

use crate::state::{Changes, StateError, StateView};

/// The state that execution reads after the block. `BLOCKHASH` knows the blocks before it alone.
pub(super) struct Overlay {
    pub base: StateView,
    pub changes: Arc<Changes>,
    /// Code that the block deploys.
    pub codes: B256Map<Bytecode>,
}

impl Overlay {
    /// The state that `changes` make of `base`.
    pub fn new(base: StateView, changes: Arc<Changes>) -> Self {
        let coded = changes.accounts.values().filter_map(|change| change.info.as_ref());
        let coded = coded.filter_map(|info| Some((info.code_hash, info.code.clone()?)));
        let codes = coded.filter(|(_, code)| !code.is_empty()).collect();
        Self { base, changes, codes }
    }
}

impl DatabaseRef for Overlay {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        match self.changes.accounts.get(&address) {
            Some(change) => Ok(change.info.clone()),
            None => self.base.basic_ref(address),
        }
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        match self.codes.get(&hash) {
            Some(code) => Ok(code.clone()),
            None => self.base.code_by_hash_ref(hash),
        }
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        if let Some(change) = self.changes.accounts.get(&address) {
            if let Some(value) = change.storage.get(&slot) {
                return Ok(*value);
            }
            if change.storage_cleared || change.info.is_none() {
                return Ok(U256::ZERO);
            }
        }
        self.base.storage_ref(address, slot)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        self.base.block_hash_ref(number)
    }
}

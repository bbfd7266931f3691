//! The state within a block: the block's changes over the state after its parent.
//!
//! memory  what the block changed, each key once; the code it ran

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256, U256};
use revm::primitives::hardfork::SpecId;
use revm::state::{AccountInfo, Bytecode, EvmState};
use revm::{Database, DatabaseRef};

use crate::state::Changes;

/// A block's changes over a view. Values read are not cached: the view has them in memory.
#[derive(Debug)]
pub struct BlockDb<'a, D> {
    base: &'a D,
    /// The block's changes so far.
    pub changes: Changes,
    /// Code deployed or run in this block, analysed once.
    codes: B256Map<Bytecode>,
    /// Whether EIP-161 applies: empty accounts are removed.
    clear_empty: bool,
}

impl<'a, D: DatabaseRef> BlockDb<'a, D> {
    /// Nothing changed yet, by the rules of `spec`.
    pub fn new(base: &'a D, spec: SpecId) -> Self {
        let clear_empty = spec.is_enabled_in(SpecId::SPURIOUS_DRAGON);
        Self { base, changes: Changes::default(), codes: B256Map::default(), clear_empty }
    }

    /// Takes over what one transaction changed.
    pub fn absorb(&mut self, state: EvmState) {
        let codes = state.values().filter_map(|account| account.info.code.as_ref().map(|code| (account, code)));
        for (account, code) in codes.filter(|(_, code)| !code.is_empty()) {
            self.codes.entry(account.info.code_hash).or_insert_with(|| code.clone());
        }
        self.changes.absorb_under(state, self.clear_empty);
    }

    /// Appends the changes of a later block on this state.
    pub fn append(&mut self, later: Changes) {
        let infos = later.accounts.values().filter_map(|change| change.info.as_ref());
        let codes = infos.filter_map(|info| Some((info.code_hash, info.code.clone()?)));
        self.codes.extend(codes.filter(|(_, code)| !code.is_empty()));
        self.changes.append(later);
    }

    /// Returns whether the account has code.
    pub fn has_code(&mut self, address: Address) -> bool {
        matches!(self.basic(address), Ok(Some(info)) if !info.is_empty_code_hash())
    }
}

impl<D: DatabaseRef> Database for BlockDb<'_, D> {
    type Error = D::Error;

    fn basic(&mut self, address: Address) -> Result<Option<AccountInfo>, D::Error> {
        self.basic_ref(address)
    }

    fn code_by_hash(&mut self, code_hash: B256) -> Result<Bytecode, D::Error> {
        let code = self.code_by_hash_ref(code_hash)?;
        self.codes.entry(code_hash).or_insert_with(|| code.clone());
        Ok(code)
    }

    fn storage(&mut self, address: Address, index: U256) -> Result<U256, D::Error> {
        self.storage_ref(address, index)
    }

    fn block_hash(&mut self, number: u64) -> Result<B256, D::Error> {
        self.block_hash_ref(number)
    }
}

impl<D: DatabaseRef> DatabaseRef for BlockDb<'_, D> {
    type Error = D::Error;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, D::Error> {
        match self.changes.accounts.get(&address) {
            Some(change) => Ok(change.info.clone()),
            None => self.base.basic_ref(address),
        }
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, D::Error> {
        match self.codes.get(&code_hash) {
            Some(code) => Ok(code.clone()),
            None => self.base.code_by_hash_ref(code_hash),
        }
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, D::Error> {
        if let Some(change) = self.changes.accounts.get(&address) {
            if let Some(value) = change.storage.get(&index) {
                return Ok(*value);
            }
            if change.storage_cleared {
                return Ok(U256::ZERO);
            }
        }
        self.base.storage_ref(address, index)
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, D::Error> {
        self.base.block_hash_ref(number)
    }
}

//! A state in which accounts are other than they are, for one message.
//!
//! memory  the accounts that differ, and their codes
//! source  geth's `eth_call`: what an override may set

use std::collections::HashMap;

use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::DatabaseRef;
use revm::state::{AccountInfo, Bytecode};

use crate::state::{AccountChange, Changes, bytecode};

/// What a caller wants an account to be for one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOverride {
    /// Wei.
    pub balance: Option<U256>,
    /// Transactions sent.
    pub nonce: Option<u64>,
    /// The contract's code.
    pub code: Option<Bytes>,
    /// All of the storage: what is not named is 0.
    pub state: Option<HashMap<U256, U256>>,
    /// Slots that differ; heeded where `state` is not given.
    pub state_diff: HashMap<U256, U256>,
    /// Where the precompile at this address runs instead.
    pub move_precompile_to: Option<Address>,
}

/// A state some accounts of which are other than they are.
#[derive(Debug)]
pub struct Overlay<D> {
    base: D,
    accounts: AddressMap<AccountOverride>,
    codes: HashMap<B256, Bytecode>,
}

impl<D: DatabaseRef> Overlay<D> {
    /// `base` with these accounts changed.
    pub fn new(base: D, accounts: impl IntoIterator<Item = (Address, AccountOverride)>) -> Self {
        let accounts: AddressMap<AccountOverride> = accounts.into_iter().collect();
        let codes = accounts.values().filter_map(|account| account.code.as_ref());
        let codes = codes.map(|code| (keccak256(code), bytecode(code.clone()))).collect();
        Self { base, accounts, codes }
    }
}

/// The same as changes of `base`, for what goes on from them: accounts that nothing is said of but where a precompile
/// goes are not among them.
pub fn overridden<D: DatabaseRef>(base: &D, accounts: &[(Address, AccountOverride)]) -> Result<Changes, D::Error> {
    let mut changes = Changes::default();
    for (address, wanted) in accounts {
        let AccountOverride { balance, nonce, code, state, state_diff, move_precompile_to: _ } = wanted;
        if balance.is_none() && nonce.is_none() && code.is_none() && state.is_none() && state_diff.is_empty() {
            continue;
        }
        let mut info = base.basic_ref(*address)?.unwrap_or_default();
        info.balance = balance.unwrap_or(info.balance);
        info.nonce = nonce.unwrap_or(info.nonce);
        if let Some(code) = code {
            info.code_hash = keccak256(code);
            info.code = Some(bytecode(code.clone()));
        }
        let slots = state.as_ref().unwrap_or(state_diff);
        let change = AccountChange {
            info: Some(info),
            storage_cleared: state.is_some(),
            storage: slots.iter().map(|(slot, value)| (*slot, *value)).collect(),
        };
        changes.accounts.insert(*address, change);
    }
    Ok(changes)
}

impl<D: DatabaseRef> DatabaseRef for Overlay<D> {
    type Error = D::Error;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, D::Error> {
        let info = self.base.basic_ref(address)?;
        let Some(account) = self.accounts.get(&address) else { return Ok(info) };
        let mut info = info.unwrap_or_default();
        info.balance = account.balance.unwrap_or(info.balance);
        info.nonce = account.nonce.unwrap_or(info.nonce);
        if let Some(code) = &account.code {
            info.code_hash = keccak256(code);
            info.code = self.codes.get(&info.code_hash).cloned();
        }
        Ok(Some(info))
    }

    fn code_by_hash_ref(&self, code_hash: B256) -> Result<Bytecode, D::Error> {
        match self.codes.get(&code_hash) {
            Some(code) => Ok(code.clone()),
            None => self.base.code_by_hash_ref(code_hash),
        }
    }

    fn storage_ref(&self, address: Address, index: U256) -> Result<U256, D::Error> {
        match self.accounts.get(&address) {
            Some(AccountOverride { state: Some(state), .. }) => Ok(state.get(&index).copied().unwrap_or_default()),
            Some(account) if account.state_diff.contains_key(&index) => Ok(account.state_diff[&index]),
            _ => self.base.storage_ref(address, index),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, D::Error> {
        self.base.block_hash_ref(number)
    }
}

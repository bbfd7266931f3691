//! State overrides: accounts changed for one message.
//!
//! source  geth's `eth_call` for the fields of an override
//! source  geth's `eth_call`: what an override may set

use std::collections::HashMap;

use alloy_primitives::map::AddressMap;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::DatabaseRef;
use revm::state::{AccountInfo, Bytecode};

use crate::state::{AccountChange, Changes, bytecode};

/// The override of an account for one message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountOverride {
    /// The balance, in wei.
    pub balance: Option<U256>,
    /// The nonce; `None` leaves the account's own.
    pub nonce: Option<u64>,
    /// The contract's code; `None` leaves the account's own.
    pub code: Option<Bytes>,
    /// The whole storage: slots without an entry are 0.
    pub state: Option<HashMap<U256, U256>>,
    /// Slots that differ; heeded where `state` is not given.
    pub state_diff: HashMap<U256, U256>,
    /// The address at which this account's precompile runs instead.
    pub move_precompile_to: Option<Address>,
}

/// A state with some accounts overridden.
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

/// Returns the overrides as changes of `base`. An account without an override is included only if a precompile moves
/// there.
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

#[cfg(test)]
mod tests {
    use revm::primitives::hardfork::SpecId;

    use super::*;
    use crate::exec::BlockDb;
    use crate::genesis::Genesis;
    use crate::state::State;

    #[test]
    fn the_changes_of_overrides_read_like_the_overrides() {
        let [rich, new, moved] = [1, 2, 3].map(Address::repeat_byte);
        let word = |number: u64| U256::from(number);
        let genesis = Genesis::dev(7, &[(rich, word(5))], 30_000_000);
        let state = State::open(None, &genesis).unwrap();
        let view = state.head();
        let slots = HashMap::from([(word(1), word(2))]);
        let accounts = [
            (rich, AccountOverride { nonce: Some(4), state_diff: slots.clone(), ..Default::default() }),
            (new, AccountOverride { code: Some(vec![0x5f].into()), state: Some(slots), ..Default::default() }),
            (moved, AccountOverride { move_precompile_to: Some(new), ..Default::default() }),
        ];
        let overlay = Overlay::new(&view, accounts.clone());
        let mut db = BlockDb::new(&view, SpecId::OSAKA);
        let changes = overridden(&db, &accounts).unwrap();
        assert!(!changes.accounts.contains_key(&moved), "nothing is said of it");
        db.append(changes);
        for address in [rich, new] {
            let (one, other) = (overlay.basic_ref(address).unwrap(), db.basic_ref(address).unwrap());
            assert_eq!(one, other);
            for slot in [word(1), word(9)] {
                assert_eq!(overlay.storage_ref(address, slot).unwrap(), db.storage_ref(address, slot).unwrap());
            }
        }
        let hash = db.basic_ref(new).unwrap().unwrap().code_hash;
        assert_eq!(db.code_by_hash_ref(hash).unwrap(), overlay.code_by_hash_ref(hash).unwrap());
        assert_eq!(db.basic_ref(moved).unwrap(), None);
    }
}

//! prestateTracer: the accounts that a transaction touched, as they were before; or what it changed.
//!
//! source  `eth/tracers/native/prestate.go` of go-ethereum 1.16

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use revm::DatabaseRef;
use revm::state::{AccountInfo, EvmState};

use crate::failure::Failure;
use crate::json::{self, Object};

/// Fields of an account to include besides balance and nonce.
#[derive(Clone, Copy)]
pub struct PrestateFields {
    /// The code of the account.
    pub code: bool,
    /// The touched slots of the storage.
    pub storage: bool,
}

/// Fields of an account in the answer.
#[derive(Default)]
struct PrestateAccount {
    balance: Option<U256>,
    nonce: Option<u64>,
    code: Option<Bytes>,
    storage: BTreeMap<U256, U256>,
}

/// Accounts in the answer, within a limit of bytes.
struct Accounts {
    all: BTreeMap<Address, PrestateAccount>,
    bytes_left: usize,
}

impl Accounts {
    fn within(bytes: usize) -> Self {
        Self { all: BTreeMap::new(), bytes_left: bytes }
    }

    fn insert(&mut self, address: Address, shown: PrestateAccount) -> Result<(), Failure> {
        // Two digits per byte, and names.
        let code = shown.code.as_ref().map_or(0, |code| 2 * code.len());
        let bytes = 128 + code + 140 * shown.storage.len();
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(Failure::too_large)?;
        self.all.insert(address, shown);
        Ok(())
    }
}

impl PrestateAccount {
    fn is_empty(&self) -> bool {
        self.balance.is_none() && self.nonce.is_none() && self.code.is_none() && self.storage.is_empty()
    }

    fn push(&self, object: &mut Object<'_>) {
        if let Some(balance) = &self.balance {
            object.quantity_256("balance", balance);
        }
        if let Some(code) = &self.code {
            object.data("code", code);
        }
        if let Some(nonce) = self.nonce {
            object.decimal("nonce", nonce);
        }
        if !self.storage.is_empty() {
            object.object("storage", |object| {
                for (key, value) in &self.storage {
                    object.data(&B256::from(*key).to_string(), B256::from(*value).as_slice());
                }
            });
        }
    }
}

/// Returns the code of an account; `None` without any.
pub fn code_of<D: DatabaseRef>(db: &D, info: &AccountInfo) -> Result<Bytes, Failure> {
    if info.is_empty_code_hash() {
        return Ok(Bytes::new());
    }
    let code = match &info.code {
        Some(code) => code.clone(),
        None => db.code_by_hash_ref(info.code_hash).map_err(Failure::state)?,
    };
    Ok(code.original_bytes())
}

fn whole<D: DatabaseRef>(db: &D, info: &AccountInfo, wanted: PrestateFields) -> Result<PrestateAccount, Failure> {
    let code = if wanted.code { code_of(db, info)? } else { Bytes::new() };
    Ok(PrestateAccount {
        balance: Some(info.balance),
        nonce: (info.nonce != 0).then_some(info.nonce),
        code: (!code.is_empty()).then_some(code),
        storage: BTreeMap::new(),
    })
}

/// Returns the accounts in `state`, with their contents in `db`.
pub fn before<D: DatabaseRef>(
    db: &D,
    state: &EvmState,
    wanted: PrestateFields,
    bytes: usize,
) -> Result<String, Failure> {
    let mut accounts = Accounts::within(bytes);
    for (address, account) in state {
        let info = db.basic_ref(*address).map_err(Failure::state)?.unwrap_or_default();
        let mut shown = whole(db, &info, wanted)?;
        if wanted.storage {
            shown.storage = account.storage.iter().map(|(key, slot)| (*key, slot.original_value)).collect();
        }
        accounts.insert(*address, shown)?;
    }
    Ok(json::object(|object| push_accounts(object, &accounts.all)))
}

/// Returns what `state` changes of `db`: before and after.
pub fn difference<D: DatabaseRef>(
    db: &D,
    state: &EvmState,
    wanted: PrestateFields,
    bytes: usize,
) -> Result<String, Failure> {
    let (mut pre, mut post) = (Accounts::within(bytes / 2), Accounts::within(bytes / 2));
    for (address, account) in state.iter().filter(|(_, account)| account.is_touched()) {
        let info = db.basic_ref(*address).map_err(Failure::state)?;
        let existed = info.is_some();
        let info = info.unwrap_or_default();
        let is_gone = account.is_selfdestructed() || account.info.is_empty();
        let changed = account.storage.iter().filter(|(_, slot)| wanted.storage && slot.is_changed());
        let changed: Vec<_> = changed.map(|(key, slot)| (*key, slot.original_value, slot.present_value)).collect();
        let mut new = PrestateAccount::default();
        if !is_gone {
            new.balance = (account.info.balance != info.balance).then_some(account.info.balance);
            new.nonce = (account.info.nonce != info.nonce).then_some(account.info.nonce);
            if wanted.code && account.info.code_hash != info.code_hash {
                new.code = Some(code_of(db, &account.info)?);
            }
            let set = changed.iter().filter(|(_, _, present)| !present.is_zero());
            new.storage = set.map(|(key, _, present)| (*key, *present)).collect();
        }
        if new.is_empty() && changed.is_empty() && !(is_gone && existed) {
            continue;
        }
        if existed {
            let mut old = whole(db, &info, wanted)?;
            let was_set = changed.iter().filter(|(_, original, _)| !original.is_zero());
            old.storage = was_set.map(|(key, original, _)| (*key, *original)).collect();
            pre.insert(*address, old)?;
        }
        if !is_gone {
            post.insert(*address, new)?;
        }
    }
    Ok(json::object(|object| {
        object.object("post", |object| push_accounts(object, &post.all));
        object.object("pre", |object| push_accounts(object, &pre.all));
    }))
}

fn push_accounts(object: &mut Object<'_>, accounts: &BTreeMap<Address, PrestateAccount>) {
    for (address, shown) in accounts {
        let name = format!("0x{}", alloy_primitives::hex::encode(address));
        object.object(&name, |object| shown.push(object));
    }
}

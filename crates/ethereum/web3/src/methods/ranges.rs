//! Accounts of a state and slots of an account, a page at a time: `debug_accountRange`, `debug_storageRangeAt`.
//!
//! reads   the state after a block, or before one of its transactions
//! writes  pages, in the order of the keys' hashes, as the trie has them
//! memory  a page and one more key; of the whole state nothing
//! drops   states that are too large to search within the time of a call: error -32000
//! source  `eth/api_debug.go` of go-ethereum 1.16

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, KECCAK256_EMPTY, U256, keccak256};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hearth_evm::exec::BlockDb;
use hearth_evm::state::{Account, Entry, StateView};
use revm::DatabaseRef;
use revm::state::EvmState;

use super::debug::not_found;
use super::{Api, Caller};
use crate::call_pool::Deadline;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::params::{BlockId, Params};

/// Maximum entries of one page, as in geth.
const PAGE_MAX: usize = 256;
/// Entries of the state between two checks of the deadline.
const LOOK_EVERY: usize = 1_024;

/// The page that is requested.
#[derive(Clone, Copy)]
struct Span {
    start: B256,
    length: usize,
}

/// A page, and the key that the next one begins with.
type RangePage<T> = (BTreeMap<B256, T>, Option<B256>);

/// Collects the smallest keys from `start` on, a page and the key after it.
struct Page<T> {
    start: B256,
    length: usize,
    found: BTreeMap<B256, T>,
}

impl<T> Page<T> {
    fn new(span: Span) -> Self {
        Self { start: span.start, length: span.length.min(PAGE_MAX), found: BTreeMap::new() }
    }

    fn add(&mut self, key: B256, value: T) {
        if key < self.start || self.found.len() > self.length && self.found.keys().next_back() < Some(&key) {
            return;
        }
        self.found.insert(key, value);
        if self.found.len() > self.length + 1 {
            self.found.pop_last();
        }
    }

    fn finish(mut self) -> RangePage<T> {
        let next = (self.found.len() > self.length).then(|| self.found.pop_last()).flatten();
        (self.found, next.map(|(key, _)| key))
    }
}

/// Calls `look` for each entry of a state.
fn each(view: &StateView, deadline: Deadline, mut look: impl FnMut(Entry)) -> Result<(), Failure> {
    for (index, entry) in view.dump().enumerate() {
        if index.is_multiple_of(LOOK_EVERY) {
            deadline.check()?;
        }
        look(entry);
    }
    Ok(())
}

/// Parses a hash that may be shortened, as in geth.
fn key(bytes: &Bytes) -> Result<B256, Failure> {
    match bytes.len() {
        0..=32 => Ok(B256::right_padding_from(bytes)),
        _ => Err(Failure::invalid_params("invalid start key: longer than 32 bytes")),
    }
}

impl Caller<'_> {
    /// Block, place in it, contract, first key, length of the page.
    pub(super) async fn debug_storage_range(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(5)?;
        let id: BlockId = params.required(0)?;
        let (index, contract): (u64, Address) = (params.required(1)?, params.required(2)?);
        let start = key(&params.required(3)?)?;
        let length: u64 = params.required(4)?;
        let page = Span { start, length: usize::try_from(length).unwrap_or(PAGE_MAX) };
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |deadline| api.storage_range(id, index, contract, page, deadline)).await
    }

    /// Block, first key, length of the page, and whether codes, storage and accounts without a known address are left
    /// out; the last has no effect: the address of every account is known.
    pub(super) async fn debug_account_range(&self, params: Params<'_>) -> Result<String, Failure> {
        let params = params.at_most(6)?;
        let id: BlockId = params.required(0)?;
        let start = key(&params.required(1)?)?;
        let length: u64 = params.required(2)?;
        let (no_code, no_storage): (bool, bool) =
            (params.optional(3)?.unwrap_or(false), params.optional(4)?.unwrap_or(false));
        params.optional::<bool>(5)?;
        let page = Span { start, length: usize::try_from(length).unwrap_or(PAGE_MAX) };
        let api = Arc::clone(self.api);
        self.api.heavy.run(move |deadline| api.account_range(id, page, !no_code, !no_storage, deadline)).await
    }
}

impl Api {
    fn storage_range(
        &self,
        id: BlockId,
        index: u64,
        contract: Address,
        page: Span,
        deadline: Deadline,
    ) -> Result<String, Failure> {
        let block = self.block(id)?.ok_or_else(|| not_found(id))?;
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if index >= block.txs.len() {
            let why = format!("transaction index {index} out of range for block {}", block.hash);
            return Err(Failure::server(why));
        }
        let parent = block.number().checked_sub(1).and_then(|number| self.chain.block(number));
        let parent = parent.ok_or_else(|| Failure::server("parent block not found"))?;
        let view = self.view_after(&parent)?;
        let found = self.replay(&block, Some(index), deadline, |subject| {
            let slots = slots_of(&view, subject.db, contract, page, deadline)?;
            Ok((slots, EvmState::default()))
        })?;
        let (found, next) = found.into_iter().next().unwrap_or_default();
        Ok(json::object(|object| {
            object.object("storage", |object| {
                for (hash, (slot, value)) in &found {
                    object.object(&hash.to_string(), |object| {
                        object.data("key", &slot.to_be_bytes::<32>());
                        object.data("value", &value.to_be_bytes::<32>());
                    });
                }
            });
            object.data_or_null("nextKey", next.as_ref().map(|key| key.as_slice()));
        }))
    }

    fn account_range(
        &self,
        id: BlockId,
        page: Span,
        with_code: bool,
        with_storage: bool,
        deadline: Deadline,
    ) -> Result<String, Failure> {
        let block = self.block(id)?.ok_or_else(|| not_found(id))?;
        let view = self.view_after(&block)?;
        let mut page = Page::new(page);
        each(&view, deadline, |entry| {
            if let Entry::Account { address, account } = entry {
                page.add(keccak256(address), (address, account));
            }
        })?;
        let (found, next) = page.finish();
        let mut slots: HashMap<Address, BTreeMap<U256, U256>> = HashMap::new();
        if with_storage {
            slots = found.values().map(|(address, _)| (*address, BTreeMap::new())).collect();
            let mut left = self.config.limits.answer_bytes / SLOT_BYTES;
            each(&view, deadline, |entry| {
                if let Entry::Storage { address, slot, value } = entry
                    && let Some(slots) = slots.get_mut(&address).filter(|_| left > 0)
                {
                    left -= 1;
                    slots.insert(slot, value);
                }
            })?;
            if left == 0 {
                return Err(Failure::too_large());
            }
        }
        Ok(json::object(|object| {
            object.text("root", &alloy_primitives::hex::encode(block.header.state_root));
            object.object("accounts", |object| {
                for (address, account) in found.values() {
                    let slots = slots.get(address).filter(|slots| !slots.is_empty());
                    let code = with_code.then(|| view.code(&account.code_hash)).flatten();
                    object.object(&address.to_string(), |object| push_account(object, address, account, code, slots));
                }
            });
            if let Some(next) = next {
                // As Go writes bytes in JSON.
                object.text("next", &BASE64.encode(next));
            }
        }))
    }
}

/// Returns a page of a contract's slots: those of the state `before` a block, and what the block has written so far.
fn slots_of(
    before: &StateView,
    now: &BlockDb<'_, StateView>,
    contract: Address,
    page: Span,
    deadline: Deadline,
) -> Result<RangePage<(U256, U256)>, Failure> {
    if now.basic_ref(contract).map_err(Failure::state)?.is_none() {
        return Err(Failure::server(format!("account {contract} doesn't exist")));
    }
    let mut page = Page::new(page);
    let mut add = |slot: U256, value: U256| {
        if !value.is_zero() {
            page.add(keccak256(slot.to_be_bytes::<32>()), (slot, value));
        }
    };
    let change = now.changes.accounts.get(&contract);
    let written = change.map(|change| &change.storage);
    written.into_iter().flatten().for_each(|(slot, value)| add(*slot, *value));
    if change.is_none_or(|change| !change.storage_cleared) {
        each(before, deadline, |entry| match entry {
            Entry::Storage { address, slot, value }
                if address == contract && written.is_none_or(|written| !written.contains_key(&slot)) =>
            {
                add(slot, value);
            }
            _ => {}
        })?;
    }
    Ok(page.finish())
}

/// The length of a slot in the answer.
const SLOT_BYTES: usize = 140;

fn push_account(
    object: &mut Object<'_>,
    address: &Address,
    account: &Account,
    code: Option<Bytes>,
    slots: Option<&BTreeMap<U256, U256>>,
) {
    object.text("balance", &account.balance.to_string());
    object.decimal("nonce", account.nonce);
    object.data("codeHash", account.code_hash.as_slice());
    if account.code_hash != KECCAK256_EMPTY
        && let Some(code) = code
    {
        object.data("code", &code);
    }
    if let Some(slots) = slots {
        object.object("storage", |object| {
            for (slot, value) in slots {
                let bytes = value.to_be_bytes::<32>();
                let digits = alloy_primitives::hex::encode(&bytes[value.leading_zeros() / 8..]);
                object.text(&B256::from(*slot).to_string(), &digits);
            }
        });
    }
    object.data("address", address.as_slice());
    object.data("key", keccak256(address).as_slice());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_smallest_keys_and_tells_the_next() {
        let key = |number: u8| B256::with_last_byte(number);
        let mut page = Page::new(Span { start: key(3), length: 2 });
        [9, 4, 1, 7, 3, 8].into_iter().for_each(|number| page.add(key(number), number));
        let (found, next) = page.finish();
        assert_eq!((found.into_values().collect::<Vec<_>>(), next), (vec![3, 4], Some(key(7))));
        let mut last = Page::new(Span { start: key(8), length: 2 });
        [9, 4, 8].into_iter().for_each(|number| last.add(key(number), number));
        assert_eq!(last.finish().1, None);
    }
}

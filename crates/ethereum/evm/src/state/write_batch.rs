//! A block's changes in the tables' form: sorted, without what changes nothing, cleared storage slot by slot.
//!
//! memory  64 B an account and 84 B a slot, until the block is committed

use std::hash::{BuildHasher, Hash, Hasher};

use alloy_primitives::map::DefaultHashBuilder;
use alloy_primitives::{Address, B256, KECCAK256_EMPTY, U256};
use revm::bytecode::Bytecode;

use super::code::NO_CODE;
use super::flat_state::{FlatState, SlimAccount, SlotKey, Word};
use super::version::{ReplacedValues, Version};
use super::{AccountChange, Changes, StateError, Tables};

/// The values to set, sorted by key: `None` and zero remove.
#[derive(Default)]
pub(crate) struct WriteBatch {
    pub(crate) accounts: Vec<(Address, Option<SlimAccount>)>,
    pub(crate) slots: Vec<(SlotKey, Word)>,
    /// The old values in the tables, if they were read.
    before: Option<ReplacedValues>,
}

impl WriteBatch {
    /// Sets old values back, sorted.
    pub(super) fn back(ReplacedValues { accounts, slots }: ReplacedValues) -> Self {
        Self { accounts: accounts.into(), slots: slots.into(), before: None }
    }

    /// Creates the batch of `changes` to the newest version, which is `on`. New codes are added to those known.
    pub(super) fn new(tables: &Tables, on: &Version, changes: &Changes) -> Result<Self, StateError> {
        let flat = &tables.flat;
        let mut accounts = Vec::with_capacity(changes.accounts.len());
        let mut slots = Vec::new();
        // Slots that are written, and what into them.
        let mut written: Vec<(SlotKey, Word)> = Vec::new();
        let befores = flat.accounts_of(changes.accounts.keys());
        for ((address, change), before) in changes.accounts.iter().zip(befores) {
            let after = match &change.info {
                Some(info) => {
                    let code = code_number(flat, address, info.code_hash, info.code.as_ref())?;
                    Some(SlimAccount::new(info.balance, info.nonce, code))
                }
                None => None,
            };
            if (change.storage_cleared || after.is_none()) && before.is_some() {
                let kept = |slot: &Word| after.is_some() && change.storage.contains_key(&U256::from_be_bytes(*slot));
                let cleared = tables.tries.slots_of(&on.top, address).into_iter().filter(|slot| !kept(slot));
                slots.extend(cleared.map(|slot| ((*address, slot), flat.slot(&(*address, slot)), [0; 32])));
            }
            if after.is_some() {
                let of_account = change.storage.iter();
                written.extend(of_account.map(|(slot, value)| ((*address, slot.to_be_bytes()), value.to_be_bytes())));
            }
            if before != after {
                accounts.push((*address, before, after));
            }
        }
        let befores = flat.slots_of(written.iter().map(|(key, _)| key));
        let written = written.into_iter().zip(befores).map(|((key, after), before)| (key, before, after));
        slots.extend(written.filter(|(_, before, after)| before != after));
        let accounts = by_address(&accounts);
        slots.sort_unstable_by_key(|(key, ..)| *key);
        let before = ReplacedValues {
            accounts: accounts.iter().map(|(address, before, _)| (*address, *before)).collect(),
            slots: slots.iter().map(|(key, before, _)| (*key, *before)).collect(),
        };
        Ok(Self {
            accounts: accounts.into_iter().map(|(address, _, after)| (address, after)).collect(),
            slots: slots.into_iter().map(|(key, _, after)| (key, after)).collect(),
            before: Some(before),
        })
    }

    /// Returns the old values in the tables of all keys that this sets; the tables must be those that it was made for.
    pub(super) fn replaced(&mut self, flat: &FlatState) -> ReplacedValues {
        self.before.take().unwrap_or_else(|| {
            let accounts = self.accounts.iter().map(|(address, _)| address);
            let slots = self.slots.iter().map(|(key, _)| key);
            ReplacedValues {
                accounts: accounts.clone().copied().zip(flat.accounts_of(accounts)).collect(),
                slots: slots.clone().copied().zip(flat.slots_of(slots)).collect(),
            }
        })
    }

    /// Writes the new values into the tables.
    pub(super) fn set(&self, flat: &FlatState) {
        flat.set_accounts(&self.accounts);
        flat.set_slots(&self.slots);
    }
}

/// A copy in order of the addresses.
fn by_address<T: Copy>(accounts: &[(Address, T, T)]) -> Vec<(Address, T, T)> {
    let first = |address: &Address| u64::from_be_bytes(*address.first_chunk().expect("20 bytes"));
    let mut order: Vec<(u64, u32)> = accounts.iter().map(|(address, ..)| first(address)).zip(0..).collect();
    // The first eight bytes nearly always decide; the sorted items are small.
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| accounts[a.1 as usize].0.cmp(&accounts[b.1 as usize].0)));
    order.into_iter().map(|(_, at)| accounts[at as usize]).collect()
}

fn code_number(flat: &FlatState, address: &Address, hash: B256, code: Option<&Bytecode>) -> Result<u32, StateError> {
    if hash == KECCAK256_EMPTY {
        return Ok(NO_CODE);
    }
    match (flat.codes.number(&hash), code) {
        (Some(number), _) => Ok(number),
        (None, Some(code)) => Ok(flat.codes.add(hash, code.clone())),
        (None, None) => Err(StateError::UnknownCode { address: *address, hash }),
    }
}

/// Compares two sets of changes by a randomly keyed 128-bit hash: no client can find a collision.
#[derive(Default)]
pub(crate) struct Fingerprint(DefaultHashBuilder, DefaultHashBuilder);

impl Fingerprint {
    /// The same for the same changes, in whatever order the maps have them.
    pub(super) fn of(&self, changes: &Changes) -> u128 {
        let accounts = changes.accounts.iter().map(|(address, change)| self.account(address, change));
        accounts.fold(changes.accounts.len() as u128, u128::wrapping_add)
    }

    fn account(&self, address: &Address, change: &AccountChange) -> u128 {
        let slots = change.storage.iter().map(|slot| self.hash(&slot)).fold(0, u128::wrapping_add);
        self.hash(&(address, &change.info, change.storage_cleared, slots))
    }

    fn hash(&self, of: &impl Hash) -> u128 {
        let one = |builder: &DefaultHashBuilder| {
            let mut hasher = builder.build_hasher();
            of.hash(&mut hasher);
            hasher.finish()
        };
        u128::from(one(&self.0)) << 64 | u128::from(one(&self.1))
    }
}

//! The state: accounts, their storage and code, after each of the last blocks, and the roots that prove it.
//!
//! reads   the genesis, and the changes of each block
//! writes  versions of the state, each with its root
//! memory  the newest state, and what each of the last 128 blocks replaced

mod changes;
mod code;
mod error;
mod flat;
mod proof;
mod rebuild;
mod version;
mod view;

pub use changes::{AccountChange, Changes};
pub use error::StateError;
pub use proof::{AccountProof, StorageProof};
pub use view::{Account, StateView};

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use alloy_primitives::{Address, B256, U256};
use revm::bytecode::Bytecode;

use crate::genesis::Genesis;
use flat::{Flat, Slim, SlotKey, Word};
use version::{Replaced, Version};

/// Blocks whose state is kept: the newest and those before it.
pub const WINDOW: usize = 128;

/// The versions kept, oldest first, numbers without a gap; never empty once the state is open.
type Window = RwLock<VecDeque<StateView>>;

/// Finds views, from any thread.
#[derive(Clone)]
pub struct StateHandle {
    window: Arc<Window>,
}

impl StateHandle {
    /// The newest state.
    pub fn head(&self) -> StateView {
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        window.back().expect("a state has a head").clone()
    }

    /// The state after block `number`, if it is one of the last [`WINDOW`].
    pub fn at(&self, number: u64) -> Option<StateView> {
        let window = self.window.read().unwrap_or_else(PoisonError::into_inner);
        let oldest = window.front()?.number();
        window.get(usize::try_from(number.checked_sub(oldest)?).ok()?).cloned()
    }

    fn oldest(&self) -> u64 {
        self.window.read().unwrap_or_else(PoisonError::into_inner).front().map_or(0, StateView::number)
    }
}

/// The state and its one writer.
pub struct State {
    flat: Arc<Flat>,
    handle: StateHandle,
    /// The last root computed ahead of its commit, and of which changes on which head.
    ahead: Mutex<Option<(B256, Changes, B256)>>,
}

/// A block's changes in the tables' form: what is set, and what that replaces, each sorted by key.
struct Applied {
    accounts: Vec<(Address, Option<Slim>)>,
    slots: Vec<(SlotKey, Word)>,
    replaced: Replaced,
}

impl State {
    /// Opens the state in `dir`, or a new one of `genesis` in memory alone where there is no `dir`.
    pub fn open(_dir: Option<&Path>, genesis: &Genesis) -> Result<Self, StateError> {
        let flat = Arc::new(Flat::new());
        let changes = genesis.changes();
        let mut all = rebuild::Everything::new();
        rebuild::apply(&mut all, &changes);
        let root = rebuild::root(&all);
        let hash = genesis.block_zero(root).hash();
        let empty = StateView { flat: flat.clone(), version: Version::first(0, hash, root, Arc::new([hash])) };
        let handle = StateHandle { window: Arc::new(RwLock::new(VecDeque::from([empty]))) };
        let state = Self { flat, handle, ahead: Mutex::default() };
        let applied = state.applied(&changes)?;
        state.flat.set_accounts(&applied.accounts);
        state.flat.set_slots(&applied.slots);
        Ok(state)
    }

    /// The newest state.
    pub fn head(&self) -> StateView {
        self.handle.head()
    }

    /// The state after block `number`, if it is one of the last [`WINDOW`].
    pub fn at(&self, number: u64) -> Option<StateView> {
        self.handle.at(number)
    }

    /// Finds views, from any thread.
    pub fn handle(&self) -> StateHandle {
        self.handle.clone()
    }

    /// The root of the state that `changes` would make of the head; remembered for [`State::commit`].
    pub fn root_after(&self, changes: &Changes) -> B256 {
        let head = self.head();
        let mut all = rebuild::everything(&head);
        rebuild::apply(&mut all, changes);
        let root = rebuild::root(&all);
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        *ahead = Some((head.block_hash(), changes.clone(), root));
        root
    }

    /// Makes `changes` the state after block `number`, which must follow the head; gives the root of the state.
    pub fn commit(&mut self, number: u64, block_hash: B256, changes: Changes) -> Result<B256, StateError> {
        let head = self.head();
        if Some(number) != head.number().checked_add(1) {
            return Err(StateError::NotNext { number, head: head.number() });
        }
        let applied = self.applied(&changes)?;
        let known = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        let known = known.filter(|(on, of, _)| *on == head.block_hash() && *of == changes);
        let root = known.map_or_else(|| self.root_after(&changes), |(.., root)| root);
        let version = head.version.link(number, block_hash, root, head.version.hashes(), applied.replaced);
        self.flat.set_accounts(&applied.accounts);
        self.flat.set_slots(&applied.slots);
        let mut window = self.handle.window.write().unwrap_or_else(PoisonError::into_inner);
        window.push_back(StateView { flat: self.flat.clone(), version });
        let dropped = (window.len() > WINDOW).then(|| window.pop_front());
        drop(window);
        drop(dropped);
        Ok(root)
    }

    /// Goes back to the state after block `number`. Views of the blocks taken back stay what they are.
    pub fn rewind(&mut self, number: u64) -> Result<(), StateError> {
        let head = self.head();
        let Some(target) = self.at(number) else {
            return Err(StateError::NotKept { number, oldest: self.handle.oldest(), head: head.number() });
        };
        if number == head.number() {
            return Ok(());
        }
        // Going back is a version like any other, which sets what was and replaces what is.
        let Replaced { accounts, slots } = target.version.replaced_since();
        let replaced = Replaced {
            accounts: accounts.iter().map(|(address, _)| (*address, self.flat.account(address))).collect(),
            slots: slots.iter().map(|(key, _)| (*key, self.flat.slot(key))).collect(),
        };
        let was = &target.version;
        let before = &was.hashes()[..was.hashes().len() - 1];
        let version = head.version.link(number, was.block_hash, was.state_root, before, replaced);
        self.flat.set_accounts(&accounts);
        self.flat.set_slots(&slots);
        let mut window = self.handle.window.write().unwrap_or_else(PoisonError::into_inner);
        while window.back().is_some_and(|view| view.number() >= number) {
            window.pop_back();
        }
        window.push_back(StateView { flat: self.flat.clone(), version });
        Ok(())
    }

    /// The changes in the tables' form. New codes are added to those known.
    fn applied(&self, changes: &Changes) -> Result<Applied, StateError> {
        let (mut accounts, mut slots) = (Vec::with_capacity(changes.accounts.len()), Vec::new());
        for (address, change) in &changes.accounts {
            let after = match &change.info {
                Some(info) => {
                    let code = self.code_number(address, info.code_hash, info.code.as_ref())?;
                    Some(Slim::new(info.balance, info.nonce, code))
                }
                None => None,
            };
            accounts.push((*address, after));
            if change.storage_cleared || after.is_none() {
                let cleared = self.flat.slot_keys().into_iter().filter(|(of, _)| of == address);
                slots.extend(cleared.map(|key| (key, [0; 32])));
                slots.retain(|((of, slot), _)| {
                    of != address || after.is_none() || !change.storage.contains_key(&U256::from_le_bytes(*slot))
                });
            }
            if after.is_some() {
                let written = change.storage.iter();
                slots.extend(written.map(|(slot, value)| ((*address, slot.to_le_bytes()), value.to_le_bytes())));
            }
        }
        accounts.sort_unstable_by_key(|(address, _)| *address);
        slots.sort_unstable_by_key(|(key, _)| *key);
        accounts.retain(|(address, after)| self.flat.account(address) != *after);
        slots.retain(|(key, after)| self.flat.slot(key) != *after);
        let replaced = Replaced {
            accounts: accounts.iter().map(|(address, _)| (*address, self.flat.account(address))).collect(),
            slots: slots.iter().map(|(key, _)| (*key, self.flat.slot(key))).collect(),
        };
        Ok(Applied { accounts, slots, replaced })
    }

    fn code_number(&self, address: &Address, hash: B256, code: Option<&Bytecode>) -> Result<u32, StateError> {
        match (self.flat.codes.number(&hash), code) {
            (Some(number), _) => Ok(number),
            (None, Some(code)) => Ok(self.flat.codes.add(hash, code.clone())),
            (None, None) => Err(StateError::UnknownCode { address: *address, hash }),
        }
    }
}

impl StateView {
    /// What proves the account and its slots under this state's root.
    pub fn proof(&self, address: &Address, slots: &[U256]) -> Result<AccountProof, StateError> {
        Ok(rebuild::proof(&rebuild::everything(self), address, slots))
    }
}

#[cfg(test)]
mod tests;

//! The root of a hypothetical state: of changes to a kept state that are never committed.
//!
//! reads   the tables, and what later versions removed
//! memory  what the changes and later versions touch, while the root is computed; the hash of each new code
//! drops   views of another state: an error

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_primitives::{Address, B256, KECCAK256_EMPTY};

use super::code::{NO_CODE, PASSING};
use super::flat_state::{FlatState, SlimAccount, SlotKey, Word};
use super::{Changes, State, StateError, StateView, Tables};

const EMPTY: Word = [0; 32];
const LAST: Word = [0xff; 32];

impl State {
    /// The root of the state that `changes` would make of `view`, which is this state's newest or an older one.
    /// Nothing is kept of it, no new code either.
    pub fn root_on(&self, view: &StateView, changes: &Changes) -> Result<B256, StateError> {
        let head = self.head();
        if !Arc::ptr_eq(&view.tables, &self.tables) {
            let (number, oldest) = (view.number(), self.handle.oldest());
            return Err(StateError::NotKept { number, oldest, head: head.number() });
        }
        let Tables { flat, tries, .. } = &*self.tables;
        // The way from the newest state leads back to the view, and from there on.
        let back = view.version.replaced_since();
        let mut accounts: BTreeMap<Address, Option<SlimAccount>> = back.accounts.iter().copied().collect();
        let mut slots: BTreeMap<SlotKey, Word> = back.slots.iter().copied().collect();
        let mut passing = Vec::new();
        for (address, change) in &changes.accounts {
            if change.storage_cleared || change.info.is_none() {
                slots.range_mut((*address, EMPTY)..=(*address, LAST)).for_each(|(_, value)| *value = EMPTY);
                let stored = tries.slots_of(&head.version.top, address);
                slots.extend(stored.into_iter().map(|slot| ((*address, slot), EMPTY)));
            }
            let Some(info) = &change.info else {
                accounts.insert(*address, None);
                continue;
            };
            let written = change.storage.iter();
            slots.extend(written.map(|(slot, value)| ((*address, slot.to_be_bytes()), value.to_be_bytes())));
            let code = code_number(flat, info.code_hash, &mut passing);
            accounts.insert(*address, Some(SlimAccount::new(info.balance, info.nonce, code)));
        }
        accounts.retain(|address, after| flat.account(address) != *after);
        slots.retain(|key, after| flat.slot(key) != *after);
        let accounts: Vec<_> = accounts.into_iter().collect();
        let slots: Vec<_> = slots.into_iter().collect();
        let prepared = tries.prepare_with(flat, &head.version.top, &accounts, &slots, &passing);
        let root = prepared.root();
        tries.discard(prepared);
        Ok(root)
    }
}

/// The number of the code with this hash: its own, or that of one more that passes.
fn code_number(flat: &FlatState, hash: B256, passing: &mut Vec<B256>) -> u32 {
    if hash == KECCAK256_EMPTY {
        return NO_CODE;
    }
    flat.codes.number(&hash).unwrap_or_else(|| {
        passing.push(hash);
        PASSING + u32::try_from(passing.len() - 1).expect("fewer codes than 2^31")
    })
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{U256, keccak256};
    use revm::state::AccountInfo;

    use super::*;
    use crate::genesis::Genesis;
    use crate::state::{AccountChange, bytecode};

    fn change(balance: u64, code: &[u8], slots: &[(u64, u64)]) -> AccountChange {
        let code = bytecode(code.to_vec().into());
        let hash = if code.is_empty() { KECCAK256_EMPTY } else { keccak256(code.original_bytes()) };
        let storage = slots.iter().map(|(slot, value)| (U256::from(*slot), U256::from(*value))).collect();
        let info = Some(AccountInfo::new(U256::from(balance), 1, hash, code));
        AccountChange { info, storage_cleared: false, storage }
    }

    fn of(address: Address, change: AccountChange) -> Changes {
        let mut changes = Changes::default();
        changes.accounts.insert(address, change);
        changes
    }

    #[test]
    fn the_root_is_that_of_a_commit_from_whatever_state() {
        let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let genesis = Genesis::dev(7, &[(one, U256::from(5))], 30_000_000);
        let gone = AccountChange { info: None, storage_cleared: true, ..Default::default() };
        let cleared = AccountChange { storage_cleared: true, ..change(9, &[0x5f], &[(3, 4)]) };
        let steps = [
            of(two, change(6, &[0x60, 0x01], &[(1, 2), (2, 3)])),
            of(two, cleared),
            of(one, change(8, &[], &[])),
            of(two, gone),
            of(two, change(1, &[0x60, 0x02], &[(1, 1)])),
        ];
        let mut state = State::open(None, &genesis).unwrap();
        let mut views = vec![state.head()];
        let mut roots = vec![state.head().state_root()];
        for (number, changes) in (1..).zip(&steps) {
            let codes = state.sizes().codes;
            let root = state.root_on(&state.head(), changes).unwrap();
            assert_eq!(state.sizes().codes, codes, "a code of a supposed state is not kept");
            assert_eq!(state.commit(number, B256::repeat_byte(number as u8), changes).unwrap(), root, "{number}");
            views.push(state.head());
            roots.push(root);
        }
        // And the same from every older state, while later ones are there; of several changes together, too.
        for from in 0..steps.len() {
            let mut all = Changes::default();
            for to in from..steps.len() {
                all.append(steps[to].clone());
                assert_eq!(state.root_on(&views[from], &all).unwrap(), roots[to + 1], "{from} to {to}");
            }
            assert_eq!(state.root_on(&views[from], &Changes::default()).unwrap(), roots[from]);
        }
        let other = State::open(None, &genesis).unwrap();
        assert!(matches!(state.root_on(&other.head(), &steps[0]), Err(StateError::NotKept { .. })));
    }
}

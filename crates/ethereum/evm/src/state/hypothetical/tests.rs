//! Hypothetical states against committed ones.

use alloy_primitives::{KECCAK256_EMPTY, U256};
use revm::state::AccountInfo;

use super::*;
use crate::genesis::Genesis;
use crate::state::{History, State, WINDOW, bytecode};

fn change(balance: u64, code: &[u8], slots: &[(u64, u64)]) -> AccountChange {
    let code = bytecode(code.to_vec().into());
    let hash = if code.is_empty() { KECCAK256_EMPTY } else { keccak256(&code.original_bytes()).into() };
    let storage = slots.iter().map(|(slot, value)| (U256::from(*slot), U256::from(*value))).collect();
    let info = Some(AccountInfo::new(U256::from(balance), 1, hash, code));
    AccountChange { info, storage_cleared: false, storage }
}

fn of(address: Address, change: AccountChange) -> Changes {
    let mut changes = Changes::default();
    changes.accounts.insert(address, change);
    changes
}

fn hash_of(number: u64) -> B256 {
    B256::from(U256::from(number))
}

/// The changes of the block of this number: some accounts and slots, new ones and old.
fn block(number: u64) -> Changes {
    let mut changes = Changes::default();
    for at in 0..8 {
        let slots = [(number % 7 + at, number), (at, number % 3)];
        let address = Address::from_word(hash_of(1 + (number * 31 + at * 7) % 300));
        changes.accounts.insert(address, change(number, &[], &slots));
    }
    changes
}

fn open() -> State {
    let accounts: Vec<_> = (1..=4).map(|number| (Address::repeat_byte(number), U256::from(number))).collect();
    State::open(None, &Genesis::dev(7, &accounts, 30_000_000)).expect("in memory")
}

#[test]
fn roots_are_those_of_commits() {
    let (one, two) = (Address::repeat_byte(1), Address::repeat_byte(2));
    let gone = AccountChange { info: None, storage_cleared: true, ..Default::default() };
    let cleared = AccountChange { storage_cleared: true, ..change(9, &[0x5f], &[(3, 4)]) };
    let steps = [
        of(two, change(6, &[0x60, 0x01], &[(1, 2), (2, 3)])),
        of(two, cleared),
        of(one, change(8, &[], &[])),
        of(two, gone),
        of(two, change(1, &[0x60, 0x02], &[(1, 1), (5, 0)])),
        of(two, change(1, &[0x60, 0x02], &[(1, 0)])),
    ];
    let mut state = open();
    let mut views = vec![state.head()];
    for (number, changes) in (1..).zip(&steps) {
        let codes = state.sizes().codes;
        let root = state.head().root_with(changes).expect("kept");
        assert_eq!(state.sizes().codes, codes, "a code of a hypothetical state is not kept");
        assert_eq!(state.commit(number, hash_of(number), changes).expect("it follows"), root, "block {number}");
        views.push(state.head());
    }
    // And from every older state, while later ones are there: after each step, and after all at once.
    for from in 0..steps.len() {
        let (mut all, mut after) = (Changes::default(), views[from].hypothetical().expect("kept"));
        assert_eq!(after.root(), views[from].state_root());
        for to in from..steps.len() {
            all.append(steps[to].clone());
            after.apply(&steps[to]).expect("kept");
            assert_eq!(after.root(), views[to + 1].state_root(), "{from} to {to}");
            let at_once = views[from].root_with(&all).expect("kept");
            assert_eq!(at_once, views[to + 1].state_root(), "{from} to {to} at once");
        }
    }
}

#[test]
fn nodes_stay_while_a_hypothetical_state_needs_them() {
    let mut state = open();
    for number in 1..=50 {
        state.commit(number, hash_of(number), block(number)).expect("it follows");
    }
    let view = state.head();
    let expected = state.root_after(&block(1_000));
    let mut after = view.hypothetical().expect("kept");
    for number in 51..=50 + 3 * WINDOW as u64 {
        state.commit(number, hash_of(number), block(number)).expect("it follows");
    }
    after.apply(&block(1_000)).expect("pinned");
    assert_eq!(after.root(), expected);
    let pinned = state.sizes().retired_bytes;
    drop(after);
    let number = state.head().number() + 1;
    state.commit(number, hash_of(number), block(number)).expect("it follows");
    assert!(state.sizes().retired_bytes < pinned, "what nobody needs any more is freed with the next block");
    assert!(matches!(view.root_with(&block(1)), Err(StateError::NoProofs(50))));
}

#[test]
fn with_a_history_all_states_that_are_kept_can_be_changed() {
    let (blocks, kept) = (WINDOW as u64 + 120, WINDOW as u64 + 60);
    let mut state = open();
    state.keep_history(History { blocks: kept, bytes: u64::MAX });
    let mut views = vec![state.head()];
    let mut early = None;
    for number in 1..=blocks {
        state.commit(number, hash_of(number), block(number)).expect("it follows");
        views.push(state.head());
        if number == 20 {
            early = Some(state.head().hypothetical().expect("kept"));
        }
    }
    let oldest = blocks + 1 - kept;
    for number in 0..blocks {
        let root = views[number as usize].root_with(&block(number + 1));
        match number < oldest {
            true => assert!(matches!(root, Err(StateError::NoProofs(of)) if of == number), "{number}: {root:?}"),
            false => assert_eq!(root.expect("kept"), views[number as usize + 1].state_root(), "{number}"),
        }
    }
    // A longer history frees with its oldest states, whoever uses them.
    let mut early = early.expect("there are more blocks");
    assert!(matches!(early.apply(&block(1_000)), Err(StateError::NoProofs(20))));
}

#[test]
fn blocks_are_committed_meanwhile() {
    let mut state = open();
    for number in 1..=20 {
        state.commit(number, hash_of(number), block(number)).expect("it follows");
    }
    let view = state.head();
    let changes: Vec<Changes> = (2_000..2_040).map(block).collect();
    let mut expected = Vec::new();
    let mut all = Changes::default();
    for changes in &changes {
        all.append(changes.clone());
        expected.push(state.root_after(&all));
    }
    // Begun before the writer's thread: its nodes are pinned, however far the writer comes.
    let mut after = view.hypothetical().expect("kept");
    let rounds = std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            for number in 21..=420 {
                state.commit(number, hash_of(number), block(number)).expect("it follows");
            }
            state.head().number()
        });
        for (changes, root) in changes.iter().zip(&expected) {
            after.apply(changes).expect("pinned");
            assert_eq!(after.root(), *root);
        }
        writer.join().expect("no panic")
    });
    assert_eq!(rounds, 420);
}

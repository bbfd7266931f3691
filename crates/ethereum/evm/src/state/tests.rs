//! The state against a model: every block's accounts in a map, and its root built from nothing.

mod history;

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_trie::Nibbles;
use alloy_trie::proof::verify_proof;
use proptest::prelude::*;
use revm::DatabaseRef;
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;

use super::rebuild::{self, AllAccounts};
use super::*;
use crate::genesis::Genesis;

fn address(number: u8) -> Address {
    Address::with_last_byte(number)
}

fn genesis() -> Genesis {
    let accounts: Vec<_> = (0..8).map(|number| (address(number), U256::from(1_000))).collect();
    Genesis::dev(31337, &accounts, 30_000_000)
}

fn hash_of(number: u64, fork: u8) -> B256 {
    keccak256([&number.to_be_bytes()[..], &[fork]].concat())
}

#[derive(Clone, Debug)]
enum Change {
    Balance(u8, u64),
    Code(u8, u8),
    Store(u8, Vec<(u8, u8)>),
    Gone(u8),
    Again(u8, Vec<(u8, u8)>),
}

fn change() -> impl Strategy<Value = Change> {
    let slots = || prop::collection::vec((0u8..12, 0u8..4), 0..8);
    prop_oneof![
        4 => (0u8..24, 1u64..1_000_000).prop_map(|(who, balance)| Change::Balance(who, balance)),
        1 => (0u8..24, any::<u8>()).prop_map(|(who, code)| Change::Code(who, code)),
        3 => (0u8..24, slots()).prop_map(|(who, slots)| Change::Store(who, slots)),
        1 => (0u8..24).prop_map(Change::Gone),
        1 => (0u8..24, slots()).prop_map(|(who, slots)| Change::Again(who, slots)),
    ]
}

fn info(balance: u64, code: Option<u8>) -> AccountInfo {
    let code = code.map_or_else(Bytecode::default, |byte| Bytecode::new_raw(Bytes::from(vec![byte; 3])));
    AccountInfo { balance: U256::from(balance), nonce: 1, ..Default::default() }.with_code(code)
}

/// Converts a block of such changes to a state's changes.
fn changes_of(all: &AllAccounts, block: &[Change]) -> Changes {
    let mut changes = Changes::default();
    let words =
        |slots: &[(u8, u8)]| slots.iter().map(|(slot, value)| (U256::from(*slot), U256::from(*value))).collect();
    for change in block {
        let mut one = Changes::default();
        let (who, change) = match change {
            Change::Balance(who, balance) => {
                (*who, AccountChange { info: Some(info(*balance, None)), ..Default::default() })
            }
            Change::Code(who, code) => (*who, AccountChange { info: Some(info(5, Some(*code))), ..Default::default() }),
            Change::Store(who, slots) => {
                let known = all.get(&address(*who)).map_or(3, |(account, _)| account.balance.to::<u64>());
                (*who, AccountChange { info: Some(info(known, None)), storage: words(slots), ..Default::default() })
            }
            Change::Gone(who) => (*who, AccountChange { info: None, storage_cleared: true, ..Default::default() }),
            Change::Again(who, slots) => {
                let storage = words(slots);
                (*who, AccountChange { info: Some(info(7, Some(*who))), storage_cleared: true, storage })
            }
        };
        one.accounts.insert(address(who), change);
        changes.append(one);
    }
    changes
}

fn check_view(view: &StateView, all: &AllAccounts) {
    assert_eq!(view.state_root(), rebuild::root(all), "block {}", view.number());
    let in_order = all.iter().flat_map(|(address, (account, storage))| {
        let account = Entry::Account { address: *address, account: *account };
        let slots = storage.iter().map(|(slot, value)| (*address, *slot, *value));
        let slots = slots.map(|(address, slot, value)| Entry::Storage { address, slot, value });
        std::iter::once(account).chain(slots)
    });
    assert!(view.sorted().eq(in_order), "block {}", view.number());
    for who in (0..24).map(address) {
        let (account, storage) = all.get(&who).map_or((None, None), |(a, s)| (Some(*a), Some(s)));
        assert_eq!(view.account(&who), account);
        for slot in (0..12).map(U256::from) {
            let value = storage.and_then(|storage| storage.get(&slot)).copied().unwrap_or_default();
            assert_eq!(view.storage(&who, &slot), value, "block {} {who} {slot}", view.number());
        }
        let info = view.basic_ref(who).expect("in memory");
        assert_eq!(info.as_ref().map(|info| info.code_hash), account.map(|account| account.code_hash));
        if let Some(info) = info {
            assert_eq!(keccak256(view.code(&info.code_hash).expect("its code is known")), info.code_hash);
        }
    }
}

fn check_proof(view: &StateView, who: &Address, slots: &[U256]) {
    let proof = view.proof(who, slots).expect("kept");
    let leaf = view.account(who).map(|account| {
        let storage_root = proof.storage_root;
        alloy_rlp::encode(alloy_trie::TrieAccount::new(account.nonce, account.balance, storage_root, account.code_hash))
    });
    verify_proof(view.state_root(), Nibbles::unpack(keccak256(who)), leaf, &proof.proof).expect("the account");
    for (proof_of, slot) in proof.storage.iter().zip(slots) {
        let key = Nibbles::unpack(keccak256(slot.to_be_bytes::<32>()));
        let value = (!proof_of.value.is_zero()).then(|| alloy_rlp::encode(proof_of.value));
        assert_eq!(proof_of.value, view.storage(who, slot));
        verify_proof(proof.storage_root, key, value, &proof_of.proof).expect("the slot");
    }
}

/// A block's changes, whether its root is computed ahead, and whether the chain goes back after it (1).
type Block = (Vec<Change>, bool, u8);

fn blocks() -> impl Strategy<Value = Vec<Block>> {
    prop::collection::vec((prop::collection::vec(change(), 0..12), any::<bool>(), 0u8..8), 1..14)
}

/// All blocks against the model; from the block of index `archive_from` on the state keeps a history.
fn check_blocks(blocks: &[Block], archive_from: Option<usize>) {
    let mut state = State::open(None, &genesis()).expect("in memory");
    let mut model: BTreeMap<u64, AllAccounts> = BTreeMap::new();
    model.insert(0, rebuild::everything(&state.head()));
    for (fork, (block, ahead, back)) in blocks.iter().enumerate() {
        if archive_from == Some(fork) {
            state.keep_history(history::ALL);
        }
        let head = state.head().number();
        let mut all = model[&head].clone();
        let changes = Arc::new(changes_of(&all, block));
        rebuild::apply(&mut all, &changes);
        let is_shared = fork % 2 == 0;
        let root_after = || if is_shared { state.root_after_shared(&changes) } else { state.root_after(&changes) };
        let root = ahead.then(root_after);
        let (number, hash) = (head + 1, hash_of(head + 1, fork as u8));
        let committed = match fork % 3 {
            0 => state.commit(number, hash, &*changes),
            _ => state.commit_shared(number, hash, &changes),
        };
        let committed = committed.expect("it follows");
        assert!(root.is_none_or(|root| root == committed));
        model.insert(head + 1, all);
        if *back == 1 && head > 2 {
            state.rewind(head - 2).expect("kept");
            model.retain(|number, _| *number <= head - 2);
        }
        for (number, all) in &model {
            check_view(&state.at(*number).expect("kept"), all);
        }
    }
    let head = state.head();
    let slots: Vec<U256> = (0..12).map(U256::from).collect();
    for who in (0..24).map(address) {
        check_proof(&head, &who, &slots);
    }
    for (number, all) in &model {
        let view = state.at(*number).expect("kept");
        check_proofs(&view, all);
        check_hypothetical(&view, all, blocks);
    }
}

/// Applies all blocks to a view, without committing them.
fn check_hypothetical(view: &StateView, all: &AllAccounts, blocks: &[Block]) {
    let (mut all, mut after) = (all.clone(), view.hypothetical().expect("kept"));
    for (block, ..) in blocks {
        let changes = changes_of(&all, block);
        rebuild::apply(&mut all, &changes);
        after.apply(&changes).expect("kept");
        assert_eq!(after.root(), rebuild::root(&all), "block {}", view.number());
    }
}

/// Compares the proofs of some accounts with ones from rebuilt tries.
fn check_proofs(view: &StateView, all: &AllAccounts) {
    let slots: Vec<U256> = (0..12).map(U256::from).collect();
    for who in [3, 9, 20].map(address) {
        check_proof(view, &who, &slots);
        assert_eq!(view.proof(&who, &slots).expect("kept"), rebuild::proof(all, &who, &slots));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..Default::default() })]

    #[test]
    fn every_block_of_a_random_history_is_as_in_the_model(blocks in blocks()) {
        check_blocks(&blocks, None);
    }

    #[test]
    fn every_block_of_a_random_archive_is_as_in_the_model(blocks in blocks(), from in 0usize..6) {
        check_blocks(&blocks, Some(from));
    }
}

#[test]
fn a_view_of_a_block_taken_back_stays_what_it_is() {
    let mut state = State::open(None, &genesis()).expect("in memory");
    let zero = rebuild::everything(&state.head());
    let commit = |state: &mut State, number: u64, fork: u8, block: &[Change]| {
        let changes = changes_of(&rebuild::everything(&state.head()), block);
        state.commit(number, hash_of(number, fork), changes).expect("it follows")
    };
    commit(&mut state, 1, 0, &[Change::Balance(1, 7), Change::Again(9, vec![(1, 1)])]);
    let one = (state.head(), rebuild::everything(&state.head()));
    commit(&mut state, 2, 0, &[Change::Gone(9)]);
    let two = (state.head(), rebuild::everything(&state.head()));
    state.rewind(0).expect("kept");
    check_view(&state.head(), &zero);
    let root = commit(&mut state, 1, 1, &[Change::Balance(1, 99)]);
    assert_eq!(root, state.head().state_root());
    check_view(&one.0, &one.1);
    check_view(&two.0, &two.1);
    assert_eq!(state.head().hash_of(1), Some(hash_of(1, 1)));
    assert_eq!(two.0.hash_of(1), Some(hash_of(1, 0)));
    assert!(matches!(state.commit(5, B256::ZERO, Changes::default()), Err(StateError::NotNext { number: 5, head: 1 })));
    assert!(matches!(state.rewind(4), Err(StateError::NotKept { number: 4, .. })));
}

#[test]
fn the_last_128_blocks_are_kept_and_256_hashes() {
    let mut state = State::open(None, &Genesis::dev(5, &[], 1_000_000)).expect("in memory");
    for number in 1..=300 {
        let mut changes = Changes::default();
        let info = AccountInfo::from_balance(U256::from(number));
        changes.accounts.insert(address(1), AccountChange { info: Some(info), ..Default::default() });
        state.commit(number, hash_of(number, 0), changes).expect("it follows");
    }
    let handle = state.handle();
    assert_eq!(handle.head().number(), 300);
    assert!(handle.at(172).is_none() && handle.at(301).is_none());
    for number in 173..=300 {
        let view = handle.at(number).expect("kept");
        assert_eq!(view.account(&address(1)).map(|account| account.balance), Some(U256::from(number)));
        assert_eq!(view.block_hash_ref(number).expect("in memory"), hash_of(number, 0));
    }
    assert_eq!(handle.head().hash_of(45), Some(hash_of(45, 0)));
    assert_eq!(handle.head().block_hash_ref(44).expect("in memory"), B256::ZERO);
}

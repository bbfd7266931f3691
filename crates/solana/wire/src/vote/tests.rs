//! Messages against the vote program's own crate.

use proptest::prelude::*;
use solana_vote_interface::instruction::VoteInstruction;
use solana_vote_interface::state::{Lockout as TheirLockout, TowerSync as TheirTowerSync};

use super::*;
use crate::program::system;

const NODE: Pubkey = [1; 32];
const VOTE: Pubkey = [2; 32];

fn block(slot: u64) -> VotedBlock {
    VotedBlock { slot, bank_hash: [3; 32], block_id: [4; 32], blockhash: [5; 32] }
}

/// Up to 31 votes, slots ascending, with descending confirmation counts.
fn tower() -> impl Strategy<Value = Vec<Lockout>> {
    let steps = prop_oneof![20 => Just(1u64), 3 => 2..5u64, 1 => 5..100_000u64];
    proptest::collection::vec(steps, 1..=MAX_LOCKOUTS).prop_map(|steps| {
        let mut slot = 100;
        let mut lockout = |(index, step): (usize, &u64)| {
            slot += step;
            Lockout { slot, confirmation_count: (steps.len() - index) as u32 }
        };
        steps.iter().enumerate().map(&mut lockout).collect()
    })
}

proptest! {
    #[test]
    fn tower_is_sent_as_the_cluster_sends_it(votes in tower(), root in proptest::option::of(0..100u64)) {
        let slot = votes.last().expect("there is one").slot;
        let sent = |timestamp, is_switch| {
            let sync = TowerSync { votes: &votes, root, timestamp, is_switch };
            (sync.instruction(&block(slot)), sync.message(&NODE, &VOTE, &block(slot)).sign_with(|_, _| [7; 64]))
        };
        let lockouts = votes.iter().map(|v| TheirLockout::new_with_confirmation_count(v.slot, v.confirmation_count));
        let sync = TheirTowerSync {
            lockouts: lockouts.collect(),
            root,
            hash: [3; 32].into(),
            timestamp: Some(-7),
            block_id: [4; 32].into(),
        };
        let voted = VoteTarget { account: VOTE, slot, bank_hash: [3; 32], block_id: [4; 32] };
        let (instruction, transaction) = sent(Some(-7), false);
        prop_assert_eq!(instruction, bincode::serialize(&VoteInstruction::TowerSync(sync.clone())).unwrap());
        prop_assert_eq!(voted_for(&Txn::parse(&transaction).unwrap()), Some(voted));
        let switch = TheirTowerSync { timestamp: None, ..sync };
        let switch = VoteInstruction::TowerSyncSwitch(switch, [0; 32].into());
        let (instruction, transaction) = sent(None, true);
        prop_assert_eq!(instruction, bincode::serialize(&switch).unwrap());
        prop_assert_eq!(voted_for(&Txn::parse(&transaction).unwrap()), Some(voted));
    }
}

#[test]
fn vote_of_consensus_names_node_voter_and_account() {
    const VOTER: Pubkey = [77; 32];
    let votes = [Lockout { slot: 40, confirmation_count: 1 }];
    for (voter, is_switch) in [(NODE, false), (NODE, true), (VOTER, false), (VOTER, true)] {
        let sync = TowerSync { votes: &votes, root: None, timestamp: Some(5), is_switch };
        let message = sync.message_by(&NODE, &voter, &VOTE, &block(40));
        let bytes = message.bytes();
        assert!(is_vote_message_by(bytes, &NODE, &voter, &VOTE));
        for [node, voter, vote] in [[VOTER, voter, VOTE], [NODE, [9; 32], VOTE], [NODE, voter, [9; 32]]] {
            assert!(!is_vote_message_by(bytes, &node, &voter, &vote), "of others");
        }
        for cut in 0..bytes.len() {
            assert!(!is_vote_message_by(&bytes[..cut], &NODE, &voter, &VOTE), "{cut}");
        }
        assert!(!is_vote_message_by(&[bytes, &[0]].concat(), &NODE, &voter, &VOTE));
        let keys = 4 + 32 * (message.signers().len() + 2);
        for at in (0..keys).chain(keys + 32..keys + 32 + 5) {
            let mut changed = bytes.to_vec();
            changed[at] ^= 1;
            assert!(!is_vote_message_by(&changed, &NODE, &voter, &VOTE), "byte {at}");
        }
        let signed = message.sign_with(|_, _| [7; 64]);
        assert!(is_vote(&Txn::parse(&signed).unwrap()));
        assert_eq!(voted_for(&Txn::parse(&signed).unwrap()).map(|voted| voted.slot), Some(40));
    }
    let transfer = Message::compile(&NODE, &[system::transfer(&NODE, &VOTE, 1)], &[5; 32]).unwrap();
    assert!(!is_vote_message_by(transfer.bytes(), &NODE, &NODE, &VOTE));
    assert!(!is_vote(&Txn::parse(&transfer.sign_with(|_, _| [7; 64])).unwrap()));
}

#[test]
fn full_tower_has_the_stated_bytes() {
    let vote = |slot: u64| Lockout { slot, confirmation_count: (41 - slot) as u32 };
    let votes: Vec<Lockout> = (10..=40).map(vote).collect();
    assert_eq!(votes.len(), MAX_LOCKOUTS);
    let sync = TowerSync { votes: &votes, root: Some(9), timestamp: Some(100), is_switch: false };
    let transaction = sync.message(&NODE, &VOTE, &block(40)).sign_with(|_, _| [7; 64]);
    assert_eq!(transaction.len(), VOTE_TRANSACTION_BYTES);
}

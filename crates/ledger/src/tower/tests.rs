//! Towers and messages against the vote program's own crate.

use hearth_wire::program::system;
use proptest::prelude::*;
use solana_vote_interface::instruction::VoteInstruction;
use solana_vote_interface::state::{Lockout as TheirLockout, TowerSync};

use super::*;

const NODE: Pubkey = [1; 32];
const VOTE: Pubkey = [2; 32];

fn block(slot: u64) -> VotedBlock {
    VotedBlock { slot, bank_hash: [3; 32], block_id: [4; 32], blockhash: [5; 32] }
}

fn ours(tower: &Tower) -> (Vec<(u64, u32)>, Option<u64>) {
    (tower.votes.iter().map(|vote| (vote.slot, vote.confirmation_count)).collect(), tower.root())
}

proptest! {
    #[test]
    fn binds_as_it_says_and_is_told_as_the_cluster_tells_it(
        steps in proptest::collection::vec(prop_oneof![20 => Just(1u64), 3 => 2..5u64, 1 => 5..100_000u64], 1..120),
    ) {
        let mut tower = Tower::default();
        let mut slot = 0;
        for step in steps {
            slot += step;
            prop_assert!(tower.vote(slot));
            // Every vote still binds the next, and older ones for longer.
            let votes: Vec<_> = tower.votes.iter().copied().collect();
            for pair in votes.windows(2) {
                prop_assert!(pair[0].slot + (1 << pair[0].confirmation_count) >= pair[1].slot);
                prop_assert!(pair[0].confirmation_count > pair[1].confirmation_count);
            }
            prop_assert!(votes.len() <= 31 && tower.root().is_none_or(|root| root < votes[0].slot));
            prop_assert!(!tower.vote(slot), "once for a slot");
        }
        let bytes = tower.clone().message(&NODE, &VOTE, &block(slot), 9).sign_with(|_, _| [7; 64]);
        let voted = Voted { account: VOTE, slot, bank_hash: [3; 32], block_id: [4; 32] };
        prop_assert_eq!(voted_for(&Txn::parse(&bytes).unwrap()), Some(voted));
        let told = |timestamp, is_switch| {
            let votes: Vec<_> = tower.votes.iter().copied().collect();
            let told = Told { votes: &votes, root: tower.root(), timestamp, is_switch };
            (told.instruction(&block(slot)), told.message(&NODE, &VOTE, &block(slot)).sign_with(|_, _| [7; 64]))
        };
        let votes = tower.votes.iter();
        let lockouts = votes.map(|v| TheirLockout::new_with_confirmation_count(v.slot, v.confirmation_count));
        let sync = TowerSync {
            lockouts: lockouts.collect(),
            root: tower.root(),
            hash: [3; 32].into(),
            timestamp: Some(-7),
            block_id: [4; 32].into(),
        };
        let expected = bincode::serialize(&VoteInstruction::TowerSync(sync.clone())).unwrap();
        prop_assert_eq!(told(Some(-7), false).0, expected);
        let switch = TowerSync { timestamp: None, ..sync };
        let switch = VoteInstruction::TowerSyncSwitch(switch, [0; 32].into());
        let (instruction, transaction) = told(None, true);
        prop_assert_eq!(instruction, bincode::serialize(&switch).unwrap());
        prop_assert_eq!(voted_for(&Txn::parse(&transaction).unwrap()), Some(voted));
    }
}

#[test]
fn votes_that_no_longer_bind_are_dropped_from_the_top() {
    let mut tower = Tower::default();
    (1..=4).for_each(|slot| assert!(tower.vote(slot)));
    assert_eq!(ours(&tower), (vec![(1, 4), (2, 3), (3, 2), (4, 1)], None));
    // The votes for 3 and 4 bound to 7 and 6, that for 2 binds to 10 and stays below those on top of it.
    tower.vote(10);
    assert_eq!(ours(&tower), (vec![(1, 4), (2, 3), (10, 1)], None));
    tower.vote(11);
    assert_eq!(ours(&tower), (vec![(1, 4), (2, 3), (10, 2), (11, 1)], None));
    tower.vote(12);
    tower.vote(13);
    assert_eq!(ours(&tower), (vec![(1, 6), (2, 5), (10, 4), (11, 3), (12, 2), (13, 1)], None));
}

#[test]
fn the_32nd_vote_makes_the_first_final() {
    let mut tower = Tower::default();
    (1..=31).for_each(|slot| assert!(tower.vote(slot)));
    assert_eq!((tower.root(), tower.last_vote()), (None, Some(31)));
    tower.vote(32);
    assert_eq!(tower.root(), Some(1));
    let state = VoteState { votes: tower.votes.iter().copied().collect(), root: Some(1), ..VoteState::default() };
    assert_eq!(Tower::of(&state), tower);
}

#[test]
fn a_message_is_a_vote_and_nothing_else() {
    let mut tower = Tower::default();
    (1..=40).for_each(|slot| assert!(tower.vote(slot)));
    let message = tower.message(&NODE, &VOTE, &block(40), 1_700_000_000);
    let bytes = message.bytes();
    assert!(is_vote_message(bytes, &NODE));
    assert!(!is_vote_message(bytes, &[9; 32]), "of another node");
    for cut in 0..bytes.len() {
        assert!(!is_vote_message(&bytes[..cut], &NODE), "{cut}");
    }
    assert!(!is_vote_message(&[bytes, &[0]].concat(), &NODE));
    // Every byte of its frame counts: keys of the signer and the program, header, the one call.
    for at in (0..36).chain(68..100).chain(132..143) {
        let mut changed = bytes.to_vec();
        changed[at] ^= 1;
        assert!(!is_vote_message(&changed, &NODE), "byte {at}");
    }
    let signed = message.sign_with(|_, _| [7; 64]);
    assert!(is_vote(&Txn::parse(&signed).unwrap()));
    let transfer = Message::compile(&NODE, &[system::transfer(&NODE, &VOTE, 1)], &[5; 32]).unwrap();
    assert!(!is_vote_message(transfer.bytes(), &NODE));
    assert!(!is_vote(&Txn::parse(&transfer.sign_with(|_, _| [7; 64])).unwrap()));
}

#[test]
fn vote_of_consensus_names_node_voter_and_account() {
    const VOTER: Pubkey = [77; 32];
    let votes = [Lockout { slot: 40, confirmation_count: 1 }];
    for (voter, is_switch) in [(NODE, false), (NODE, true), (VOTER, false), (VOTER, true)] {
        let told = Told { votes: &votes, root: None, timestamp: Some(5), is_switch };
        let message = told.message_by(&NODE, &voter, &VOTE, &block(40));
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
        assert_eq!(voted_for(&Txn::parse(&signed).unwrap()).map(|voted| voted.slot), Some(40));
    }
    let transfer = Message::compile(&NODE, &[system::transfer(&NODE, &VOTE, 1)], &[5; 32]).unwrap();
    assert!(!is_vote_message_by(transfer.bytes(), &NODE, &NODE, &VOTE));
}

#[test]
fn a_full_tower_has_the_bytes_that_are_said() {
    let mut tower = Tower::default();
    (1..=40).for_each(|slot| assert!(tower.vote(slot)));
    let message = tower.message(&NODE, &VOTE, &block(40), 100);
    assert_eq!(message.sign_with(|_, _| [7; 64]).len(), VOTE_TRANSACTION_BYTES);
}

#[test]
fn the_time_does_not_go_back() {
    let mut tower = Tower::default();
    tower.vote(1);
    let length = |tower: &mut Tower, time| tower.message(&NODE, &VOTE, &block(1), time).bytes().len();
    let with = length(&mut tower, 100);
    assert_eq!(length(&mut tower, 99), with - 8);
    assert_eq!(length(&mut tower, 101), with);
}

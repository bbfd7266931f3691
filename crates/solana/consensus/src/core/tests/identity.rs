//! A node whose identity voted elsewhere, and one that takes another identity.

use super::super::super::tower::LastVote;
use super::*;

/// The slots of the tower's votes.
fn slots(consensus: &Consensus) -> Vec<u64> {
    consensus.tower().lockouts().votes.iter().map(|vote| vote.slot).collect()
}

/// Freezes the next block of the chain, in which all but `own` have voted for all before.
fn freeze(consensus: &mut Consensus, slot: u64, own: Option<AccountVotes>) {
    let key = own.as_ref().map(|own| own.key);
    let others = (0..NODES).filter(|name| key != Some([*name; 32]));
    let votes = others.map(|name| account(name, 1..slot)).chain(own).collect();
    consensus.on_frozen(frozen(id(slot), id(slot - 1), votes), slot * 400).expect("frozen");
}

/// The same without a vote of node 0 that is new.
fn freeze_unvoted(consensus: &mut Consensus, slot: u64) {
    let votes = (1..NODES).map(|name| account(name, 1..slot)).collect();
    consensus.on_frozen(frozen(id(slot), id(slot - 1), votes), slot * 400).expect("frozen");
}

#[test]
fn votes_that_another_process_cast_go_below_the_towers_newer_ones() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 4);
    // This process skips 5, for which the other one votes.
    freeze_unvoted(&mut consensus, 5);
    for slot in 6..10 {
        freeze_unvoted(&mut consensus, slot);
        step(&mut consensus, slot * 400);
    }
    assert_eq!(slots(&consensus), [1, 2, 3, 4, 6, 7, 8, 9]);
    assert_eq!(consensus.take_adoption(), None);
    let landed = account(0, 1..=8);
    assert!(!consensus.tower().lockouts().extends(&landed.votes, landed.root), "no vote would land");
    freeze(&mut consensus, 10, Some(landed.clone()));
    assert_eq!(slots(&consensus), (1..=9).collect::<Vec<_>>());
    assert_eq!(consensus.tower().last_vote().map(|last| last.id), Some(id(9)));
    let adoption = Adoption { bank: id(10), landed: 8, newest: Some(9) };
    assert_eq!([consensus.take_adoption(), consensus.take_adoption()], [Some(adoption), None]);
    let actions = step(&mut consensus, 4_000);
    let [vote] = votes(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!(vote.id, id(10));
    let cast = Lockouts { votes: vote.votes.clone(), root: vote.root };
    assert!(cast.extends(&landed.votes, landed.root), "it lands");
}

#[test]
fn votes_of_the_own_process_are_never_adopted() {
    let mut consensus = started(config(), 0, None);
    // The account has the votes of a while ago in each of these.
    for slot in 1..=50u64 {
        freeze(&mut consensus, slot, Some(account(0, 1..slot.saturating_sub(3).max(1))));
        step(&mut consensus, slot * 400);
        assert_eq!(consensus.take_adoption(), None, "{slot}");
    }
    assert_eq!(consensus.tower().last_vote().map(|last| last.id.slot), Some(50));
}

#[test]
fn vote_that_lets_the_node_lead_is_one_cast_from_now_on() {
    let begins = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Begin { .. }));
    let mut consensus = started(config(), 0, None);
    assert!(begins(&line(&mut consensus, 1, 40)));
    consensus.lead_after_a_rooted_vote();
    // Its turn from 64 on passes. The root must include the vote for 41: that is 42.
    assert!(!begins(&line(&mut consensus, 41, 72)));
    assert!(begins(&line(&mut consensus, 73, 90)));
}

/// A node that has voted for 1 to 4, and a fork that leaves out 4: its first block is 5.
fn voted_for_four() -> Consensus {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 3);
    let others = (1..NODES).map(|name| account(name, 1..4)).collect();
    consensus.on_frozen(frozen(id(4), id(3), others), 0).expect("frozen");
    assert_eq!(votes(&step(&mut consensus, 2_000)).len(), 1);
    consensus.on_frozen(frozen(id(5), id(3), vec![]), 0).expect("frozen");
    consensus
}

#[test]
fn nothing_is_adopted_while_a_vote_for_another_fork_binds() {
    let mut consensus = voted_for_four();
    // The other process votes for 5, which leaves out 4. That vote binds this node up to 6.
    consensus.on_frozen(frozen(id(6), id(5), vec![account(0, [1, 2, 3, 5])]), 0).expect("frozen");
    assert_eq!((consensus.take_adoption(), slots(&consensus)), (None, vec![1, 2, 3, 4]));
    consensus.on_frozen(frozen(id(7), id(6), vec![]), 0).expect("frozen");
    assert_eq!(consensus.take_adoption(), Some(Adoption { bank: id(7), landed: 5, newest: Some(4) }));
    assert_eq!(slots(&consensus), [1, 2, 3, 5]);
}

#[test]
fn no_slot_before_the_bank_of_an_adoption_is_voted_for() {
    let mut consensus = voted_for_four();
    // The vote for 4 binds up to 6. In 7 the account has one for 5, on the other fork, which 6 is on, too.
    consensus.on_frozen(frozen(id(6), id(5), vec![]), 0).expect("frozen");
    consensus.on_frozen(frozen(id(7), id(5), vec![account(0, [1, 2, 3, 5])]), 0).expect("frozen");
    assert_eq!(slots(&consensus), [1, 2, 3, 5]);
    assert_eq!(consensus.forks().heaviest(), id(6), "the older one where nobody has voted");
    assert_eq!(votes(&step(&mut consensus, 3_000)).len(), 0);
    consensus.on_frozen(frozen(id(8), id(6), vec![]), 0).expect("frozen");
    let voted: Vec<u64> = votes(&step(&mut consensus, 3_400)).iter().map(|vote| vote.id.slot).collect();
    assert_eq!(voted, [8]);
}

#[test]
fn a_longer_lockout_is_not_given_up() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 9);
    freeze_unvoted(&mut consensus, 10);
    // The account has newer votes and none of the tower's old ones, which bind for hundreds of slots.
    freeze(&mut consensus, 11, Some(account(0, [9, 10])));
    assert_eq!((consensus.take_adoption(), slots(&consensus)), (None, (1..=9).collect()));
}

/// The identity of node 1.
fn other_identity(tower: Option<Tower>) -> NewIdentity {
    NewIdentity { node: node(1), vote_account: Some([1; 32]), tower, waits_for_rooted_vote: false }
}

/// The votes of node 1 for these slots.
fn tower_of(slots: impl IntoIterator<Item = u64>) -> Tower {
    let mut tower = Tower::new(id(0));
    for slot in slots {
        assert_eq!(tower.vote(LastVote { id: id(slot), block_id: [7; 32] }), None, "too few for a root");
    }
    tower
}

#[test]
fn another_identity_without_a_tower_waits_for_its_votes_to_settle() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 10);
    // Node 1 votes no more.
    for slot in 11..=20 {
        freeze(&mut consensus, slot, Some(account(1, 1..10)));
        step(&mut consensus, slot * 400);
    }
    consensus.set_identity(other_identity(None)).expect("no tower is always right");
    assert!(consensus.is_settling());
    assert_eq!(slots(&consensus), (1..10).collect::<Vec<_>>(), "they are the account's");
    let mut voted = vec![];
    for slot in 21..=9 + SETTLED_SLOTS {
        voted.extend(votes(&step(&mut consensus, slot * 400)).iter().map(|vote| vote.id.slot));
        freeze(&mut consensus, slot, Some(account(1, 1..10)));
    }
    assert_eq!(voted, [0; 0]);
    let actions = step(&mut consensus, 20_000);
    let [vote] = votes(&actions)[..] else { panic!("{actions:?}") };
    assert_eq!(vote.id.slot, 9 + SETTLED_SLOTS);
    assert!(!consensus.is_settling());
    // What is saved is the new identity's.
    let Some(Action::Vote { saved, .. }) = actions.iter().find(|action| matches!(action, Action::Vote { .. })) else {
        panic!("{actions:?}")
    };
    assert!(Tower::restore(saved, &node(1)).is_ok());
}

#[test]
fn newest_votes_of_another_identity_are_taken_from_any_fork() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 5);
    let mut freeze = |slot, parent, votes| consensus.on_frozen(frozen(id(slot), id(parent), votes), 0).expect("frozen");
    freeze(6, 5, vec![]);
    // Node 1 voted for 7, which leaves out 6; all others vote for 6.
    freeze(7, 5, vec![]);
    freeze(8, 7, vec![account(1, [1, 2, 3, 4, 5, 7])]);
    freeze(9, 6, [0, 2, 3].map(|name| account(name, 1..=6)).into());
    assert_eq!(consensus.forks().heaviest(), id(9));
    consensus.set_identity(other_identity(None)).expect("no tower is always right");
    assert_eq!((consensus.is_settling(), slots(&consensus)), (true, vec![1, 2, 3, 4, 5, 7]));
}

#[test]
fn vote_that_was_heard_and_has_not_landed_is_waited_for() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 20);
    // The tower goes as far as the votes that landed.
    consensus.on_vote(&[1; 32], id(30)).expect("it counts, although its block is not here");
    consensus.set_identity(other_identity(Some(tower_of(1..20)))).expect("it fits");
    assert!(consensus.is_settling());
    for slot in 21..30 + SETTLED_SLOTS {
        freeze(&mut consensus, slot, Some(account(1, 1..20)));
        assert_eq!(votes(&step(&mut consensus, slot * 400)).len(), 0, "{slot}");
    }
    freeze(&mut consensus, 30 + SETTLED_SLOTS, Some(account(1, 1..20)));
    let voted: Vec<u64> = votes(&step(&mut consensus, 90_000)).iter().map(|vote| vote.id.slot).collect();
    assert_eq!(voted, [30 + SETTLED_SLOTS]);
}

#[test]
fn another_identity_votes_at_once_by_its_own_tower() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 20);
    let foreign = Tower::new(BankId { slot: 0, hash: [99; 32] });
    let before = consensus.tower().clone();
    consensus.set_identity(other_identity(Some(foreign))).expect_err("it is of another chain");
    assert_eq!(consensus.tower(), &before);
    consensus.set_identity(other_identity(Some(tower_of(1..20)))).expect("it fits");
    assert!(!consensus.is_settling());
    assert_eq!(slots(&consensus), (1..20).collect::<Vec<_>>());
    let voted: Vec<u64> = votes(&step(&mut consensus, 9_000)).iter().map(|vote| vote.id.slot).collect();
    assert_eq!(voted, [20]);
}

#[test]
fn an_older_tower_of_another_identity_is_completed_first() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 20);
    consensus.set_identity(other_identity(Some(tower_of(1..10)))).expect("it fits");
    assert!(consensus.is_settling());
    assert_eq!(slots(&consensus), (1..20).collect::<Vec<_>>());
    assert_eq!(votes(&step(&mut consensus, 9_000)).len(), 0);
}

#[test]
fn root_of_another_identity_is_the_nodes_too() {
    let mut consensus = started(config(), 0, None);
    line(&mut consensus, 1, 20);
    let mut tower = tower_of(1..20);
    tower.set_root(id(12));
    consensus.set_identity(other_identity(Some(tower.clone()))).expect("it fits");
    assert_eq!(consensus.root(), id(12));
    // One that is not here yet is waited for.
    tower.set_root(id(25));
    consensus.set_identity(other_identity(Some(tower))).expect("it may come");
    for slot in 21..=25 {
        assert_eq!((votes(&step(&mut consensus, 9_000)).len(), consensus.root()), (0, id(12)), "{slot}");
        freeze(&mut consensus, slot, None);
    }
    assert_eq!(consensus.root(), id(25));
}

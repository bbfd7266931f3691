//! Changes of the node's identity, and a tower that lacks votes of its account.

use hearth_keys::Keypair;

use super::*;
use crate::identity::{IdentityDesk, IdentityRequest, IdentityWatch, Role};
use crate::key_pipe::KeySender;

/// A node whose identity can be changed.
fn changeable(number: u8) -> (Node, IdentityDesk) {
    changeable_by(number, IdentityWatch::from(node(number)))
}

fn changeable_by(number: u8, watch: IdentityWatch) -> (Node, IdentityDesk) {
    let desk = watch.desk();
    let Node { core, disk, at } = Node::joined(number);
    (Node { core: core.with_identity(watch), disk, at }, desk)
}

fn request(number: u8, tower: Option<Tower>) -> IdentityRequest {
    let key = Keypair::from_seed(&[number + 1; 32]).expect("a page may be locked");
    IdentityRequest { key, role: Role { vote_account: Some(account(number)), leads: true, tower } }
}

fn changes(outputs: &[Output]) -> Vec<Pubkey> {
    let change = |output: &Output| if let Output::Identity(node) = output { Some(*node) } else { None };
    outputs.iter().filter_map(change).collect()
}

/// The payers and accounts of votes sent to leaders.
fn voters(outputs: &[Output]) -> Vec<(Pubkey, Pubkey)> {
    let voter = |output: &Output| match output {
        Output::Vote(transaction) => {
            let txn = Txn::parse(transaction).unwrap();
            Some((txn.account_keys()[0], voted_for(&txn).unwrap().account))
        }
        _ => None,
    };
    outputs.iter().filter_map(voter).collect()
}

#[test]
fn another_identity_votes_with_its_own_account() {
    // Neither leads now.
    let [old, new] = [1, 2].map(|more| (leader(1) + more) % NODES);
    let (mut tested, desk) = changeable(old);
    tested.froze(id(1), id(0), vec![]);
    assert_eq!(voters(&tested.step()), [(node(old), account(old))]);
    desk.request(request(new, None)).unwrap();
    let outputs = tested.step();
    assert_eq!((changes(&outputs), desk.status().identity), (vec![node(new)], node(new)));
    assert_eq!(tested.core.node(), &node(new));
    assert_eq!(tested.core.count.identity_changes, 1);
    // Its account has never voted: there is nothing to wait for.
    tested.froze(id(2), id(1), vec![]);
    let all: Vec<(Pubkey, Pubkey)> = (0..3).flat_map(|_| voters(&tested.step())).collect();
    assert!(!all.is_empty() && all.iter().all(|voter| *voter == (node(new), account(new))), "{all:?}");
    assert!(Tower::restore(tested.disk.towers.last().unwrap(), &node(new)).is_ok());
}

#[test]
fn identity_stays_until_an_own_block_is_signed() {
    let own = leader(1);
    let next = (own + 1) % NODES;
    let (mut tested, desk) = changeable(own);
    assert_eq!(begun(&tested.step()), [(1, 0)]);
    desk.request(request(next, None)).unwrap();
    assert!(changes(&tested.step()).is_empty(), "slot 1 is being made");
    assert!(desk.status().is_changing);
    tested.made(id(1), id(0), own);
    assert!(tested.step().is_empty(), "nothing else is decided meanwhile");
    tested.store(1, 0);
    assert_eq!(changes(&tested.step()), [node(next)]);
}

#[test]
fn a_block_that_does_not_end_keeps_the_identity() {
    let own = leader(1);
    let (mut tested, desk) = changeable(own);
    assert_eq!(begun(&tested.step()), [(1, 0)]);
    desk.request(request((own + 1) % NODES, None)).unwrap();
    assert!(changes(&tested.step()).is_empty());
    tested.at += Duration::from_secs(5);
    tested.step();
    let status = desk.status();
    assert_eq!((status.identity, status.is_changing), (node(own), false));
    assert!(status.failure.is_some_and(|why| why.contains("an own block does not end")));
    // It continues as before.
    tested.made(id(1), id(0), own);
    assert_eq!(tested.votes(), [1]);
}

#[test]
fn only_the_disk_decides_once_the_tower_is_being_put_away() {
    let own = leader(1);
    let next = (own + 1) % NODES;
    let (mut tested, desk) = changeable(own);
    tested.disk.leaves_after = 1;
    assert_eq!(begun(&tested.step()), [(1, 0)]);
    desk.request(request(next, None)).unwrap();
    assert!(changes(&tested.step()).is_empty(), "slot 1 is being made");
    tested.at += Duration::from_millis(4_900);
    tested.made(id(1), id(0), own);
    tested.store(1, 0);
    assert!(changes(&tested.step()).is_empty(), "the tower is being put away");
    // The time for the end of a block has gone by, and the block is not whole any more.
    tested.event(Event::Voided(1));
    tested.at += Duration::from_millis(200);
    assert_eq!(changes(&tested.step()), [node(next)]);
    assert_eq!(desk.status().failure, None);
}

#[test]
fn tower_of_another_chain_is_refused() {
    let (mut tested, desk) = changeable(0);
    desk.request(request(1, Some(Tower::new(other(0))))).unwrap();
    assert!(changes(&tested.step()).is_empty());
    let why = desk.status().failure.unwrap();
    assert!(why.contains("does not fit this node's chain"), "{why}");
    assert_eq!(tested.core.node(), &node(0));
}

#[test]
fn identity_stays_where_sign_does_not_take_the_key() {
    let [old, new] = [1, 2].map(|more| (leader(1) + more) % NODES);
    let watch = IdentityWatch::from(node(old));
    // It has room for 32 bytes, and a key takes one more.
    let full = KeySender::new(Box::new(io::Cursor::new([0u8; 32])));
    watch.clone().hand_over(full).unwrap();
    let (mut tested, desk) = changeable_by(old, watch);
    desk.request(request(new, None)).unwrap();
    assert!(changes(&tested.step()).is_empty());
    let status = desk.status();
    assert_eq!((status.identity, status.is_changing), (node(old), false));
    assert!(status.failure.is_some_and(|why| why.contains("does not take the new key")));
    // The old one still votes.
    tested.froze(id(1), id(0), vec![]);
    assert_eq!(voters(&tested.step()), [(node(old), account(old))]);
}

#[test]
fn votes_that_were_cast_elsewhere_are_counted() {
    let (mut tested, _) = changeable(0);
    for slot in 1..=3 {
        tested.froze(id(slot), id(slot - 1), vec![]);
    }
    tested.froze(id(4), id(3), vec![voted(0, &[1, 2, 3])]);
    assert_eq!(tested.votes(), [4]);
    assert_eq!(tested.core.count.adopted_towers, 1);
    let tower = Tower::restore(tested.disk.towers.last().unwrap(), &node(0)).unwrap();
    assert_eq!(tower.lockouts().votes.iter().map(|vote| vote.slot).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // Its own votes are none of those.
    tested.froze(id(5), id(4), vec![voted(0, &[1, 2, 3, 4])]);
    tested.step();
    assert_eq!(tested.core.count.adopted_towers, 1);
}

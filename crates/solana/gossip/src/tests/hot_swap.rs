//! A node that takes another identity while it runs.

use hearth_wire::gossip::SocketKind;

use super::network::{Network, address, config, contact, identity};
use super::*;

/// Gives node `n` the key of another number.
fn swap(network: &mut Network, n: usize, to: usize) {
    let now = network.now;
    network.keys.insert(address(n), key(to));
    network.gossip_mut(n).set_identity(identity(to), now);
}

/// Whether each of six nodes knows this process as the one with a key.
fn is_known(network: &Network, n: usize, by: usize) -> bool {
    let outset = network.gossip(n).own().outset;
    (0..6).all(|other| network.gossip(other).contact_info(&identity(by)).is_some_and(|it| it.outset == outset))
}

fn six(seed: u64) -> Network {
    let mut network = network(seed);
    network.add_many(6, &[0]);
    let all: Vec<usize> = (0..6).collect();
    network.run_while_not(60_000, "six know each other", |network| network.all_know(&all));
    network
}

#[test]
fn another_identity_is_known_at_the_same_address() {
    let mut network = six(14);
    network.gossip_mut(3).publish_epoch_slots(&[7], START).unwrap();
    swap(&mut network, 3, 40);
    network.run_while_not(30_000, "the new identity", |network| is_known(network, 3, 40));
    let known = network.gossip(1).contact_info(&identity(40)).and_then(|it| it.socket(SocketKind::Gossip));
    assert_eq!(known, Some(address(3)));
    let others: Vec<Pubkey> = network.gossip(3).contact_infos().map(|it| it.pubkey).collect();
    assert!(others.contains(&identity(40)) && !others.contains(&identity(3)), "it is no other node");
    assert_eq!(others.len(), 6);
    // And back: it is the same identity, begun later.
    swap(&mut network, 3, 3);
    network.run_while_not(30_000, "the old identity", |network| is_known(network, 3, 3));
    assert_eq!(network.gossip_mut(3).next_event(), None);
}

#[test]
fn a_process_that_had_the_identity_before_is_the_older() {
    let mut network = six(15);
    // Its clock is ahead.
    let elsewhere = address(50);
    let own = contact(41, network.now + 100_000).with(SocketKind::Gossip, elsewhere);
    network.start_at(elsewhere, 41, config(&[0]), own);
    network.run_while_not(30_000, "the other process", |network| {
        network.gossip(3).contact_info(&identity(41)).is_some_and(|it| it.outset == own.outset)
    });
    swap(&mut network, 3, 41);
    assert!(network.gossip(3).own().outset > own.outset);
    network.run_while_not(30_000, "the younger one", |network| is_known(network, 3, 41));
    let is_older = |network: &Network| network.nodes[&elsewhere].counters().duplicate_instance > 0;
    network.run_while_not(30_000, "the older one hears of it", is_older);
    assert_eq!(network.gossip_mut(3).next_event(), None);
    let older = network.nodes.get_mut(&elsewhere).expect("it runs");
    assert!(matches!(older.next_event(), Some(Event::DuplicateInstance { .. })));
}

#[test]
fn a_signature_that_was_on_its_way_is_ignored() {
    let mut network = network(16);
    network.add(&[]);
    let gossip = network.gossip_mut(0);
    let mut out = Outbox::default();
    gossip.tick(START, &mut out);
    let request = gossip.next_request().expect("its contact info");
    gossip.set_identity(identity(40), START);
    assert_eq!(gossip.requests_in_flight(), 1, "its answer needs its room");
    gossip.signed(START, request.tag, &request.sign(&key(0)), &mut out);
    assert_eq!((gossip.requests_in_flight(), gossip.contact_info(&identity(0))), (0, None));
    gossip.tick(START + 1, &mut out);
    gossip.sign_with(START + 1, &key(40), &mut out);
    assert_eq!(gossip.contact_info(&identity(40)).map(|own| own.pubkey), Some(identity(40)));
}

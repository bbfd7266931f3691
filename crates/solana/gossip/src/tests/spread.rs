//! Nodes find and lose each other, and their values reach all.

use hearth_wire::consts::VOTE_PROGRAM;
use hearth_wire::gossip::{CrdsData, SocketKind};
use hearth_wire::message::{AccountMeta, Instruction, Message};

use super::network::{Network, address, config, contact, identity, key};
use super::*;
use crate::Peer;
use crate::config::SOL;

/// Stake for nodes 0 to `count`, so that those without it have their short timeout.
fn with_stakes(network: &mut Network, count: usize) {
    network.stakes = (0..count).map(|n| (identity(n), (n as u64 + 1) * 100 * SOL)).collect();
}

/// A vote for a slot from 128 on: its number takes two bytes.
pub fn vote(slot: u64) -> Vec<u8> {
    let mut data = 14u32.to_le_bytes().to_vec();
    data.extend(u64::MAX.to_le_bytes());
    data.extend([1, slot as u8 & 0x7f | 0x80, (slot >> 7) as u8, 1]);
    data.extend([7; 32]);
    data.push(0);
    data.extend([8; 32]);
    let accounts = vec![AccountMeta::writable([2; 32], false), AccountMeta::readonly([3; 32], true)];
    let message = Message::compile(&[3; 32], &[Instruction { program_id: VOTE_PROGRAM, accounts, data }], &[4; 32]);
    message.unwrap().sign_with(|_, _| [5; 64])
}

#[test]
fn fifty_nodes_know_each_other_from_one_entrypoint() {
    for seed in [1, 2, 3] {
        let mut network = network(seed);
        network.add_many(50, &[0]);
        let all: Vec<usize> = (0..50).collect();
        network.run_while_not(45_000, "fifty know each other", |network| network.all_know(&all));
        network.run_for(30_000);
        assert!(network.all_know(&all), "and go on to");
        let counters = network.gossip(7).counters();
        assert_eq!((counters.malformed, counters.bad_signature, counters.values_wallclock), (0, 0, 0));
        let reachable = |peer: &Peer| peer.tvu.is_some() && peer.serve_repair.is_some();
        assert_eq!(network.gossip(7).peers().filter(reachable).count(), 50, "this node among them");
    }
}

#[test]
fn all_that_a_node_says_reaches_all() {
    let mut network = network(4);
    with_stakes(&mut network, 10);
    network.add_many(30, &[0]);
    let all: Vec<usize> = (0..30).collect();
    network.run_while_not(60_000, "thirty know each other", |network| network.all_know(&all));
    let now = network.now;
    for n in 0..30 {
        network.gossip_mut(n).set_root(10, 1_000);
    }
    let speaker = network.gossip_mut(20);
    speaker.publish_vote(&vote(177), now).unwrap();
    speaker.publish_lowest_slot(40, now).unwrap();
    speaker.publish_epoch_slots(&[70, 71, 75], now).unwrap();
    speaker.publish_snapshots((60, [6; 32]), &[(65, [7; 32])], now).unwrap();
    speaker.publish_duplicate(71, [&[1; 1_203], &[2; 1_203]], now).unwrap();
    let from = identity(20);
    let knows = |gossip: &Gossip| {
        let has_vote = gossip.values(CrdsKind::Vote, &mut Cursor::default()).any(|value| match value.data() {
            CrdsData::Vote(vote) => vote.from == from && vote.slot == Some(177),
            _ => false,
        });
        let slots = gossip.values(CrdsKind::EpochSlots, &mut Cursor::default()).count();
        let pieces = gossip.values(CrdsKind::DuplicateShred, &mut Cursor::default()).count();
        let snapshots = gossip.snapshot_hashes(&from).map(|hashes| hashes.incremental);
        has_vote
            && (slots, pieces) == (1, 3)
            && gossip.lowest_slot(&from) == Some(40)
            && snapshots == Some(vec![(65, [7; 32])])
    };
    network.run_while_not(30_000, "all is known by all", |network| network.nodes.values().all(knows));
    let lowest = |peer: Peer| (peer.identity == from, peer.lowest);
    let mut peers: Vec<(bool, u64)> = network.gossip(3).peers().map(lowest).collect();
    peers.sort_unstable();
    assert_eq!(peers.len(), 30, "all");
    assert_eq!((peers[28], peers[29]), ((false, 0), (true, 40)), "one says how far back it goes");
    for n in (0..30).filter(|n| *n != 20) {
        let event = network.gossip_mut(n).next_event().expect("the pieces are whole");
        let Event::DuplicateProof(proof) = event else { panic!("another event") };
        assert_eq!((proof.slot, proof.from, proof.shreds[1][0], proof.shreds[0].len()), (71, from, 2, 1_203));
    }
}

#[test]
fn votes_spread_fast_and_twelve_are_kept() {
    let mut network = network(5);
    with_stakes(&mut network, 20);
    network.loss_per_mille = 0;
    network.add_many(20, &[0]);
    let all: Vec<usize> = (0..20).collect();
    network.run_while_not(60_000, "twenty know each other", |network| network.all_know(&all));
    let mut cursor = Cursor::default();
    for slot in 200..230 {
        let now = network.now;
        network.gossip_mut(4).publish_vote(&vote(slot), now).unwrap();
        network.run_for(400);
        let found = voted(network.gossip(9), &mut cursor);
        assert_eq!(found, [Some(slot)], "within a slot's time");
    }
    let kept = voted(network.gossip(9), &mut Cursor::default());
    assert_eq!(kept, (218..230).map(Some).collect::<Vec<_>>());
    let now = network.now;
    network.gossip_mut(4).publish_vote(&vote(229), now).unwrap();
    network.run_for(400);
    assert_eq!(voted(network.gossip(9), &mut Cursor::default()).len(), 12, "a refreshed vote replaces itself");
}

/// The slots of the votes that arrived since the cursor's last use.
fn voted(gossip: &Gossip, cursor: &mut Cursor) -> Vec<Option<u64>> {
    gossip.values(CrdsKind::Vote, cursor).map(slot_of).collect()
}

fn slot_of(value: hearth_wire::gossip::CrdsValue<'_>) -> Option<u64> {
    match value.data() {
        CrdsData::Vote(vote) => vote.slot,
        _ => None,
    }
}

#[test]
fn a_crashed_node_vanishes_after_its_timeout() {
    let mut network = network(6);
    with_stakes(&mut network, 3);
    network.add_many(20, &[0]);
    let all: Vec<usize> = (0..20).collect();
    network.run_while_not(60_000, "twenty know each other", |network| network.all_know(&all));
    network.crash(12);
    network.crash(2);
    network.run_for(7_000);
    assert!(network.all_know(&all), "not before its timeout");
    let without: Vec<usize> = (0..20).filter(|n| *n != 12).collect();
    let took = network.run_while_not(9_000, "the one without stake is gone", |network| network.all_know(&without));
    assert!(took > 0);
    network.run_for(60_000);
    assert!(network.all_know(&without), "one with stake is known for an epoch, and none comes back");
    let without: Vec<usize> = without.into_iter().filter(|n| *n != 2).collect();
    network.run_while_not(60_000, "the one with stake is gone", |network| network.all_know(&without));
}

#[test]
fn a_node_that_begins_again_replaces_itself() {
    let mut network = network(7);
    with_stakes(&mut network, 15);
    network.add_many(15, &[0]);
    let all: Vec<usize> = (0..15).collect();
    network.run_while_not(60_000, "fifteen know each other", |network| network.all_know(&all));
    let old = *network.gossip(8).own();
    network.crash(8);
    network.run_for(1_000);
    let new = contact(8, network.now).with(SocketKind::Tvu, "10.0.0.9:9999".parse().unwrap());
    network.start(8, config(&[0]), new);
    let is_new = |gossip: &Gossip| gossip.contact_info(&identity(8)).is_some_and(|node| node.outset > old.outset);
    network.run_while_not(30_000, "the new one is known", |network| network.nodes.values().all(is_new));
    network.run_while_not(30_000, "and knows all", |network| network.all_know(&all));
    assert_eq!(
        network.gossip(3).contact_info(&identity(8)).and_then(|node| node.socket(SocketKind::Tvu)),
        new.socket(SocketKind::Tvu)
    );
}

#[test]
fn older_process_learns_of_a_newer() {
    let mut network = network(8);
    network.add_many(10, &[0]);
    let all: Vec<usize> = (0..10).collect();
    network.run_while_not(60_000, "ten know each other", |network| network.all_know(&all));
    let elsewhere = address(40);
    let other = contact(5, network.now + 1).with(SocketKind::Gossip, elsewhere);
    network.start_at(elsewhere, 5, config(&[0]), other);
    network.run_for(30_000);
    assert_eq!(network.gossip_mut(5).next_event(), Some(Event::DuplicateInstance { outset: other.outset }));
    assert!(network.gossip(5).counters().duplicate_instance > 0);
    let younger = network.nodes.get_mut(&elsewhere).expect("it runs");
    assert_eq!((younger.next_event(), younger.counters().duplicate_instance), (None, 0));
    let known = network.gossip(2).contact_info(&identity(5)).and_then(|node| node.socket(SocketKind::Gossip));
    assert_eq!(known, Some(elsewhere), "all others know the younger one");
}

#[test]
fn a_partition_heals() {
    for (seed, is_long) in [(9, false), (10, true)] {
        let mut network = network(seed);
        with_stakes(&mut network, 4);
        network.add_many(24, &[0, 1]);
        let all: Vec<usize> = (0..24).collect();
        network.run_while_not(60_000, "two dozen know each other", |network| network.all_know(&all));
        network.sides = (12..24).map(|n| (address(n), 1)).collect();
        network.run_for(if is_long { 180_000 } else { 20_000 });
        let near = network.gossip(20).contact_infos().count();
        assert_eq!(
            near,
            if is_long { 12 } else { 16 },
            "of the other side only those with stake, and they not for ever"
        );
        network.sides.clear();
        network.run_while_not(60_000, "all know each other again", |network| network.all_know(&all));
    }
}

#[test]
fn clock_set_back_silences_no_node() {
    const HOUR: u64 = 3_600_000;
    let mut network = network(15);
    with_stakes(&mut network, 4);
    network.add_many(12, &[0]);
    let all: Vec<usize> = (0..12).collect();
    network.run_while_not(60_000, "twelve know each other", |network| network.all_know(&all));
    let now = network.now;
    network.gossip_mut(7).publish_vote(&vote(200), now).unwrap();
    network.run_for(2_000);
    network.set_back(HOUR);
    let before = *network.gossip(3).counters();
    let signed = |network: &Network| network.gossip(5).contact_info(&identity(7)).map_or(0, |node| node.wallclock);
    network.run_for(20_000);
    // A node without stake is forgotten for a moment if both its refreshes of 15 s are lost.
    network.run_while_not(15_000, "all are known still", |network| network.all_know(&all));
    assert!(signed(&network).abs_diff(network.now) < 10_000, "what they sign is of now, and others take it");
    let after = *network.gossip(3).counters();
    assert_eq!((after.clock_set_back, after.values_wallclock), (1, before.values_wallclock));
    assert!(after.pull_requests_sent > before.pull_requests_sent + 200, "it asks as often");
    assert!(after.pull_values_sent > before.pull_values_sent && after.pings_received >= before.pings_received);
    // New values spread, new nodes are admitted, and absent ones expire.
    let now = network.now;
    network.gossip_mut(7).publish_vote(&vote(201), now).unwrap();
    let has = |gossip: &Gossip| voted(gossip, &mut Cursor::default()).contains(&Some(201));
    network.run_while_not(2_000, "a vote is everywhere", |network| network.nodes.values().all(has));
    network.add(&[0]);
    network.run_while_not(30_000, "a newcomer is known", |network| network.all_know(&(0..13).collect::<Vec<_>>()));
    network.crash(11);
    let left: Vec<usize> = (0..13).filter(|n| *n != 11).collect();
    network.run_while_not(25_000, "the one that crashed is gone", |network| network.all_know(&left));
}

#[test]
fn values_from_the_future_are_signed_again() {
    let mut network = network(16);
    network.add(&[]);
    let now = network.now;
    let (ahead, gossip, mut out) = (now + 3_600_000, network.gossip_mut(0), Outbox::default());
    let own = *gossip.identity();
    gossip.tick(ahead, &mut out);
    gossip.publish_lowest_slot(9, ahead).unwrap();
    gossip.publish_epoch_slots(&[70, 71], ahead).unwrap();
    gossip.sign_with(ahead, &key(0), &mut out);
    // None of the votes is signed yet.
    (200..203).for_each(|slot| gossip.publish_vote(&vote(slot), ahead).unwrap());
    gossip.tick(now, &mut out);
    gossip.sign_with(now, &key(0), &mut out);
    let kinds = [CrdsKind::ContactInfo, CrdsKind::LowestSlot, CrdsKind::EpochSlots, CrdsKind::Vote];
    let times = |kind| gossip.values(kind, &mut Cursor::default()).map(|value| value.wallclock()).collect::<Vec<_>>();
    let times = kinds.map(times);
    assert_eq!(times.each_ref().map(Vec::len), [1, 1, 1, 3]);
    assert!(times.concat().iter().all(|at| (now..now + 100).contains(at)), "{times:?}");
    assert_eq!(gossip.lowest_slot(&own), Some(9));
    let slots = voted(gossip, &mut Cursor::default());
    assert_eq!(slots, [200, 201, 202].map(Some), "in the same order");
    // Clock jitter does not count as a clock that was set back.
    gossip.tick(now - 900, &mut out);
    assert_eq!(gossip.counters().clock_set_back, 1);
}

#[test]
fn prunes_lose_no_values() {
    let mut network = network(14);
    with_stakes(&mut network, 30);
    network.loss_per_mille = 0;
    network.add_many(30, &[0]);
    let all: Vec<usize> = (0..30).collect();
    network.run_while_not(60_000, "thirty know each other", |network| network.all_know(&all));
    let sum = |network: &Network, of: fn(&Counters) -> u64| -> u64 {
        network.nodes.values().map(|gossip| of(gossip.counters())).sum()
    };
    let mut duplicates = Vec::new();
    for round in 0..4 {
        let before = (sum(&network, |c| c.values_new), sum(&network, |c| c.values_duplicate));
        for slot in 200..260 {
            let now = network.now;
            network.gossip_mut(5).publish_vote(&vote(slot), now).unwrap();
            network.run_for(100);
        }
        network.run_for(1_000);
        let new = sum(&network, |c| c.values_new) - before.0;
        let again = sum(&network, |c| c.values_duplicate) - before.1;
        println!("round {round}: {new} values were new, {again} were not");
        assert!(new >= 60 * 29, "every vote reached every node");
        duplicates.push(again as f64 / new as f64);
    }
    assert!(sum(&network, |c| c.prunes_received) > 0);
    assert!(duplicates[3] < duplicates[0] * 0.7, "{duplicates:?} duplicates a value");
}

//! Gossip among many nodes, on virtual time.

mod hostile;
mod hot_swap;
mod network;
mod signing;
mod spread;
mod start;

use std::collections::HashMap;

use hearth_wire::gossip::{CrdsData, CrdsKind};

use super::*;
use network::{Network, START, key};

/// A network with this seed, which is printed. `HEARTH_SEED` overrides it.
fn network(seed: u64) -> Network {
    let other = std::env::var("HEARTH_SEED").map_or(0, |text| text.parse().expect("HEARTH_SEED is a number"));
    let seed = seed + other;
    println!("seed {seed}");
    Network::new(seed)
}

#[test]
fn the_same_seed_gives_the_same_datagrams() {
    let run = || {
        let mut network = network(11);
        network.add_many(12, &[0]);
        network.run_for(20_000);
        (network.digest, *network.gossip(3).counters(), network.sent)
    };
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    assert!(first.2 > 1_000, "{} datagrams", first.2);
}

#[test]
fn every_counter_has_a_name() {
    let counters = Counters { events_lost: 7, datagrams: 5, ..Counters::default() };
    let named: HashMap<&str, u64> = counters.named().collect();
    assert_eq!((named["events_lost"], named["datagrams"]), (7, 5));
    assert_eq!(named.len() * 8, size_of::<Counters>());
    let page = include_str!("../../../../../docs/gossip.md");
    named.keys().for_each(|name| assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/gossip.md"));
}

#[test]
fn own_values_keep_their_rules() {
    let mut network = network(12);
    network.add(&[]);
    let gossip = network.gossip_mut(0);
    let mut out = Outbox::default();
    gossip.tick(START, &mut out);
    gossip.sign_with(START, &key(0), &mut out);
    let own = *gossip.identity();
    assert_eq!(gossip.contact_info(&own).map(|own| own.wallclock), Some(START));
    gossip.publish_lowest_slot(9, START).unwrap();
    gossip.publish_lowest_slot(8, START + 5).unwrap();
    gossip.sign_with(START, &key(0), &mut out);
    assert_eq!(gossip.lowest_slot(&own), Some(8), "older blocks may come later");
    gossip.publish_snapshots((100, [1; 32]), &[(101, [2; 32])], START).unwrap();
    gossip.publish_snapshots((200, [3; 32]), &[], START).unwrap();
    gossip.sign_with(START, &key(0), &mut out);
    assert_eq!(gossip.snapshot_hashes(&own).map(|hashes| hashes.full.0), Some(200), "the later of two of a time");
    assert!(gossip.publish_snapshots((200, [3; 32]), &[(200, [4; 32])], START).is_err());
    assert!(gossip.publish_snapshots((1, [3; 32]), &[(2, [4; 32]); 26], START).is_err());
    assert!(gossip.publish_vote(&[1, 2, 3], START).is_err());
    let mut cursor = Cursor::default();
    let slots: Vec<u64> = (1_000..9_000).filter(|slot| slot % 7 != 0).chain([50_000, 3]).collect();
    slots.chunks(100).for_each(|slots| gossip.publish_epoch_slots(slots, START).unwrap());
    gossip.sign_with(START, &key(0), &mut out);
    let mut found = Vec::new();
    let mut values = 0;
    for value in gossip.values(CrdsKind::EpochSlots, &mut cursor) {
        assert!(value.bytes().len() <= 928);
        let CrdsData::EpochSlots(slots) = value.data() else { panic!("another kind") };
        slots.runs.iter().for_each(|run| run.for_each(|slot| found.push(slot)));
        values += 1;
    }
    assert_eq!((found, values), (slots, 2));
    assert_eq!(gossip.values(CrdsKind::EpochSlots, &mut cursor).count(), 0, "each is read once");
    assert!(gossip.publish_epoch_slots(&[u64::MAX], START).is_err());
    gossip.publish_epoch_slots(&[10_001], START).unwrap();
    gossip.sign_with(START, &key(0), &mut out);
    assert_eq!(gossip.values(CrdsKind::EpochSlots, &mut cursor).count(), 1);
}

#[test]
fn pieces_of_proofs_go_round() {
    let mut network = network(13);
    network.add(&[]);
    let gossip = network.gossip_mut(0);
    let shreds = |n: usize| [vec![n as u8; 1_203], vec![n as u8 + 1; 1_228]];
    for slot in 0..200usize {
        let [a, b] = shreds(slot);
        gossip.publish_duplicate(slot as u64, [&a, &b], START + slot as u64).unwrap();
        gossip.publish_duplicate(slot as u64, [&b, &a], START + slot as u64).unwrap();
        gossip.sign_with(START + slot as u64, &key(0), &mut Outbox::default());
    }
    let mut slots: Vec<u64> = gossip
        .values(CrdsKind::DuplicateShred, &mut Cursor::default())
        .map(|value| match value.data() {
            CrdsData::DuplicateShred(piece) => piece.slot,
            _ => panic!("another kind"),
        })
        .collect();
    assert_eq!(slots.len(), 512);
    slots.dedup();
    assert_eq!(slots.len(), 171, "three pieces of a slot, and two of the oldest: {slots:?}");
    assert_eq!(slots.last(), Some(&199));
}

//! Tile tests: entries in, signed sets and shreds out, time set by hand.

use std::time::Duration;

use hearth_tile::rig::Rig;
use hearth_wire::entry::Entries;

use super::*;
use crate::links::{Outgoing, PohEntryAt, read_set};

const INPUTS: [&str; 2] = ["poh_shred", "sign_shred:0"];
const OUTPUTS: [&str; 3] = ["shred_sign:0", "shred_store:0", "shred_net:0"];

fn rig() -> Rig<Shred> {
    rig_with(vec![])
}

fn rig_with(destinations: Vec<SocketAddr>) -> Rig<Shred> {
    let config = Config {
        shred_version: 7,
        shreds_per_slot_max: 32_768,
        chained_root: [9; 32],
        first_slot: 1,
        takes_turns: false,
        destinations,
        cluster: None,
        tap: None,
    };
    Rig::new(config, &INPUTS, &OUTPUTS)
}

fn tick(rig: &mut Rig<Shred>, slot: u64, tick: u8, last: bool) {
    let mut buffer = [0; 200];
    let at = PohEntryAt { slot, parent_slot: slot - 1, tick, last };
    let size = PohEntry::write(&mut buffer, &at, 1, &[tick; 32], 0, &[]);
    rig.give("poh_shred", slot, &buffer[..size]);
}

fn transactions(rig: &mut Rig<Shred>, slot: u64, len: usize) {
    let mut buffer = vec![0; 61_000];
    let at = PohEntryAt { slot, parent_slot: slot - 1, tick: 1, last: false };
    let size = PohEntry::write(&mut buffer, &at, 1, &[5; 32], 1, &vec![3; len]);
    rig.give("poh_shred", slot, &buffer[..size]);
}

/// Answers all requests to sign; returns the roots.
fn sign(rig: &mut Rig<Shred>) -> Vec<Vec<u8>> {
    let asked = rig.take("shred_sign:0");
    for (tag, root) in &asked {
        assert_eq!(root.len(), 32);
        rig.give("sign_shred:0", *tag, &[root.clone(), root.clone()].concat());
    }
    rig.run();
    asked.into_iter().map(|(_, root)| root).collect()
}

#[test]
fn an_idle_slot_is_one_signed_set() {
    let mut rig = rig();
    for t in 1..=64 {
        tick(&mut rig, 1, t, t == 64);
    }
    rig.run();
    assert!(rig.take("shred_store:0").is_empty(), "nothing is stored unsigned");
    let roots = sign(&mut rig);
    let stored = rig.take("shred_store:0");
    assert_eq!((roots.len(), stored.len()), (1, 1));
    let set = read_set(&stored[0].1);
    assert_eq!((set.slot, set.parent_slot, set.fec_set_index, set.last_in_slot), (1, 0, 0, true));
    assert_eq!((set.merkle_root.to_vec(), set.chained_root), (roots[0].clone(), [9; 32]));
    assert_eq!(&set.signature[..32], &set.merkle_root);
    assert_eq!(Entries::parse(set.data).unwrap().count(), 64);
}

#[test]
fn sets_are_chained_from_slot_to_slot() {
    let mut rig = rig();
    tick(&mut rig, 1, 64, true);
    tick(&mut rig, 2, 64, true);
    rig.run();
    sign(&mut rig);
    let stored = rig.take("shred_store:0");
    let (first, second) = (read_set(&stored[0].1), read_set(&stored[1].1));
    assert_eq!(second.chained_root, first.merkle_root);
    assert_eq!((second.slot, second.fec_set_index), (2, 0));
}

#[test]
fn transactions_wait_50_ms_at_most() {
    let mut rig = rig();
    transactions(&mut rig, 1, 1000);
    rig.run();
    assert!(rig.take("shred_sign:0").is_empty());
    assert_eq!(rig.waits_for().deadline, Some(50_000_000));
    rig.advance(Duration::from_millis(50));
    rig.run();
    assert_eq!(rig.take("shred_sign:0").len(), 1);
}

#[test]
fn large_entries_make_several_sets_and_nothing_is_lost() {
    let mut rig = rig();
    let mut stored = vec![];
    for _ in 0..20 {
        transactions(&mut rig, 1, 59_000);
        rig.run();
        sign(&mut rig);
        stored.extend(rig.take("shred_store:0"));
    }
    tick(&mut rig, 1, 64, true);
    rig.run();
    sign(&mut rig);
    stored.extend(rig.take("shred_store:0"));
    let bytes: usize = stored.iter().map(|(_, m)| read_set(m).data.len()).sum();
    assert!(bytes > 20 * 59_000, "{bytes}");
    let indices: Vec<u32> = stored.iter().map(|(_, m)| read_set(m).fec_set_index).collect();
    assert_eq!(indices, (0..stored.len() as u32).map(|i| 32 * i).collect::<Vec<_>>());
    assert_eq!(rig.count().sets, rig.count().signed);
}

/// Gives entries of one size up to pack's limit, then a tick that ends the slot; returns the number of sets.
fn worst_slot(len: usize, early: bool) -> u32 {
    const SHREDS: u32 = 64 * 32;
    let config = Config {
        shred_version: 7,
        shreds_per_slot_max: SHREDS,
        chained_root: [9; 32],
        first_slot: 1,
        takes_turns: false,
        destinations: vec![],
        cluster: None,
        tap: None,
    };
    let mut rig = Rig::new(config, &INPUTS, &OUTPUTS);
    let size = (len + PohEntry::ENTRY_HEADER) as u64;
    let mut shreds = 0;
    for n in 0..entry_bytes_within(SHREDS.into()) / size {
        transactions(&mut rig, 1, len);
        rig.run();
        if early || n % 7 == 0 {
            rig.advance(Duration::from_millis(50));
        }
        rig.run();
        sign(&mut rig);
        shreds = rig.take("shred_store:0").iter().map(|(_, m)| read_set(m).fec_set_index + 32).fold(shreds, u32::max);
    }
    tick(&mut rig, 1, 64, true);
    rig.run();
    sign(&mut rig);
    let last = rig.take("shred_store:0").pop().expect("the slot's last set");
    assert!(read_set(&last.1).last_in_slot);
    assert!(read_set(&last.1).fec_set_index + 32 <= SHREDS);
    shreds
}

#[test]
fn block_of_pack_fits_for_all_sizes_and_times() {
    let largest = MICROBLOCK_MTU - PohEntry::HEADER - PohEntry::ENTRY_HEADER;
    for len in [500, 13_900, SET_CAPACITY - 100, SET_CAPACITY, SET_CAPACITY + 40, 41_000, largest] {
        for early in [false, true] {
            let shreds = worst_slot(len, early);
            assert!(shreds > 20 * 32, "{len} B: the limit is far too low: {shreds} shreds");
        }
    }
}

#[test]
fn the_limits_of_a_block_fit_its_shreds() {
    for larger in [false, true] {
        let limits = hearth_ledger::BlockLimits::lifted(u64::MAX, false, larger);
        assert!(limits.entry_bytes <= entry_bytes_within(limits.shreds), "{limits:?}");
    }
}

#[test]
fn every_destination_gets_every_signed_shred() {
    let destinations: Vec<SocketAddr> = vec!["127.0.0.1:8003".parse().unwrap(), "127.0.0.2:8003".parse().unwrap()];
    let mut rig = rig_with(destinations.clone());
    tick(&mut rig, 1, 64, true);
    rig.run();
    assert!(rig.take("shred_net:0").is_empty(), "nothing is sent unsigned");
    let roots = sign(&mut rig);
    let sent = rig.take("shred_net:0");
    for to in destinations {
        let messages = sent.iter().map(|(_, m)| Outgoing::read(m)).filter(|m| m.to == to);
        let shreds: Vec<Vec<u8>> =
            messages.flat_map(|m| m.data.chunks(m.segment.into()).map(<[u8]>::to_vec).collect::<Vec<_>>()).collect();
        assert_eq!(shreds.len(), 64);
        for shred in &shreds {
            let parsed = hearth_wire::shred::Shred::parse(shred).expect("a shred of the cluster's form");
            assert_eq!(crate::shred::merkle_root(&parsed).expect("a proof").to_vec(), roots[0]);
        }
    }
    assert_eq!((rig.count().shreds_sent, rig.count().dropped_shreds), (128, 0));
}

#[test]
fn transactions_are_counted_once_the_last_set_of_their_batch_has_left() {
    let mut rig = rig();
    // More than a set each: the batch has several sets, and only its last one carries the count.
    for _ in 0..3 {
        transactions(&mut rig, 1, 50_000);
    }
    rig.run();
    rig.advance(Duration::from_millis(50));
    rig.run();
    let asked = rig.take("shred_sign:0");
    assert!(asked.len() > 3, "{}", asked.len());
    for (number, (tag, root)) in asked.iter().enumerate() {
        assert_eq!(rig.count().left_transactions, 0, "{number} of {} sets have left", asked.len());
        rig.give("sign_shred:0", *tag, &[root.clone(), root.clone()].concat());
        rig.run();
    }
    assert_eq!(rig.count().left_transactions, 3);
    tick(&mut rig, 1, 64, true);
    rig.run();
    sign(&mut rig);
    assert_eq!(rig.count().left_transactions, 3);
}

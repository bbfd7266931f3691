//! A leader that makes two blocks for a slot: a node that got the one that the cluster has not, gets the other.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use hearth_crypto::ed25519::SigningKey;
use hearth_pipeline::shred::{FecSet, Shredder, ShredderConfig};
use hearth_testkit::pause;
use hearth_wire::entry::write_entry;
use serde_json::{Value, json};

use super::follow::{block, follower, leader, reaches, slot};
use super::node::{Rpc, same, wait_until};

/// Reads the identity key of the node whose chain is in a folder.
fn identity(folder: &Path) -> SigningKey {
    let text = std::fs::read_to_string(folder.join("identity.json")).expect("a node writes its key there");
    let bytes: Vec<u8> = serde_json::from_str(&text).expect("64 numbers");
    SigningKey::from_seed(bytes[..32].try_into().expect("a seed comes first"))
}

pub fn shred_version(rpc: Rpc) -> u16 {
    let nodes: Value = rpc.call("getClusterNodes", json!([]));
    nodes[0]["shredVersion"].as_u64().expect("a number") as u16
}

/// The shreds of a block that its leader has signed, and that is built on no block that there is.
pub fn other_block(slot: u64, version: u16, leader: &SigningKey) -> Vec<Vec<u8>> {
    let config = ShredderConfig { version, batch_sets: 1, ..ShredderConfig::default() };
    let mut shredder = Shredder::new(config, [3; 32]);
    shredder.begin_slot(slot, slot - 1).unwrap();
    let mut entry = vec![];
    write_entry(1, &[4; 32], 0, &[], &mut entry);
    shredder.push(&entry, 1).unwrap();
    shredder.end_batch(true);
    let (mut set, mut shreds) = (FecSet::new(), vec![]);
    while shredder.next_set(&mut set) {
        let signature = leader.sign(set.root());
        set.sign(&signature);
        shreds.extend(set.shreds().map(<[u8]>::to_vec));
    }
    shreds
}

/// Sends a block to a node that follows.
fn send(shreds: &[Vec<u8>], tvu: u16) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    shreds.iter().for_each(|shred| drop(socket.send_to(shred, (Ipv4Addr::LOCALHOST, tvu))));
}

#[test]
fn of_two_blocks_of_a_slot_all_know_and_all_have_one_chain() {
    let (setup, gossip) = leader("first");
    let leader = setup.start();
    let follows = follower("other", gossip);
    let node = follows.start();
    reaches(&node, 3);
    let (key, version) = (identity(&setup.ledger()), shred_version(leader.rpc()));
    // It has that block whole before its leader makes the true one: if not, of a later slot.
    let mut slots = vec![];
    wait_until("the other block of a slot is dead", || {
        let newest = slot(leader.rpc());
        if slots.last().is_none_or(|last| newest > last + 4) {
            slots.push(newest + 6);
            send(&other_block(newest + 6, version, &key), follows.tvu());
        }
        match node.metrics().total("replay_dead_blocks") {
            0 => Err(format!("none of {slots:?} is")),
            _ => Ok(()),
        }
    });
    let (two, after) = (slots[0], slots[slots.len() - 1] + 8);
    [&node, &leader].into_iter().for_each(|node| reaches(node, after));
    // No node may vote for either version: the slot is skipped, or its block is the same everywhere.
    let of_slot = |rpc: Rpc| {
        let options = json!({ "transactionDetails": "none", "rewards": false, "commitment": "confirmed" });
        rpc.try_call("getBlock", json!([two, options]))
    };
    wait_until("both have it or neither has", || same(of_slot(node.rpc()), of_slot(leader.rpc())));
    wait_until("both have one chain", || {
        let bank_hash = |rpc: Rpc| rpc.try_call("getSlotChanges", json!([after, { "limit": 1 }]));
        let [here, there] = [&node, &leader].map(|node| bank_hash(node.rpc()));
        here.clone().and_then(|here| same(Ok(here["bankHash"].clone()), there.map(|there| there["bankHash"].clone())))
    });
    assert!(node.metrics().total("shred_dropped_equivocation") > 0);
    // The proof goes round: the leader itself hears that it made two.
    for node in [&node, &leader] {
        wait_until("it is known of", || match node.metrics().total("tower_duplicate_slots") {
            0 => Err("it is not".into()),
            _ => Ok(()),
        });
    }
    node.stop();
    leader.stop();
}

#[test]
fn a_node_with_another_block_than_the_cluster_gets_the_clusters() {
    let (setup, gossip) = leader("true");
    let leader = setup.start();
    let follows = follower("false", gossip);
    let node = follows.start();
    reaches(&node, 3);
    let (key, version) = (identity(&setup.ledger()), shred_version(leader.rpc()));
    node.kill();
    // Further ahead than it requests at a time.
    let wrong = slot(leader.rpc()) + 50;
    reaches(&leader, wrong + 4);
    let shreds = other_block(wrong, version, &key);
    let is_started = AtomicBool::new(false);
    let node = std::thread::scope(|scope| {
        // Repeatedly, since the moment it begins to listen is unknown.
        scope.spawn(|| {
            while !is_started.load(SeqCst) {
                send(&shreds, follows.tvu());
                pause(Duration::from_millis(1));
            }
        });
        let node = follows.start();
        is_started.store(true, SeqCst);
        node
    });
    [&node, &leader].into_iter().for_each(|node| reaches(node, wrong + 8));
    assert_eq!(block(node.rpc(), wrong), block(leader.rpc(), wrong));
    let here = node.metrics();
    for counted in ["replay_dead_blocks", "replay_dumped_slots", "tower_answered_ancestors"] {
        assert!(here.total(counted) > 0, "{counted}");
    }
    assert!(leader.metrics().total("rserve_served_ancestors") > 0);
    node.stop();
    leader.stop();
}

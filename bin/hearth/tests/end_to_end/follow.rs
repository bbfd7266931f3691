//! Nodes that follow a leader: they find it by gossip, fetch its genesis, receive shreds, repair missing ones, and
//! reach its state.

use std::collections::BTreeSet;
use std::path::Path;

use hearth_ledger::genesis::funded_account_key;
use hearth_ledger::snapshot::{self, Folder, Writer};
use hearth_ledger::{Seed, StatusCacheConfig};
use hearth_wire::base58::{decode_32, encode_32, encode_64};
use hearth_wire::{Hash, Pubkey, Signature};
use serde_json::{Value, json};

use super::client::{Sender, base64_of, fresh_address, signature_of, transfer};
use super::node::{Node, Rpc, Setup, same, wait_until};

/// A leader that votes, so that followers can compare their state with its votes.
pub fn leader(test: &str) -> (Setup, u16) {
    let mut setup = Setup::new(test);
    setup.with("consensus.vote", true).with("rpc.status_capacity", 65_536);
    let gossip = setup.in_cluster(None);
    (setup, gossip)
}

pub fn follower(test: &str, entrypoint: u16) -> Setup {
    let mut setup = Setup::new(test);
    setup.in_cluster(Some(entrypoint));
    setup
}

pub fn slot(rpc: Rpc) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": "confirmed" }])).as_u64().unwrap()
}

/// Waits until all of these have landed; returns the slot of the last.
fn landed(rpc: Rpc, signatures: &[Signature]) -> u64 {
    wait_until("all land", || {
        let statuses = rpc.statuses(signatures);
        let slots: Vec<u64> = statuses.iter().filter_map(|status| status["slot"].as_u64()).collect();
        same(slots.len(), signatures.len()).map(|()| slots.into_iter().max().unwrap())
    })
}

/// Waits until a node has executed a slot and written it to disk.
pub fn reaches(node: &Node, wanted: u64) {
    wait_until("the node comes there", || {
        let at = slot(node.rpc());
        if at >= wanted { Ok(()) } else { Err(format!("slot {at} of {wanted}")) }
    });
}

pub fn block(rpc: Rpc, slot: u64) -> Value {
    let options = json!({ "transactionDetails": "signatures", "rewards": false, "commitment": "confirmed" });
    let block = rpc.call("getBlock", json!([slot, options]));
    json!([
        block["blockhash"],
        block["previousBlockhash"],
        block["parentSlot"],
        block["signatures"],
        block["blockTime"]
    ])
}

fn everybody_knows_everybody(nodes: &[&Node]) {
    let identities: BTreeSet<_> = nodes.iter().map(|node| node.rpc().identity()).collect();
    assert_eq!(identities.len(), nodes.len());
    for node in nodes {
        wait_until("gossip", || {
            let contacts = node.rpc().call("getClusterNodes", json!([]));
            same(contacts.as_array().unwrap().iter().filter(|node| node["tvu"].is_string()).count(), nodes.len())
        });
    }
}

#[test]
fn followers_come_to_the_leaders_state() {
    let (leader, gossip) = leader("lead");
    let leader = leader.start();
    // The chain has history before the first follower joins.
    let mut sender = Sender::connect(leader.quic(), 1);
    let send = |sender: &mut Sender, numbers: std::ops::Range<usize>| {
        let blockhash = leader.rpc().latest_blockhash();
        numbers
            .map(|number| {
                let bytes =
                    transfer(&funded_account_key(number % 64), &fresh_address(5, number), 1_000_000, &blockhash);
                wait_until("room", || if sender.try_send(&bytes) { Ok(()) } else { Err("none".into()) });
                signature_of(&bytes)
            })
            .collect::<Vec<_>>()
    };
    let early = send(&mut sender, 0..300);
    landed(leader.rpc(), &early);

    let setups = ["one", "two"].map(|name| follower(&format!("follow-{name}"), gossip));
    let followers = setups.each_ref().map(Setup::start);
    let late = send(&mut sender, 300..600);
    let newest = landed(leader.rpc(), &late);
    reaches(&leader, newest);
    for follower in &followers {
        reaches(follower, newest);
        for number in [0, 299, 300, 599] {
            assert_eq!(follower.rpc().balance(&fresh_address(5, number)), 1_000_000);
        }
        let first = &early[0];
        let found = follower.rpc().call("getTransaction", json!([&*encode_64(first), { "commitment": "confirmed" }]));
        assert!(found["slot"].as_u64() > Some(0), "{found}");
        assert_eq!(
            follower.rpc().call("getSlotLeader", json!([])),
            leader.rpc().call("getIdentity", json!([]))["identity"]
        );
        for slot in [1, newest / 2, newest] {
            assert_eq!(block(follower.rpc(), slot), block(leader.rpc(), slot));
        }
    }
    everybody_knows_everybody(&[&leader, &followers[0], &followers[1]]);
    // A transaction sent to a follower lands at the leader and comes back.
    let blockhash = followers[0].rpc().latest_blockhash();
    let bytes = transfer(&funded_account_key(7), &fresh_address(6, 0), 2_000_000, &blockhash);
    let sent = followers[0]
        .rpc()
        .call("sendTransaction", json!([base64_of(&bytes), { "encoding": "base64", "skipPreflight": true }]));
    assert_eq!(sent, json!(*encode_64(&signature_of(&bytes))));
    wait_until("it comes back", || same(followers[1].rpc().balance(&fresh_address(6, 0)), 2_000_000));

    // A restarted follower repairs the slots that it missed.
    let [one, two] = followers;
    one.kill();
    let away = send(&mut sender, 600..700);
    let newest = landed(leader.rpc(), &away);
    let one = setups[0].start();
    reaches(&one, newest);
    assert_eq!(one.rpc().balance(&fresh_address(5, 699)), 1_000_000);
    assert!(one.metrics().total("shred_shreds_repaired") > 0);
    assert!(leader.metrics().total("rserve_served") > 0 && one.metrics().total("gossip_pings_sent") > 0);
    two.stop();
    one.stop();
    leader.stop();
}

#[test]
fn a_node_that_joins_takes_a_snapshot_of_a_peer() {
    let (mut leader, gossip) = leader("serve");
    // Slots of 64 ms.
    leader.with("development.genesis.target_tick_duration_micros", 1_000);
    leader.with("snapshots.full_snapshot_interval_slots", 40);
    let leader = leader.start();
    let mut sender = Sender::connect(leader.quic(), 1);
    let blockhash = leader.rpc().latest_blockhash();
    let sent: Vec<Signature> = (0..50)
        .map(|number| {
            let bytes = transfer(&funded_account_key(number), &fresh_address(7, number), 1_000_000, &blockhash);
            wait_until("room", || if sender.try_send(&bytes) { Ok(()) } else { Err("none".into()) });
            signature_of(&bytes)
        })
        .collect();
    let last = landed(leader.rpc(), &sent);
    let slot_of = |node: &Node| node.metrics().gauge("store_snapshot_slot") as u64;
    wait_until("a snapshot", || match slot_of(&leader) {
        slot if slot > last => Ok(()),
        slot => Err(format!("the newest is of slot {slot}, and must be above {last}")),
    });

    let mut setup = follower("taken", gossip);
    let taken = setup.start();
    let first = taken.rpc().call("getFirstAvailableBlock", json!([])).as_u64().unwrap();
    assert!(first > last, "{first}");
    let newest = slot(leader.rpc());
    reaches(&taken, newest);
    for node in [&leader, &taken] {
        assert_eq!(node.rpc().balance(&fresh_address(7, 49)), 1_000_000);
    }
    assert_eq!(block(taken.rpc(), newest), block(leader.rpc(), newest));
    assert!(taken.metrics().total("replay_executed_blocks") <= newest + 50 - last);

    // Without a trusted snapshot source, the follower replays from the first block.
    let mut from_first = follower("untaken", gossip);
    from_first.with("snapshots.known_validators", vec!["11111111111111111111111111111112"]);
    let untaken = from_first.start();
    reaches(&untaken, newest);
    assert!(untaken.metrics().total("replay_executed_blocks") >= newest - 10);
    assert_eq!(untaken.rpc().balance(&fresh_address(7, 49)), 1_000_000);

    // A follower that was away for long downloads a snapshot instead of replaying.
    reaches(&taken, newest + 40);
    taken.kill();
    let left = slot(leader.rpc());
    wait_until("a later snapshot", || match slot_of(&leader) {
        slot if slot > left + 60 => Ok(()),
        slot => Err(format!("the newest is of slot {slot}, and must be above {}", left + 60)),
    });
    let from = slot_of(&leader);
    setup.with("snapshots.maximum_local_snapshot_age", 40);
    let taken = setup.start();
    let newest = slot(leader.rpc());
    reaches(&taken, newest);
    let metrics = taken.metrics();
    let (executed, head) = (metrics.total("replay_executed_blocks"), metrics.gauge("replay_head_slot"));
    // Gossip may have announced the snapshot before the last one.
    assert!(executed > 0 && executed <= head - (from - 40), "{executed} blocks up to slot {head}, from {from}");
    assert_eq!(block(taken.rpc(), newest), block(leader.rpc(), newest));
    [leader, taken, untaken].into_iter().for_each(Node::stop);
}

/// Before its 32nd vote a node has rooted nothing: its blocks on disk may be on a fork that the cluster abandons.
#[test]
fn killed_leader_keeps_its_root_and_continues() {
    let (setup, _) = leader("unrooted");
    let finalized = |node: &Node| node.rpc().call("getSlot", json!([{ "commitment": "finalized" }])).as_u64().unwrap();
    let root = setup.ledger().join("root.bin");
    let node = setup.start();
    reaches(&node, 6);
    assert!(!root.exists());
    let (confirmed, sixth) = (slot(node.rpc()), block(node.rpc(), 6));
    node.kill();
    let node = setup.start();
    assert_eq!(finalized(&node), 0);
    reaches(&node, confirmed + 4);
    assert_eq!(block(node.rpc(), 6), sixth);

    // The saved tower agrees.
    wait_until("a root", || if root.exists() { Ok(()) } else { Err(slot(node.rpc()).to_string()) });
    wait_until("what is final", || if finalized(&node) > 0 { Ok(()) } else { Err("nothing".into()) });
    let (rooted, confirmed) = (finalized(&node), slot(node.rpc()));
    node.kill();
    std::fs::remove_file(&root).unwrap();
    let node = setup.start();
    let again = finalized(&node);
    assert!(rooted <= again && again < confirmed, "{again}, and it was {rooted} of {confirmed}");
    reaches(&node, confirmed + 4);
    assert_eq!(block(node.rpc(), 6), sixth);
    node.stop();
}

/// Gives an account one lamport more in the newest of the folder's snapshots, which is the only one from then on.
fn falsify(folder: &Path, genesis_hash: &Hash, address: &Pubkey) {
    let folder = Folder::open(folder).unwrap();
    let newest = folder.prune(1).unwrap().unwrap();
    let config = StatusCacheConfig { enabled: true, capacity_txns: 0 };
    let loaded = snapshot::load(&newest.path, genesis_hash, &config).unwrap();
    let mut account = loaded.accounts.load(address).unwrap();
    account.lamports += 1;
    loaded.accounts.store(address, account);
    let place = (newest.slot, loaded.manifest.last().height);
    let mut writer = Writer::create(&folder, genesis_hash, place, Seed::random()).unwrap();
    loaded.accounts.for_each(|key, account| writer.account(key, account).unwrap());
    writer.finish(&loaded.manifest).unwrap();
}

#[test]
fn a_node_of_another_state_ends_and_names_the_account() {
    let (mut leader, gossip) = leader("true");
    leader.with("development.genesis.target_tick_duration_micros", 1_000);
    let leader = leader.start();
    let mut setup = follower("false", gossip);
    setup.with("snapshots.full_snapshot_interval_slots", 40);
    let node = setup.start();
    wait_until("a snapshot of its own", || match node.metrics().gauge("store_snapshot_slot") {
        0 => Err("none".into()),
        _ => Ok(()),
    });
    node.stop();
    let key = funded_account_key(3);
    let genesis = leader.rpc().call("getGenesisHash", json!([]));
    let genesis_hash = decode_32(genesis.as_str().unwrap()).unwrap();
    falsify(&setup.ledger().join("snapshots"), &genesis_hash, &key.public_key());

    // While no transaction touches the account, all hashes match the cluster's.
    let node = setup.start();
    reaches(&node, slot(leader.rpc()));
    let [here, there] = [&node, &leader].map(|node| node.rpc().balance(&key.public_key()));
    assert_eq!(here, there + 1);
    let blockhash = leader.rpc().latest_blockhash();
    let paid = transfer(&key, &fresh_address(9, 0), 1_000_000, &blockhash);
    leader.rpc().call("sendTransaction", json!([base64_of(&paid), { "encoding": "base64" }]));
    let at = landed(leader.rpc(), &[signature_of(&paid)]);
    let hash = wait_until("the hash", || leader.rpc().try_call("getSlotChanges", json!([at])))["bankHash"].clone();
    let (status, said) = node.process.wait_with_errors();
    assert!(!status.success(), "{said}");
    let left = there - 1_000_000 - 5_000;
    let wanted = [
        format!("slot {at}: the cluster has voted for the bank hash {}", hash.as_str().unwrap()),
        format!(
            "The first account that differs is {} in slot {at}: here {} lamports",
            encode_32(&key.public_key()),
            left + 1
        ),
        format!("at 127.0.0.1:{} {left} lamports", leader.ports.rpc),
    ];
    for wanted in wanted {
        assert!(said.contains(&wanted), "{wanted:?} in {said}");
    }
    leader.stop();
}

//! A cluster of four nodes with equal stake: they lead in turn, continue without one, stall without two, and heal.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use hearth_crypto::ed25519::SigningKey;
use hearth_ledger::genesis::funded_account_key;
use hearth_wire::Signature;
use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::client::{base64_of, fresh_address, signature_of, transfer};
use super::node::{Node, Rpc, Setup, same, wait_until};

const NODES: usize = 4;

/// Keys in a folder: an identity and a vote account each.
pub fn key(folder: &std::path::Path, name: &str, seed: u8) -> (PathBuf, String) {
    let key = SigningKey::from_seed(&[seed; 32]);
    let bytes = [[seed; 32], key.public_key()].concat();
    let path = folder.join(name);
    std::fs::write(&path, json!(bytes).to_string()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    (path, encode_32(&key.public_key()).to_string())
}

/// The nodes' setups; the first begins the chain.
fn setups(test: &str, keys: &std::path::Path) -> Vec<Setup> {
    let made: Vec<_> = (0..NODES as u8)
        .map(|node| {
            (key(keys, &format!("id-{node}.json"), 10 + node), key(keys, &format!("vote-{node}.json"), 20 + node))
        })
        .collect();
    let others: Vec<String> = made[1..].iter().map(|(id, vote)| format!("{} {} 1000000", id.1, vote.1)).collect();
    let mut entrypoint = None;
    let mut setups = vec![];
    for (node, ((identity, _), (vote, _))) in made.iter().enumerate() {
        let mut setup = Setup::new(&format!("{test}-{node}"));
        setup.with("consensus.vote", true).with("consensus.identity_path", identity.to_str().unwrap());
        setup.with("development.genesis.validators", others.clone()).with("rpc.status_capacity", 65_536);
        if entrypoint.is_some() {
            setup.with("consensus.vote_account_path", vote.to_str().unwrap());
        }
        let gossip = setup.in_cluster(entrypoint);
        entrypoint = entrypoint.or(Some(gossip));
        setups.push(setup);
    }
    setups
}

fn slot(rpc: Rpc, commitment: &str) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": commitment }])).as_u64().unwrap()
}

fn reach(nodes: &[Node], commitment: &str, wanted: u64) {
    for node in nodes {
        wait_until(commitment, || {
            let at = slot(node.rpc(), commitment);
            if at >= wanted { Ok(()) } else { Err(format!("slot {at} of {wanted}")) }
        });
    }
}

/// Hands a transfer in at a node's RPC. It names a block that stays, so it lands, whatever fork takes it first.
fn send(node: &Node, number: usize) -> Signature {
    let blockhash = node.rpc().latest_blockhash_at("confirmed");
    let bytes = transfer(&funded_account_key(number % 64), &fresh_address(9, number), 1_000_000, &blockhash);
    let sent = json!([base64_of(&bytes), { "encoding": "base64", "skipPreflight": true }]);
    // Between two leaders there may be no node to send it to.
    wait_until("a leader", || match node.rpc().try_call("sendTransaction", sent.clone()) {
        Ok(_) => Ok(()),
        Err(why) => Err(why.to_string()),
    });
    signature_of(&bytes)
}

fn landed(nodes: &[Node], signatures: &[Signature]) {
    for node in nodes {
        wait_until("all land", || {
            let statuses = node.rpc().statuses(signatures);
            let is_sure = |status: &&Value| status["confirmationStatus"].as_str().is_some_and(|it| it != "processed");
            same(statuses.iter().filter(is_sure).count(), signatures.len())
        });
    }
}

/// Returns the blocks up to a slot that is confirmed everywhere: slot, hash, parent, and contents.
fn chain(node: &Node, to: u64) -> Vec<Value> {
    let slots = node.rpc().call("getBlocks", json!([1, to, { "commitment": "confirmed" }]));
    let options = json!({ "transactionDetails": "signatures", "rewards": false, "commitment": "confirmed" });
    let block = |slot: &Value| {
        let block = node.rpc().call("getBlock", json!([slot, options]));
        json!([slot, block["blockhash"], block["parentSlot"], block["signatures"], block["blockTime"]])
    };
    slots.as_array().unwrap().iter().map(block).collect()
}

fn all_have_the_same(nodes: &[Node]) {
    let to = nodes.iter().map(|node| slot(node.rpc(), "confirmed")).min().unwrap();
    let first = chain(&nodes[0], to);
    assert!(!first.is_empty());
    for node in &nodes[1..] {
        assert_eq!(chain(node, to), first, "up to slot {to}");
    }
}

#[test]
fn four_take_turns_and_continue_without_one() {
    let keys = tempfile::tempdir().unwrap();
    let setups = setups("valid", keys.path());
    let mut nodes: Vec<Node> = setups.iter().map(Setup::start).collect();
    reach(&nodes, "confirmed", 12);
    // One is killed before it has rooted anything, and comes back.
    nodes.pop().unwrap().kill();
    nodes.push(setups[3].start());
    let sent: Vec<Signature> = (0..40).map(|number| send(&nodes[number % NODES], number)).collect();
    landed(&nodes, &sent);
    // Every node makes blocks, and every node's votes count.
    wait_until("all lead", || {
        let led = |node: &Node| node.metrics().total("tower_begun_slots") > 0;
        same(nodes.iter().filter(|node| led(node)).count(), NODES)
    });
    reach(&nodes, "finalized", 1);
    all_have_the_same(&nodes);
    let leaders: BTreeSet<String> = {
        let leaders = nodes[0].rpc().call("getSlotLeaders", json!([0, 400]));
        leaders.as_array().unwrap().iter().map(|leader| leader.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(leaders.len(), NODES);

    // Three have three quarters of the stake.
    nodes.pop().unwrap().kill();
    let before = slot(nodes[0].rpc(), "finalized");
    let sent: Vec<Signature> = (40..60).map(|number| send(&nodes[number % 3], number)).collect();
    landed(&nodes, &sent);
    reach(&nodes, "finalized", before + 8);

    // Two have half: they make blocks, and nothing is confirmed.
    nodes.pop().unwrap().kill();
    let stands = || [0, 1].map(|node| slot(nodes[node].rpc(), "confirmed"));
    // Votes of the third node may still be on their way.
    let mut confirmed = stands();
    wait_until("blocks that nobody confirms", || {
        let now = stands();
        let is_same = std::mem::replace(&mut confirmed, now) == now;
        let ahead = slot(nodes[0].rpc(), "processed").saturating_sub(now[0]);
        if is_same && ahead > 12 { Ok(()) } else { Err(format!("{ahead} slots ahead")) }
    });
    let last = send(&nodes[0], 60);
    wait_until("it is processed", || {
        let status = &nodes[0].rpc().statuses(&[last])[0];
        same(status["confirmationStatus"].as_str().map(str::to_owned), Some("processed".to_owned()))
    });
    assert_eq!(stands(), confirmed);

    // The nodes come back and all agree. Transactions of abandoned blocks land again in others.
    nodes.push(setups[2].start());
    nodes.push(setups[3].start());
    landed(&nodes[..1], &[last]);
    reach(&nodes, "finalized", confirmed[0]);
    all_have_the_same(&nodes);
    // One has lost all but its keys: it gets its own blocks, too, from the others.
    nodes.pop().unwrap().kill();
    std::fs::remove_dir_all(setups[3].ledger()).unwrap();
    nodes.push(setups[3].start());
    let at = slot(nodes[0].rpc(), "finalized");
    reach(&nodes, "finalized", at + 4);
    all_have_the_same(&nodes);
    for node in &nodes {
        for number in 0..=60 {
            assert_eq!(node.rpc().balance(&fresh_address(9, number)), 1_000_000, "transfer {number}");
        }
        assert_eq!(node.metrics().total("replay_dumped_slots"), 0);
    }
    nodes.into_iter().for_each(Node::stop);
}

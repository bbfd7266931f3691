//! `hearth validator`: a node that joins by Agave's options, and what its operator does with it over the admin socket.

use std::path::PathBuf;
use std::process::Output;

use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::follow::{leader, reaches, slot};
use super::node::{Node, Process, Setup, hearth, output, same, wait_until};
use super::validators::key;

/// A setup whose configuration file names no cluster.
pub fn joining(test: &str) -> Setup {
    let mut setup = Setup::new(test);
    setup.in_cluster(None);
    setup
}

pub fn start(setup: &Setup, options: &[&str]) -> Node {
    let process = Process::start(setup.command("validator").args(options));
    process.wait_for_line("ready;");
    Node { process, ports: setup.ports }
}

/// Returns the standard output of a command that must succeed.
#[track_caller]
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the errors of a command that must fail with this code.
#[track_caller]
pub fn refused(output: &Output, code: i32) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// The node's entry in another node's `getClusterNodes`.
pub fn listed(at: &Node, identity: &str) -> Value {
    wait_until("gossip", || {
        let nodes = at.rpc().call("getClusterNodes", json!([]));
        let node = nodes.as_array().unwrap().iter().find(|node| node["pubkey"] == identity).cloned();
        node.filter(|node| node["tvu"].is_string()).ok_or_else(|| nodes.to_string())
    })
}

#[test]
fn validator_joins_and_obeys_its_operator() {
    let (leader, gossip) = leader("val-lead");
    let leader = leader.start();
    let hash = leader.rpc().call("getGenesisHash", json!([])).as_str().unwrap().to_owned();
    let setup = joining("val");
    let entrypoint = format!("127.0.0.1:{gossip}");
    let no_node = refused(&setup.output("validator", &["contact-info"]), 1);
    assert!(no_node.contains("no validator answers at"), "{no_node}");
    let options = ["--entrypoint", &entrypoint, "--expected-genesis-hash", &hash, "--private-rpc"];
    let node = start(&setup, &options);
    node.process.wait_for_any("caught up with the cluster at slot ");
    reaches(&node, slot(leader.rpc()));

    let identity = encode_32(&node.rpc().identity()).to_string();
    let text = said(&setup.output("validator", &["contact-info"]));
    assert!(text.starts_with(&format!("Identity: {identity}\nGossip: 127.0.0.1:")), "{text}");
    let contact: Value = serde_json::from_str(&said(&setup.output("validator", &["contact-info", "--json"]))).unwrap();
    assert_eq!(contact["id"], identity);
    assert_eq!(contact["tvu"], format!("127.0.0.1:{}", setup.tvu()));
    // The node does not announce its RPC.
    assert_eq!(contact["rpc"], "0.0.0.0:0");
    let known = listed(&leader, &identity);
    assert!(known["rpc"].is_null() && known["pubsub"].is_null(), "{known}");
    assert_eq!(contact["shred_version"], known["shredVersion"]);

    let reference = format!("http://127.0.0.1:{}", leader.ports.rpc);
    let own_port = setup.ports.rpc.to_string();
    let catchup = |url: &str, options: &[&str]| output(hearth().args(["catchup", "--url", url]).args(options));
    let caught_up = said(&catchup(&reference, &["--our-localhost", &own_port]));
    assert!(caught_up.starts_with(&format!("{identity} has caught up (us:")), "{caught_up}");
    let own = format!("http://127.0.0.1:{own_port}");
    assert!(said(&catchup(&reference, &[&identity, &own])).contains("has caught up"));
    let same_node = refused(&catchup(&own, &["--our-localhost", &own_port]), 1);
    assert!(same_node.contains("both RPCs are of the node"), "{same_node}");
    let other = refused(&catchup(&reference, &["11111111111111111111111111111112", &own]), 1);
    assert!(other.contains("and not 11111111111111111111111111111112"), "{other}");

    let window = ["--min-idle-time", "1", "--skip-new-snapshot-check"];
    let waited = said(&setup.output("validator", &[&["wait-for-restart-window"][..], &window].concat()));
    assert!(waited.contains(&format!("Identity: {identity}\n")) && waited.contains("Ready to restart"), "{waited}");
    // The leader leads every slot.
    let leader_identity = encode_32(&leader.rpc().identity()).to_string();
    let of_leader = ["wait-for-restart-window", "--identity", &leader_identity];
    let none = refused(&setup.output("validator", &[&of_leader[..], &window].concat()), 1);
    assert!(none.contains("has no idle window of at least"), "{none}");

    let id = node.process.id();
    let exit = said(&setup.output("validator", &[&["exit"][..], &window].concat()));
    assert!(exit.contains("Exit request sent") && exit.contains(&format!("Process {id} has ended")), "{exit}");
    let (status, lines) = node.process.wait();
    assert!(status.success(), "{status}: {lines:#?}");
    assert!(!setup.ledger().join("admin.rpc").exists());
    // The admin socket is there again after the next start, and a forced exit waits for no window.
    let node = start(&setup, &options);
    let id = node.process.id();
    let forced = said(&setup.output("validator", &["exit", "--force", "--no-wait-for-exit"]));
    assert!(forced.starts_with(&format!("Exit request sent to process {id}, whose ledger is ")), "{forced}");
    assert!(node.process.wait().0.success());
    leader.stop();
}

#[test]
fn wrong_cluster_leaves_nothing_behind() {
    let (leader, gossip) = leader("val-other");
    let leader = leader.start();
    let setup = joining("val-none");
    let entrypoint = format!("127.0.0.1:{gossip}");
    let identity = encode_32(&leader.rpc().identity()).to_string();
    let version = listed(&leader, &identity)["shredVersion"].as_u64().unwrap();
    let other_hash = encode_32(&[7; 32]).to_string();
    let other_version = if version == 2 { "3" } else { "2" };
    for (option, value, key) in [
        ("--expected-genesis-hash", &*other_hash, "consensus.expected_genesis_hash"),
        ("--expected-shred-version", other_version, "consensus.expected_shred_version"),
    ] {
        let why = refused(&setup.output("validator", &["--entrypoint", &entrypoint, option, value]), 1);
        assert!(why.contains(&format!("is in a cluster of shred version {version}")) && why.contains(key), "{why}");
        assert!(!setup.ledger().exists(), "{option}");
    }
    // Without an entrypoint there is no chain to run.
    let why = refused(&setup.output("validator", &[]), 2);
    assert!(why.contains("there is no genesis in") && why.contains("--entrypoint"), "{why}");
    assert!(!setup.ledger().exists());
    leader.stop();
}

#[test]
fn validator_with_stake_votes_and_leads() {
    let keys = tempfile::tempdir().unwrap();
    let (identity, address): (PathBuf, String) = key(keys.path(), "id.json", 31);
    // The key of the vote account is not on the node.
    let (_, vote) = key(keys.path(), "vote.json", 32);
    let (mut leader, gossip) = leader("val-first");
    leader.with("development.genesis.validators", vec![format!("{address} {vote} 250000")]);
    let leader = leader.start();
    let mut setup = joining("val-voter");
    setup.with("consensus.vote", true);
    let entrypoint = format!("127.0.0.1:{gossip}");
    let options = ["--entrypoint", &entrypoint, "--identity", identity.to_str().unwrap(), "--vote-account", &vote];
    let node = start(&setup, &options);
    assert_eq!(encode_32(&node.rpc().identity()).to_string(), address);
    wait_until("it leads", || match node.metrics().total("tower_begun_slots") {
        0 => Err(format!("slot {}", slot(node.rpc()))),
        _ => Ok(()),
    });
    let last_vote = || {
        let votes = leader.rpc().call("getVoteAccounts", json!([{ "votePubkey": vote }]));
        [&votes["current"], &votes["delinquent"]].iter().find_map(|list| list[0]["lastVote"].as_u64()).unwrap_or(0)
    };
    let votes_after = |slot: u64| {
        wait_until("its votes land", || {
            let last = last_vote();
            same(last > slot, true).map_err(|_| format!("the last vote is for slot {last}, not after {slot}"))
        });
    };
    votes_after(0);
    // Without a key the node stops voting; with its identity's key it votes again.
    let key_file = identity.to_str().unwrap();
    let voters = |arguments: &[&str]| setup.output("validator", &[&["authorized-voter"][..], arguments].concat());
    assert!(refused(&voters(&["add", key_file]), 1).contains("Authorized voter already present"));
    said(&voters(&["remove-all"]));
    said(&voters(&["add", key_file]));
    votes_after(slot(node.rpc()));
    assert!(said(&setup.output("validator", &["exit", "--force"])).contains("has ended"));
    assert!(node.process.wait().0.success());
    leader.stop();
}

#[test]
fn spare_of_another_node_only_follows() {
    let keys = tempfile::tempdir().unwrap();
    let (voter, address) = key(keys.path(), "id.json", 33);
    let (_, vote) = key(keys.path(), "vote.json", 34);
    let (spare, _) = key(keys.path(), "spare.json", 35);
    let (mut leader, gossip) = leader("val-main");
    leader.with("development.genesis.validators", vec![format!("{address} {vote} 250000")]);
    let leader = leader.start();
    let mut setup = joining("val-spare");
    setup.with("consensus.vote", true);
    let entrypoint = format!("127.0.0.1:{gossip}");
    let [spare, voter] = [&spare, &voter].map(|path| path.to_str().unwrap());
    let options = ["-n", &entrypoint, "-i", spare, "--vote-account", &vote, "--authorized-voter", voter];
    let node = start(&setup, &options);
    let said = node.process.errors();
    assert!(said.contains(&format!("its vote account {vote} is that of the node {address}")), "{said}");
    reaches(&node, slot(leader.rpc()));
    node.stop();
    leader.stop();
}

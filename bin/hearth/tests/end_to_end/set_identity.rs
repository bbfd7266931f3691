//! An identity that moves between two running nodes, and back.

use std::fs;
use std::path::{Path, PathBuf};

use hearth_wire::base58::encode_32;
use serde_json::{Value, json};

use super::follow::{leader, reaches, slot};
use super::isolation::{isolation_in, pid_of};
use super::keys::{seeds_in, seeds_of};
use super::node::{Node, Process, Setup, hearth, output, same, wait_until};
use super::validator::{joining, listed, refused, said, start};
use super::validators::key;

/// A key of a file that nobody else has, and its address.
fn fresh_key(folder: &Path, name: &str) -> (PathBuf, String) {
    let path = folder.join(name);
    said(&output(hearth().args(["keys", "new"]).arg(&path)));
    let numbers: Vec<u8> = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    (path, encode_32(numbers[32..].try_into().unwrap()).to_string())
}

/// A node whose identity changes.
struct Member {
    setup: Setup,
    node: Node,
}

impl Member {
    /// Starts a node with this identity, which may vote with an account.
    fn start(test: &str, gossip: u16, identity: &Path, vote: &str) -> Self {
        Self::start_isolated("none", test, gossip, identity, vote).0
    }

    /// As [`Member::start`], with this isolation. Also returns what the node says.
    fn start_isolated(isolation: &str, test: &str, gossip: u16, identity: &Path, vote: &str) -> (Self, Vec<String>) {
        let mut setup = joining(test);
        setup.with("consensus.vote", true).with("security.isolation", isolation);
        let entrypoint = format!("127.0.0.1:{gossip}");
        let identity = identity.to_str().unwrap();
        let options = ["--entrypoint", &entrypoint, "--identity", identity, "--vote-account", vote];
        let process = Process::start(setup.command("validator").args(options));
        let lines = process.wait_for_line("ready;");
        let node = Node { process, ports: setup.ports };
        (Self { setup, node }, lines)
    }

    fn set_identity(&self, arguments: &[&str]) -> std::process::Output {
        self.setup.output("validator", &[&["set-identity"][..], arguments].concat())
    }

    /// Changes the identity, and sees that everything that names it follows.
    fn becomes(&self, key: &Path, address: &str, options: &[&str]) {
        let text = said(&self.set_identity(&[&[key.to_str().unwrap()][..], options].concat()));
        assert!(text.contains(&format!("Identity set to {address}\n")), "{text}");
        assert_eq!(encode_32(&self.node.rpc().identity()).to_string(), address);
        let contact = said(&self.setup.output("validator", &["contact-info"]));
        assert!(contact.starts_with(&format!("Identity: {address}\n")), "{contact}");
        is_known_at(&self.node, address, self);
    }

    /// The path of the tower of an identity that it had.
    fn tower(&self, address: &str) -> PathBuf {
        self.setup.ledger().join(format!("tower-{address}.bin"))
    }
}

/// Waits until another node knows an identity at a member's address.
fn is_known_at(leader: &Node, address: &str, member: &Member) {
    let tvu = format!("127.0.0.1:{}", member.setup.tvu());
    wait_until("gossip", || same(listed(leader, address)["tvu"].as_str().map(str::to_owned), Some(tvu.clone())));
}

/// Waits until the account has voted for a slot above this one.
fn votes_after(leader: &Node, vote: &str, slot: u64) {
    wait_until("its votes land", || {
        let votes = leader.rpc().call("getVoteAccounts", json!([{ "votePubkey": vote }]));
        let lists: [&Value; 2] = [&votes["current"], &votes["delinquent"]];
        let last = lists.iter().find_map(|list| list[0]["lastVote"].as_u64()).unwrap_or(0);
        if last > slot { Ok(()) } else { Err(format!("the last vote is for slot {last}, not after {slot}")) }
    });
}

#[test]
fn identity_moves_to_a_spare_and_back() {
    let keys = tempfile::tempdir().unwrap();
    let (id, address) = fresh_key(keys.path(), "id.json");
    let (junk, junk_address) = fresh_key(keys.path(), "junk.json");
    let (spare_id, spare_address) = fresh_key(keys.path(), "spare.json");
    let (_, vote) = key(keys.path(), "vote.json", 36);
    let (mut setup, gossip) = leader("swap-lead");
    setup.with("development.genesis.validators", vec![format!("{address} {vote} 250000")]);
    let leader = setup.start();
    let primary = Member::start("swap-primary", gossip, &id, &vote);
    let spare = Member::start("swap-spare", gossip, &spare_id, &vote);
    votes_after(&leader, &vote, 0);
    reaches(&spare.node, slot(leader.rpc()));
    assert_eq!((seeds_in(&primary.node, &id), seeds_in(&spare.node, &id)), (1, 0));

    // Without a tower it is refused where one is required.
    let why = refused(&spare.set_identity(&[id.to_str().unwrap(), "--require-tower"]), 1);
    assert!(why.contains("Unable to load tower file for identity"), "{why}");
    assert_eq!(encode_32(&spare.node.rpc().identity()).to_string(), spare_address);

    primary.becomes(&junk, &junk_address, &[]);
    wait_until("the key is wiped", || same(seeds_in(&primary.node, &id), 0));
    assert_eq!(seeds_in(&primary.node, &junk), 1);
    fs::copy(primary.tower(&address), spare.tower(&address)).unwrap();
    spare.becomes(&id, &address, &["--require-tower"]);
    wait_until("the key is taken", || same(seeds_in(&spare.node, &id), 1));
    assert_eq!(seeds_in(&spare.node, &spare_id), 0);
    votes_after(&leader, &vote, slot(leader.rpc()));
    is_known_at(&leader, &address, &spare);
    assert_eq!(primary.node.metrics().total("tower_identity_changes"), 1);

    // And back.
    spare.becomes(&spare_id, &spare_address, &[]);
    fs::copy(spare.tower(&address), primary.tower(&address)).unwrap();
    primary.becomes(&id, &address, &["--require-tower"]);
    votes_after(&leader, &vote, slot(leader.rpc()));
    is_known_at(&leader, &address, &primary);
    assert_eq!(primary.node.metrics().total("tower_adopted_towers"), 0);

    // The spare has an old tower: it takes the votes that the chain has.
    primary.becomes(&junk, &junk_address, &[]);
    spare.becomes(&id, &address, &[]);
    votes_after(&leader, &vote, slot(leader.rpc()));
    assert!(spare.node.metrics().total("tower_adopted_towers") > 0);
    spare.node.stop();
    primary.node.stop();
    leader.stop();
}

#[test]
fn identity_changes_in_the_process_of_sign() {
    let keys = tempfile::tempdir().unwrap();
    let (id, address) = fresh_key(keys.path(), "id.json");
    let (spare_id, spare_address) = fresh_key(keys.path(), "spare.json");
    let (_, vote) = key(keys.path(), "vote.json", 38);
    let (mut setup, gossip) = leader("swap-apart-lead");
    setup.with("development.genesis.validators", vec![format!("{address} {vote} 250000")]);
    let leader = setup.start();
    let (member, lines) = Member::start_isolated("auto", "swap-apart", gossip, &spare_id, &vote);
    let sign = pid_of(&isolation_in(&lines));
    reaches(&member.node, slot(leader.rpc()));

    member.becomes(&id, &address, &[]);
    is_known_at(&leader, &address, &member);
    votes_after(&leader, &vote, slot(leader.rpc()));
    wait_until("the node's page is wiped", || same(seeds_in(&member.node, &id), 0));
    // Root alone can look into a process that is in no dump.
    let can_look = fs::File::open(format!("/proc/{sign}/mem")).is_ok();
    let has_alone = |key: &Path, other: &Path| {
        let seeds = || (seeds_of(sign, key), seeds_of(sign, other));
        wait_until("sign has that key alone", || if can_look { same(seeds(), (1, 0)) } else { Ok(()) });
    };
    has_alone(&id, &spare_id);

    // And back, by the same pipe.
    member.becomes(&spare_id, &spare_address, &[]);
    is_known_at(&leader, &spare_address, &member);
    wait_until("the node's page is wiped", || same(seeds_in(&member.node, &spare_id), 0));
    has_alone(&spare_id, &id);
    assert_eq!(member.node.metrics().total("tower_identity_changes"), 2);
    member.node.stop();
    leader.stop();
}

#[test]
fn survivor_with_an_old_tower_votes_again() {
    let keys = tempfile::tempdir().unwrap();
    let (id, address) = fresh_key(keys.path(), "id.json");
    let (_, vote) = key(keys.path(), "vote.json", 37);
    let (mut setup, gossip) = leader("twice-lead");
    setup.with("development.genesis.validators", vec![format!("{address} {vote} 250000")]);
    let leader = setup.start();
    let first = Member::start("twice", gossip, &id, &vote);
    votes_after(&leader, &vote, 0);
    let tower = first.setup.ledger().join("tower.bin");
    let (copy, copied_at) = (fs::read(&tower).unwrap(), slot(leader.rpc()));
    let Member { setup, node } = first;
    wait_until("the root passes what the copy knows", || match node.metrics().gauge("tower_root_slot") {
        root if root > copied_at + 8 => Ok(()),
        root => Err(format!("the root is {root}, and the copy is of slot {copied_at}")),
    });
    node.stop();
    // As if the identity had run elsewhere since.
    fs::write(&tower, copy).unwrap();
    let entrypoint = format!("127.0.0.1:{gossip}");
    let identity = id.to_str().unwrap();
    let node = start(&setup, &["--entrypoint", &entrypoint, "--identity", identity, "--vote-account", &vote]);
    let warned = node.process.errors();
    assert!(warned.contains("this identity has voted elsewhere since"), "{warned}");
    votes_after(&leader, &vote, slot(leader.rpc()));
    assert!(node.metrics().total("tower_adopted_towers") > 0);
    node.stop();
    leader.stop();
}

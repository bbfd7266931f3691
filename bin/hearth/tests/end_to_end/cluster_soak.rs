//! Ten nodes under load on a network that loses, while one after the other is killed and started again: none ends by
//! itself, and all come to the same blocks. Nodes that compute another bank hash than the leader voted for end.
//!
//! HEARTH_SECONDS says for how long, HEARTH_LOSS how many per cent of the datagrams are lost, HEARTH_KILL_EVERY after
//! how many seconds a node is killed (0: none), HEARTH_RATE how many transactions a second there are, HEARTH_VALIDATORS
//! how many nodes make blocks, HEARTH_SEED which nodes are killed. `cargo xtask soak cluster` sets them.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster_up::{Cluster, RPC, bank_hash, blockhash, slot};
use super::node::{hearth, same, wait_until};

const NODES: usize = 10;
/// A node that was killed is started again after so long.
const DOWN_FOR: Duration = Duration::from_secs(5);
/// Beyond the time it is given a load may take so long, for money and what is under way at the end.
const REST: Duration = Duration::from_secs(180);
/// Slots at the end whose blocks are compared.
const COMPARED: u64 = 64;
/// Resident memory of a follower, bytes.
const MEMORY_MAX: u64 = 600_000_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// The map that is shipped, with another loss.
fn map(percent: u64) -> String {
    let shipped = include_str!("../../../../config/world.toml");
    let lossy = |line: &str| match line.starts_with("loss = ") {
        true => format!("loss = {}\n", percent as f64 / 100.0),
        false => format!("{line}\n"),
    };
    shipped.lines().map(lossy).collect()
}

struct Load {
    process: Child,
    report: std::path::PathBuf,
}

impl Load {
    fn start(cluster: &Cluster, rate: u64, seconds: u64) -> Self {
        let report = cluster.folder.path().join("load.json");
        let network = format!("http://{}:{RPC}", cluster.address(1));
        let mut command = hearth();
        command.args(["load", "run", "--network", &network, "--accounts", "200", "--warmup", "0", "--rpc-send"]);
        command.args(["--rate", &rate.to_string(), "--duration", &seconds.to_string(), "--json"]).arg(&report);
        let log = fs::File::create(cluster.folder.path().join("load.log")).expect("a log");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("the same")).stderr(log);
        Self { process: command.spawn().expect("it starts"), report }
    }

    fn is_alive(&mut self) -> bool {
        self.process.try_wait().expect("a child").is_none()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // One that has ended is no matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Kills nodes, one at a time, and looks that no other one ends.
struct Killer<'a> {
    cluster: &'a Cluster,
    every: u64,
    random: fastrand::Rng,
    down: Option<(usize, Instant)>,
    next: Instant,
    kills: u64,
    most_memory: u64,
}

impl<'a> Killer<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let every = number("HEARTH_KILL_EVERY", 15);
        let random = fastrand::Rng::with_seed(number("HEARTH_SEED", 1));
        let next = Instant::now() + Duration::from_secs(every);
        Self { cluster, every, random, down: None, next, kills: 0, most_memory: 0 }
    }

    /// A look takes a second: rates are told of that.
    fn look(&mut self) {
        let status = self.cluster.status();
        for (number, node) in status.iter().enumerate() {
            let is_down = self.down.is_some_and(|(down, _)| down == number + 1);
            assert!(is_down || node["alive"] == true, "{node:#}\n{}", self.cluster.log(number + 1));
            if number > 0 {
                self.most_memory = self.most_memory.max(node["resident_bytes"].as_u64().unwrap_or(0));
            }
        }
        match self.down {
            Some((node, since)) if since.elapsed() >= DOWN_FOR => {
                self.cluster.run("start", &[&format!("node-{node}")]);
                self.down = None;
            }
            None if self.every > 0 && Instant::now() >= self.next => {
                // Not the first: it has the load, and leads alone where no other one does.
                let node = self.random.usize(2..=NODES);
                self.cluster.run("kill", &[&format!("node-{node}")]);
                (self.down, self.kills) = (Some((node, Instant::now())), self.kills + 1);
                self.next += Duration::from_secs(self.every);
            }
            _ => {}
        }
    }
}

#[test]
fn ten_nodes_through_loss_and_kills() {
    let [seconds, loss] = [number("HEARTH_SECONDS", 60), number("HEARTH_LOSS", 5)];
    let [rate, validators] = [number("HEARTH_RATE", 200), number("HEARTH_VALIDATORS", 1)];
    println!("HEARTH_SEED={}", number("HEARTH_SEED", 1));
    let cluster = Cluster::new("soak");
    let path = cluster.folder.path().join("lossy.toml");
    fs::write(&path, map(loss)).expect("written");
    let (first, nodes, makers) = (cluster.first.to_string(), NODES.to_string(), validators.to_string());
    let map = path.display().to_string();
    cluster.run("up", &["--nodes", &nodes, "--validators", &makers, "--map", &map, "--address", &first]);

    let mut load = Load::start(&cluster, rate, seconds);
    let mut killer = Killer::new(&cluster);
    let until = Instant::now() + Duration::from_secs(seconds) + REST;
    while load.is_alive() || killer.down.is_some() {
        assert!(Instant::now() < until, "the load does not end");
        killer.look();
    }
    assert!(killer.every == 0 || killer.kills >= seconds / killer.every / 2, "{} kills", killer.kills);
    let log = || fs::read_to_string(cluster.folder.path().join("load.log")).unwrap_or_default();
    let report = fs::read(&load.report).unwrap_or_else(|why| panic!("no report: {why}\n{}", log()));
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    assert!(report["sent"].as_u64() > Some(0) && report["sent"] == report["included"], "{report:#}");

    let newest = slot(cluster.rpc(1));
    let begun = Instant::now();
    let all: Vec<usize> = (1..=NODES).collect();
    cluster.reaches(&all, newest);
    let caught_up_s = begun.elapsed().as_secs_f64();
    let first = cluster.rpc(1);
    // The same blocks could come to other states: those of the newest are held against each other, too.
    let state = bank_hash(first, newest);
    assert!(state.is_string());
    all.iter().for_each(|node| assert_eq!(bank_hash(cluster.rpc(*node), newest), state, "node {node}"));
    let mut compared = [0; NODES];
    for at in newest.saturating_sub(COMPARED).max(1)..=newest {
        let options = json!([at, at, { "commitment": "confirmed" }]);
        if first.call("getBlocks", options.clone()) == json!([]) {
            continue;
        }
        let wanted = blockhash(first, at);
        for node in &all[1..] {
            // One that has come by a snapshot, or was away, may have begun later.
            wait_until("a history", || {
                let begins = cluster.rpc(*node).call("getFirstAvailableBlock", json!([])).as_u64();
                if begins > Some(at) {
                    return Ok(());
                }
                same(blockhash(cluster.rpc(*node), at), wanted.clone()).map(|()| compared[node - 1] += 1)
            });
        }
        compared[0] += 1;
    }
    let compared = *compared.iter().min().expect("ten nodes");
    assert!(compared > COMPARED / 4, "{compared} blocks of each node");
    killer.look();
    assert!(killer.most_memory < MEMORY_MAX, "{} bytes", killer.most_memory);
    println!(
        "figures {}",
        json!({
            "seconds": seconds, "loss_percent": loss, "nodes": NODES, "validators": validators, "kills": killer.kills,
            "sent": report["sent"], "included": report["included"], "slot": newest, "compared_blocks": compared,
            "caught_up_s": caught_up_s, "most_resident_bytes": killer.most_memory,
        })
    );
}

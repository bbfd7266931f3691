//! Ten nodes under load on a lossy network. Nodes are killed and restarted one after another, and the network is
//! partitioned and healed: no node may exit by itself, and all must recover in time and agree on the blocks. A node
//! that computes a different bank hash than the leader voted for exits.
//!
//! Environment: HEARTH_SECONDS duration; HEARTH_LOSS datagram loss in per cent; HEARTH_KILL_EVERY seconds between kills
//! (0: none); HEARTH_CUT_EVERY seconds between partitions (0: none); HEARTH_RATE transactions per second;
//! HEARTH_VALIDATORS number of block-producing nodes; HEARTH_SEED selects the nodes to kill; HEARTH_RECOVERS_WITHIN
//! allowed recovery time in seconds. `cargo xtask soak cluster` sets them.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster_up::{Cluster, RPC, blockhash, slot};
use super::node::{hearth, same, wait_until};

const NODES: usize = 10;
/// A node that was killed is started again after so long.
const DOWN_FOR: Duration = Duration::from_secs(5);
/// How long a partition lasts. If both halves make blocks, each votes for its own, and each further vote doubles a
/// lockout. Two seconds have at most 6 slots: even if one half leads in all of them, its votes lock it out for 64
/// slots, or 26 s.
const CUT_FOR: Duration = Duration::from_secs(2);
/// Seconds within which all nodes confirm new slots after a restart or a heal, unless the environment says otherwise.
/// Generous because other tests share the cores.
const RECOVERS_WITHIN: u64 = 150;
/// The last disturbance begins this many seconds before the load ends. A transaction whose blockhash has expired is
/// signed again, but not once the load has ended.
const QUIET_S: u64 = 100;
/// Extra time for a load beyond its duration: funding, and transactions in flight at the end.
const REST: Duration = Duration::from_secs(180);
/// Slots at the end whose blocks are compared.
const COMPARED: u64 = 64;
/// Resident memory of a follower, bytes.
const MEMORY_MAX: u64 = 600_000_000;

/// Returns the number in a variable of the environment, or `default`.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
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
        command.args(["load", "run", "--url", &network, "--accounts", "200", "--warmup", "0", "--rpc-send"]);
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

/// The disturbance that is active now.
#[derive(Clone, Copy)]
enum Disturbance {
    /// This node is killed.
    Killed(usize),
    /// Odd and even nodes cannot reach each other. Holds the number of block producers per side.
    Cut,
    /// Nothing any more, but not all have confirmed this slot.
    Behind(u64),
}

/// How often something is done.
struct Interval {
    every: u64,
    next: Instant,
    done: u64,
}

impl Interval {
    fn new(every: u64) -> Self {
        Self { every, next: Instant::now() + Duration::from_secs(every), done: 0 }
    }

    /// Whether it is time; then it counts as done.
    fn is_due(&mut self) -> bool {
        let is_due = self.every > 0 && Instant::now() >= self.next;
        if is_due {
            self.next += Duration::from_secs(self.every);
            self.done += 1;
        }
        is_due
    }

    /// Returns whether the disturbance happened about as often as planned over `seconds`.
    fn was_kept(&self, seconds: u64) -> bool {
        self.every == 0 || self.done >= seconds / self.every / 2
    }
}

/// Kills nodes and cuts the network, one at a time, and looks that no other node ends and that all recover.
struct Trials<'a> {
    cluster: &'a Cluster,
    until: Instant,
    kills: Interval,
    cuts: Interval,
    random: fastrand::Rng,
    trouble: Option<(Disturbance, Instant)>,
    recovers_within: Duration,
    longest_recovery: Duration,
    most_memory: u64,
}

impl<'a> Trials<'a> {
    fn new(cluster: &'a Cluster, seconds: u64) -> Self {
        let until = Instant::now() + Duration::from_secs(seconds - QUIET_S.min(seconds / 4));
        let (kills, cuts) =
            (Interval::new(number("HEARTH_KILL_EVERY", 15)), Interval::new(number("HEARTH_CUT_EVERY", 0)));
        let random = fastrand::Rng::with_seed(number("HEARTH_SEED", 1));
        let recovers_within = Duration::from_secs(number("HEARTH_RECOVERS_WITHIN", RECOVERS_WITHIN));
        let longest_recovery = Duration::ZERO;
        Self { cluster, until, kills, cuts, random, trouble: None, recovers_within, longest_recovery, most_memory: 0 }
    }

    /// Checks that the nodes that should live do. Takes a second, since rates need an interval.
    fn watch(&mut self) {
        let status = self.cluster.status();
        for (number, node) in status.iter().enumerate() {
            let is_down = matches!(self.trouble, Some((Disturbance::Killed(down), _)) if down == number + 1);
            assert!(is_down || node["alive"] == true, "{node:#}\n{}", self.cluster.log(number + 1));
            if number > 0 {
                self.most_memory = self.most_memory.max(node["resident_bytes"].as_u64().unwrap_or(0));
            }
        }
    }

    /// Watches, and begins or ends a trouble where it is time.
    fn look(&mut self) {
        self.watch();
        let trouble = self.trouble;
        match trouble {
            Some((Disturbance::Killed(node), since)) if since.elapsed() >= DOWN_FOR => {
                self.mend("start", &[&format!("node-{node}")]);
            }
            Some((Disturbance::Cut, since)) if since.elapsed() >= CUT_FOR => self.mend("heal", &[]),
            Some((Disturbance::Behind(wanted), since)) => {
                let is_behind = |node: &usize| confirmed(self.cluster, *node).is_none_or(|slot| slot < wanted);
                let behind: Vec<usize> = (1..=NODES).filter(is_behind).collect();
                let (took, within) = (since.elapsed(), self.recovers_within);
                assert!(behind.is_empty() || took < within, "{behind:?} not at {wanted} within {} s", within.as_secs());
                if behind.is_empty() {
                    self.longest_recovery = self.longest_recovery.max(took);
                    self.trouble = None;
                }
            }
            None if Instant::now() > self.until => {}
            None if self.cuts.is_due() => {
                self.cluster.run("partition", &[&format!("{}|{}", every_second(1), every_second(2))]);
                self.trouble = Some((Disturbance::Cut, Instant::now()));
            }
            None if self.kills.is_due() => {
                // Not the first: it has the load, and leads alone where no other one does.
                let node = self.random.usize(2..=NODES);
                self.cluster.run("kill", &[&format!("node-{node}")]);
                self.trouble = Some((Disturbance::Killed(node), Instant::now()));
            }
            _ => {}
        }
    }

    /// Ends a disturbance: from now on every node must pass the highest slot confirmed so far.
    fn mend(&mut self, command: &str, arguments: &[&str]) {
        let begun = Instant::now();
        self.cluster.run(command, arguments);
        let newest = (1..=NODES).filter_map(|node| confirmed(self.cluster, node)).max();
        self.trouble = Some((Disturbance::Behind(newest.expect("the first is there") + 1), begun));
    }
}

/// The newest slot that a node has confirmed, where it answers.
fn confirmed(cluster: &Cluster, node: usize) -> Option<u64> {
    let slot = cluster.rpc(node).try_call("getSlot", json!([{ "commitment": "confirmed" }]));
    slot.ok().and_then(|slot| slot.as_u64())
}

/// The names of every second node from this one on.
fn every_second(first: usize) -> String {
    (first..=NODES).step_by(2).map(|node| format!("node-{node}")).collect::<Vec<_>>().join(",")
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
    let mut trials = Trials::new(&cluster, seconds);
    let until = Instant::now() + Duration::from_secs(seconds) + REST;
    while load.is_alive() || trials.trouble.is_some() {
        assert!(Instant::now() < until, "the load does not end");
        trials.look();
    }
    let Trials { kills: Interval { done: kills, .. }, cuts: Interval { done: cuts, .. }, .. } = trials;
    assert!(trials.kills.was_kept(seconds) && trials.cuts.was_kept(seconds), "{kills} kills, {cuts} cuts");
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
    // Identical blocks must also produce identical state.
    cluster.come_to_one_state(&all);
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
    trials.watch();
    assert!(trials.most_memory < MEMORY_MAX, "{} bytes", trials.most_memory);
    println!(
        "figures {}",
        json!({
            "seconds": seconds, "loss_percent": loss, "nodes": NODES, "validators": validators, "kills": kills,
            "cuts": cuts, "longest_recovery_s": trials.longest_recovery.as_secs_f64(), "sent": report["sent"],
            "included": report["included"], "slot": newest, "compared_blocks": compared, "caught_up_s": caught_up_s,
            "most_resident_bytes": trials.most_memory,
        })
    );
}

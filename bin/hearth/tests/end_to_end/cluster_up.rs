//! `hearth cluster up` and its like: nodes on addresses of their own, with a network between them that takes its time,
//! loses, and can be cut.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use hearth_ledger::genesis::funded_account_key;
use hearth_wire::Signature;
use serde_json::{Value, json};

use super::client::{Sender, fresh_address, signature_of, transfer};
use super::dashboard::live;
use super::node::{Rpc, hearth, output, same, wait_until};

const FAILED: i32 = 1;
const WRONG_USE: i32 = 2;
pub const RPC: u16 = 8899;
const QUIC: u16 = 9007;
/// Less than a node that joins waits before it gives the others up.
const SOON: Duration = Duration::from_secs(15);

/// A cluster for one test. Its nodes are stopped however the test ends.
pub struct Cluster {
    pub folder: tempfile::TempDir,
    name: String,
    pub first: Ipv4Addr,
}

impl Cluster {
    pub fn new(test: &str) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        let (process, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Addresses that no other process of tests has at the time.
        let first = Ipv4Addr::new(127, 100 + (process % 128) as u8, (process / 128) as u8, 1 + 20 * number);
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self { folder, name: format!("test-{test}-{process}"), first }
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("cluster")
    }

    /// Exit code, standard output, standard error.
    fn command(&self, command: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut process = hearth();
        process.args(["cluster", command, "--name", &self.name, "--folder"]).arg(self.place()).args(arguments);
        let output = output(&mut process);
        let [text, said] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        assert!(!said.contains("panicked"), "{said}");
        (output.status.code(), text, said)
    }

    /// The same, which must go well.
    pub fn run(&self, command: &str, arguments: &[&str]) -> String {
        let (code, text, said) = self.command(command, arguments);
        assert_eq!(code, Some(0), "{command} {arguments:?}: {said}");
        text
    }

    pub fn address(&self, node: usize) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.first) + node as u32 - 1)
    }

    pub fn rpc(&self, node: usize) -> Rpc {
        Rpc::at((self.address(node), RPC).into())
    }

    pub fn status(&self) -> Vec<Value> {
        let text = self.run("status", &["--json"]);
        serde_json::from_str::<Value>(&text).expect("JSON").as_array().expect("a list").clone()
    }

    /// The end of a node's log.
    pub fn log(&self, node: usize) -> String {
        let log = fs::read_to_string(self.place().join(format!("node-{node}/log"))).unwrap_or_default();
        log.lines().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn alive(&self) -> Vec<bool> {
        self.status().iter().map(|node| node["alive"].as_bool().expect("yes or no")).collect()
    }

    /// Seconds of the cluster, as the dashboard of a node shows them.
    fn shown_by(&self, node: usize) -> impl Iterator<Item = Value> + use<> {
        live((self.address(node), RPC).into()).filter_map(|second| second.get("cluster").cloned())
    }

    /// Returns once all of these nodes have one state at the newest slot that all have confirmed. A node reports a
    /// block's changes and bank hash only until consensus is some way past it, so this retries with newer slots.
    pub fn come_to_one_state(&self, nodes: &[usize]) {
        wait_until("all have one state", || {
            let at = nodes.iter().map(|node| slot(self.rpc(*node))).min().expect("some nodes");
            let state = bank_hash(self.rpc(nodes[0]), at)?;
            nodes.iter().try_for_each(|node| {
                let found = bank_hash(self.rpc(*node), at).and_then(|found| same(found, state.clone()));
                found.map_err(|why| format!("node {node} at slot {at}: {why}"))
            })
        });
    }

    pub fn reaches(&self, nodes: &[usize], wanted: u64) {
        for node in nodes {
            wait_until("a node comes there", || {
                let at = slot(self.rpc(*node));
                if at >= wanted { Ok(()) } else { Err(format!("node {node}: slot {at} of {wanted}")) }
            });
        }
    }

    /// Transfers that land at the leader; the slot of the last.
    fn transfer(&self, sender: &mut Sender, numbers: Range<usize>) -> u64 {
        let leader = self.rpc(1);
        let blockhash = leader.latest_blockhash();
        let mut signatures: Vec<Signature> = vec![];
        for number in numbers {
            let (from, to) = (funded_account_key(number % 64), fresh_address(9, number));
            let bytes = transfer(&from, &to, 1_000_000, &blockhash);
            wait_until("room", || if sender.try_send(&bytes) { Ok(()) } else { Err("none".into()) });
            signatures.push(signature_of(&bytes));
        }
        wait_until("all land", || {
            let statuses = leader.statuses(&signatures);
            let slots: Vec<u64> = statuses.iter().filter_map(|status| status["slot"].as_u64()).collect();
            same(slots.len(), signatures.len()).map(|()| slots.into_iter().max().unwrap())
        })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // After a test that went well there is nothing left to stop.
        self.command("down", &[]);
    }
}

pub fn slot(rpc: Rpc) -> u64 {
    rpc.call("getSlot", json!([{ "commitment": "confirmed" }])).as_u64().expect("a slot")
}

pub fn blockhash(rpc: Rpc, slot: u64) -> Value {
    let options = json!({ "transactionDetails": "none", "rewards": false, "commitment": "confirmed" });
    rpc.call("getBlock", json!([slot, options]))["blockhash"].clone()
}

/// The hash of a node's bank: two nodes have one block, and yet another state, where this differs.
fn bank_hash(rpc: Rpc, slot: u64) -> Result<String, String> {
    let changes = rpc.try_call("getSlotChanges", json!([slot, { "limit": 1 }]))?;
    Ok(changes["bankHash"].as_str().expect("a hash").to_owned())
}

/// A cluster of four rejects commands for nodes and regions that it does not have.
fn refuses_what_it_is_not(cluster: &Cluster) {
    for (wanted, why) in [
        (["--nodes", "5"], "has 4 nodes, 1 validator of them; --reset"),
        (["--address", "127.0.0.2"], "has its first node at 127."),
        (["--map", "Cargo.toml"], "has another map"),
        (["--map", "nowhere.toml"], "cannot read the map nowhere.toml"),
    ] {
        let (code, _, said) = cluster.command("up", &wanted);
        assert!(code == Some(WRONG_USE) && said.contains(why), "{said}");
    }
    for (wanted, why) in [("node-1,node-2", "is 2 nodes: name one"), ("", "name a node")] {
        let (code, _, said) = cluster.command("kill", &[wanted]);
        assert!(code == Some(WRONG_USE) && said.contains(why), "{said}");
    }
}

#[test]
fn four_nodes_are_parted_killed_and_come_to_one_state() {
    let cluster = Cluster::new("up");
    let first = cluster.first.to_string();
    let text = cluster.run("up", &["--nodes", "4", "--address", &first]);
    assert!(text.contains("node-4") && text.contains("Singapore"), "{text}");
    assert_eq!(cluster.alive(), [true; 4]);
    let mut sender = Sender::connect(SocketAddr::from((cluster.address(1), QUIC)), 1);
    let newest = cluster.transfer(&mut sender, 0..100);
    cluster.reaches(&[1, 2, 3, 4], newest);

    // One region is partitioned off: the others advance, it does not.
    let text = cluster.run("partition", &["Singapore"]);
    assert!(text.contains("cut: node-4 | node-1 node-2 node-3"), "{text}");
    wait_until("it is cut off", || {
        let (leader, other) = (slot(cluster.rpc(1)), slot(cluster.rpc(4)));
        if leader > other + 4 { Ok(()) } else { Err(format!("slots {leader} and {other}")) }
    });
    let newest = cluster.transfer(&mut sender, 100..200);
    cluster.reaches(&[1, 2, 3], newest);
    assert!(slot(cluster.rpc(4)) < newest);
    assert_eq!(cluster.rpc(4).balance(&fresh_address(9, 199)), 0);
    assert!(cluster.run("status", &[]).contains("cut: node-4 | node-1 node-2 node-3"));
    assert!(cluster.run("heal", &[]).contains("1 cut is healed"));
    cluster.reaches(&[4], newest);

    // A killed node catches up after a restart.
    cluster.run("kill", &["node-2"]);
    assert_eq!(cluster.alive(), [true, false, true, true]);
    let newest = cluster.transfer(&mut sender, 200..300);
    cluster.run("start", &["2"]);
    cluster.reaches(&[1, 2, 3, 4], newest);
    for node in 1..=4 {
        assert_eq!(blockhash(cluster.rpc(node), newest), blockhash(cluster.rpc(1), newest));
        assert!(
            [0, 99, 150, 299].iter().all(|number| cluster.rpc(node).balance(&fresh_address(9, *number)) == 1_000_000)
        );
    }
    cluster.come_to_one_state(&[1, 2, 3, 4]);
    let status = cluster.status();
    assert!(
        status.iter().all(|node| node["resident_bytes"].as_u64().is_some_and(|bytes| bytes < 600_000_000)),
        "{status:?}"
    );
    let (code, _, said) = cluster.command("up", &[]);
    assert!(code == Some(WRONG_USE) && said.contains("runs; `hearth cluster down --name"), "{said}");
    // An invalid new node must not cost the cluster the node that is there.
    cluster.run("kill", &["node-4"]);
    let (code, _, said) = cluster.command("up", &["--reset", "--validators", "99"]);
    assert!(code == Some(WRONG_USE) && said.contains("--validators"), "{said}");
    assert_eq!(cluster.alive(), [true, true, true, false]);
    refuses_what_it_is_not(&cluster);
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/world.toml");
    cluster.run("up", &["--nodes", "4", "--address", &first, "--map", shipped]);
    assert_eq!(cluster.alive(), [true; 4]);

    assert!(cluster.run("down", &[]).contains("4 nodes are stopped"));
    assert_eq!(cluster.alive(), [false; 4]);
    let left = fs::read_dir("/dev/shm").expect("shared memory").flatten();
    assert!(!left.into_iter().any(|file| file.file_name().to_string_lossy().contains(&cluster.name)));
    // The whole cluster restarts where it stopped.
    cluster.run("up", &[]);
    cluster.reaches(&[1, 2, 3, 4], newest + 1);
    cluster.run("down", &[]);
}

/// The first second that is so, within a minute of them.
fn until_shown(seconds: &mut impl Iterator<Item = Value>, what: &str, mut is: impl FnMut(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for second in seconds.take(60) {
        if is(&second) {
            return second;
        }
        last = second;
    }
    panic!("{what}: {last:#}")
}

#[test]
fn the_dashboard_of_each_node_shows_all_of_them() {
    let cluster = Cluster::new("shown");
    let first = cluster.first.to_string();
    let text = cluster.run("up", &["--nodes", "3", "--address", &first]);
    assert!(text.contains(&format!("http://{first}:{RPC}/dashboard#/cluster")), "{text}");
    let mut sender = Sender::connect(SocketAddr::from((cluster.address(1), QUIC)), 1);

    // A follower shows them as well as the leader does.
    let mut seconds = cluster.shown_by(2);
    let is_positive = |value: &Value| value.as_f64().is_some_and(|rate| rate > 0.0);
    let all = until_shown(&mut seconds, "each node with slot and bandwidth", |second| {
        second["nodes"].as_array().expect("nodes").iter().enumerate().all(|(at, node)| {
            // The one that makes the blocks is sent nothing before there is a transaction.
            let is_sent = at == 0 || is_positive(&node["received_bits_per_s"]);
            node["slot"].is_u64() && is_positive(&node["sent_bits_per_s"]) && is_sent
        })
    });
    let nodes = all["nodes"].as_array().expect("nodes");
    let of = |key: &str| nodes.iter().map(|node| node[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("node"), ["node-1", "node-2", "node-3"]);
    assert_eq!((of("state"), of("cut_from")), (vec![json!("serves"); 3], vec![json!(0); 3]));
    assert_eq!((of("region"), &all["own"]), (vec![json!(0), json!(1), json!(2)], &json!("node-2")));
    assert_eq!((&all["regions"][0]["name"], &all["regions"][0]["latitude"]), (&json!("London"), &json!(51.5)));
    assert_eq!(all["links"][0], json!({ "regions": [0, 1], "rtt_ms": 60.0, "cut": 0.0 }));
    // Measured at the leader's shred tile; followers make no blocks.
    assert_eq!(of("left_txn_per_s")[1..], [Value::Null, Value::Null]);
    // In a second where the leader answers too late, the rate is missing; later seconds have it.
    let mut sent = 0;
    until_shown(&mut seconds, "the transfers leave", |second| {
        let has_left = second["nodes"][0]["left_txn_per_s"].as_f64().is_some_and(|rate| rate > 20.0);
        if !has_left {
            cluster.transfer(&mut sender, sent..sent + 100);
            sent += 100;
        }
        has_left
    });

    cluster.run("partition", &["node-3"]);
    let cut = until_shown(&mut seconds, "a cut", |second| second["nodes"][2]["cut_from"] == 2);
    let parts: Vec<&Value> = cut["links"].as_array().expect("links").iter().map(|link| &link["cut"]).collect();
    assert_eq!(parts, [&json!(0.0), &json!(1.0), &json!(1.0)]);
    cluster.run("heal", &[]);
    cluster.run("kill", &["node-3"]);
    // The others may be too slow to answer in the very second.
    let dead = until_shown(&mut seconds, "an end", |second| {
        second["nodes"][2]["state"] == "ended" && second["nodes"][0]["state"] == "serves"
    });
    assert!(dead["nodes"][2]["slot"].is_null() && dead["nodes"][2]["sent_bits_per_s"].is_null(), "{dead:#}");
    assert_eq!(dead["nodes"][2]["cut_from"], 0);
    // The leader's own end, too, as the others show it.
    cluster.run("kill", &["node-1"]);
    until_shown(&mut seconds, "the leader's end", |second| second["nodes"][0]["state"] == "ended");
}

#[test]
fn where_one_node_does_not_come_up_none_is_left() {
    let cluster = Cluster::new("taken");
    let _taken = TcpListener::bind((cluster.address(3), RPC)).expect("nobody listens there");
    let first = cluster.first.to_string();
    let (code, _, said) = cluster.command("up", &["--nodes", "3", "--address", &first]);
    assert_eq!(code, Some(FAILED), "{said}");
    assert!(said.contains("node-3 cannot serve") && said.contains("the port is in use"), "{said}");
    assert_eq!(cluster.alive(), [false; 3]);
}

#[test]
fn mistakes_are_reported_before_anything_starts() {
    let cluster = Cluster::new("mistaken");
    let map = cluster.folder.path().join("map.toml");
    fs::write(&map, "region = []\n").expect("written");
    let map = map.display().to_string();
    for (command, arguments, why) in [
        ("up", &["--nodes", "1"][..], "it is not from 2 to"),
        ("up", &["--address", "10.0.0.1"], "are not all loopback"),
        ("up", &["--map", &map], "map.toml"),
        ("up", &["--nodes", "3", "--validators", "4"], "4 of 3 nodes: it is from 1 to 3"),
        ("up", &["--map", "nowhere.toml"], "nowhere.toml"),
    ] {
        let (code, _, said) = cluster.command(command, arguments);
        assert!(code == Some(WRONG_USE) && said.contains(why), "{command} {arguments:?}: {said}");
    }
    for command in ["status", "heal"] {
        let (code, _, said) = cluster.command(command, &[]);
        assert!(
            code == Some(FAILED) && said.contains(&format!("`hearth cluster up --name {} --folder", cluster.name)),
            "{said}"
        );
    }
}

#[test]
fn a_new_cluster_takes_the_place_of_a_cluster_alone() {
    let cluster = Cluster::new("damaged-links");
    let first = cluster.first.to_string();
    fs::write(cluster.place(), "").expect("written");
    let (code, _, said) = cluster.command("up", &[]);
    assert!(code == Some(WRONG_USE) && said.contains("is not a folder"), "{said}");
    fs::remove_file(cluster.place()).expect("removed");
    // A user's file of that name must not endanger the files next to it.
    let [state, beside] = ["cluster.json", "beside"].map(|file| cluster.place().join(file));
    fs::create_dir_all(&beside).expect("made");
    for text in ["{\"name\": \"x", "{\"name\": \"x\", \"map\": null, \"nodes\": []}"] {
        fs::write(&state, text).expect("written");
        for (command, arguments) in [("status", &[][..]), ("up", &["--reset"]), ("demo", &[])] {
            let (code, _, said) = cluster.command(command, arguments);
            assert!(code == Some(FAILED) && said.contains("name another one by --folder"), "{said}");
        }
        assert!(beside.exists());
    }
    fs::remove_file(&state).expect("removed");
    cluster.run("up", &["--reset", "--nodes", "2", "--address", &first]);
    let before = cluster.status();
    // One that runs, too.
    cluster.run("up", &["--reset", "--nodes", "2", "--address", &first]);
    let after = cluster.status();
    assert!(before.iter().zip(&after).all(|(before, after)| before["pid"] != after["pid"]), "{before:?} {after:?}");
    assert_eq!(cluster.alive(), [true; 2]);
    // An unreadable links file is rewritten.
    fs::write(cluster.place().join("links.toml"), "[[node").expect("written");
    let (code, _, said) = cluster.command("partition", &["node-2"]);
    assert!(code == Some(FAILED) && said.contains("`hearth cluster heal --folder"), "{said}");
    assert!(cluster.run("heal", &[]).contains("is written again"));
    assert!(cluster.run("heal", &[]).contains("0 cuts are healed"));
    // A demonstration must not stop an existing cluster.
    let (code, _, said) = cluster.command("demo", &[]);
    assert!(code == Some(WRONG_USE) && said.contains("runs; `hearth cluster down --name"), "{said}");
    assert_eq!(cluster.alive(), [true; 2]);
}

/// Waits until these nodes confirm a slot, well before one that joins would give the others up.
fn soon(cluster: &Cluster, what: &str, nodes: &[usize], wanted: u64) {
    let began = Instant::now();
    cluster.reaches(nodes, wanted);
    println!("{what}: slot {wanted} is confirmed after {:?}", began.elapsed());
    assert!(began.elapsed() < SOON, "{what}: {:?}", began.elapsed());
}

#[test]
fn four_that_make_blocks_begin_at_once() {
    let cluster = Cluster::new("begin");
    let first = cluster.first.to_string();
    let of_four = ["--nodes", "4", "--validators", "4", "--address", &first];
    cluster.run("up", &of_four);
    soon(&cluster, "a new chain", &[1, 2, 3, 4], 8);

    // After a full stop and restart, no node has a block that the others lack.
    cluster.run("down", &[]);
    cluster.run("up", &[]);
    let newest = (1..=4).map(|node| slot(cluster.rpc(node))).max().expect("four");
    soon(&cluster, "after a stop of all", &[1, 2, 3, 4], newest + 8);
    cluster.run("down", &[]);

    // One node is killed soon after. The lone votes of each of the others lock it out for some slots.
    cluster.run("up", &[&["--reset"], &of_four[..]].concat());
    cluster.run("kill", &["node-4"]);
    cluster.reaches(&[1, 2, 3], 8);
    cluster.run("down", &[]);
}

/// Ten nodes under two loads: at the block limits, and at twice that with the limits lifted. Every follower reaches the
/// leader's state. How soon depends on the cores that other programs leave, so the demo reports the time and this test
/// does not judge it.
#[test]
fn ten_nodes_come_to_the_same_state() {
    let cluster = Cluster::new("demo");
    let (first, json) = (cluster.first.to_string(), cluster.folder.path().join("demo.json"));
    let file = json.display().to_string();
    let options = ["--rate", "500", "--duration", "20", "--address", &first, "--json", &file];
    let text = cluster.run("demo", &options);
    assert!(text.contains("9 followers join: Frankfurt, New York, Singapore"), "{text}");
    let report: Value = serde_json::from_slice(&fs::read(json).expect("the report")).expect("JSON");
    assert!(report["is_same_state"] == true && report["slot"].as_u64() > Some(0), "{report:#}");
    let nodes = report["nodes"].as_array().expect("a list");
    assert_eq!(nodes.len(), 10);
    for node in nodes {
        assert!(node["alive"] == true && node["resident_bytes"].as_u64() < Some(600_000_000), "{node:#}");
    }
    let loads = report["loads"].as_array().expect("two");
    // The first is as much as blocks take, whatever is sent.
    let scaled = loads[0]["limits"]["scaled"].as_u64().expect("a block's compute units");
    assert!((100_000..1_000_000).contains(&scaled) && loads[1]["limits"] == "lifted", "{report:#}");
    assert_eq!((&loads[0]["asked_txn_per_s"], &loads[1]["asked_txn_per_s"]), (&Value::Null, &json!(1000.0)));
    for (load, sent) in loads.iter().zip([500.0, 1000.0]) {
        let rates: Vec<f64> = load["txn_per_s"].as_array().expect("rates").iter().filter_map(Value::as_f64).collect();
        assert!(rates.len() == 10 && rates.iter().all(|rate| *rate > 0.0), "{rates:?}\n{text}");
        // Blocks have votes, too, and a machine that stood still for a second makes up for it.
        assert!(rates[0] / sent < 1.5, "{rates:?}\n{text}");
        assert!(load["caught_up_s"].is_f64(), "{load:#}\n{text}");
    }
    let page = cluster.place().join("report.html");
    assert!(text.contains(&format!("report  {}", page.canonicalize().expect("it is there").display())), "{text}");
    assert!(fs::read_to_string(page).expect("the page").contains("<polygon"));
    assert_eq!(cluster.alive(), [false; 10]);
}

//! The cost of an idle node, and the addresses it listens on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hearth_ledger::genesis::funded_account_key;
use hearth_testkit::pause;
use hearth_wire::base58::encode_32;
use serde_json::json;

use super::client::{Sender, fresh_address, signature_of, transfer};
use super::node::{Node, Setup, same, wait_until};

/// Ticks of the kernel's clock in a second.
const TICKS: u64 = 100;

/// CPU time that a process has used.
fn cpu(node: &Node) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{}/stat", node.process.id())).expect("the process runs");
    let fields: Vec<u64> =
        stat.rsplit_once(')').unwrap().1.split(' ').map(|field| field.parse().unwrap_or(0)).collect();
    Duration::from_millis((fields[12] + fields[13]) * 1000 / TICKS)
}

/// Returns the node's share of one core over `time`, or longer, until it reaches a slot.
fn share(node: &Node, time: Duration, until_slot: u64) -> f64 {
    let (began, before) = (Instant::now(), cpu(node));
    pause(time);
    wait_until("the slot", || same(slot(node, "processed") >= until_slot, true));
    (cpu(node) - before).as_secs_f64() / began.elapsed().as_secs_f64()
}

/// Bytes of memory that are its own or mapped.
fn resident(node: &Node) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", node.process.id())).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("the kernel tells");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| if entry.path().is_dir() { size(&entry.path()) } else { entry.metadata().map_or(0, |m| m.len()) })
        .sum()
}

fn slot(node: &Node, commitment: &str) -> u64 {
    node.rpc().call("getSlot", json!([{ "commitment": commitment }])).as_u64().expect("a slot")
}

/// Default sizes, as in an unconfigured node.
fn as_default(test: &str) -> Setup {
    let mut setup = Setup::new(test);
    setup
        .with("consensus.vote", true)
        .with("rpc.status_capacity", 1 << 20)
        .with("tiles.verify.table_bytes", 256 << 20)
        .with("tiles.dedup.signature_cache_size", 1 << 20)
        .with("tiles.pack.max_pending_transactions", 65_524)
        .with("development.genesis.fund_initial_accounts", 1024);
    setup
}

/// The bounds are 3 % and 300 MB on an otherwise idle machine; CPU time grows when other programs share the caches.
#[test]
fn an_idle_node_costs_little() {
    let setup = as_default("idle");
    let node = setup.start();
    wait_until("the first final slots", || if slot(&node, "finalized") > 0 { Ok(()) } else { Err("none".into()) });
    let (first, bytes) = (slot(&node, "processed"), size(&setup.ledger()));
    let share = share(&node, Duration::from_secs(8), first + 10);
    let (slots, bytes) = (slot(&node, "processed") - first, size(&setup.ledger()) - bytes);
    println!(
        "{:.1} % of a core, {} bytes resident, {} bytes a slot",
        share * 100.0,
        resident(&node),
        bytes / slots.max(1)
    );
    assert!(share < 0.10, "{share}");
    assert!(resident(&node) < 300_000_000, "{}", resident(&node));
    // 9,000 slots an hour: 90 MB, and never more than the limits.
    assert!(bytes / slots < 10_000, "{bytes} bytes for {slots} slots");
    node.stop();
}

#[test]
fn on_demand_the_chain_stands_until_there_is_work() {
    for vote in [true, false] {
        let mut setup = as_default("demand");
        setup.with("consensus.vote", vote);
        let node = setup.start_with(&["--slots-on-demand"]);
        let stands = || {
            wait_until("the chain to stand", || {
                let work = slot(&node, "processed") == slot(&node, "confirmed");
                if work && slot(&node, "finalized") > 0 { Ok(()) } else { Err("it goes on".into()) }
            });
            let before = (slot(&node, "processed"), size(&setup.ledger()));
            let share = share(&node, Duration::from_secs(2), 0);
            (before, (slot(&node, "processed"), size(&setup.ledger())), share)
        };
        let (before, after, share) = stands();
        assert_eq!(before, after, "no slot, no byte");
        assert!(share < 0.03, "{share}");

        let (from, to, rpc) = (funded_account_key(0), fresh_address(0xde, 0), node.rpc());
        let (blockhash, sent) = (rpc.latest_blockhash(), Instant::now());
        let bytes = transfer(&from, &to, 1_000_000, &blockhash);
        Sender::connect(node.quic(), 9).send_all(&[bytes.clone()]);
        wait_until("finality", || {
            let status = rpc.statuses(&[signature_of(&bytes)]).remove(0);
            if status["confirmationStatus"] == "finalized" { Ok(()) } else { Err(status.to_string()) }
        });
        println!("final after {} ms, {} slots", sent.elapsed().as_millis(), slot(&node, "processed") - after.0);
        assert_eq!(rpc.balance(&to), 1_000_000);
        let (before, after, _) = stands();
        assert_eq!(before, after, "it stands again");
        assert!(rpc.is_blockhash_valid(&blockhash), "nothing ages while it stands");
        // With a simulation first, though no block is in the making.
        rpc.call("requestAirdrop", json!([encode_32(&to).to_string(), 5]));
        wait_until("a final airdrop", || {
            let balance = rpc.call("getBalance", json!([encode_32(&to).to_string()]))["value"].as_u64();
            same(balance, Some(1_000_005))
        });
        assert_eq!(rpc.call("getHealth", json!([])), "ok");
        let standing_at = after.0;
        node.kill();
        let node = setup.start_with(&["--slots-on-demand"]);
        assert!(slot(&node, "processed") >= standing_at && node.rpc().balance(&to) == 1_000_005);
        node.stop();
    }
}

/// The sockets of a process, by inode.
fn sockets(node: &Node) -> BTreeSet<String> {
    let fds = fs::read_dir(format!("/proc/{}/fd", node.process.id())).expect("our own child");
    let links = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
    links.filter_map(|link| Some(link.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())).collect()
}

#[test]
fn every_listener_is_on_loopback() {
    let setup = Setup::new("loopback");
    let node = setup.start();
    let (own, mut found) = (sockets(&node), 0);
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = fs::read_to_string(format!("/proc/{}/net/{table}", node.process.id())).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if own.contains(fields[9]) {
                assert!(fields[1].starts_with("0100007F:"), "{table}: {line}");
                found += 1;
            }
        }
    }
    assert!(found >= 5, "HTTP, WebSocket, metrics, UDP and QUIC: {found}");
    node.stop();
}

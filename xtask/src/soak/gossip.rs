//! A node of the cluster's own gossip among our nodes: each must find all others and reject no message.
//!
//! reads   the oracle's line, the first node's counters
//! writes  a cluster in a temporary folder, at 127.0.7.2 and the next addresses
//! memory  the oracle's output, and one page of metrics
//! source  `oracle/peer`, a workspace of its own: it builds RocksDB and Protocol Buffers, which takes 30 CPU minutes

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::Outcome;
use crate::rpc;
use crate::run::{self, Args, TempFolder, cargo};

/// The last byte of the first node's address.
const FIRST: u8 = 2;
const METRICS_PORT: u16 = 7_999;
/// Counters of rejected datagrams, which must stay 0.
const REFUSED: [&str; 5] = ["malformed", "deprecated_kind", "coarse_filter", "bad_signature", "source_refused"];
/// Work that both sides must have done by the end.
const DONE: [&str; 7] = [
    "pings_received",
    "pongs_received",
    "pull_requests_received",
    "pull_responses_received",
    "pushes_received",
    "pull_values_sent",
    "pull_shred_version",
];

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let (nodes, binary, peer) = (args.number("--nodes", 3)?, args.value("--binary")?, args.value("--peer")?);
    args.end()?;
    let nodes = u8::try_from(nodes).ok().filter(|nodes| (2..=64).contains(nodes)).ok_or("--nodes: expected 2 to 64")?;
    let binary = run::hearth(binary)?;
    let peer = peer.map_or_else(built, |file| Ok(file.into()))?;
    let folder = TempFolder::new("soak-gossip")?;
    let cluster = |command: &str, options: &[&str]| {
        let mut hearth = Command::new(&binary);
        hearth.args(["cluster", command, "--name", "soak-gossip", "--folder"]).arg(folder.path().join("cluster"));
        run::run(hearth.args(options))
    };
    let (count, validators) = (nodes.to_string(), 2.to_string());
    cluster("up", &["--nodes", &count, "--validators", &validators, "--address", &address(FIRST).to_string()])?;
    let looked = look(&peer, nodes);
    let down = cluster("down", &[]);
    let outcome = looked?;
    down.map(|()| outcome)
}

/// The oracle, built if it is not there.
fn built() -> Result<PathBuf, String> {
    let target = run::target_dir().join("oracle");
    let mut oracle = cargo();
    oracle.args(["build", "--locked"]).current_dir(run::root().join("oracle/peer"));
    run::run(oracle.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("debug/hearth-oracle-peer"))
}

const fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 7, host)
}

fn look(peer: &Path, nodes: u8) -> Result<Outcome, String> {
    let mut oracle = Command::new(peer);
    oracle.arg(format!("{}:8001", address(FIRST)));
    oracle.args((0..nodes).map(|node| format!("{}:8899", address(FIRST + node))));
    let mut report = Value::Null;
    let ended = run::run_seeing(&mut oracle, |line| report = serde_json::from_str(line).unwrap_or_default());
    let counters = counters(
        &rpc::get(address(FIRST), METRICS_PORT, "/metrics").map_err(|error| format!("the first node: {error}"))?,
    );
    let mut wrong = judge(&counters);
    let said: Vec<String> = serde_json::from_value(report["wrong"].take()).unwrap_or_default();
    if said.is_empty() {
        wrong.extend(ended.err());
    }
    wrong.extend(said);
    let counters: BTreeMap<_, _> = counters.into_iter().filter(|(_, count)| *count > 0).collect();
    Ok(Outcome { figures: json!({ "peer": report, "first_node": counters }), wrong })
}

/// Gossip's counters on a page of metrics.
fn counters(page: &str) -> BTreeMap<String, u64> {
    let counters = page.lines().filter_map(|line| {
        let (name, count) = line.strip_prefix("hearth_gossip_")?.split_once("_total{")?;
        Some((name.to_owned(), count.rsplit_once(' ')?.1.parse().ok()?))
    });
    counters.collect()
}

fn judge(counters: &BTreeMap<String, u64>) -> Vec<String> {
    let of = |name: &str| counters.get(name).copied();
    let refused = REFUSED.iter().filter(|name| of(name) != Some(0));
    let missing = DONE.iter().filter(|name| of(name).unwrap_or(0) == 0);
    refused.chain(missing).map(|name| format!("the first node's {name}: {:?}", of(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_and_missing_values_are_reported() {
        let line = |name: &str, count: u64| format!("hearth_gossip_{name}_total{{tile=\"gossip:0\"}} {count}\n");
        let good: String =
            REFUSED.iter().map(|name| line(name, 0)).chain(DONE.iter().map(|name| line(name, 7))).collect();
        assert_eq!(judge(&counters(&good)), Vec::<String>::new());
        let refused = good.replace(&line("malformed", 0), &line("malformed", 1));
        assert_eq!(judge(&counters(&refused)), ["the first node's malformed: Some(1)"]);
        let missing = good.replace(&line("pongs_received", 7), "");
        assert_eq!(judge(&counters(&missing)), ["the first node's pongs_received: None"]);
    }
}

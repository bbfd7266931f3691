//! The activity of a cluster's nodes, from two samples of each.
//!
//! reads   each node's RPC, `/proc`
//! writes  a table, or JSON
//! memory  a line per node

use std::fmt::Write;
use std::time::{Duration, Instant};

use hearth_command::node_rpc::{self, Rpc};
use serde::Serialize;
use serde_json::json;

use super::member::{Cluster, Member, Role};

/// Time between the two samples.
const WINDOW: Duration = Duration::from_secs(1);

/// A sample of a node's chain.
#[derive(Clone, Copy, Debug)]
pub struct ChainSample {
    /// When it was taken.
    pub at: Instant,
    /// The last slot that the node has executed.
    pub slot: u64,
    /// All transactions that it has executed, votes included.
    pub transactions: u64,
}

impl ChainSample {
    /// Queries a node's slot and transaction count; `None` if it does not answer both.
    pub fn take(rpc: &Rpc) -> Option<Self> {
        let processed = json!([{ "commitment": "processed" }]);
        let slot = rpc.call("getSlot", &processed).ok()?.as_u64()?;
        let transactions = rpc.call("getTransactionCount", &processed).ok()?.as_u64()?;
        Some(Self { at: Instant::now(), slot, transactions })
    }

    /// Transactions per second since an earlier sample.
    pub fn rate_since(&self, before: &Self) -> f64 {
        let seconds = (self.at - before.at).as_secs_f64();
        self.transactions.saturating_sub(before.transactions) as f64 / seconds.max(1e-3)
    }
}

/// A node's row in the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The node's name: `node-1` and so on.
    pub node: String,
    /// Its part in the cluster: leader, validator or follower.
    pub role: Role,
    /// The map's name of its region.
    pub region: String,
    /// Its loopback address, without a port.
    pub address: String,
    /// The URL of its JSON-RPC.
    pub rpc: String,
    /// Its pid, if it runs.
    pub pid: Option<u32>,
    /// Whether its process runs, even if it does not answer.
    pub alive: bool,
    /// The last slot that it has executed; `null` if it does not answer.
    pub slot: Option<u64>,
    /// Slots that another node has executed and this one has not.
    pub slots_behind: Option<u64>,
    /// Transactions per second, votes included, between the samples.
    pub txn_per_s: Option<f64>,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
}

/// Samples all nodes for a second.
pub fn rows(cluster: &Cluster) -> Vec<Row> {
    let rpcs: Vec<Option<Rpc>> = cluster.nodes.iter().map(|node| node_rpc::at(&node.rpc()).ok()).collect();
    let alive = |node: &Member| node.process.filter(|process| process.is_alive());
    let look = || -> Vec<Option<ChainSample>> {
        let asked = cluster.nodes.iter().zip(&rpcs);
        asked.map(|(node, rpc)| alive(node).and(rpc.as_ref()).and_then(ChainSample::take)).collect()
    };
    let before = look();
    std::thread::sleep(WINDOW);
    let after = look();
    let newest = after.iter().flatten().map(|look| look.slot).max();
    let row = |(number, node): (usize, &Member)| {
        let (before, after) = (before[number], after[number]);
        let process = alive(node);
        Row {
            node: node.name.clone(),
            role: node.role,
            region: node.region.clone(),
            address: node.address.to_string(),
            rpc: node.rpc(),
            pid: process.map(|process| process.pid),
            alive: process.is_some(),
            slot: after.map(|look| look.slot),
            slots_behind: after.zip(newest).map(|(look, newest)| newest - look.slot),
            txn_per_s: after.zip(before).map(|(after, before)| after.rate_since(&before)),
            resident_bytes: process.and_then(|process| process.resident_bytes()),
        }
    };
    cluster.nodes.iter().enumerate().map(row).collect()
}

/// Formats the rows as a table.
pub fn table(cluster: &Cluster, rows: &[Row]) -> String {
    let of = |value: Option<String>| value.unwrap_or_else(|| "–".into());
    let width = rows.iter().map(|row| row.region.chars().count()).max().unwrap_or(0).max(6);
    let mut text = format!(
        "{:<8} {:<9} {:<width$} {:<12} {:>7} {:>9} {:>7} {:>8} {:>8}\n",
        "node", "role", "region", "address", "pid", "slot", "behind", "TPS", "memory"
    );
    for row in rows {
        let state = if row.alive { of(row.pid.map(|pid| pid.to_string())) } else { "ended".into() };
        let _ = writeln!(
            text,
            "{:<8} {:<9} {:<width$} {:<12} {:>7} {:>9} {:>7} {:>8} {:>8}",
            row.node,
            row.role.word(),
            row.region,
            row.address,
            state,
            of(row.slot.map(|slot| slot.to_string())),
            of(row.slots_behind.map(|slots| slots.to_string())),
            of(row.txn_per_s.map(|rate| format!("{rate:.0}"))),
            of(row.resident_bytes.map(|bytes| format!("{:.0} MB", bytes as f64 / 1e6))),
        );
    }
    for cut in cluster.cuts().unwrap_or_default() {
        let names = |addresses: &[std::net::Ipv4Addr]| {
            let named = cluster.nodes.iter().filter(|node| addresses.contains(&node.address));
            named.map(|node| node.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let _ = writeln!(text, "cut: {} | {}", names(&cut.between[0]), names(&cut.between[1]));
    }
    text
}

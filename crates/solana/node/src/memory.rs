//! What a node takes: `hearth config show --memory`.
//!
//! reads   the configuration
//! writes  tables

use std::fmt::Write;

use hearth_cluster::gossip::Config as GossipConfig;
use hearth_ledger::Fates;
use hearth_pipeline::replay::UNSENT_HISTORY_BYTES_MAX;
use hearth_pipeline::replay::position::SLOTS_MAX;
use hearth_pipeline::tag_cache::TagCache;
use hearth_pipeline::{gossip, quic, repair, rserve, store, txsend};

use crate::boot::{self, BootError};
use crate::config::{Bench, Config, huge_pages};
use crate::replay;

/// Entries in a data shred, bytes.
const SHRED_BYTES: u64 = 963;
/// What a slot takes with replay, and with tower, bytes.
const SLOT_BYTES: usize = 40;
/// What a status takes, bytes: see [`hearth_ledger::StatusCacheConfig`].
const STATUS_BYTES: u64 = 71;

/// Memory of `hearth run` and of a `hearth bench` that takes memory for so many statuses, part by part.
pub fn table(config: &Config, bench_status_capacity: usize) -> Result<String, BootError> {
    let run = parts(config, false, config.rpc.status_capacity)?;
    let bench = parts(config, true, bench_status_capacity)?;
    let mut text = format!("{:>13} {:>13}\n", "hearth run", "hearth bench");
    let in_run = |name: &str| run.iter().find(|(n, _)| n == name).map(|(_, bytes)| *bytes);
    // The parts of a bench are those of a node, and the load's among them.
    for (name, bytes) in &bench {
        let node = in_run(name).map_or("–".into(), mib);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{node:>13} {:>13}  {name}", mib(*bytes));
    }
    let sum = |parts: &[(String, u64)]| mib(parts.iter().map(|(_, bytes)| bytes).sum());
    let _ = writeln!(text, "{:>13} {:>13}  in all, accounts apart (they grow with the chain)", sum(&run), sum(&bench));
    let server = boot::server_config(&config.tiles.quic);
    let hostile = server.connections_max as u64 * server.unread_bytes_max() as u64;
    let _ = writeln!(
        text,
        "{:>13} {:>13}  more at most for each quic tile, while {} hostile peers send streams that they never end",
        mib(hostile),
        mib(hostile),
        server.connections_max
    );
    Ok(text)
}

/// What the statuses of so many landed transactions take, bytes.
pub fn of_statuses(bench: &Bench, capacity: usize) -> u64 {
    if bench.disable_status_cache { 0 } else { capacity as u64 * STATUS_BYTES }
}

fn parts(config: &Config, with_load: bool, status_capacity: usize) -> Result<Vec<(String, u64)>, BootError> {
    let cores = boot::cores(&config.layout)?;
    let topology = boot::topology(config, &cores, with_load).map_err(BootError::Layout)?;
    let mut parts = topology.workspace_plan(huge_pages(&config.hugetlbfs)).parts();
    let (verify, tiles) = (topology.count("verify") as u64, &config.tiles);
    let mut part = |name: &str, bytes: u64| parts.push((name.to_owned(), bytes));
    part("verify: history", verify * TagCache::bytes(tiles.verify.signature_cache_size));
    part("verify: signature tables, at most", tiles.verify.table_bytes as u64);
    if config.gossip.enabled {
        part("exec: signature tables, at most", replay::TABLE_BYTES as u64);
        part("replay: a block, at most", boot::block_limits(&config.development.bench).shreds * SHRED_BYTES);
        part("replay, tower: slots above the root, at most", 2 * (SLOTS_MAX * SLOT_BYTES) as u64);
        if config.keeps_history() {
            part("replay: history that store has not taken, at most", UNSENT_HISTORY_BYTES_MAX as u64);
            part("store: history of blocks that are not confirmed, at most", store::UNCONFIRMED_BYTES_MAX as u64);
        }
    }
    part("dedup: history", TagCache::bytes(tiles.dedup.signature_cache_size));
    if config.gossip.enabled {
        part("gossip: what nodes say, at most", gossip::bytes_max(&GossipConfig::default()));
    }
    let pack = boot::pack_config(&tiles.pack, &config.development);
    part("pack: pending transactions", pack.bytes(topology.count("bank")));
    if config.gossip.enabled {
        let stakes = topology.count("quic") * quic::STAKES_BYTES_MAX;
        part("quic: identities with stake, at most", stakes as u64);
        part("txsend: what waits for leaders, at most", txsend::BYTES_MAX as u64);
        let shreds = topology.count("shred") as u64 * boot::shred_memory(&config.development.bench);
        part("shred: others' FEC sets and slots, at most", shreds);
        part("repair: slots, requests and peers, at most", repair::memory());
        part("rserve: nodes, budgets and shreds, at most", rserve::memory());
    }
    let statuses = of_statuses(&config.development.bench, status_capacity);
    part("ledger: statuses of landed transactions (rpc.status_capacity)", statuses);
    part("dropped transactions, at most (rpc.fate_capacity)", Fates::bytes(config.rpc.fate_capacity));
    Ok(parts)
}

fn mib(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_less_than_a_bench_and_both_columns_add_up() {
        let mut config = Config::default();
        config.rpc.status_capacity = 1 << 20;
        let text = table(&config, config.rpc.status_capacity).unwrap();
        let number = |word: &str| word.parse::<f64>().ok();
        let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let (_, rows) = rows.split_last().unwrap();
        let (sums, rows) = rows.split_last().unwrap();
        let total = |at: usize| rows.iter().filter_map(|row| number(row[at])).sum::<f64>();
        let run = number(sums[0]).unwrap();
        assert!((total(0) - run).abs() < 0.5, "{text}");
        assert!(text.lines().any(|line| line.contains("–") && line.contains("benchg_benchs:0")), "{text}");
        assert!(!text.contains("rserve"), "a node alone serves no repair: {text}");
        let statuses = text.lines().find(|line| line.contains("rpc.status_capacity")).unwrap();
        assert!(statuses.trim_start().starts_with("71.00 MiB"), "{text}");
    }

    #[test]
    fn a_node_in_a_cluster_says_what_gossip_may_take() {
        let mut config = Config::default();
        let of = |config: &Config, part: &str| table(config, config.rpc.status_capacity).unwrap().contains(part);
        assert!(!of(&config, "gossip"));
        config.gossip.enabled = true;
        for part in ["gossip: what nodes say, at most", "link net_gossip:0", "link gossip_repair", "link gossip_sign"] {
            assert!(of(&config, part), "{part}");
        }
    }

    #[test]
    fn a_node_in_a_cluster_has_bounds_for_what_others_send() {
        let mut config = Config::default();
        config.gossip.enabled = true;
        let text = table(&config, config.rpc.status_capacity).unwrap();
        let parts = [
            ("shred: others'", 80.0..400.0),
            ("repair: slots", 1.0..16.0),
            ("rserve: nodes", 34.0..256.0),
            ("replay: history", 128.0..129.0),
            ("store: history", 256.0..257.0),
            ("link replay_store", 2.0..3.0),
        ];
        for (part, bounds) in parts {
            let row = text.lines().find(|line| line.contains(part)).unwrap();
            let mib: f64 = row.split_whitespace().next().unwrap().parse().unwrap();
            assert!(bounds.contains(&mib), "{row}");
        }
    }
}

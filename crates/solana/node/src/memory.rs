//! The memory use of a node: `hearth config show --memory`.
//!
//! reads   the configuration
//! writes  tables

use std::fmt::Write;

use hearth_gossip::Config as GossipConfig;
use hearth_ledger::DropTable;
use hearth_pipeline::links::{HISTORY_MTU, MICROBLOCK_MTU, OUTGOING_MTU};
use hearth_pipeline::poh::Poh;
use hearth_pipeline::tag_cache::TagCache;
use hearth_pipeline::{benchg, gossip, metric, quic, repair, replay, rserve, shred, store, tower, txsend};
use hearth_tile::topology::Topology;

use crate::boot::{self, BootError};
use crate::config::{Bench, Config, huge_pages};
use crate::replay as execution;

/// Bytes of entries in a data shred.
const SHRED_BYTES: u64 = 963;
/// Receive buffers of a tile with sockets: 16 of 64 KiB.
const RECEIVE_BYTES: u64 = 16 * (64 << 10);
/// Assumed vote accounts and blocks above the root: the memory of replay and tower grows with both.
const VOTE_ACCOUNTS: u64 = 100;
const BLOCKS: u64 = 64;
/// Bytes per status: see [`hearth_ledger::StatusCacheConfig`].
const STATUS_BYTES: u64 = 71;

/// The memory of `hearth run`, part by part, and of a `hearth bench` with this status capacity if the program has
/// benches.
pub fn table(config: &Config, bench_status_capacity: Option<usize>) -> Result<String, BootError> {
    let run = parts(config, false, config.rpc.status_capacity)?;
    let bench = bench_status_capacity.map(|capacity| parts(config, true, capacity)).transpose()?;
    let row = |in_run: &str, in_bench: &str| match bench {
        Some(_) => format!("{in_run:>13} {in_bench:>13}"),
        None => format!("{in_run:>13}"),
    };
    let mut text = row("hearth run", "hearth bench") + "\n";
    let in_run = |name: &str| run.iter().find(|(n, _)| n == name).map(|(_, bytes)| *bytes);
    // A bench has the parts of a node, and those of the load.
    let all = bench.as_ref().unwrap_or(&run);
    for (name, bytes) in all {
        let node = in_run(name).map_or("–".into(), mib);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}  {name}", row(&node, &mib(*bytes)));
    }
    let sum = |parts: &[(String, u64)]| mib(parts.iter().map(|(_, bytes)| bytes).sum());
    let sums = row(&sum(&run), &sum(all));
    let _ = writeln!(text, "{sums}  in all, accounts apart (they grow with the chain)");
    let server = boot::server_config(&config.tiles.quic);
    let hostile = mib(server.slots_max() as u64 * server.unread_bytes_max() as u64);
    let _ = writeln!(
        text,
        "{}  more at most for each quic tile, while {} hostile peers send streams that they never end",
        row(&hostile, &hostile),
        server.slots_max()
    );
    Ok(text)
}

/// Bytes of the statuses of `capacity` landed transactions.
pub fn of_statuses(bench: &Bench, capacity: usize) -> u64 {
    if bench.disable_status_cache { 0 } else { capacity as u64 * STATUS_BYTES }
}

fn parts(config: &Config, with_load: bool, status_capacity: usize) -> Result<Vec<(String, u64)>, BootError> {
    let cores = boot::cores(&config.layout)?;
    let topology = boot::topology(config, &cores, with_load).map_err(BootError::Layout)?;
    let mut parts = topology.workspace_plan(huge_pages(&config.hugetlbfs)).parts();
    let tiles = of_tiles(config, &topology).into_iter().filter(|(_, bytes)| *bytes > 0);
    parts.extend(tiles.map(|(name, bytes)| (name.to_owned(), bytes)));
    if config.gossip.enabled {
        parts.extend(of_cluster(config, &topology));
    }
    let statuses = of_statuses(&config.development.bench, status_capacity);
    parts.push(("ledger: statuses of landed transactions (rpc.status_capacity)".into(), statuses));
    let fates = DropTable::bytes(config.rpc.fate_capacity);
    parts.push(("dropped transactions, at most (rpc.fate_capacity)".into(), fates));
    Ok(parts)
}

/// The tiles' own memory, inside or outside a cluster; nothing for tiles that the node lacks.
fn of_tiles(config: &Config, topology: &Topology) -> Vec<(&'static str, u64)> {
    let count = |kind: &str| topology.count(kind) as u64;
    let kib = |kib: u64| kib << 10;
    let tiles = &config.tiles;
    let accounts = config.development.genesis.fund_initial_accounts * size_of::<benchg::Account>();
    let pack = boot::pack_config(&tiles.pack, &config.development).bytes(topology.count("bank"));
    vec![
        // The client's window is small in comparison.
        ("benchs: receive buffers", count("benchs") * RECEIVE_BYTES),
        ("benchg: keys of accounts", count("benchg").min(1) * accounts as u64),
        ("bencho: a request and a response, at most", count("bencho") * kib(2 * 64)),
        ("net: receive buffers, and what waits to leave", count("net") * (RECEIVE_BYTES + 64 * OUTGOING_MTU as u64)),
        ("quic: addresses that connect, at most", count("quic") * hearth_quic::ADDRESSES_BYTES_MAX as u64),
        ("verify: history", count("verify") * TagCache::bytes(tiles.verify.signature_cache_size)),
        ("verify: signature tables, at most", count("verify").min(1) * tiles.verify.table_bytes as u64),
        ("dedup: history", count("dedup") * TagCache::bytes(tiles.dedup.signature_cache_size)),
        ("pack: pending transactions", count("pack") * pack),
        ("bank: a microblock and its history", count("bank") * (MICROBLOCK_MTU + HISTORY_MTU) as u64),
        ("poh: the chain", count("poh") * size_of::<Poh>() as u64),
        ("shred: own FEC sets to be signed, at most", count("shred") * shred::OWN_SETS_BYTES_MAX as u64),
        ("store: a set that the disk does not take", count("store") * kib(64)),
        ("sign: the key's page", count("sign") * kib(4)),
        ("metric: requests, at most", count("metric") * metric::REQUESTS_BYTES_MAX as u64),
        // In a cluster another row includes what it stores for other nodes.
        (
            "tower: own votes and banks",
            if config.gossip.enabled { 0 } else { count("tower") * hearth_consensus::memory(1, BLOCKS) },
        ),
    ]
}

/// Maximum memory of tiles in a cluster for other nodes' data; of consensus with [`VOTE_ACCOUNTS`] and [`BLOCKS`].
fn of_cluster(config: &Config, topology: &Topology) -> Vec<(String, u64)> {
    let count = |kind: &str| topology.count(kind) as u64;
    let with = format!("with {VOTE_ACCOUNTS} vote accounts and {BLOCKS} blocks above the root");
    let block = replay::block_memory(boot::block_limits(&config.development.bench).shreds * SHRED_BYTES);
    let mut parts: Vec<(String, u64)> = [
        ("exec: signature tables, at most", execution::TABLE_BYTES as u64),
        ("exec: orders and reports, at most", count("exec") * (MICROBLOCK_MTU + HISTORY_MTU) as u64),
        ("replay: a block of transfers, at most", block),
        ("gossip: what nodes say, at most", gossip::bytes_max(&GossipConfig::default())),
        ("quic: identities with stake, at most", count("quic") * quic::STAKES_BYTES_MAX as u64),
        ("txsend: what waits for leaders, at most", txsend::BYTES_MAX as u64),
        ("shred: others' FEC sets and slots, at most", count("shred") * boot::shred_memory(&config.development.bench)),
        ("repair: slots, requests and peers, at most", repair::memory()),
        ("rserve: nodes, budgets and shreds, at most", rserve::memory()),
    ]
    .map(|(name, bytes)| (name.to_owned(), bytes))
    .into();
    parts.push((format!("replay: blocks, slots and votes, {with}"), replay::memory(VOTE_ACCOUNTS, BLOCKS)));
    parts.push((format!("tower: banks, slots and votes, {with}"), tower::memory(VOTE_ACCOUNTS, BLOCKS)));
    if config.keeps_history() {
        let (replay, store) = (replay::UNSENT_HISTORY_BYTES_MAX as u64, store::UNCONFIRMED_BYTES_MAX as u64);
        parts.push(("replay: history that store has not taken, at most".into(), replay));
        parts.push(("store: history of blocks that are not confirmed, at most".into(), store));
    }
    parts
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
        let text = table(&config, Some(config.rpc.status_capacity)).unwrap();
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
    fn program_without_benches_shows_one_column() {
        let text = table(&Config::default(), None).unwrap();
        assert_eq!(text.lines().next(), Some("   hearth run"));
        assert!(!text.contains("benchg") && text.contains("MiB  in all"), "{text}");
    }

    #[test]
    fn every_kind_of_tile_has_a_row() {
        for is_in_cluster in [false, true] {
            let mut config = Config::default();
            config.consensus.vote = true;
            config.gossip.enabled = is_in_cluster;
            let topology = boot::topology(&config, &boot::cores(&config.layout).unwrap(), true).unwrap();
            let parts = parts(&config, true, 1 << 20).unwrap();
            for tile in &topology.tiles {
                let begins = format!("{}: ", tile.kind);
                let rows = parts.iter().filter(|(name, bytes)| name.starts_with(&begins) && *bytes > 0);
                assert!(rows.count() > 0, "no row of {}", tile.kind);
            }
        }
    }

    #[test]
    fn a_node_in_a_cluster_says_what_gossip_may_take() {
        let mut config = Config::default();
        let of = |config: &Config, part: &str| table(config, Some(config.rpc.status_capacity)).unwrap().contains(part);
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
        let text = table(&config, Some(config.rpc.status_capacity)).unwrap();
        let parts = [
            ("shred: others'", 80.0..400.0),
            ("repair: slots", 1.0..16.0),
            ("rserve: nodes", 34.0..256.0),
            ("replay: history", 128.0..129.0),
            ("replay: blocks", 16.0..64.0),
            ("tower: banks", 16.0..64.0),
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

//! Lists what a bench skips or loosens: checks and work that a leader of the cluster does and this run does not.
//!
//! reads   the configuration, the options
//! writes  a line for each, for the summary and the JSON

use hearth_ledger::BlockLimits;
use hearth_node::config::{Config, PeerLimits};

use super::Options;

/// Returns everything that does less than on a node of the cluster.
pub fn switched_off(config: &Config, options: &Options) -> Vec<String> {
    let bench = &config.development.bench;
    let mut off = vec![];
    let mut add = |is_off: bool, what: &str| off.extend(is_off.then(|| what.to_owned()));
    add(config.development.genesis.hashes_per_tick == 0, "PoH runs in low-power mode (hashes_per_tick = 0)");
    let (cost, cluster) = (bench.max_cost_per_block, BlockLimits::default().block_cost);
    let is_less = cost < cluster && !bench.larger_max_cost_per_block;
    add(is_less, &format!("a block holds {cost} compute units, less than the cluster's {cluster}"));
    add(bench.larger_max_cost_per_block, "the block's compute limit is 13 times the cluster's");
    add(bench.larger_shred_limits_per_block, "the block's shred limit is 32 times the cluster's");
    add(bench.disable_blockstore_from_slot > 0, "blocks are not stored from a slot on");
    add(bench.disable_status_cache, "the status cache is off: duplicates are not detected");
    add(!config.ledger.sync, "blocks are confirmed before they are on disk");
    add(!config.rpc.transaction_history, "the RPC keeps no transaction status");
    add(!config.snapshots.enabled, "no snapshots are taken");
    add(!config.keeps_history(), "no transaction history is kept on disk (rpc.history_limit_size = 0)");
    add(config.tiles.quic.limits == PeerLimits::Local, "no stake-weighted QoS (tiles.quic.limits = local)");
    add(
        config.tiles.pack.hold_when_full,
        "a full pack pool applies backpressure to senders instead of evicting the lowest-paying transactions",
    );
    add(!config.consensus.vote, "the node does not vote (consensus.vote = false)");
    add(options.presign, "transfers were signed before measuring");
    let nobody = config.tiles.shred.additional_shred_destinations.is_empty();
    off.extend(nobody.then(|| "shreds are sent to nobody (tiles.shred.additional_shred_destinations)".to_owned()));
    off
}

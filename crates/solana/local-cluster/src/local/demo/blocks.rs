//! A demonstration's block limits, and the comparison of its nodes' states.
//!
//! reads   each node's RPC
//! writes  compute units; a slot
//! memory  a line per node

use std::time::{Duration, Instant};

use hearth_command::node_rpc;
use hearth_command::stop::StopSignal;
use hearth_ledger::{Budget, Cost};
use hearth_node::config::Config;
use hearth_wire::Txn;
use hearth_wire::transfer::TransferTemplate;
use serde_json::{Value, json};

use super::measure::{gone, wait};
use crate::local::LocalError;
use crate::local::member::Cluster;

/// Compute units of a transfer, and bytes of accounts that it loads.
const TRANSFER_UNITS: u64 = 150;
const TRANSFER_BYTES: u32 = 213;
/// Time limit for a node to report a bank hash: it may be about to execute the block.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The block limit in compute units at which blocks hold exactly this many transfers per second.
pub fn cost_of(txn_per_s: f64) -> u64 {
    let mut transfer = TransferTemplate::new();
    transfer.set_from(&[1; 32]);
    let txn = Txn::parse(transfer.bytes()).expect("a transfer");
    let used = Cost::actual(&txn, TRANSFER_UNITS, TRANSFER_BYTES).total();
    // Before it runs, each transfer has reserved more than it will use, also the last of a block.
    let reserved = Cost::estimate(&txn, Budget::of(&txn).ok().as_ref()).total();
    let genesis = Config::default().development.genesis;
    let slot_s = (genesis.ticks_per_slot * genesis.target_tick_duration_micros) as f64 / 1e6;
    (txn_per_s * slot_s * used as f64) as u64 + reserved
}

/// The newest slot confirmed at all nodes, and whether their bank hashes for it are equal.
pub fn compare(cluster: &Cluster, stop: &StopSignal) -> Result<(u64, bool), LocalError> {
    let rpcs = cluster.nodes.iter().map(|node| node_rpc::at(&node.rpc())).collect::<Result<Vec<_>, _>>()?;
    let mut slots = vec![];
    for (number, rpc) in rpcs.iter().enumerate() {
        let slot = rpc.call("getSlot", &json!([{ "commitment": "confirmed" }])).ok().and_then(|slot| slot.as_u64());
        slots.push(slot.ok_or_else(|| gone(cluster, number))?);
    }
    let slot = slots.into_iter().min().unwrap_or(0);
    let mut hashes: Vec<Value> = vec![];
    for (number, rpc) in rpcs.iter().enumerate() {
        let begun = Instant::now();
        let hash = loop {
            match rpc.call("getSlotChanges", &json!([slot, { "limit": 1 }])) {
                Ok(changes) if changes["bankHash"].is_string() => break changes["bankHash"].clone(),
                _ if begun.elapsed() > PATIENCE => return Err(gone(cluster, number)),
                _ => wait(LOOK_EVERY, stop)?,
            }
        };
        hashes.push(hash);
    }
    Ok((slot, hashes.iter().all(|hash| *hash == hashes[0])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_what_a_slot_brings() {
        // 168,800 transfers a second are the cluster's 100,000,000 in 400 ms.
        let cost = cost_of(168_800.0);
        assert!((cost as f64 / 1e8 - 1.0).abs() < 1e-3, "{cost}");
        assert_eq!(cost_of(2_000.0) - cost_of(1_000.0), 400 * 1_481);
    }
}

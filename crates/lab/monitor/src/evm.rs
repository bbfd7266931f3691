//! The part of a sample that only an EVM node has: its blocks, their gas and phases, and its pool.
//!
//! reads   two [`NodeCounters`]s
//! writes  [`EvmSample`]

use hearth_tile::topology::Topology;
use serde::Serialize;

use crate::latency::Stage;
use crate::node_counters::NodeCounters;

/// The kind of tile that executes in an EVM node.
pub(crate) const EXEC: &str = "exec";

/// An EVM node in the time between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EvmSample {
    /// Transactions received per second.
    pub submitted_per_s: f64,
    /// Received transactions per second that the pool already had.
    pub known_per_s: f64,
    /// Transactions in the pool behind a gap in their account's nonces.
    pub queued: u64,
    /// Blocks committed per second.
    pub blocks_per_s: f64,
    /// Gas used per second.
    pub gas_per_s: f64,
    /// Gas limit of the newest block.
    pub gas_limit: u64,
    /// How long each phase of the blocks took.
    pub block_parts: Vec<Stage>,
}

impl EvmSample {
    /// Computes what happened between two looks at the same node; `None` if it is no EVM node.
    pub(crate) fn between(
        topology: &Topology,
        before: &NodeCounters,
        after: &NodeCounters,
        seconds: f64,
    ) -> Option<Self> {
        if !topology.tiles.iter().any(|tile| tile.kind == EXEC) {
            return None;
        }
        let rate = |kind: &str, counter: &str| {
            let [then, now] = [before, after].map(|look| look.total(topology, kind, counter));
            now.saturating_sub(then) as f64 / seconds
        };
        Some(Self {
            submitted_per_s: rate("recover", "submitted"),
            known_per_s: rate("pool", "known"),
            queued: after.total(topology, "pool", "queued"),
            blocks_per_s: rate("commit", "blocks"),
            gas_per_s: rate(EXEC, "gas"),
            gas_limit: after.total(topology, EXEC, "gas_limit"),
            block_parts: after.block_parts(topology).since(&before.block_parts(topology)),
        })
    }
}

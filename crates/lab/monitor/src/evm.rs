//! What only an EVM node has: blocks with gas that are made part by part, and a pool that does not take everything.
//!
//! reads   two [`Look`]s
//! writes  [`EvmSample`]

use hearth_tile::topology::Topology;
use serde::Serialize;

use crate::latency::Stage;
use crate::look::Look;

/// The kind of tile that executes in an EVM node.
pub(crate) const EXEC: &str = "exec";

/// An EVM node in the time between two looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EvmSample {
    /// Transactions that came, a second.
    pub submitted_per_s: f64,
    /// Of these, those that the pool had already.
    pub known_per_s: f64,
    /// Transactions in the pool that wait behind a gap in their account's nonces.
    pub queued: u64,
    /// Blocks made a second.
    pub blocks_per_s: f64,
    /// Gas that they used, a second.
    pub gas_per_s: f64,
    /// Gas that the newest block might have used.
    pub gas_limit: u64,
    /// How long each part of them took.
    pub block_parts: Vec<Stage>,
}

impl EvmSample {
    /// What happened between two looks at the same node; `None` where that is no EVM node.
    pub(crate) fn between(topology: &Topology, before: &Look, after: &Look, seconds: f64) -> Option<Self> {
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

//! What tiles may hold at most, and what they say that they hold.
//!
//! reads   the gauges of a node's tiles
//! writes  the first that is above its bound
//! memory  a number for each gauge
//! drops   nothing
//!
//! The bounds are those from which `hearth config show --memory` computes bytes. A tile without a gauge, such as gossip
//! or rserve, is not here.

use hearth_node::boot;
use hearth_node::config::Config;
use hearth_pipeline::links::STAKED_MAX;
use hearth_pipeline::{pack, repair, shred, txsend};

use crate::node::{DEDUP_HISTORY, Node, PACK_ACCOUNTS, PACK_CAPACITY};

/// A gauge of a tile, and the most that it may show.
struct Bound {
    tile: &'static str,
    gauge: &'static str,
    most: usize,
}

/// The bounds of all tiles.
pub struct Bounds(Vec<Bound>);

impl Default for Bounds {
    fn default() -> Self {
        let server = boot::server_config(&Config::default().tiles.quic);
        let bounds = [
            ("quic", "connections", server.slots_max()),
            ("quic", "half_open", server.half_open_max),
            ("quic", "unread_bytes", server.slots_max().saturating_mul(server.unread_bytes_max())),
            ("quic", "staked_identities", STAKED_MAX),
            ("dedup", "remembered", DEDUP_HISTORY),
            ("pack", "pending", PACK_CAPACITY + pack::LOOKUPS_MAX),
            ("pack", "accounts", PACK_ACCOUNTS),
            ("shred", "unsigned", shred::OWN_SETS_MAX),
            ("repair", "slots", repair::SLOTS_MAX),
            ("txsend", "connections", txsend::CONNECTIONS_MAX),
            ("txsend", "waiting", txsend::WAITING_MAX),
        ];
        Self(bounds.map(|(tile, gauge, most)| Bound { tile, gauge, most }).into())
    }
}

impl Bounds {
    /// Says which tile of a node holds more than it may.
    pub fn exceeded(&self, node: &Node) -> Option<String> {
        self.0.iter().find_map(|Bound { tile, gauge, most }| {
            let held = node.counts(tile).find(|(name, _)| name == gauge).map(|(_, held)| held);
            let held = held.unwrap_or_else(|| panic!("{tile} has no gauge {gauge}"));
            let number = node.number();
            (held > *most as u64)
                .then(|| format!("{tile} of node {number} has {gauge} {held}, at most {most} are allowed"))
        })
    }
}

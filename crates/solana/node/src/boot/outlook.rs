//! outlook: what a running node shows its operator, who asks by the admin socket.
//!
//! reads   the ledger, the block store's index, the snapshot taker, gossip's configuration

use std::sync::Arc;

use hearth_gossip::board::Board;
use hearth_ledger::blockstore::Reader;
use hearth_ledger::{Commitment, Ledger};
use hearth_wire::gossip::ContactInfo;

use super::RunningNode;

/// The sources of a node's slots: its ledger, and the block store.
pub(super) struct Position {
    pub ledger: Arc<Ledger>,
    pub blocks: Reader,
}

impl RunningNode {
    /// The newest executed slot, and the newest of which shreds are stored.
    pub fn slots(&self) -> (u64, u64) {
        let Position { ledger, blocks } = &self.at;
        let executed = ledger.slot(Commitment::Processed);
        (executed, blocks.last_slot().unwrap_or(0).max(executed))
    }

    /// Whether the node takes snapshots.
    pub fn takes_snapshots(&self) -> bool {
        self.taker.is_some()
    }

    /// The node's contact info as at its start, and the board that gossip posts to; `None` outside a cluster.
    pub fn gossip(&self) -> Option<(ContactInfo, Arc<Board>)> {
        self.peers.as_ref().map(|peers| (peers.gossip.own, Arc::clone(&peers.board)))
    }
}

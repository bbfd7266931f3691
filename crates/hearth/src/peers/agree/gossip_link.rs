//! gossip_link: what consensus and the tile gossip tell each other.
//!
//! reads   `gossip_tower`: nodes, votes and slots of others, slots whose leaders made two blocks
//! writes  `tower_gossip`: the node's own votes, and its root
//! memory  120 B a node; what was read in one turn: no more than the link holds
//! drops   votes and roots for which the link has no room, counted: each is followed by another

use std::collections::BTreeMap;

use hearth_cluster::gossip::RepairPeer;
use hearth_cluster::view::View;
use hearth_pipeline::links::{PeerNews, STATEMENT_MTU, Statement, TowerNews};
use hearth_pipeline::node::{Inlet, Outlet};
use hearth_wire::Pubkey;

/// What other nodes said since it was read last.
#[derive(Debug, Default)]
pub struct Heard {
    /// Transactions of votes; their signatures are not checked.
    pub votes: Vec<Vec<u8>>,
    /// The slots that a node has, near the root and above it.
    pub slots: BTreeMap<Pubkey, Vec<u64>>,
    /// Slots whose leaders made two blocks.
    pub duplicates: Vec<u64>,
    /// Another process that began later has this node's key.
    pub is_double: bool,
}

/// Both ends.
pub struct GossipLink {
    inlet: Inlet,
    outlet: Outlet,
    view: View,
    lost: u64,
}

impl GossipLink {
    /// The links of the node `own`.
    pub fn new(own: Pubkey, inlet: Inlet, outlet: Outlet) -> Self {
        Self { inlet, outlet, view: View::new(own), lost: 0 }
    }

    /// Has a vote said.
    pub fn say(&mut self, transaction: &[u8]) {
        self.state(Statement::Vote(transaction));
    }

    /// Slots up to this one are of no interest any more.
    pub fn set_root(&mut self, slot: u64) {
        self.state(Statement::Root(slot));
    }

    fn state(&mut self, statement: Statement<'_>) {
        let mut message = [0; STATEMENT_MTU];
        let size = statement.write(&mut message);
        self.lost += u64::from(self.inlet.send(&message[..size]).is_err());
    }

    /// What there was no room for.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The nodes that serve shreds.
    pub fn repair(&self) -> &[RepairPeer] {
        self.view.repair()
    }

    /// Reads what is there.
    pub fn heard(&mut self) -> Heard {
        let mut heard = Heard::default();
        let Self { outlet, view, .. } = self;
        outlet.read(|message| match TowerNews::read(message) {
            TowerNews::Peer(PeerNews::Known(peer)) => view.put(&peer),
            TowerNews::Peer(PeerNews::Gone(node)) => view.remove(&node),
            TowerNews::Vote(transaction) => heard.votes.push(transaction.to_vec()),
            TowerNews::Slots(node, near) => heard.slots.entry(node).or_default().extend(near.slots()),
            TowerNews::Duplicate(slot) => heard.duplicates.push(slot),
            TowerNews::Double => heard.is_double = true,
        });
        heard
    }
}

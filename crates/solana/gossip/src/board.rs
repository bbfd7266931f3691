//! Publishes gossip's knowledge to code outside the tiles.
//!
//! reads   the table of gossip, when its nodes have changed
//! writes  nodes and snapshots, for the RPC and for a joining node
//! memory  some 400 B per node, twice during an update
//!
//! Both the gossip tile and the thread of a joining node, which has no tiles yet, post here.

use std::net::SocketAddrV4;
use std::sync::Arc;

use hearth_wire::gossip::{ContactInfo, SocketKind};
use hearth_wire::{Hash, Pubkey};
use parking_lot::Mutex;

use crate::Gossip;

/// A snapshot that a node announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedSnapshot {
    /// Identity of the node that announces it.
    pub identity: Pubkey,
    /// The address at which the node serves it over HTTP; `None` if it does not.
    pub rpc: Option<SocketAddrV4>,
    /// The slot of the full snapshot.
    pub slot: u64,
    /// The hash of its bank, or that in the name of an archive of the cluster's.
    pub hash: Hash,
    /// Slot and hash of the newest incremental archive on it.
    pub incremental: Option<(u64, Hash)>,
}

/// The nodes known to gossip, and their snapshots.
#[derive(Default)]
pub struct Board {
    nodes: Mutex<Arc<Vec<ContactInfo>>>,
    snapshots: Mutex<Vec<AnnouncedSnapshot>>,
}

impl Board {
    /// Posts the current state of gossip.
    pub fn post(&self, gossip: &Gossip) {
        let others = gossip.contact_infos().filter(|contact| contact.pubkey != *gossip.identity());
        let served = others.filter_map(|contact| {
            let hashes = gossip.snapshot_hashes(&contact.pubkey)?;
            let ((slot, hash), rpc) = (hashes.full, gossip.socket(contact, SocketKind::Rpc));
            let incremental = hashes.incremental.iter().max_by_key(|(slot, _)| *slot).copied();
            Some(AnnouncedSnapshot { identity: contact.pubkey, rpc, slot, hash, incremental })
        });
        *self.snapshots.lock() = served.collect();
        let nodes = gossip.contact_infos().map(|contact| gossip.reachable(contact)).collect();
        *self.nodes.lock() = Arc::new(nodes);
    }

    /// The known nodes, including this one, each with its usable sockets.
    pub fn nodes(&self) -> Arc<Vec<ContactInfo>> {
        Arc::clone(&self.nodes.lock())
    }

    /// The snapshots that nodes announce.
    pub fn snapshots(&self) -> Vec<AnnouncedSnapshot> {
        self.snapshots.lock().clone()
    }
}

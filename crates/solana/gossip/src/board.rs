//! What gossip shows to those who are no tiles.
//!
//! reads   the table of gossip, when something of its nodes has changed
//! writes  nodes and snapshots, for the RPC and for a node that joins
//! memory  some 400 B a node, twice while it is replaced
//!
//! Gossip's tile posts, and so does the thread of a node that joins, before it has tiles.

use std::net::SocketAddrV4;
use std::sync::Arc;

use hearth_wire::gossip::{ContactInfo, SocketKind};
use hearth_wire::{Hash, Pubkey};
use parking_lot::Mutex;

use crate::Gossip;

/// A snapshot that a node says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The node.
    pub identity: Pubkey,
    /// Where it serves it; `None`: nowhere.
    pub rpc: Option<SocketAddrV4>,
    /// Its slot.
    pub slot: u64,
    /// The hash of its bank.
    pub hash: Hash,
}

/// The nodes that gossip knows, and their snapshots.
#[derive(Default)]
pub struct Board {
    nodes: Mutex<Arc<Vec<ContactInfo>>>,
    snapshots: Mutex<Vec<Served>>,
}

impl Board {
    /// Posts what gossip knows now.
    pub fn post(&self, gossip: &Gossip) {
        let others = gossip.contact_infos().filter(|contact| contact.pubkey != *gossip.identity());
        let served = others.filter_map(|contact| {
            let (slot, hash) = gossip.snapshot_hashes(&contact.pubkey)?.full;
            Some(Served { identity: contact.pubkey, rpc: gossip.socket(contact, SocketKind::Rpc), slot, hash })
        });
        *self.snapshots.lock() = served.collect();
        let nodes = gossip.contact_infos().map(|contact| gossip.reachable(contact)).collect();
        *self.nodes.lock() = Arc::new(nodes);
    }

    /// The nodes that gossip knows, this one too, each with the sockets that something may be sent to.
    pub fn nodes(&self) -> Arc<Vec<ContactInfo>> {
        Arc::clone(&self.nodes.lock())
    }

    /// The snapshots that nodes say they have.
    pub fn snapshots(&self) -> Vec<Served> {
        self.snapshots.lock().clone()
    }
}

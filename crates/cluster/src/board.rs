//! What gossip shows to the rest of the node.
//!
//! reads   the table of gossip, ten times a second
//! writes  views for the tiles; nodes and snapshots, for the RPC and for a node that joins
//! memory  some 200 B a node, twice while it is replaced; what [`Talk`] and [`Views`] hold
//!
//! Gossip's tile posts, and so does the thread of a node that joins, before it has tiles.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use hearth_wire::gossip::{ContactInfo, SocketKind};
use hearth_wire::{Hash, Pubkey};

use crate::gossip::Gossip;
use crate::talk::Talk;
use crate::view::{View, Views};

/// A snapshot that a node says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Who.
    pub identity: Pubkey,
    /// Where it serves it; `None`: nowhere.
    pub rpc: Option<SocketAddrV4>,
    /// Its slot.
    pub slot: u64,
    /// The hash of its bank.
    pub hash: Hash,
}

/// What gossip knows, for others to look at.
#[derive(Default)]
pub struct Board {
    /// For the tiles.
    pub views: Arc<Views>,
    /// Votes and slots, from and for consensus.
    pub talk: Talk,
    nodes: Mutex<Arc<Vec<ContactInfo>>>,
    snapshots: Mutex<Vec<Served>>,
    is_double: AtomicBool,
}

impl Board {
    /// Posts what gossip knows now.
    pub fn post(&self, gossip: &Gossip) {
        let others = || gossip.contact_infos().filter(|contact| contact.pubkey != *gossip.identity());
        self.views.put(View {
            own_tvu: gossip.own().socket(SocketKind::Tvu),
            tvu: gossip.tvu_peers().collect(),
            repair: gossip.repair_peers().collect(),
            tpu: others()
                .map(|contact| {
                    let socket = |kind| gossip.socket(contact, kind);
                    (contact.pubkey, socket(SocketKind::TpuQuic), socket(SocketKind::TpuVoteQuic))
                })
                .collect(),
        });
        let served = others().filter_map(|contact| {
            let (slot, hash) = gossip.snapshot_hashes(&contact.pubkey)?.full;
            Some(Served { identity: contact.pubkey, rpc: gossip.socket(contact, SocketKind::Rpc), slot, hash })
        });
        *self.snapshots.lock().unwrap_or_else(PoisonError::into_inner) = served.collect();
        let nodes = gossip.contact_infos().map(|contact| gossip.reachable(contact)).collect();
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(nodes);
    }

    /// The nodes that gossip knows, this one too, each with the sockets that something may be sent to.
    pub fn nodes(&self) -> Arc<Vec<ContactInfo>> {
        Arc::clone(&self.nodes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The snapshots that nodes say they have.
    pub fn snapshots(&self) -> Vec<Served> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another process has this node's key.
    pub fn set_double(&self) {
        self.is_double.store(true, SeqCst);
    }

    /// Whether that was found.
    pub fn is_double(&self) -> bool {
        self.is_double.load(SeqCst)
    }
}

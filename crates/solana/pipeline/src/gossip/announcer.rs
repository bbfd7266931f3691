//! announcer: keeps one consumer up to date about the nodes of the cluster.
//!
//! reads   the nodes that gossip knows
//! writes  one message for each node that is new, has changed, or is gone
//! memory  [`PEER_BYTES`] for each node that the consumer knows
//! drops   states superseded before there is room: the consumer gets the newest
//!
//! Each consumer has its own announcer, so that a stalled one does not delay the others.

use std::collections::BTreeMap;

use hearth_gossip::Peer;
use hearth_tile::{Out, Port};
use hearth_wire::Pubkey;

use super::Gossip;
use crate::links::PeerNews;

/// Bytes per node, including its place in the map.
pub(super) const PEER_BYTES: u64 = 160;
// B-tree nodes are usually at least two thirds full.
const _: () = assert!(size_of::<Peer>() + size_of::<Pubkey>() <= PEER_BYTES as usize / 6 * 5);

/// The node news that a consumer has received, and its link.
pub(super) struct Announcer {
    port: Port,
    known: BTreeMap<Pubkey, Peer>,
    /// Whether it knows less than gossip did at the last call.
    is_behind: bool,
}

impl Announcer {
    pub fn new(port: Port) -> Self {
        Self { port, known: BTreeMap::new(), is_behind: false }
    }

    /// Whether news remains for which there was no room.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Announces what has changed, as far as there is room.
    pub fn announce(&mut self, peers: &BTreeMap<Pubkey, Peer>, out: &mut Out<'_, Gossip>) {
        self.is_behind = false;
        let gone: Vec<Pubkey> = self.known.keys().filter(|node| !peers.contains_key(*node)).copied().collect();
        for node in gone {
            if !self.say(PeerNews::Gone(node), out) {
                return;
            }
            self.known.remove(&node);
        }
        for peer in peers.values() {
            if self.known.get(&peer.identity) == Some(peer) {
                continue;
            }
            if !self.say(PeerNews::Known(*peer), out) {
                return;
            }
            self.known.insert(peer.identity, *peer);
        }
    }

    fn say(&mut self, news: PeerNews, out: &mut Out<'_, Gossip>) -> bool {
        self.is_behind = out.credits(self.port, 1) == 0;
        if self.is_behind {
            out.held_up();
        } else {
            out.publish_with(self.port, 0, |buffer| news.write(buffer));
        }
        !self.is_behind
    }
}

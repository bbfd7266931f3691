//! announcer: keeps one reader up to date about the nodes of the cluster.
//!
//! reads   the nodes that gossip knows
//! writes  one message for each that is new, has changed, or is gone
//! memory  [`PEER_BYTES`] for each node that the reader knows
//! drops   states of a node that a newer one follows before there is room: the reader learns the newest
//!
//! Each reader has an announcer of its own, so that one that does not read holds up no other.

use std::collections::BTreeMap;

use hearth_gossip::Peer;
use hearth_tile::{Out, Port};
use hearth_wire::Pubkey;

use super::Gossip;
use crate::links::PeerNews;

/// What a node takes, with its place in the map, bytes.
pub(super) const PEER_BYTES: u64 = 160;
// Nodes of a B-tree are two thirds full or more, as a rule.
const _: () = assert!(size_of::<Peer>() + size_of::<Pubkey>() <= PEER_BYTES as usize / 6 * 5);

/// What a reader knows.
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

    /// Whether something is left to say that there was no room for.
    pub fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Says what has changed, as far as there is room.
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

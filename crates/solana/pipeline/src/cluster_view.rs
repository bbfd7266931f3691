//! What a tile knows of the other nodes of its cluster.
//!
//! reads   [`Peer`]s: gossip sends one when something of a node has changed
//! writes  the nodes, by what they are for
//! memory  some 120 B a node
//!
//! Each tile has a view of its own, so that none of them waits for another.

use std::net::SocketAddrV4;

use hearth_gossip::Peer;
use hearth_turbine::Contact;
use hearth_wire::Pubkey;

/// A node that can be asked for shreds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPeer {
    /// Who.
    pub identity: Pubkey,
    /// Where it takes requests.
    pub serve_repair: SocketAddrV4,
    /// Its stake, lamports.
    pub stake: u64,
    /// The lowest slot of which it says that it has shreds; 0 where it says nothing.
    pub lowest: u64,
}

/// The nodes that take shreds and serve them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    own: Pubkey,
    own_tvu: Option<SocketAddrV4>,
    tvu: Vec<Contact>,
    repair: Vec<RepairPeer>,
    number: u64,
}

impl View {
    /// A view of the node `own`, which knows no node yet.
    pub fn new(own: Pubkey) -> Self {
        Self { own, own_tvu: None, tvu: vec![], repair: vec![], number: 0 }
    }

    /// Takes note of what gossip says of a node now.
    pub fn put(&mut self, peer: &Peer) {
        let identity = peer.identity;
        if identity == self.own {
            self.number += u64::from(self.own_tvu != peer.tvu);
            self.own_tvu = peer.tvu;
            return;
        }
        let contact = peer.tvu.map(|tvu| Contact { identity, address: Some(tvu.into()) });
        // What takes no shreds has none to serve.
        let server = peer.tvu.and(peer.serve_repair);
        let &Peer { stake, lowest, .. } = peer;
        let server = server.map(|serve_repair| RepairPeer { identity, serve_repair, stake, lowest });
        self.number += u64::from(set(&mut self.tvu, &identity, contact, |contact| &contact.identity));
        set(&mut self.repair, &identity, server, |server| &server.identity);
    }

    /// Forgets a node.
    pub fn remove(&mut self, identity: &Pubkey) {
        self.number += u64::from(set(&mut self.tvu, identity, None, |contact| &contact.identity));
        set(&mut self.repair, identity, None, |server| &server.identity);
    }

    /// How often the nodes that take shreds have changed.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where this node takes shreds.
    pub fn own_tvu(&self) -> Option<SocketAddrV4> {
        self.own_tvu
    }

    /// The other nodes that take shreds, by their keys.
    pub fn tvu(&self) -> &[Contact] {
        &self.tvu
    }

    /// The other nodes that serve shreds, by their keys.
    pub fn repair(&self) -> &[RepairPeer] {
        &self.repair
    }
}

/// Sets the item of a key in a list that is sorted by keys, or takes it out. Returns whether that changes anything.
fn set<T: PartialEq>(list: &mut Vec<T>, key: &Pubkey, item: Option<T>, key_of: impl Fn(&T) -> &Pubkey) -> bool {
    match (list.binary_search_by(|other| key_of(other).cmp(key)), item) {
        (Ok(at), Some(item)) if list[at] == item => return false,
        (Ok(at), Some(item)) => list[at] = item,
        (Ok(at), None) => drop(list.remove(at)),
        (Err(at), Some(item)) => list.insert(at, item),
        (Err(_), None) => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(node: u8, port: u16) -> Peer {
        let address = |port| Some(SocketAddrV4::new([10, 0, 0, node].into(), port));
        Peer {
            identity: [node; 32],
            tvu: address(port),
            serve_repair: address(port + 1),
            tpu_quic: None,
            tpu_vote_quic: None,
            stake: 5,
            lowest: 0,
        }
    }

    fn nodes(view: &View) -> (Vec<u8>, Vec<u8>) {
        let tvu = view.tvu().iter().map(|contact| contact.identity[0]);
        (tvu.collect(), view.repair().iter().map(|server| server.identity[0]).collect())
    }

    #[test]
    fn a_node_is_where_it_said_last() {
        let mut view = View::new([1; 32]);
        [3, 2, 1].into_iter().for_each(|node| view.put(&peer(node, 8_000)));
        assert_eq!(nodes(&view), (vec![2, 3], vec![2, 3]));
        assert_eq!(view.own_tvu(), peer(1, 8_000).tvu);
        let number = view.number();
        view.put(&peer(2, 8_000));
        view.put(&Peer { lowest: 7, ..peer(3, 8_000) });
        assert_eq!((view.number(), view.repair()[1].lowest), (number, 7), "the tree is the same");
        view.put(&peer(2, 9_000));
        assert_eq!((view.number(), view.tvu()[0].address), (number + 1, peer(2, 9_000).tvu.map(Into::into)));
    }

    #[test]
    fn node_without_tvu_is_in_no_tree() {
        let mut view = View::new([1; 32]);
        view.put(&Peer { tvu: None, ..peer(2, 8_000) });
        assert_eq!((nodes(&view), view.number()), ((vec![], vec![]), 0));
        view.put(&peer(2, 8_000));
        view.put(&Peer { serve_repair: None, ..peer(2, 8_000) });
        assert_eq!(nodes(&view), (vec![2], vec![]));
        view.remove(&[2; 32]);
        view.remove(&[3; 32]);
        assert_eq!((nodes(&view), view.number()), ((vec![], vec![]), 2));
    }
}

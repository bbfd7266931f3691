//! cluster_view: what a tile knows of the other nodes of its cluster.
//!
//! reads   [`Peer`]s: gossip sends one whenever a node changes
//! writes  the nodes, by their role
//! memory  about 120 B per node
//!
//! Each tile has its own view, so that no tile waits for another.

use std::net::SocketAddrV4;

use hearth_gossip::Peer;
use hearth_turbine::Contact;
use hearth_wire::Pubkey;

/// A node that serves repair requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPeer {
    /// Public key that identifies the node in gossip.
    pub identity: Pubkey,
    /// The address for requests.
    pub serve_repair: SocketAddrV4,
    /// Its stake in lamports.
    pub stake: u64,
    /// The lowest slot for which it claims to have shreds; 0 if it claims nothing.
    pub lowest: u64,
}

/// The nodes that receive shreds and those that serve them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    own: Pubkey,
    own_tvu: Option<SocketAddrV4>,
    tvu: Vec<Contact>,
    repair: Vec<RepairPeer>,
    number: u64,
}

impl View {
    /// Creates the view of the node `own`, without any other nodes.
    pub fn new(own: Pubkey) -> Self {
        Self { own, own_tvu: None, tvu: vec![], repair: vec![], number: 0 }
    }

    /// The node has another identity, at the same addresses.
    pub fn set_own(&mut self, own: Pubkey) {
        self.remove(&own);
        self.own = own;
        self.number += 1;
    }

    /// Applies gossip's latest state of a node.
    pub fn put(&mut self, peer: &Peer) {
        let identity = peer.identity;
        if identity == self.own {
            self.number += u64::from(self.own_tvu != peer.tvu);
            self.own_tvu = peer.tvu;
            return;
        }
        let contact = peer.tvu.map(|tvu| Contact { identity, address: Some(tvu.into()) });
        // A node that receives no shreds has none to serve.
        let server = peer.tvu.and(peer.serve_repair);
        let &Peer { stake, lowest, .. } = peer;
        let server = server.map(|serve_repair| RepairPeer { identity, serve_repair, stake, lowest });
        self.number += u64::from(set(&mut self.tvu, &identity, contact, |contact| &contact.identity));
        set(&mut self.repair, &identity, server, |server| &server.identity);
    }

    /// Removes a node that gossip no longer knows, if it is here.
    pub fn remove(&mut self, identity: &Pubkey) {
        self.number += u64::from(set(&mut self.tvu, identity, None, |contact| &contact.identity));
        set(&mut self.repair, identity, None, |server| &server.identity);
    }

    /// How often the set of nodes that receive shreds has changed.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The address at which this node receives shreds; `None` until gossip knows one.
    pub fn own_tvu(&self) -> Option<SocketAddrV4> {
        self.own_tvu
    }

    /// The other nodes that receive shreds, sorted by key.
    pub fn tvu(&self) -> &[Contact] {
        &self.tvu
    }

    /// The other nodes that serve shreds, sorted by key.
    pub fn repair(&self) -> &[RepairPeer] {
        &self.repair
    }
}

/// Sets or removes the item of a key in a list sorted by key. Returns whether that changes anything.
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
    fn newest_contact_info_counts() {
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
    fn another_identity_is_no_other_node() {
        let mut view = View::new([1; 32]);
        [1, 2, 3].into_iter().for_each(|node| view.put(&peer(node, 8_000)));
        let number = view.number();
        view.set_own([2; 32]);
        assert_eq!(nodes(&view), (vec![3], vec![3]));
        assert!(view.number() > number, "trees are made again");
        assert_eq!(view.own_tvu(), peer(1, 8_000).tvu, "it is where it was");
        view.put(&peer(2, 8_500));
        assert_eq!((nodes(&view), view.own_tvu()), ((vec![3], vec![3]), peer(2, 8_500).tvu));
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

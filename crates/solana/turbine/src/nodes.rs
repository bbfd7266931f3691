//! The nodes of an epoch, and a shred's path among them.
//!
//! reads   the nodes known to gossip, the stakes
//! writes  a shred's root node, a node's retransmit children and its parent
//! memory  64 B per node; a set is made once per epoch, and again when gossip's nodes change
//! source  `solana-turbine` 4.2.2, `cluster_nodes.rs`

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use hearth_wire::Pubkey;

use super::random::{Cipher, Random, ShredId};
use super::shuffle::{Draws, Scratch, WeightedShuffle};
use super::tree;

/// A node as gossip knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The node's identity: its Ed25519 public key.
    pub identity: Pubkey,
    /// The UDP socket that takes shreds (TVU). Without one a node other than our own counts as unknown to gossip.
    pub address: Option<SocketAddr>,
}

/// A node of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node's identity: its Ed25519 public key.
    pub identity: Pubkey,
    /// Its stake in lamports.
    pub stake: u64,
    /// Its TVU socket; `None` if gossip does not know it.
    pub address: Option<SocketAddr>,
}

/// The error for a leader's own shred, which it does not retransmit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the leader of a slot does not send its shreds on")]
pub struct Loopback;

/// A node's part in a shred's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retransmit {
    /// Hops from the tree's root if the node has children; `None` if it is a leaf, or not in the tree.
    pub distance: Option<u32>,
}

/// The nodes of an epoch, by stake.
#[derive(Clone, Debug)]
pub struct NodeSet {
    nodes: Vec<Node>,
    places: HashMap<Pubkey, usize>,
    own: Pubkey,
    shuffle: WeightedShuffle,
    cipher: Cipher,
    fanout: usize,
}

impl NodeSet {
    /// A set of this node, the nodes known to gossip, and those with stake. Except on development clusters only one
    /// node per address is used (`is_one_an_address`).
    pub fn new(
        own: Contact,
        known: &[Contact],
        stakes: &HashMap<Pubkey, u64>,
        cipher: Cipher,
        is_one_an_address: bool,
    ) -> Self {
        let stake = |identity: &Pubkey| stakes.get(identity).copied().unwrap_or_default();
        let others = known.iter().filter(|contact| contact.identity != own.identity && contact.address.is_some());
        let contacts = [&own].into_iter().chain(others);
        let of = |contact: &Contact| {
            let Contact { identity, address } = *contact;
            (Node { identity, stake: stake(&identity), address }, true)
        };
        let unknown = stakes.iter().filter(|(_, stake)| **stake > 0);
        let unknown =
            unknown.map(|(identity, stake)| (Node { identity: *identity, stake: *stake, address: None }, false));
        let mut all: Vec<(Node, bool)> = contacts.map(of).chain(unknown).collect();
        // Of two entries for a node the one known to gossip comes first, and is kept.
        all.sort_by(|(a, a_known), (b, b_known)| (b.stake, b.identity, b_known).cmp(&(a.stake, a.identity, a_known)));
        all.dedup_by_key(|(node, _)| node.identity);
        let mut nodes: Vec<Node> = all.into_iter().map(|(node, _)| node).collect();
        if is_one_an_address {
            one_an_address(&mut nodes);
        }
        let places = nodes.iter().enumerate().map(|(place, node)| (node.identity, place)).collect();
        let weights: Vec<u64> = nodes.iter().map(|node| node.stake).collect();
        let shuffle = WeightedShuffle::new(&weights);
        Self { nodes, places, own: own.identity, shuffle, cipher, fanout: tree::FANOUT }
    }

    /// Sets a fanout other than the cluster's.
    pub fn with_fanout(self, fanout: usize) -> Self {
        Self { fanout: fanout.max(1), ..self }
    }

    /// The nodes in descending order of stake.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The index of a node in [`Self::nodes`].
    pub fn place(&self, identity: &Pubkey) -> Option<usize> {
        self.places.get(identity).copied()
    }

    fn draw<'a>(&'a self, shred: &ShredId, leader: &Pubkey, scratch: &'a mut Scratch) -> (Draws<'a>, usize) {
        let without = self.place(leader);
        let random = Random::new(self.cipher, shred.seed(leader));
        (self.shuffle.draw(without, random, scratch), self.nodes.len() - usize::from(without.is_some()))
    }

    /// The node to which the leader sends a shred.
    pub fn root(&self, shred: &ShredId, leader: &Pubkey, scratch: &mut Scratch) -> Option<&Node> {
        let (mut order, _) = self.draw(shred, leader, scratch);
        order.next().map(|place| &self.nodes[place])
    }

    /// The order of all nodes but the leader, over which the tree is built by [`crate::children`].
    pub fn order(&self, shred: &ShredId, leader: &Pubkey, scratch: &mut Scratch, order: &mut Vec<u32>) {
        order.clear();
        order.extend(self.draw(shred, leader, scratch).0.map(|place| place as u32));
    }

    /// Collects the nodes to which this one retransmits a shred, as indices in [`Self::nodes`], in `children`. Draws
    /// only as much of the order as necessary: for most shreds a node is a leaf.
    ///
    /// # Errors
    ///
    /// This node is the leader.
    pub fn retransmit(
        &self,
        shred: &ShredId,
        leader: &Pubkey,
        scratch: &mut Scratch,
        children: &mut Vec<usize>,
    ) -> Result<Retransmit, Loopback> {
        children.clear();
        if *leader == self.own {
            return Err(Loopback);
        }
        let own = self.place(&self.own);
        let (order, count) = self.draw(shred, leader, scratch);
        let parents = tree::parents(self.fanout, count);
        let mut order = order.enumerate();
        let found = order.by_ref().take(parents).find(|(_, place)| Some(*place) == own);
        let Some((position, _)) = found else { return Ok(Retransmit { distance: None }) };
        let mut wanted = tree::children(position, self.fanout, count).peekable();
        while let Some(next) = wanted.peek() {
            let Some((at, place)) = order.next() else { break };
            if at == *next {
                children.push(place);
                wanted.next();
            }
        }
        Ok(Retransmit { distance: Some(tree::distance(position, self.fanout)) })
    }

    /// The node whose retransmitter signature a shred for this node must have: its parent in the tree. The root has
    /// none, and it is not checked for a node without stake.
    pub fn parent(&self, shred: &ShredId, leader: &Pubkey, scratch: &mut Scratch) -> Option<&Node> {
        let own = self.place(&self.own).filter(|own| *leader != self.own && self.nodes[*own].stake > 0)?;
        let mut seen = std::mem::take(&mut scratch.order);
        seen.clear();
        let (order, _) = self.draw(shred, leader, scratch);
        for place in order {
            if place == own {
                break;
            }
            seen.push(place as u32);
        }
        let parent = tree::parent(seen.len(), self.fanout).map(|position| &self.nodes[seen[position] as usize]);
        scratch.order = seen;
        parent
    }
}

/// Keeps only the first node of each address; removes nodes with neither stake nor address.
fn one_an_address(nodes: &mut Vec<Node>) {
    let mut hosts: HashSet<IpAddr> = HashSet::new();
    for node in nodes.iter_mut() {
        node.address = node.address.filter(|address| hosts.insert(address.ip()));
    }
    nodes.retain(|node| node.stake > 0 || node.address.is_some());
}

#[cfg(test)]
mod tests {
    use hearth_wire::shred::ShredKind;

    use super::*;

    fn contact(name: u8, host: u8) -> Contact {
        Contact { identity: [name; 32], address: Some(SocketAddr::from(([10, 0, 0, host], 8_000))) }
    }

    fn set(own: u8, count: u8, fanout: usize) -> NodeSet {
        let known: Vec<Contact> = (0..count).map(|name| contact(name, name)).collect();
        let stakes = (0..count).map(|name| ([name; 32], u64::from(name % 7) * 1_000)).collect();
        NodeSet::new(contact(own, own), &known, &stakes, Cipher::ChaCha8, false).with_fanout(fanout)
    }

    fn shred(index: u32) -> ShredId {
        ShredId { slot: 7, kind: ShredKind::Data, index }
    }

    #[test]
    fn nodes_are_ordered_by_stake_known_or_not() {
        let known = [contact(1, 1), contact(2, 2), Contact { identity: [3; 32], address: None }];
        let stakes = [([2; 32], 5), ([4; 32], 9), ([3; 32], 5), ([6; 32], 0)].into();
        let set = NodeSet::new(contact(5, 5), &known, &stakes, Cipher::ChaCha20, false);
        let found: Vec<_> =
            set.nodes().iter().map(|node| (node.identity[0], node.stake, node.address.is_some())).collect();
        assert_eq!(found, [(4, 9, false), (3, 5, false), (2, 5, true), (5, 0, true), (1, 0, true)]);
        assert_eq!((set.place(&[2; 32]), set.place(&[6; 32])), (Some(2), None));
    }

    #[test]
    fn of_an_address_one_node_is_sent_shreds() {
        let known = [contact(1, 1), contact(2, 1), contact(3, 1), contact(4, 4)];
        let stakes = [([2; 32], 5), ([3; 32], 3)].into();
        let set = NodeSet::new(contact(5, 5), &known, &stakes, Cipher::ChaCha20, true);
        let found: Vec<_> = set.nodes().iter().map(|node| (node.identity[0], node.address.is_some())).collect();
        assert_eq!(found, [(2, true), (3, false), (5, true), (4, true)]);
    }

    #[test]
    fn all_nodes_agree_on_parents_and_children() {
        for (count, fanout) in [(2, 200), (9, 2), (60, 3), (60, 200)] {
            let sets: Vec<NodeSet> = (0..count).map(|own| set(own, count, fanout)).collect();
            let (mut scratch, mut order, mut children) = (Scratch::default(), Vec::new(), Vec::new());
            for index in 0..20 {
                let (shred, leader) = (shred(index), [index as u8 % count; 32]);
                sets[0].order(&shred, &leader, &mut scratch, &mut order);
                assert_eq!(order.len(), usize::from(count) - 1);
                let root = sets[0].root(&shred, &leader, &mut scratch).expect("others");
                assert_eq!(*root, sets[0].nodes()[order[0] as usize]);
                for set in &sets {
                    let own = set.place(&set.own).expect("in its own set");
                    let position = order.iter().position(|place| *place as usize == own);
                    let plan = set.retransmit(&shred, &leader, &mut scratch, &mut children);
                    let Some(position) = position else {
                        assert_eq!((plan, set.own), (Err(Loopback), leader));
                        continue;
                    };
                    let wanted = tree::children(position, fanout, order.len());
                    let wanted: Vec<usize> = wanted.map(|child| order[child] as usize).collect();
                    assert_eq!(children, wanted);
                    let distance = (!wanted.is_empty()).then(|| tree::distance(position, fanout));
                    assert_eq!(plan.map(|plan| plan.distance), Ok(distance));
                    let parent = tree::parent(position, fanout).map(|parent| set.nodes()[order[parent] as usize]);
                    let parent = parent.filter(|_| set.nodes()[own].stake > 0);
                    assert_eq!(set.parent(&shred, &leader, &mut scratch).copied(), parent);
                }
            }
        }
    }
}

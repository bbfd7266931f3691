//! trees: the Turbine trees: an epoch's nodes, and each node's children in a shred's tree.
//!
//! reads   gossip's contact information; the ledger's stakes
//! writes  roots, parents and children
//! memory  the nodes of two epochs, and 120 B for each node of the cluster; that of senders.rs
//! drops   the nodes of any third epoch, which are rebuilt for the next shred of that epoch
//! source  `solana-turbine` 4.2.2, `cluster_nodes.rs`; `docs/cluster-protocol.md`, section 1

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_turbine::{Contact, NodeSet, Scratch, ShredId};
use hearth_wire::Pubkey;
use hearth_wire::shred::Shred as Piece;

use super::arrival::{Arrival, ShredRefusal, ShredSource};
use super::check::VerifiedShred;
use super::cluster::Cluster;
use super::features::Features;
use super::parse::leading_shred;
use super::senders::Senders;
use crate::cluster_view::View;
use crate::links::PeerNews;

/// The nodes of an epoch are rebuilt after this long if gossip has changed.
const NODES_NS: u64 = 1_000_000_000;

/// The nodes of a shred's trees.
struct Nodes {
    set: NodeSet,
    features: Features,
    /// Whether the ledger had reached the epoch before, so that the features are certain.
    is_certain: bool,
    view: u64,
    made_ns: u64,
}

/// The trees of the epochs in use.
pub(super) struct Trees {
    own: Pubkey,
    ledger: Arc<Ledger>,
    view: View,
    nodes: BTreeMap<u64, Nodes>,
    scratch: Scratch,
    children: Vec<usize>,
    senders: Senders,
}

fn id(shred: &Piece<'_>) -> ShredId {
    ShredId { slot: shred.slot(), kind: shred.variant().kind, index: shred.index() }
}

impl Trees {
    pub fn new(cluster: &Cluster) -> Self {
        Self {
            own: cluster.receiver.own,
            ledger: Arc::clone(&cluster.ledger),
            view: View::new(cluster.receiver.own),
            nodes: BTreeMap::new(),
            scratch: Scratch::default(),
            children: vec![],
            senders: Senders::new(),
        }
    }

    /// The node has another identity, and another place in the trees.
    pub fn set_own(&mut self, own: Pubkey) {
        self.own = own;
        self.view.set_own(own);
        self.nodes.clear();
    }

    /// Applies gossip's news of a node.
    pub fn peer(&mut self, news: PeerNews) {
        match news {
            PeerNews::Known(peer) => self.view.put(&peer),
            PeerNews::Gone(node) => self.view.remove(&node),
        }
    }

    /// Adds to `roots` the address to which this node, as the leader, sends each shred of a set: the root of its tree.
    pub fn roots(&mut self, shreds: &[&[u8]], now: u64, roots: &mut BTreeMap<SocketAddr, Vec<usize>>) {
        for (place, bytes) in shreds.iter().enumerate() {
            let Ok(shred) = leading_shred(bytes) else { continue };
            let epoch = self.freshen(shred.slot(), now);
            let nodes = &self.nodes[&epoch].set;
            if let Some(to) = nodes.root(&id(&shred), &self.own, &mut self.scratch).and_then(|node| node.address) {
                roots.entry(to).or_default().push(place);
            }
        }
    }

    /// Verifies that the parent in the tree has signed the shred that it retransmitted, if the epoch requires it.
    ///
    /// # Errors
    /// The signature is missing or wrong.
    pub fn check_sender(
        &mut self,
        shred: &Piece<'_>,
        genuine: &VerifiedShred,
        arrival: Arrival,
    ) -> Result<(), ShredRefusal> {
        let Some(signature) = shred.retransmitter_signature() else { return Ok(()) };
        if arrival.source == ShredSource::Repair {
            return Ok(());
        }
        let epoch = self.freshen(shred.slot(), arrival.now_ns);
        if !self.nodes[&epoch].features.retransmitters_sign {
            return Ok(());
        }
        let parent = self.nodes[&epoch].set.parent(&id(shred), &genuine.leader, &mut self.scratch);
        let is_signed =
            parent.is_none_or(|parent| self.senders.have_signed(&parent.identity, &genuine.root, &signature));
        if is_signed { Ok(()) } else { Err(ShredRefusal::Sender) }
    }

    /// The addresses of this node's children in a shred's tree.
    pub fn children(&mut self, shred: &Piece<'_>, leader: &Pubkey, now: u64) -> impl Iterator<Item = SocketAddr> {
        let epoch = self.freshen(shred.slot(), now);
        let nodes = &self.nodes[&epoch].set;
        if nodes.retransmit(&id(shred), leader, &mut self.scratch, &mut self.children).is_err() {
            self.children.clear();
        }
        self.children.iter().filter_map(move |child| nodes.nodes()[*child].address)
    }

    /// Whether retransmitters must sign shreds of a slot's last set.
    pub fn retransmitters_sign(&self, slot: u64) -> bool {
        let epoch = self.ledger.epoch_schedule().epoch(slot);
        match self.nodes.get(&epoch) {
            Some(nodes) => nodes.features.retransmitters_sign,
            None => self.features(epoch).retransmitters_sign,
        }
    }

    fn features(&self, epoch: u64) -> Features {
        Features::of(&self.ledger.features(), epoch, self.ledger.epoch_schedule())
    }

    /// Builds or rebuilds the nodes of a slot's epoch. Returns the epoch.
    fn freshen(&mut self, slot: u64, now: u64) -> u64 {
        let epoch = self.ledger.epoch_schedule().epoch(slot);
        let number = self.view.number();
        let is_fresh =
            |nodes: &Nodes| nodes.view == number && nodes.is_certain || now < nodes.made_ns.saturating_add(NODES_NS);
        if self.nodes.get(&epoch).is_some_and(is_fresh) {
            return epoch;
        }
        let mut stakes: HashMap<Pubkey, u64> = HashMap::new();
        for vote in self.ledger.epoch_stakes(epoch).iter().flat_map(|stakes| &stakes.votes) {
            *stakes.entry(vote.node).or_default() += vote.stake;
        }
        let own = Contact { identity: self.own, address: self.view.own_tvu().map(Into::into) };
        let features = self.features(epoch);
        let is_certain = self.ledger.epoch_schedule().epoch(self.ledger.open_slot()) + 1 >= epoch;
        let set = NodeSet::new(own, self.view.tvu(), &stakes, features.cipher, false);
        self.nodes.insert(epoch, Nodes { set, features, is_certain, view: number, made_ns: now });
        while self.nodes.len() > 2 {
            // Never the one that was just built: old slots are repaired too.
            let other = self.nodes.keys().copied().find(|other| *other != epoch);
            other.map(|other| self.nodes.remove(&other));
        }
        epoch
    }
}

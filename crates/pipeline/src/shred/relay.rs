//! relay: where a shred goes in its tree: from the leader to the root, from each node to its children.
//!
//! reads   the nodes that gossip knows, their stakes; shreds, this node's signatures of the roots of last sets
//! writes  `shred_net`: shreds for this node's children
//! memory  the nodes of two epochs; the shreds of the last sets of [`RESIGNED_MAX`] slots while they wait for this
//!         node's signature
//! drops   shreds for children when net has no room, or no signature can be asked for: counted
//! source  `solana-turbine` 4.2.2, `retransmit_stage.rs`, `sigverify_shreds.rs`; `docs/cluster-protocol.md`, sections 1
//!         and 2.4

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use hearth_cluster::turbine::{Contact, NodeSet, Scratch, ShredId};
use hearth_cluster::view::View;
use hearth_crypto::ed25519::Verifier;
use hearth_tile::{Out, Port};
use hearth_wire::shred::{SHREDS_PER_SET, Shred as Piece};
use hearth_wire::{Hash, Pubkey, Signature};

use super::features::Features;
use super::intake::{Cluster, piece, send};
use super::signing::{Signing, Unsigned};
use super::tile::Shred;
use crate::links::PortKind;

/// Nodes of an epoch are made anew after so long, if gossip knows others.
const NODES_NS: u64 = 1_000_000_000;
/// Slots whose last set is signed for, or waits to be.
const RESIGNED_MAX: usize = 16;

/// The nodes that a shred goes among.
struct Nodes {
    set: NodeSet,
    view: u64,
    made_ns: u64,
}

/// The last set of a slot, which names who sends it on.
struct Resigned {
    root: Hash,
    signature: Option<Signature>,
    waiting: Vec<(Vec<u8>, Pubkey)>,
}

/// Sends shreds on.
pub(super) struct Relay {
    own: Pubkey,
    nodes: BTreeMap<u64, Nodes>,
    scratch: Scratch,
    children: Vec<usize>,
    resigned: BTreeMap<u64, Resigned>,
    net: Port,
}

/// Which shred it is.
fn id(shred: &Piece<'_>) -> ShredId {
    ShredId { slot: shred.slot(), kind: shred.variant().kind, index: shred.index() }
}

impl Relay {
    pub fn new(own: Pubkey, net: Port) -> Self {
        let (scratch, children) = (Scratch::default(), vec![]);
        Self { own, nodes: BTreeMap::new(), scratch, children, resigned: BTreeMap::new(), net }
    }

    /// Where this node, as the leader, sends each shred of a set: the roots of their trees.
    pub fn roots(
        &mut self,
        cluster: (&Cluster, &View),
        shreds: &[&[u8]],
        now: u64,
        roots: &mut BTreeMap<SocketAddr, Vec<usize>>,
    ) {
        for (place, bytes) in shreds.iter().enumerate() {
            let Ok(shred) = piece(bytes) else { continue };
            let epoch = self.freshen(cluster, shred.slot(), now);
            let nodes = &self.nodes[&epoch].set;
            if let Some(to) = nodes.root(&id(&shred), &self.own, &mut self.scratch).and_then(|node| node.address) {
                roots.entry(to).or_default().push(place);
            }
        }
    }

    /// Whether who sent a shred down the tree has signed for it, where that has to be.
    pub fn is_sender_signed(
        &mut self,
        cluster: (&Cluster, &View),
        (shred, leader, root): (&Piece<'_>, &Pubkey, &Hash),
        verifier: &mut Verifier,
        now: u64,
    ) -> bool {
        let Some(signature) = shred.retransmitter_signature() else { return true };
        let epoch = self.freshen(cluster, shred.slot(), now);
        if !Features::of(epoch).retransmitters_sign {
            return true;
        }
        let parent = self.nodes[&epoch].set.parent(&id(shred), leader, &mut self.scratch);
        parent.is_none_or(|parent| verifier.verify(&parent.identity, &signature, root).is_ok())
    }

    /// Gives a shred to this node's children in its tree; one of a slot's last set with this node's signature, once
    /// that is there. `root` is what the leader signed.
    pub fn send_on(
        &mut self,
        cluster: (&Cluster, &View),
        bytes: &[u8],
        (leader, root): (&Pubkey, Hash),
        signing: &mut Signing,
        out: &mut Out<'_, Shred>,
    ) {
        let Ok(shred) = piece(bytes) else { return };
        let epoch = self.freshen(cluster, shred.slot(), out.now());
        let place = shred.variant().retransmitter_signature().filter(|_| Features::of(epoch).retransmitters_sign);
        let Some(place) = place else { return self.give(epoch, &shred, leader, out) };
        let slot = shred.slot();
        if self.resigned.get(&slot).is_none_or(|known| known.root != root) {
            if !signing.has_room(out) || self.resigned.get(&slot).is_some_and(|known| known.signature.is_none()) {
                out.count.dropped_shreds += 1;
                return;
            }
            signing.ask(Unsigned::Root { slot }, &root, out);
            self.resigned.insert(slot, Resigned { root, signature: None, waiting: vec![] });
            while self.resigned.len() > RESIGNED_MAX {
                self.resigned.pop_first();
            }
        }
        let Some(resigned) = self.resigned.get_mut(&slot) else { return };
        let mut bytes = shred.bytes().to_vec();
        match resigned.signature {
            Some(signature) => {
                bytes[place].copy_from_slice(&signature);
                let Ok(shred) = piece(&bytes) else { return };
                self.give(epoch, &shred, leader, out);
            }
            None if resigned.waiting.len() < SHREDS_PER_SET => resigned.waiting.push((bytes, *leader)),
            None => out.count.dropped_shreds += 1,
        }
    }

    /// The root of a slot's last set is signed.
    pub fn signed(&mut self, cluster: (&Cluster, &View), slot: u64, signature: &Signature, out: &mut Out<'_, Shred>) {
        let Some(resigned) = self.resigned.get_mut(&slot) else { return };
        resigned.signature = Some(*signature);
        let waiting = std::mem::take(&mut resigned.waiting);
        let epoch = self.freshen(cluster, slot, out.now());
        for (mut bytes, leader) in waiting {
            let place = piece(&bytes).ok().and_then(|shred| shred.variant().retransmitter_signature());
            bytes[place.expect("it waited for that")].copy_from_slice(signature);
            let Ok(shred) = piece(&bytes) else { continue };
            self.give(epoch, &shred, &leader, out);
        }
    }

    /// Sends a shred to the children.
    fn give(&mut self, epoch: u64, shred: &Piece<'_>, leader: &Pubkey, out: &mut Out<'_, Shred>) {
        let nodes = &self.nodes[&epoch].set;
        if nodes.retransmit(&id(shred), leader, &mut self.scratch, &mut self.children).is_err() {
            return;
        }
        for child in &self.children {
            let Some(to) = nodes.nodes()[*child].address else { continue };
            if out.credits(self.net, 1) == 0 {
                out.count.dropped_shreds += 1;
                continue;
            }
            send(self.net, (to, PortKind::Tvu), shred.bytes(), out);
            out.count.shreds_sent_on += 1;
        }
    }

    /// Makes the nodes of a slot's epoch, or makes them anew. Returns the epoch.
    fn freshen(&mut self, (cluster, view): (&Cluster, &View), slot: u64, now: u64) -> u64 {
        let epoch = cluster.ledger.epoch_schedule().epoch(slot);
        let number = view.number();
        let is_fresh = |nodes: &Nodes| nodes.view == number || now < nodes.made_ns + NODES_NS;
        if self.nodes.get(&epoch).is_some_and(is_fresh) {
            return epoch;
        }
        let mut stakes: HashMap<Pubkey, u64> = HashMap::new();
        for vote in cluster.ledger.epoch_stakes(epoch).iter().flat_map(|stakes| &stakes.votes) {
            *stakes.entry(vote.node).or_default() += vote.stake;
        }
        let own = Contact { identity: self.own, address: view.own_tvu().map(Into::into) };
        let set = NodeSet::new(own, view.tvu(), &stakes, Features::of(epoch).cipher, false);
        self.nodes.insert(epoch, Nodes { set, view: number, made_ns: now });
        while self.nodes.len() > 2 {
            // Never the one that was just made: old slots are repaired too.
            let other = self.nodes.keys().copied().find(|other| *other != epoch);
            other.map(|other| self.nodes.remove(&other));
        }
        epoch
    }
}

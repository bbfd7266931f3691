//! retransmit: the fourth stage of a shred's path: sends it to this node's children in its tree.
//!
//! reads   kept and recovered shreds; this node's signatures of last sets' roots
//! writes  `shred_net`: shreds for this node's children
//! memory  the shreds of the last sets of [`RESIGNED_MAX`] slots while they wait for this node's signature; those of a
//!         burst until it ends (runs.rs)
//! drops   shreds for children when net has no room, no signature can be requested, or newer slots wait for theirs:
//!         counted
//! source  `solana-turbine` 4.2.2, `retransmit_stage.rs`; `docs/cluster-protocol.md`, sections 1 and 2.4

use std::collections::BTreeMap;

use hearth_tile::{Out, Port, Tile};
use hearth_wire::shred::{SHREDS_PER_SET, Shred as Piece};
use hearth_wire::{Hash, Pubkey, Signature};

use super::arrival::ShredSource;
use super::counters::Counters;
use super::parse::leading_shred;
use super::receiver::ResolvedShred;
use super::runs::{Runs, SendCounts};
use super::signing::SigningQueue;
use super::trees::Trees;

/// Slots whose last set is signed, or waits for the signature.
const RESIGNED_MAX: usize = 16;

/// A root and what the leader signed.
#[derive(Clone, Copy)]
struct SignedRoot {
    leader: Pubkey,
    root: Hash,
}

/// The last set of a slot, whose shreds carry the retransmitter's signature.
struct ResignedSet {
    root: Hash,
    signature: Option<Signature>,
    waiting: Vec<(Vec<u8>, Pubkey)>,
}

/// Sends shreds on to this node's children in the tree.
pub(super) struct Retransmit {
    resigned: BTreeMap<u64, ResignedSet>,
    /// Shreds for the children, until the burst ends that brought them.
    runs: Runs,
    net: Port,
}

impl Retransmit {
    pub fn new(net: Port) -> Self {
        Self { resigned: BTreeMap::new(), runs: Runs::default(), net }
    }

    /// Retransmits a shred that came down the tree, and those recovered with it. A repaired shred has already gone down
    /// its tree without this node.
    pub fn resolved(
        &mut self,
        trees: &mut Trees,
        signing: &mut SigningQueue,
        shred: &Piece<'_>,
        source: ShredSource,
        resolved: &ResolvedShred<'_>,
        out: &mut Out<'_, impl Tile<Counters = Counters>>,
    ) {
        let signed = SignedRoot { leader: resolved.progress.leader, root: resolved.root };
        if source == ShredSource::Turbine {
            self.send_on(trees, signing, shred, &signed, out);
        }
        let Some(completed) = &resolved.completed else { return };
        let recovered = completed.set.shreds().enumerate();
        for (_, bytes) in recovered.filter(|(place, _)| completed.recovered >> place & 1 == 1) {
            let Ok(shred) = leading_shred(bytes) else { continue };
            self.send_on(trees, signing, &shred, &signed, out);
        }
    }

    /// Sends a shred to this node's children in its tree. A shred of a slot's last set waits for this node's signature.
    fn send_on(
        &mut self,
        trees: &mut Trees,
        signing: &mut SigningQueue,
        shred: &Piece<'_>,
        signed: &SignedRoot,
        out: &mut Out<'_, impl Tile<Counters = Counters>>,
    ) {
        let (slot, SignedRoot { leader, root }) = (shred.slot(), *signed);
        let place = shred.variant().retransmitter_signature().filter(|_| trees.retransmitters_sign(slot));
        let Some(place) = place else { return self.give(trees, shred, &leader, out) };
        if self.resigned.get(&slot).is_none_or(|known| known.root != root) {
            if !signing.has_room(out) || self.resigned.get(&slot).is_some_and(|known| known.signature.is_none()) {
                out.count.dropped_shreds += 1;
                return;
            }
            signing.ask(slot, &root, out);
            self.resigned.insert(slot, ResignedSet { root, signature: None, waiting: vec![] });
            while self.resigned.len() > RESIGNED_MAX
                && let Some((_, oldest)) = self.resigned.pop_first()
            {
                out.count.dropped_shreds += oldest.waiting.len() as u64;
            }
        }
        let Some(resigned) = self.resigned.get_mut(&slot) else {
            out.count.dropped_shreds += 1;
            return;
        };
        let mut bytes = shred.bytes().to_vec();
        match resigned.signature {
            Some(signature) => {
                bytes[place].copy_from_slice(&signature);
                let Ok(shred) = leading_shred(&bytes) else { return };
                self.give(trees, &shred, &leader, out);
            }
            None if resigned.waiting.len() < SHREDS_PER_SET => resigned.waiting.push((bytes, leader)),
            None => out.count.dropped_shreds += 1,
        }
    }

    /// Sends the shreds that waited for the signature of a slot's last root.
    pub fn signed(
        &mut self,
        trees: &mut Trees,
        slot: u64,
        signature: &Signature,
        out: &mut Out<'_, impl Tile<Counters = Counters>>,
    ) {
        let Some(resigned) = self.resigned.get_mut(&slot) else { return };
        resigned.signature = Some(*signature);
        for (mut bytes, leader) in std::mem::take(&mut resigned.waiting) {
            let place = leading_shred(&bytes).ok().and_then(|shred| shred.variant().retransmitter_signature());
            bytes[place.expect("it waited for that")].copy_from_slice(signature);
            let Ok(shred) = leading_shred(&bytes) else { continue };
            self.give(trees, &shred, &leader, out);
        }
    }

    /// Holds a shred for the children.
    fn give(
        &mut self,
        trees: &mut Trees,
        shred: &Piece<'_>,
        leader: &Pubkey,
        out: &mut Out<'_, impl Tile<Counters = Counters>>,
    ) {
        self.runs.hold(shred.bytes(), trees.children(shred, leader, out.now()));
        if self.runs.is_full() {
            self.send(out);
        }
    }

    /// Sends the held shreds to the children.
    pub fn send(&mut self, out: &mut Out<'_, impl Tile<Counters = Counters>>) {
        let SendCounts { sent, dropped } = self.runs.send(self.net, out);
        out.count.shreds_sent_on += sent;
        out.count.dropped_shreds += dropped;
    }
}

//! The fourth stage of a shred's path: it goes to this node's children in its tree.
//!
//! reads   shreds that were kept, and those that were recovered; this node's signatures of the roots of last sets
//! writes  `shred_net`: shreds for this node's children
//! memory  the shreds of the last sets of [`RESIGNED_MAX`] slots while they wait for this node's signature
//! drops   shreds for children when net has no room, or no signature can be asked for, or newer slots wait for theirs:
//!         counted
//! source  `solana-turbine` 4.2.2, `retransmit_stage.rs`; `docs/cluster-protocol.md`, sections 1 and 2.4

use std::collections::BTreeMap;
use std::net::SocketAddr;

use hearth_tile::{Out, Port, Tile};
use hearth_wire::shred::{SHREDS_PER_SET, Shred as Piece};
use hearth_wire::{Hash, Pubkey, Signature};

use super::arrival::ShredSource;
use super::counters::Counters;
use super::parse::leading_shred;
use super::receiver::Resolved;
use super::signing::Signing;
use super::trees::Trees;
use crate::links::{Outgoing, PortKind};

/// Slots whose last set is signed for, or waits to be.
const RESIGNED_MAX: usize = 16;

/// What a leader has signed.
#[derive(Clone, Copy)]
struct Signed {
    leader: Pubkey,
    root: Hash,
}

/// The last set of a slot, which names who sends it on.
struct Resigned {
    root: Hash,
    signature: Option<Signature>,
    waiting: Vec<(Vec<u8>, Pubkey)>,
}

/// Sends shreds on.
pub(super) struct Retransmit {
    resigned: BTreeMap<u64, Resigned>,
    net: Port,
}

impl Retransmit {
    pub fn new(net: Port) -> Self {
        Self { resigned: BTreeMap::new(), net }
    }

    /// Sends on a shred that came down the tree, and those that were recovered with it. What was asked for has gone
    /// down its tree without this node.
    pub fn resolved(
        &mut self,
        trees: &mut Trees,
        signing: &mut Signing,
        shred: &Piece<'_>,
        source: ShredSource,
        resolved: &Resolved<'_>,
        out: &mut Out<'_, impl Tile<Counters = Counters>>,
    ) {
        let signed = Signed { leader: resolved.progress.leader, root: resolved.root };
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

    /// Gives a shred to this node's children in its tree; one of a slot's last set with this node's signature, once
    /// that is there.
    fn send_on(
        &mut self,
        trees: &mut Trees,
        signing: &mut Signing,
        shred: &Piece<'_>,
        signed: &Signed,
        out: &mut Out<'_, impl Tile<Counters = Counters>>,
    ) {
        let (slot, Signed { leader, root }) = (shred.slot(), *signed);
        let place = shred.variant().retransmitter_signature().filter(|_| trees.retransmitters_sign(slot));
        let Some(place) = place else { return self.give(trees, shred, &leader, out) };
        if self.resigned.get(&slot).is_none_or(|known| known.root != root) {
            if !signing.has_room(out) || self.resigned.get(&slot).is_some_and(|known| known.signature.is_none()) {
                out.count.dropped_shreds += 1;
                return;
            }
            signing.ask(slot, &root, out);
            self.resigned.insert(slot, Resigned { root, signature: None, waiting: vec![] });
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

    /// The root of a slot's last set is signed: what waited for that goes.
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

    /// Sends a shred to the children.
    fn give(
        &self,
        trees: &mut Trees,
        shred: &Piece<'_>,
        leader: &Pubkey,
        out: &mut Out<'_, impl Tile<Counters = Counters>>,
    ) {
        let now = out.now();
        for to in trees.children(shred, leader, now) {
            if out.credits(self.net, 1) == 0 {
                out.count.dropped_shreds += 1;
                continue;
            }
            send(self.net, (to, PortKind::Tvu), shred.bytes(), out);
            out.count.shreds_sent_on += 1;
        }
    }
}

/// Gives one shred to net.
fn send(net: Port, to: (SocketAddr, PortKind), data: &[u8], out: &mut Out<'_, impl Tile<Counters = Counters>>) {
    out.publish_with(net, 0, |buffer| {
        buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(data);
        Outgoing::write_header(buffer, to, 0, data.len())
    });
}

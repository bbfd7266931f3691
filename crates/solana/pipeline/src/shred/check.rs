//! check: the second stage of a shred's path: is it signed by its slot's leader, and is it new?
//!
//! reads   a shred; the slot's leader; the shreds already here of its set and slot
//! writes  the evidence that makes the shred [`VerifiedShred`]; contradictions of leaders, as findings
//! memory  4 MiB of leaders' keys; the trees of started sets (fec_resolver.rs)
//! drops   shreds that are already here or not signed: [`ShredRefusal`]
//! source  `solana-turbine` 4.2.2, `sigverify_shreds.rs`; `docs/cluster-protocol.md`, section 2
//!
//! A leader's signature is verified once per root claimed for a set; whatever hashes to a root known to be signed is
//! genuine. The cheap checks come first, and this stage stores nothing.

use hearth_crypto::merkle::ShredProofs;
use hearth_wire::shred::{DATA_PER_SET, Shred};
use hearth_wire::{Hash, Pubkey};

use super::arrival::{Arrival, ShredRefusal, ShredSource};
use super::block_versions::Link;
use super::fec_resolver::claim;
use super::receiver::Receiver;

/// The verified facts about a shred that its slot's leader has signed.
#[derive(Debug)]
pub(super) struct VerifiedShred {
    /// The leader of the shred's slot, who signed `root`.
    pub leader: Pubkey,
    /// The root of its set, signed by the leader.
    pub root: Hash,
    /// The hash of the shred as a leaf.
    pub leaf: Hash,
    /// The nodes of the tree that its proof reveals, if it is the first shred of its set.
    pub proofs: Option<Box<ShredProofs>>,
}

impl Receiver {
    /// Verifies a shred. `leader` returns the leader of a slot; `is_whole` whether a slot is already complete in the
    /// store.
    ///
    /// # Errors
    /// Why the shred is refused.
    pub(super) fn check(
        &mut self,
        shred: &Shred<'_>,
        arrival: Arrival,
        leader: impl Fn(u64) -> Option<Pubkey>,
        is_whole: impl Fn(u64) -> bool,
    ) -> Result<VerifiedShred, ShredRefusal> {
        self.findings.clear();
        let key @ (slot, set_index) = (shred.slot(), shred.set_index());
        if self.recent.get(&key).is_some_and(|set| set.has(shred)) {
            return Err(ShredRefusal::Duplicate);
        }
        if self.ended.contains_key(&slot) {
            return Err(self.check_ended(shred));
        }
        let known = self.slots.get(&slot);
        if known.is_none() && (self.whole.contains(&slot) || is_whole(slot)) {
            return Err(ShredRefusal::Duplicate);
        }
        let leader = known.map(|known| known.leader).or_else(|| leader(slot)).ok_or(ShredRefusal::NoLeader)?;
        // Own shreds lost in a restart may return by repair.
        if leader == self.config.own && (arrival.source == ShredSource::Turbine || self.own.contains(&slot)) {
            return Err(ShredRefusal::Own);
        }
        if let Some(set) = self.sets.get_mut(&key) {
            if set.has(shred) {
                return Err(ShredRefusal::Duplicate);
            }
            if let Some(leaf) = set.proves(shred) {
                if !set.agrees(shred) {
                    return Err(ShredRefusal::Signature);
                }
                if set.is_in_vain(shred) {
                    return Err(ShredRefusal::BrokenSet);
                }
                if set.shred(shred.shard_index()).is_some() {
                    // The same shred, apart from the retransmitter's signature.
                    return Err(ShredRefusal::Duplicate);
                }
                return Ok(VerifiedShred { leader, root: *set.root(), leaf, proofs: None });
            }
        }
        let known = self.link(slot, set_index);
        // A shred that will find no room is not worth its checks.
        if known.is_none() && !self.has_room(key, arrival.now_ns) {
            return Err(ShredRefusal::NoRoom);
        }
        let (leaf, proofs) = claim(shred).ok_or(ShredRefusal::Proof)?;
        let root = *proofs.root();
        match known {
            Some((known, _)) if known == root => return Err(ShredRefusal::Duplicate),
            Some(_) => return Err(self.contradicted(shred, &root, &leader, arrival)),
            None => {}
        }
        self.verifier.verify(&leader, &shred.signature(), &root).map_err(|_| ShredRefusal::Signature)?;
        Ok(VerifiedShred { leader, root, leaf, proofs: Some(Box::new(proofs)) })
    }

    /// Returns the root of a started or complete set, and the root it is chained to.
    pub(super) fn link(&self, slot: u64, set_index: u32) -> Option<Link> {
        let begun = self.sets.get(&(slot, set_index)).map(|set| (*set.root(), *set.chained_root()));
        begun.or_else(|| self.slots.get(&slot)?.complete.get(&set_index).copied())
    }

    /// Handles a root claimed for a set other than the known one.
    fn contradicted(&mut self, shred: &Shred<'_>, root: &Hash, leader: &Pubkey, arrival: Arrival) -> ShredRefusal {
        let slot = shred.slot();
        // Once the equivocation is proved, skip the signature of further shreds, except of repair responses, which are
        // counted.
        if arrival.source == ShredSource::Repair || !self.is_proved(slot) {
            if self.verifier.verify(leader, &shred.signature(), root).is_err() {
                return ShredRefusal::Signature;
            }
            self.note_conflict(shred, shred.set_index(), None);
        }
        if let Some(incoming) = self.slots.get_mut(&slot) {
            incoming.equivocates = true;
        }
        self.note_answer(slot, arrival, Some(ShredRefusal::Equivocation));
        ShredRefusal::Equivocation
    }

    /// Checks a shred of a whole slot: only whether it belongs to the same block matters.
    fn check_ended(&mut self, shred: &Shred<'_>) -> ShredRefusal {
        let (slot, set_index) = (shred.slot(), shred.set_index());
        let Some((leader, known, last)) = self.ended.get(&slot).map(|ended| {
            let known = ended.complete.get(&set_index).map(|(root, _)| *root);
            (ended.leader, known, ended.last.unwrap_or(u32::MAX))
        }) else {
            return ShredRefusal::Duplicate;
        };
        if self.is_proved(slot) {
            return ShredRefusal::Duplicate;
        }
        let Some((_, proofs)) = claim(shred) else { return ShredRefusal::Proof };
        let root = proofs.root();
        if known == Some(*root) {
            return ShredRefusal::Duplicate;
        }
        if self.verifier.verify(&leader, &shred.signature(), root).is_err() {
            return ShredRefusal::Signature;
        }
        if known.is_some() {
            self.note_conflict(shred, set_index, None);
        } else if set_index > last {
            self.note_conflict(shred, last, Some(DATA_PER_SET - 1));
        }
        ShredRefusal::Equivocation
    }
}

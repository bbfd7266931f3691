//! equivocation_proof: finds the two shreds by which a leader has contradicted itself.
//!
//! reads   the sets of a slot that are here
//! writes  proofs: a received shred and one that is here
//! memory  two shreds
//! drops   contradictions that the cluster does not accept as proof: different parents, and slot ends that only parity
//!         shows
//! source  `solana-ledger` 4.2.2, `blockstore.rs`; `docs/cluster-protocol.md`, sections 2.7 and 2.8

use hearth_wire::shred::{DATA_PER_SET, Shred, ShredKind};

use super::finding::{Conflict, ContradictedShred, Finding};
use super::receiver::Receiver;

/// Maximum proofs to note per slot: a shred that is not on disk yet for one proof may be there for the next. A proof
/// with both shreds at hand needs no other.
pub(super) const PROOFS_MAX: u8 = 3;

impl Receiver {
    /// Notes a proof that the slot's leader made two blocks, unless that is already proved: `shred`, and a shred of the
    /// set `against`, at index `place` if only that one proves it. A shred that ends the slot is contradicted by a data
    /// shred of any later set.
    pub(super) fn note_conflict(&mut self, shred: &Shred<'_>, against: u32, place: Option<usize>) {
        let slot = shred.slot();
        let of_one_set = against == shred.set_index();
        let needs_data = !of_one_set;
        if self.is_proved(slot) || (needs_data && shred.variant().kind != ShredKind::Data) {
            return;
        }
        if let Some(ours) = self.witness(slot, against, place, needs_data) {
            let proofs = self.proofs.entry(slot).or_default();
            *proofs = if matches!(ours, ContradictedShred::Shred(_)) { PROOFS_MAX } else { *proofs + 1 };
            self.findings.push(Finding::Contradiction(Conflict { slot, theirs: shred.bytes().to_vec(), ours }));
        }
    }

    /// Whether enough proofs of the slot's equivocation were noted.
    pub(super) fn is_proved(&self, slot: u64) -> bool {
        self.proofs.get(&slot).is_some_and(|proofs| *proofs >= PROOFS_MAX)
    }

    fn witness(&self, slot: u64, set_index: u32, place: Option<usize>, needs_data: bool) -> Option<ContradictedShred> {
        let key = (slot, set_index);
        if let Some(set) = self.sets.get(&key).or_else(|| self.recent.get(&key)) {
            let places = if needs_data { 0..DATA_PER_SET } else { 0..2 * DATA_PER_SET };
            let shred = places.filter(|at| place.is_none_or(|place| place == *at)).find_map(|at| set.shred(at))?;
            return Some(ContradictedShred::Shred(shred.to_vec()));
        }
        let kept = self.slots.get(&slot).or_else(|| self.ended.get(&slot))?;
        let place = place.unwrap_or(0);
        kept.complete.contains_key(&set_index).then_some(ContradictedShred::Stored { set_index, place })
    }
}

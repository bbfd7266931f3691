//! equivocation_proof: the two shreds by which a leader has contradicted itself.
//!
//! reads   what is there of a slot
//! writes  one proof a slot: a shred that came, and one that is here
//! memory  two shreds
//! drops   contradictions that the cluster does not count as such: other parents, and ends that only parity tells of
//! source  `solana-ledger` 4.2.2, `blockstore.rs`; `docs/cluster-protocol.md`, sections 2.7 and 2.8

use hearth_wire::shred::{DATA_PER_SET, Shred, ShredKind};

use super::finding::{Conflict, Finding, Ours};
use super::receiver::Receiver;

/// Proofs of a slot that are noted: what is not on disk yet when one is looked for may be when the next one comes. One
/// with both shreds at hand needs no other.
pub(super) const PROOFS_MAX: u8 = 3;

impl Receiver {
    /// Notes what proves that the slot's leader has made two blocks, unless that is proved: the shred, and one of the
    /// set `against`, at `place` of it where only that one proves it. A shred that ends the slot is contradicted by a
    /// data shred of any set behind it.
    pub(super) fn note_conflict(&mut self, shred: &Shred<'_>, against: u32, place: Option<usize>) {
        let slot = shred.slot();
        let of_one_set = against == shred.set_index();
        let needs_data = !of_one_set;
        if self.is_proved(slot) || (needs_data && shred.variant().kind != ShredKind::Data) {
            return;
        }
        if let Some(ours) = self.witness(slot, against, place, needs_data) {
            let proofs = self.proofs.entry(slot).or_default();
            *proofs = if matches!(ours, Ours::Shred(_)) { PROOFS_MAX } else { *proofs + 1 };
            self.findings.push(Finding::Contradiction(Conflict { slot, theirs: shred.bytes().to_vec(), ours }));
        }
    }

    /// Whether no more proofs are wanted that the leader of a slot made two blocks.
    pub(super) fn is_proved(&self, slot: u64) -> bool {
        self.proofs.get(&slot).is_some_and(|proofs| *proofs >= PROOFS_MAX)
    }

    fn witness(&self, slot: u64, set_index: u32, place: Option<usize>, needs_data: bool) -> Option<Ours> {
        let key = (slot, set_index);
        if let Some(set) = self.sets.get(&key).or_else(|| self.recent.get(&key)) {
            let places = if needs_data { 0..DATA_PER_SET } else { 0..2 * DATA_PER_SET };
            let shred = places.filter(|at| place.is_none_or(|place| place == *at)).find_map(|at| set.shred(at))?;
            return Some(Ours::Shred(shred.to_vec()));
        }
        let kept = self.slots.get(&slot).or_else(|| self.ended.get(&slot))?;
        let place = place.unwrap_or(0);
        kept.complete.contains_key(&set_index).then_some(Ours::Stored { set_index, place })
    }
}

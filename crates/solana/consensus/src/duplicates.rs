//! Duplicate blocks: which version of a slot is ours, which is the cluster's, and the consequences.
//!
//! reads   a slot's bank frozen, dead, proven to be a duplicate, had or confirmed by more than 52 %
//! writes  what to mark, dump, or ask for
//! memory  100 B per known slot above the root
//! source  `docs/cluster-protocol.md` section 6.7: `solana-core` 4.2.2, `repair/cluster_slot_state_verifier.rs`

use std::collections::BTreeMap;

use hearth_mutation::{Mutation, active};
use hearth_wire::Hash;

use super::types::BankId;

/// The consequence of a slot's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateAction {
    /// Our version is the cluster's.
    Valid(BankId),
    /// Our version is one of several, and it is not known which will be the cluster's.
    Doubtful(BankId),
    /// Our version is not the cluster's.
    Wrong(BankId),
    /// Our version is dead and the cluster's is not: it, or an ancestor, is another version.
    Dead(u64),
}

/// The state of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slot {
    frozen: Option<Hash>,
    confirmed: Option<Hash>,
    is_dead: bool,
    is_duplicate: bool,
    is_elsewhere: bool,
}

impl Slot {
    fn order(&self, slot: u64) -> Option<DuplicateAction> {
        let id = |hash| BankId { slot, hash };
        match (self.frozen, self.confirmed) {
            (Some(ours), Some(theirs)) if ours == theirs => Some(DuplicateAction::Valid(id(ours))),
            (Some(ours), Some(_)) => (!active(Mutation::KeptVersion)).then(|| DuplicateAction::Wrong(id(ours))),
            (None, theirs) if self.is_dead && (theirs.is_some() || self.is_elsewhere) => {
                Some(DuplicateAction::Dead(slot))
            }
            (Some(ours), None) if self.is_duplicate => Some(DuplicateAction::Doubtful(id(ours))),
            _ => None,
        }
    }
}

/// The states of slots above the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Duplicates {
    slots: BTreeMap<u64, Slot>,
}

impl Duplicates {
    fn change(&mut self, slot: u64, change: impl FnOnce(&mut Slot)) -> Option<DuplicateAction> {
        let state = self.slots.entry(slot).or_default();
        let before = *state;
        change(state);
        // An unchanged state has already been acted upon.
        (before != *state).then(|| state.order(slot))?
    }

    /// Our bank for a slot is frozen.
    pub fn frozen(&mut self, id: BankId) -> Option<DuplicateAction> {
        self.change(id.slot, |slot| (slot.frozen, slot.is_dead) = (Some(id.hash), false))
    }

    /// Our version of a slot is dead.
    pub fn dead(&mut self, slot: u64) -> Option<DuplicateAction> {
        self.change(slot, |slot| slot.is_dead = slot.frozen.is_none())
    }

    /// A slot has two versions.
    pub fn duplicate(&mut self, slot: u64) -> Option<DuplicateAction> {
        self.change(slot, |slot| slot.is_duplicate = !active(Mutation::IgnoredDuplicate))
    }

    /// Nodes with more than 52 % of the stake claim to have a slot's block.
    pub fn elsewhere(&mut self, slot: u64) -> Option<DuplicateAction> {
        self.change(slot, |slot| slot.is_elsewhere = true)
    }

    /// The cluster confirmed a version. Only the first one counts.
    pub fn confirmed(&mut self, id: BankId) -> Option<DuplicateAction> {
        self.change(id.slot, |slot| slot.confirmed = slot.confirmed.or(Some(id.hash)))
    }

    /// Our version of a slot was dumped.
    pub fn dropped(&mut self, slot: u64) {
        if let Some(slot) = self.slots.get_mut(&slot) {
            (slot.frozen, slot.is_dead) = (None, false);
        }
    }

    /// The version of a slot that the cluster confirmed.
    pub fn confirmed_hash(&self, slot: u64) -> Option<Hash> {
        self.slots.get(&slot)?.confirmed
    }

    /// Whether our version of a slot is dead.
    pub fn is_dead(&self, slot: u64) -> bool {
        self.slots.get(&slot).is_some_and(|slot| slot.is_dead)
    }

    /// Our frozen version of a slot.
    pub fn frozen_hash(&self, slot: u64) -> Option<Hash> {
        self.slots.get(&slot)?.frozen
    }

    /// The dead slots from `slot` on.
    pub fn dead_from(&self, slot: u64) -> impl Iterator<Item = u64> + '_ {
        self.slots.range(slot..).filter(|(_, slot)| slot.is_dead).map(|(slot, _)| *slot)
    }

    /// Removes the slots below a root.
    pub fn set_root(&mut self, root: u64) {
        self.slots = self.slots.split_off(&root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(version: u8) -> BankId {
        BankId { slot: 7, hash: [version; 32] }
    }

    #[test]
    fn order_of_events_does_not_matter() {
        let mut one = Duplicates::default();
        assert_eq!(one.frozen(id(1)), None);
        assert_eq!(one.duplicate(7), Some(DuplicateAction::Doubtful(id(1))));
        assert_eq!(one.duplicate(7), None, "once");
        assert_eq!(one.confirmed(id(1)), Some(DuplicateAction::Valid(id(1))));
        let mut other = Duplicates::default();
        assert_eq!((other.confirmed(id(1)), other.duplicate(7)), (None, None));
        assert_eq!(other.frozen(id(1)), Some(DuplicateAction::Valid(id(1))));
    }

    #[test]
    fn another_version_than_the_clusters_goes() {
        let mut all = Duplicates::default();
        assert_eq!((all.frozen(id(1)), all.confirmed(id(2))), (None, Some(wrong(1))));
        all.dropped(7);
        assert_eq!(all.frozen(id(3)), Some(wrong(3)), "got the wrong one again");
        all.dropped(7);
        assert_eq!(all.dead(7), Some(DuplicateAction::Dead(7)));
        assert_eq!((all.dead(8), all.elsewhere(8)), (None, Some(DuplicateAction::Dead(8))));
        assert_eq!((all.elsewhere(9), all.dead(9)), (None, Some(DuplicateAction::Dead(9))));
        assert_eq!(all.frozen(id(2)), Some(DuplicateAction::Valid(id(2))));
        assert!(!all.is_dead(7));
        assert_eq!(all.dead(7), None, "what is frozen is not dead");
        all.set_root(8);
        assert_eq!(all.confirmed_hash(7), None);
    }

    fn wrong(version: u8) -> DuplicateAction {
        DuplicateAction::Wrong(id(version))
    }
}

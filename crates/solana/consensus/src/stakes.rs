//! The stakes by which votes are weighed, per epoch.
//!
//! reads   the epoch stakes in the root bank
//! writes  the stake of a vote account, the total, and the vote accounts of a node
//! memory  at most three epochs are needed at a time; those that end below the root are dropped
//! source  `docs/cluster-protocol.md` section 6.3, the table of which stakes count where

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use hearth_mutation::{Mutation, active};
use hearth_wire::Pubkey;
pub use hearth_wire::vote::VoteStake;

/// The weight of each account's votes in an epoch, and the vote accounts of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VoteWeights {
    accounts: BTreeMap<Pubkey, (Pubkey, u64)>,
    nodes: BTreeMap<Pubkey, Vec<Pubkey>>,
    total: u64,
}

impl VoteWeights {
    /// The weights of these vote accounts; those without stake are left out.
    ///
    /// # Panics
    ///
    /// All stakes together are more than 2^64 lamports.
    pub fn new(accounts: &[VoteStake]) -> Self {
        let mut stakes = Self::default();
        for one in accounts.iter().filter(|one| one.stake > 0) {
            if let Entry::Vacant(entry) = stakes.accounts.entry(one.vote) {
                entry.insert((one.node, one.stake));
                stakes.total = stakes.total.checked_add(one.stake).expect("lamports in existence fit 64 bits");
                stakes.nodes.entry(one.node).or_default().push(one.vote);
            }
        }
        stakes
    }

    /// Stake of a vote account in lamports, 0 if it has none.
    pub fn stake(&self, vote: &Pubkey) -> u64 {
        self.accounts.get(vote).map_or(0, |(_, stake)| *stake)
    }

    /// Total stake in lamports.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The staked vote accounts of a node.
    pub fn votes_of(&self, node: &Pubkey) -> &[Pubkey] {
        self.nodes.get(node).map_or(&[], Vec::as_slice)
    }
}

/// The [`VoteWeights`] of the known epochs.
#[derive(Clone, Debug)]
pub struct Stakes {
    by_first_slot: BTreeMap<u64, Arc<VoteWeights>>,
}

impl Stakes {
    /// Starts with the epoch that begins at `first_slot`.
    pub fn new(first_slot: u64, stakes: Arc<VoteWeights>) -> Self {
        Self { by_first_slot: [(first_slot, stakes)].into() }
    }

    /// Adds the weights of the epoch that begins at `first_slot`.
    pub fn insert(&mut self, first_slot: u64, stakes: Arc<VoteWeights>) {
        self.by_first_slot.insert(first_slot, stakes);
    }

    /// The weights of a slot's epoch. An unknown epoch uses those of the one before it, and a slot before all of them
    /// those of the first.
    pub fn of(&self, slot: u64) -> &Arc<VoteWeights> {
        let before = self.by_first_slot.range(..=slot).nth_back(usize::from(active(Mutation::StaleStakes)));
        before.or_else(|| self.by_first_slot.first_key_value()).map(|(_, stakes)| stakes).expect("one is never dropped")
    }

    /// Drops the epochs that end before the root.
    pub(crate) fn set_root(&mut self, root: u64) {
        let current = self.by_first_slot.range(..=root).next_back().map_or(0, |(first, _)| *first);
        self.by_first_slot = self.by_first_slot.split_off(&current);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(stake: u64) -> Arc<VoteWeights> {
        let one = |vote, node, stake| VoteStake { vote: [vote; 32], node: [node; 32], collector: [node; 32], stake };
        Arc::new(VoteWeights::new(&[one(1, 9, stake), one(2, 9, 5), one(3, 8, 0), one(1, 9, 100)]))
    }

    #[test]
    fn account_counts_once_and_only_with_stake() {
        let stakes = epoch(10);
        assert_eq!((stakes.total(), stakes.stake(&[1; 32]), stakes.stake(&[3; 32])), (15, 10, 0));
        assert_eq!(stakes.votes_of(&[9; 32]), [[1; 32], [2; 32]]);
        assert!(stakes.votes_of(&[8; 32]).is_empty());
    }

    #[test]
    fn slot_uses_its_epoch_and_old_epochs_go() {
        let mut stakes = Stakes::new(100, epoch(1));
        let later = VoteWeights { total: 7, ..VoteWeights::default() };
        stakes.insert(200, Arc::new(later));
        let total = |stakes: &Stakes, slot| stakes.of(slot).total();
        assert_eq!([5, 100, 199, 200, 900].map(|slot| total(&stakes, slot)), [6, 6, 6, 7, 7]);
        stakes.set_root(199);
        assert_eq!(total(&stakes, 150), 6);
        stakes.set_root(200);
        assert_eq!((total(&stakes, 150), stakes.by_first_slot.len()), (7, 1));
    }
}

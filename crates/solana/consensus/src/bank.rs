//! The votes in a frozen bank.
//!
//! reads   the vote accounts in the bank
//! writes  the stake that voted for an ancestor or above it; the accounts locked out at a slot
//! memory  8 B per vote account, and one state for each vote that landed
//! source  `docs/cluster-protocol.md` section 6.3: `solana-core` 4.2.2, `consensus.rs`, `collect_vote_lockouts`

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_mutation::{Mutation, active};
use hearth_wire::{Hash, Pubkey};

use super::types::{AccountVotes, BankId};
use super::{PROPAGATED_THRESHOLD, SUPERMAJORITY, exceeds};

/// A frozen bank, with its vote statistics.
#[derive(Clone, Debug)]
pub(crate) struct Bank {
    pub block_id: Hash,
    pub leader: Pubkey,
    /// Vote accounts, sorted by address.
    accounts: Vec<Arc<AccountVotes>>,
    /// Stake by slot of each account's newest vote that still binds at this bank.
    voted: BTreeMap<u64, u64>,
    total: u64,
    /// The newest block of this node on this chain: this one, or an ancestor above the root.
    pub own: Option<BankId>,
}

impl Bank {
    /// A bank in which the `changed` vote accounts differ from its parent. `is_ancestor` knows the slots of its
    /// ancestors from the root on.
    pub fn new(
        slot: u64,
        (block_id, leader): (Hash, Pubkey),
        parent: Option<&Self>,
        changed: Vec<AccountVotes>,
        is_ancestor: impl Fn(u64) -> bool,
    ) -> Self {
        let mut accounts: BTreeMap<Pubkey, Arc<AccountVotes>> =
            parent.into_iter().flat_map(|parent| &parent.accounts).map(|one| (one.key, Arc::clone(one))).collect();
        accounts.extend(changed.into_iter().map(|one| (one.key, Arc::new(one))));
        let accounts: Vec<Arc<AccountVotes>> = accounts.into_values().collect();
        let (mut voted, mut total) = (BTreeMap::<u64, u64>::new(), 0u64);
        for account in accounts.iter().filter(|account| account.stake > 0) {
            total = total.saturating_add(account.stake);
            // The votes that remain once a vote for this bank is simulated.
            let newest = account.votes.iter().rev().find(|vote| vote.binds_at(slot));
            if let Some(vote) = newest.filter(|vote| is_ancestor(vote.slot)) {
                *voted.entry(vote.slot).or_default() += account.stake;
            }
        }
        Self { block_id, leader, accounts, voted, total, own: None }
    }

    /// A vote account's state in this bank.
    pub fn account(&self, key: &Pubkey) -> Option<&AccountVotes> {
        self.accounts.binary_search_by_key(key, |account| account.key).ok().map(|at| &*self.accounts[at])
    }

    /// Stake whose newest binding vote is for an ancestor at or above `slot`.
    pub fn voted(&self, slot: u64) -> u64 {
        self.voted.range(slot..).map(|(_, stake)| stake).sum()
    }

    /// The whole stake, voting or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The newest slot for which more than `threshold` of the stake voted, at it or at an ancestor above it.
    pub fn newest_voted(&self, threshold: f64) -> Option<u64> {
        let mut sum = 0;
        let mut newest_first = self.voted.iter().rev();
        newest_first.find_map(|(slot, stake)| {
            sum += stake;
            exceeds(sum, self.total, threshold).then_some(*slot)
        })
    }

    /// The accounts with a vote, binding at `slot`, for a slot above `above` for which `is_other` holds.
    pub fn locked_out(&self, slot: u64, above: u64, is_other: impl Fn(u64) -> bool) -> impl Iterator<Item = &Pubkey> {
        self.accounts.iter().filter_map(move |account| {
            let mut votes = account.votes.iter();
            let is_locked = votes.any(|vote| vote.binds_at(slot) && vote.slot > above && is_other(vote.slot));
            is_locked.then_some(&account.key)
        })
    }

    /// The newest root reached by more than two thirds of the stake. `own` overrides our own account with the tower's
    /// root.
    pub fn finalized(&self, own: Option<(&Pubkey, u64)>) -> Option<u64> {
        let root = |account: &AccountVotes| match own {
            Some((key, root)) if *key == account.key => Some(root),
            _ => account.root,
        };
        let with_stake = self.accounts.iter().filter(|account| account.stake > 0);
        let mut roots: Vec<(u64, u64)> = with_stake.filter_map(|one| Some((root(one)?, one.stake))).collect();
        roots.sort_unstable_by(|a, b| b.cmp(a));
        let finalizing = if active(Mutation::LowFinality) { PROPAGATED_THRESHOLD } else { SUPERMAJORITY };
        let mut sum = 0;
        roots.into_iter().find_map(|(root, stake)| {
            sum += stake;
            exceeds(sum, self.total, finalizing).then_some(root)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tower::Lockouts;
    use super::*;

    fn account(name: u8, stake: u64, slots: &[u64], root: Option<u64>) -> AccountVotes {
        let mut lockouts = Lockouts { votes: Vec::new(), root };
        slots.iter().for_each(|slot| assert!(lockouts.process(*slot)));
        AccountVotes { key: [name; 32], stake, votes: lockouts.votes, root, last_timestamp: (0, 0) }
    }

    fn bank(slot: u64, accounts: Vec<AccountVotes>) -> Bank {
        Bank::new(slot, ([0; 32], [0; 32]), None, accounts, |slot| slot < 100)
    }

    #[test]
    fn binding_vote_backs_its_slot_and_below() {
        let accounts = vec![account(1, 10, &[1, 2, 3], None), account(2, 20, &[1, 2], None), account(3, 5, &[], None)];
        let at = |slot| bank(slot, accounts.clone());
        let near = at(4);
        assert_eq!([1, 2, 3, 4].map(|slot| near.voted(slot)), [30, 30, 10, 0]);
        assert_eq!(near.total(), 35);
        // At 6 the vote for 3 has expired, that for 2 binds until 6; the second account's votes bound until 4 and 5.
        assert_eq!([1, 2, 3].map(|slot| at(6).voted(slot)), [10, 10, 0]);
        assert_eq!((near.newest_voted(0.5), near.newest_voted(0.2), near.newest_voted(0.9)), (Some(2), Some(3), None));
    }

    #[test]
    fn changes_continue_from_the_parent() {
        let parent = bank(5, vec![account(1, 10, &[4], None), account(2, 10, &[4], None)]);
        let child = Bank::new(6, ([1; 32], [2; 32]), Some(&parent), vec![account(2, 10, &[4, 5], None)], |_| true);
        assert_eq!((child.voted(5), child.voted(4), child.total()), (10, 20, 20));
        assert_eq!(child.account(&[1; 32]).and_then(AccountVotes::last_vote), Some(4));
        assert_eq!(child.account(&[2; 32]).and_then(AccountVotes::last_vote), Some(5));
        assert!(child.account(&[3; 32]).is_none());
    }

    #[test]
    fn who_is_locked_out_elsewhere() {
        let bank = bank(20, vec![account(1, 1, &[10, 11, 12], None), account(2, 1, &[12], None)]);
        let names = |slot, above, other: &dyn Fn(u64) -> bool| {
            bank.locked_out(slot, above, other).map(|key| key[0]).collect::<Vec<_>>()
        };
        assert_eq!(names(13, 0, &|_| true), [1, 2]);
        assert_eq!(names(15, 0, &|_| true), [1], "2 is bound until 14");
        assert_eq!(names(15, 10, &|_| true), [1], "11 binds until 15");
        assert_eq!(names(15, 11, &|_| true), [0; 0]);
        assert_eq!(names(13, 0, &|slot| slot < 12), [1]);
    }

    #[test]
    fn finalized_is_what_more_than_two_thirds_rooted() {
        let accounts = |own| {
            vec![
                account(1, 10, &[], Some(own)),
                account(2, 10, &[], Some(7)),
                account(3, 10, &[], Some(5)),
                account(4, 10, &[], None),
            ]
        };
        assert_eq!(bank(9, accounts(6)).finalized(None), Some(5));
        assert_eq!(bank(9, accounts(6)).finalized(Some((&[1; 32], 3))), Some(3));
        assert_eq!(bank(9, accounts(6)[1..].to_vec()).finalized(None), None, "two of three are not more");
    }
}

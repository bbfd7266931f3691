//! Queries about stakes and leaders: vote accounts, leader schedules, the largest accounts.
//!
//! reads   the ledger
//! memory  a leader schedule of the requested epoch
//! source  `rpc.rs` of `solana-rpc` 4.2 for the meaning of the results

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use hearth_wire::Pubkey;

use crate::commitment::Commitment;
use crate::leaders::Leader;
use crate::ledger::Ledger;
use crate::stakes::{EpochStakes, StakeHistory};
use crate::sysvars::Clock;
use crate::vote_state::{VoteAccount, VoteState};

impl Ledger {
    /// The stakes that determine an epoch's leaders; `None` if they are not known yet, or no longer.
    pub fn epoch_stakes(&self, epoch: u64) -> Option<Arc<EpochStakes>> {
        self.chain().epochs.stakes(epoch).cloned()
    }

    /// The leader of a slot; `None` if its epoch's leaders are unknown, or there is no stake.
    pub fn leader_at(&self, slot: u64) -> Option<Leader> {
        self.chain().epochs.leader(slot)
    }

    /// The leader of each slot of an epoch, in order; `None` if unknown. Empty without stake.
    pub fn leader_schedule(&self, epoch: u64) -> Option<Vec<Leader>> {
        let stakes = self.epoch_stakes(epoch)?;
        let slots = self.epoch_schedule().slots_in_epoch(epoch);
        let leaders = stakes.leaders(slots);
        Some((0..slots).map_while(|index| leaders.leader(index).copied()).collect())
    }

    /// Every vote account, sorted by address, in the newest state.
    pub fn vote_accounts(&self) -> Vec<VoteAccount> {
        self.vote_accounts_at(Commitment::Processed)
    }

    /// Every vote account at a commitment, sorted by address. One that has been closed since is missing, unless it has
    /// stake in that epoch.
    pub fn vote_accounts_at(&self, commitment: Commitment) -> Vec<VoteAccount> {
        let view = self.state(commitment);
        let epoch = self.epoch_schedule().epoch(view.slot);
        let (counted, active) = (self.epoch_stakes(epoch), self.epoch_stakes(epoch + 1));
        let mut keys = self.shared.hashing.stake_index().votes;
        keys.extend(counted.iter().chain(&active).flat_map(|stakes| stakes.votes.iter().map(|vote| vote.vote)));
        let stake_of = |stakes: &Option<Arc<EpochStakes>>, key: &Pubkey| {
            stakes.as_ref().and_then(|stakes| stakes.vote(key)).map_or(0, |vote| vote.stake)
        };
        let read = |key: Pubkey| {
            let state = view.with(&key, VoteState::of_account)??;
            let (stake, activated_stake) = (stake_of(&counted, &key), stake_of(&active, &key));
            Some(VoteAccount { key, stake, activated_stake, state })
        };
        keys.into_iter().filter_map(read).collect()
    }

    /// The activation of all stakes together at the end of each epoch.
    pub fn stake_history(&self) -> StakeHistory {
        StakeHistory::load(self.accounts())
    }

    /// The clock of the slot in progress.
    pub fn clock(&self) -> Clock {
        Clock::load(self.accounts())
    }

    /// The accounts with the most lamports among those for which `counts` is true, in descending order.
    pub fn largest_accounts(&self, count: usize, counts: impl Fn(&Pubkey) -> bool) -> Vec<(Pubkey, u64)> {
        let mut largest = BinaryHeap::with_capacity(count + 1);
        self.accounts().for_each(|key, account| {
            let poorest = largest.peek().map_or(0, |Reverse((lamports, _))| *lamports);
            if (largest.len() < count || account.lamports > poorest) && counts(key) {
                largest.push(Reverse((account.lamports, *key)));
                if largest.len() > count {
                    largest.pop();
                }
            }
        });
        largest.into_sorted_vec().into_iter().map(|Reverse((lamports, key))| (key, lamports)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Chain, wallet};

    #[test]
    fn the_richest_come_first() {
        let chain = Chain::new(&[5_000_000_000, 7_000_000_000, 6_000_000_000, 8_000_000_000]);
        let not_3 = |key: &Pubkey| *key != wallet(3);
        let richest = chain.ledger.largest_accounts(2, not_3);
        assert_eq!(richest, [(wallet(1), 7_000_000_000), (wallet(2), 6_000_000_000)]);
        assert_eq!(chain.ledger.largest_accounts(0, |_| true), []);
    }
}

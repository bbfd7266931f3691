//! Tracks votes seen in gossip or in blocks: the voters of each version of a slot, and their stake.
//!
//! reads   votes with verified signatures, with the voter's stake
//! writes  when a block passes two thirds (confirmed) or 52 % (duplicate confirmed)
//! memory  at most 2,048 votes of 40 B, twice, per vote account; the oldest are evicted
//! drops   votes for old or far slots, without stake, or for a third version: each an error that is counted
//! source  `docs/cluster-protocol.md` section 6.6: `solana-core` 4.2.2, `cluster_info_vote_listener.rs`

use std::collections::{BTreeMap, BTreeSet};

use hearth_mutation::{Mutation, active};
use hearth_wire::{Hash, Pubkey};

use super::types::BankId;
use super::{DUPLICATE_THRESHOLD, MAX_SLOTS_AHEAD, PROPAGATED_THRESHOLD, SUPERMAJORITY, exceeds};

/// Maximum versions of a slot for which an account's votes count.
const MAX_VERSIONS: usize = 2;
/// Maximum votes kept per account: a vote per slot for 13 minutes without a root.
const MAX_VOTES: usize = 2_048;
/// Maximum bytes of an account's votes, indexed by account and by block.
pub(super) const BYTES_OF_ACCOUNT: u64 = 2 * 40 * MAX_VOTES as u64;

/// Why a vote is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VoteError {
    /// The slot is not above the root.
    #[error("the slot is not above the root")]
    Old,
    /// The slot is more than 50,000 above the root.
    #[error("the slot is far above the root")]
    Far,
    /// The account has no stake in the slot's epoch.
    #[error("the account has no stake")]
    NoStake,
    /// The vote was counted before.
    #[error("the vote is known")]
    Known,
    /// The account voted for two other versions of the slot.
    #[error("the account voted for two other versions")]
    ThirdVersion,
}

/// The thresholds that a block has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThresholdsPassed {
    /// More than two thirds of the stake voted for the block; set for the first time only.
    pub is_confirmed: bool,
    /// More than 52 % of the stake did; set for the first time only.
    pub is_duplicate_confirmed: bool,
}

#[derive(Clone, Debug, Default)]
struct Count {
    voters: BTreeSet<Pubkey>,
    stake: u64,
    reached: ThresholdsPassed,
}

/// The votes for blocks above the root.
#[derive(Clone, Debug, Default)]
pub struct Tracker {
    blocks: BTreeMap<BankId, Count>,
    by_account: BTreeMap<Pubkey, BTreeSet<BankId>>,
    root: u64,
}

impl Tracker {
    /// A tracker with this root.
    pub fn new(root: u64) -> Self {
        Self { root, ..Self::default() }
    }

    /// Counts a vote: the newest slot in an account's vote, and its hash. `stake` of `total` is the account's in the
    /// slot's epoch.
    ///
    /// # Errors
    ///
    /// The vote does not count.
    pub fn vote(
        &mut self,
        account: &Pubkey,
        id: BankId,
        stake: u64,
        total: u64,
    ) -> Result<ThresholdsPassed, VoteError> {
        if id.slot <= self.root {
            return Err(VoteError::Old);
        }
        if id.slot > self.root.saturating_add(MAX_SLOTS_AHEAD) {
            return Err(VoteError::Far);
        }
        if stake == 0 {
            return Err(VoteError::NoStake);
        }
        let votes = self.by_account.entry(*account).or_default();
        if votes.contains(&id) {
            return Err(VoteError::Known);
        }
        if votes.range(versions(id.slot)).count() >= MAX_VERSIONS {
            return Err(VoteError::ThirdVersion);
        }
        if votes.len() >= MAX_VOTES {
            let oldest = votes.first().copied().filter(|oldest| *oldest < id).ok_or(VoteError::Old)?;
            votes.remove(&oldest);
            self.forget(account, oldest, stake);
        }
        self.by_account.entry(*account).or_default().insert(id);
        let count = self.blocks.entry(id).or_default();
        count.voters.insert(*account);
        count.stake = count.stake.saturating_add(stake);
        let confirming = if active(Mutation::LowConfirmation) { PROPAGATED_THRESHOLD } else { SUPERMAJORITY };
        let now = ThresholdsPassed {
            is_confirmed: exceeds(count.stake, total, confirming),
            is_duplicate_confirmed: exceeds(count.stake, total, DUPLICATE_THRESHOLD),
        };
        let before = count.reached;
        count.reached.is_confirmed |= now.is_confirmed;
        count.reached.is_duplicate_confirmed |= now.is_duplicate_confirmed;
        Ok(ThresholdsPassed {
            is_confirmed: now.is_confirmed && !before.is_confirmed,
            is_duplicate_confirmed: now.is_duplicate_confirmed && !before.is_duplicate_confirmed,
        })
    }

    fn forget(&mut self, account: &Pubkey, id: BankId, stake: u64) {
        let Some(count) = self.blocks.get_mut(&id) else { return };
        count.voters.remove(account);
        count.stake = count.stake.saturating_sub(stake);
        if count.voters.is_empty() && count.reached == ThresholdsPassed::default() {
            self.blocks.remove(&id);
        }
    }

    /// The thresholds that a block has passed so far.
    pub fn reached(&self, id: &BankId) -> ThresholdsPassed {
        self.blocks.get(id).map_or(ThresholdsPassed::default(), |count| count.reached)
    }

    /// The version of a slot that more than 52 % voted for.
    pub fn duplicate_confirmed(&self, slot: u64) -> Option<Hash> {
        let mut found = self.blocks.range(versions(slot));
        found.find(|(_, count)| count.reached.is_duplicate_confirmed).map(|(id, _)| id.hash)
    }

    /// The accounts that voted for a block.
    pub fn voters(&self, id: &BankId) -> impl Iterator<Item = &Pubkey> {
        self.blocks.get(id).into_iter().flat_map(|count| &count.voters)
    }

    /// The newest slot for which an account's vote was seen, whether its block is here or not.
    pub fn newest(&self, account: &Pubkey) -> Option<u64> {
        self.by_account.get(account)?.last().map(|id| id.slot)
    }

    /// Removes votes at and below a root.
    pub fn set_root(&mut self, root: u64) {
        self.root = root;
        self.blocks = self.blocks.split_off(&above(root));
        self.by_account.retain(|_, votes| {
            *votes = votes.split_off(&above(root));
            !votes.is_empty()
        });
    }
}

fn versions(slot: u64) -> std::ops::RangeInclusive<BankId> {
    BankId { slot, hash: [0; 32] }..=BankId { slot, hash: [0xff; 32] }
}

fn above(root: u64) -> BankId {
    BankId { slot: root.saturating_add(1), hash: [0; 32] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u64, version: u8) -> BankId {
        BankId { slot, hash: [version; 32] }
    }

    #[test]
    fn block_is_reported_once_a_threshold() {
        let mut tracker = Tracker::new(5);
        let mut vote = |name: u8| tracker.vote(&[name; 32], id(7, 1), 10, 40);
        let none = ThresholdsPassed::default();
        assert_eq!([vote(1), vote(2)], [Ok(none), Ok(none)]);
        let reached = ThresholdsPassed { is_confirmed: true, is_duplicate_confirmed: true };
        assert_eq!([vote(3), vote(4)], [Ok(reached), Ok(none)]);
        assert_eq!(tracker.reached(&id(7, 1)), reached);
        assert_eq!((tracker.duplicate_confirmed(7), tracker.duplicate_confirmed(8)), (Some([1; 32]), None));
        assert_eq!(tracker.voters(&id(7, 1)).count(), 4);
    }

    #[test]
    fn account_votes_for_two_versions_at_most() {
        let mut tracker = Tracker::new(5);
        let mut vote = |slot, version, stake| tracker.vote(&[1; 32], id(slot, version), stake, 100).map(|_| ());
        assert_eq!(vote(5, 1, 1), Err(VoteError::Old));
        assert_eq!(vote(50_006, 1, 1), Err(VoteError::Far));
        assert_eq!(vote(6, 1, 0), Err(VoteError::NoStake));
        assert_eq!([vote(6, 1, 1), vote(6, 1, 1), vote(6, 2, 1)], [Ok(()), Err(VoteError::Known), Ok(())]);
        assert_eq!(vote(6, 3, 1), Err(VoteError::ThirdVersion));
        assert_eq!((tracker.newest(&[1; 32]), tracker.newest(&[2; 32])), (Some(6), None));
        tracker.set_root(6);
        assert!(tracker.blocks.is_empty() && tracker.by_account.is_empty());
    }

    #[test]
    fn an_account_cannot_fill_the_memory() {
        let mut tracker = Tracker::new(0);
        for slot in 1..=3 * MAX_VOTES as u64 {
            tracker.vote(&[1; 32], id(slot, 1), 1, 100).expect("counted");
        }
        assert_eq!((tracker.blocks.len(), tracker.by_account[&[1; 32]].len()), (MAX_VOTES, MAX_VOTES));
        assert_eq!(tracker.vote(&[1; 32], id(1, 1), 1, 100), Err(VoteError::Old));
    }
}

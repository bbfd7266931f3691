//! calculation: the rewards of all stakes and the commissions of their vote accounts.
//!
//! reads   every stake account that delegates, each once; the vote accounts that they name, each once
//! memory  64 B per stake that is rewarded; the parsed vote accounts, until it is done
//! source  `bank/partitioned_epoch_rewards/calculation.rs` of `solana-runtime` 4.2

use std::collections::BTreeMap;

use hearth_wire::Pubkey;

use super::RewardFeatures;
use super::points::{EarnedPoints, split};
use crate::accounts::Accounts;
use crate::stakes::{EpochStakes, StakeAccount, StakeHistory};
use crate::vote_state::VoteState;

/// The state when an epoch begins, and what is divided.
pub(crate) struct EpochBoundary<'a> {
    /// The account store as the parent block left it.
    pub(crate) accounts: &'a Accounts,
    /// Every stake account that delegates, by address.
    pub(crate) stakes: &'a [StakeAccount],
    /// The stake history, up to the rewarded epoch.
    pub(crate) history: &'a StakeHistory,
    /// The rewarded epoch: that of the parent block.
    pub(crate) rewarded: u64,
    /// Stakes with earlier commissions, those that count first: as of the start of the epoch before the rewarded one,
    /// and of the rewarded one.
    pub(crate) earlier: [Option<&'a EpochStakes>; 2],
    /// The features that affect rewards, and the rent rate.
    pub(crate) features: &'a RewardFeatures,
    /// The lamports of the rewarded epoch, which are divided by points.
    pub(crate) lamports: u64,
    /// The vote accounts as they were when the epoch began; `None` if the accounts have them so.
    pub(crate) votes: Option<&'a BTreeMap<Pubkey, VoteState>>,
}

/// The result of an [`EpochBoundary`].
#[derive(Debug, Default)]
pub(crate) struct RewardCalculation {
    /// The points of all stakes together.
    pub(crate) points: u128,
    /// The lamports that were divided; 0 if there are no points.
    pub(crate) lamports: u64,
    /// The reward of each stake that changes, by address.
    pub(crate) stakes: Vec<StakeReward>,
    /// The commissions by recipient.
    pub(crate) commissions: BTreeMap<Pubkey, Commission>,
}

/// The reward of a stake, which may be zero lamports: then only its credits advance, or its delegation is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StakeReward {
    /// Address of the stake account.
    pub(crate) key: Pubkey,
    /// The lamports that it gets.
    pub(crate) lamports: u64,
    /// Its delegation with them.
    pub(crate) delegated: u64,
    /// The credits up to which it is rewarded.
    pub(crate) credits_observed: u64,
    /// The commission with which it was divided, in hundredths of a percent.
    pub(crate) commission_bps: u16,
}

/// The commission for a recipient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commission {
    /// Lamports that the recipient gets.
    pub(crate) lamports: u64,
    /// Lamports that cannot be paid.
    pub(crate) burned: u64,
    /// Whether the recipient is the vote account itself.
    pub(crate) is_vote_account: bool,
    /// The rate in hundredths of a percent.
    pub(crate) commission_bps: u16,
}

impl Commission {
    /// Adds another for the same recipient. If a vote account collects for itself, what others send to it is burned:
    /// they may send only to wallets.
    fn add(&mut self, other: Self) {
        let Self { lamports, burned, is_vote_account, .. } = other;
        self.burned = self.burned.saturating_add(burned);
        match (self.is_vote_account, is_vote_account) {
            (true, false) => self.burned = self.burned.saturating_add(lamports),
            (false, true) => {
                self.burned = self.burned.saturating_add(self.lamports);
                (self.lamports, self.is_vote_account) = (lamports, true);
            }
            _ => self.lamports = self.lamports.saturating_add(lamports),
        }
    }
}

/// A vote account, with the commission that counts.
struct Vote {
    state: VoteState,
    commission_bps: u16,
}

/// The vote accounts that stakes name; `None` for those that do not exist.
#[derive(Default)]
struct Votes {
    places: BTreeMap<Pubkey, usize>,
    votes: Vec<Option<Vote>>,
}

impl EpochBoundary<'_> {
    /// Divides the lamports by the points that each stake has earned.
    pub(crate) fn calculate(&self) -> RewardCalculation {
        let (votes, earned) = self.earned();
        // As those of one stake, these may be anything in another node's archive.
        let points = earned.iter().fold(0u128, |sum, (_, earned)| sum.saturating_add(earned.points));
        self.redeem_all(&votes, earned, points)
    }

    /// Divides the lamports once more, while they are in distribution: all stakes together had so many points. Stakes
    /// that are paid already may be missing. Fails if the points cannot be those.
    pub(crate) fn calculate_again(&self, points: u128) -> Result<Vec<StakeReward>, &'static str> {
        let (votes, earned) = self.earned();
        let is_part = |earned: &EarnedPoints| {
            earned.points <= points && earned.points.checked_mul(self.lamports.into()).is_some()
        };
        match earned.iter().all(|(_, earned)| is_part(earned)) {
            true => Ok(self.redeem_all(&votes, earned, points).stakes),
            false => Err("a stake has more points than there are in the distribution of rewards"),
        }
    }

    /// The points that each stake has earned, with the place of its vote account.
    fn earned(&self) -> (Votes, Vec<(usize, EarnedPoints)>) {
        let mut votes = Votes::default();
        let earn = |stake: &StakeAccount| {
            let place = self.place(&mut votes, &stake.delegation.vote);
            let vote = votes.votes[place].as_ref();
            (
                place,
                vote.map_or_else(EarnedPoints::default, |vote| {
                    EarnedPoints::of(&stake.delegation, &vote.state, self.history)
                }),
            )
        };
        let earned = self.stakes.iter().map(earn).collect();
        (votes, earned)
    }

    fn redeem_all(&self, votes: &Votes, earned: Vec<(usize, EarnedPoints)>, points: u128) -> RewardCalculation {
        let mut calculated = RewardCalculation::default();
        if points == 0 {
            return calculated;
        }
        (calculated.points, calculated.lamports) = (points, self.lamports);
        for (stake, (place, earned)) in self.stakes.iter().zip(earned) {
            let redeemed = match &votes.votes[place] {
                Some(vote) => self.redeem(stake, vote, &earned, points),
                None => self.without_vote(stake),
            };
            let Some((reward, recipient, commission)) = redeemed else { continue };
            calculated.stakes.push(reward);
            calculated.commissions.entry(recipient).and_modify(|sum| sum.add(commission)).or_insert(commission);
        }
        calculated
    }

    /// The place of a vote account, which is read when it is first named.
    fn place(&self, votes: &mut Votes, key: &Pubkey) -> usize {
        let Votes { places, votes } = votes;
        *places.entry(*key).or_insert_with(|| {
            votes.push(self.vote(key));
            votes.len() - 1
        })
    }

    fn vote(&self, key: &Pubkey) -> Option<Vote> {
        let state = match self.votes {
            Some(votes) => votes.get(key)?.clone(),
            None => self.accounts.with(key, VoteState::of_account)??,
        };
        let mut earlier = self.earlier.iter().flatten().filter(|_| self.features.delay_commission_updates);
        let commission_bps = earlier.find_map(|stakes| stakes.commission_bps(key)).unwrap_or(state.commission_bps);
        let commission_bps = self.features.counted_commission_bps(commission_bps);
        Some(Vote { state, commission_bps })
    }

    /// The reward of a stake, and who gets which commission for it; `None` if nothing changes.
    fn redeem(
        &self,
        stake: &StakeAccount,
        vote: &Vote,
        earned: &EarnedPoints,
        points: u128,
    ) -> Option<(StakeReward, Pubkey, Commission)> {
        let commission_bps = vote.commission_bps;
        let divided = self.divide(stake, commission_bps, earned, points);
        let (of_vote, lamports) = divided.unwrap_or_default();
        let delegated = stake.delegation.stake.saturating_add(lamports);
        if divided.is_none() && !self.must_adjust(stake) {
            return None;
        }
        let credits_observed = match divided {
            Some(_) => earned.credits,
            None => stake.delegation.credits_observed,
        };
        let reward = StakeReward { key: stake.key, lamports, delegated, credits_observed, commission_bps };
        let itself = stake.delegation.vote;
        let collector = vote.state.inflation_rewards_collector;
        let recipient = collector.filter(|_| self.features.custom_commission_collector).unwrap_or(itself);
        let is_vote_account = recipient == itself;
        Some((reward, recipient, Commission { lamports: of_vote, burned: 0, is_vote_account, commission_bps }))
    }

    /// The lamports for the vote account and for the stake; `None` if nothing is paid and no credits advance.
    fn divide(
        &self,
        stake: &StakeAccount,
        commission_bps: u16,
        earned: &EarnedPoints,
        points: u128,
    ) -> Option<(u64, u64)> {
        let is_new = stake.delegation.activation_epoch == self.rewarded;
        if earned.is_restarted || self.lamports == 0 || is_new {
            return Some((0, 0));
        }
        // In another node's archive there may be more points than any chain has. Then the share is too small.
        let of_both = earned.points.saturating_mul(self.lamports.into());
        // At most all lamports, since these points are a part of all.
        match (of_both / points) as u64 {
            0 => None,
            of_both => split(commission_bps, of_both),
        }
    }

    /// The change of a stake whose vote account does not exist: it may have to be reduced.
    fn without_vote(&self, stake: &StakeAccount) -> Option<(StakeReward, Pubkey, Commission)> {
        let delegation = &stake.delegation;
        self.must_adjust(stake).then(|| {
            let reward = StakeReward {
                key: stake.key,
                lamports: 0,
                delegated: delegation.stake,
                credits_observed: delegation.credits_observed,
                commission_bps: 0,
            };
            (reward, delegation.vote, Commission::default())
        })
    }

    /// Whether the balance of a stake account no longer covers the delegation besides the minimum.
    fn must_adjust(&self, stake: &StakeAccount) -> bool {
        let covered = stake.lamports.saturating_sub(self.features.minimum_balance(stake.data_len));
        if !self.features.relax_post_exec_min_balance_check || stake.delegation.stake <= covered {
            return false;
        }
        let active = stake.delegation.activation(self.rewarded, self.history);
        active.effective != 0 || active.activating != 0
    }
}

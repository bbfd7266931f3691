//! payout: pays commissions, in the first block of an epoch, and stakes, in the blocks after it.
//!
//! reads   what was calculated
//! writes  the recipients' accounts; an entry for each payment
//! drops   what a recipient cannot receive: those lamports are never created
//! source  `distribute_reward_commissions` and `bank/partitioned_epoch_rewards/distribution.rs` of `solana-runtime` 4.2

use std::collections::BTreeMap;

use hearth_wire::Pubkey;
use hearth_wire::consts::STAKE_PROGRAM;

use super::RewardFeatures;
use super::calculation::{Commission, StakeReward};
use crate::account::Account;
use crate::accounts::Accounts;
use crate::block::{Reward, RewardKind};
use crate::stakes::{self, Delegation, StakeHistory};

/// The result of paying commissions or a block's stakes.
#[derive(Debug, Default)]
pub(crate) struct Payout {
    /// The payments in the order in which they were made.
    pub(crate) rewards: Vec<Reward>,
    /// Lamports that are done with: paid, or not payable.
    pub(crate) distributed: u64,
}

impl Payout {
    /// Counts lamports that are done with. In another node's archive the rewards may be more than any chain has.
    fn distribute(&mut self, lamports: u64) {
        self.distributed = self.distributed.saturating_add(lamports);
    }
}

/// Pays commissions to their recipients.
pub(crate) fn pay_commissions(
    accounts: &Accounts,
    commissions: &BTreeMap<Pubkey, Commission>,
    features: &RewardFeatures,
) -> Payout {
    let mut paid = Payout::default();
    for (key, commission) in commissions {
        // Without collectors nothing is ever sent to an account that is not there.
        if !features.custom_commission_collector && accounts.with(key, |_| ()).is_none() {
            continue;
        }
        paid.distribute(commission.lamports.saturating_add(commission.burned));
        let receive = |account: &mut Account| {
            let (before, after) = (account.lamports, account.lamports.checked_add(commission.lamports)?);
            if !commission.is_vote_account && !features.may_collect(key, account, before, after) {
                return None;
            }
            account.lamports = after;
            Some(after)
        };
        let Some(post_balance) = accounts.update(key, receive) else { continue };
        let (percent, commission_bps) = features.shown_commission(commission.commission_bps);
        paid.rewards.push(Reward {
            pubkey: *key,
            lamports: commission.lamports as i64,
            post_balance,
            kind: RewardKind::Voting,
            commission: percent,
            commission_bps,
        });
    }
    paid
}

/// A block that pays stakes.
pub(crate) struct PayoutBlock<'a> {
    /// The account store, in which the payments are made.
    pub(crate) accounts: &'a Accounts,
    /// The stake history, from which active stake is computed.
    pub(crate) history: &'a StakeHistory,
    /// The block's epoch, which follows the rewarded one.
    pub(crate) epoch: u64,
    /// The features that affect rewards, and the rent rate.
    pub(crate) features: &'a RewardFeatures,
}

impl PayoutBlock<'_> {
    /// Pays these stakes; the result has no entries for payments of zero lamports.
    pub(crate) fn pay(&self, part: &[StakeReward]) -> Payout {
        let mut paid = Payout::default();
        for reward in part {
            paid.distribute(reward.lamports);
            let entry = self.accounts.update(&reward.key, |account| self.pay_one(account, reward));
            paid.rewards.extend(entry.filter(|entry| entry.lamports > 0));
        }
        paid
    }

    /// Pays a stake; `None` if its account cannot receive the reward.
    fn pay_one(&self, account: &mut Account, reward: &StakeReward) -> Option<Reward> {
        let was = Delegation::read(account.data()).filter(|_| account.owner == STAKE_PROGRAM)?;
        let lamports = account.lamports.checked_add(reward.lamports)?;
        let mut delegation = Delegation { stake: reward.delegated, credits_observed: reward.credits_observed, ..was };
        let covered = lamports.saturating_sub(self.features.minimum_balance(account.data().len()));
        if self.features.relax_post_exec_min_balance_check && covered < delegation.stake {
            delegation.stake = covered;
            if covered == 0 {
                // At once, not with the next epoch as when its owner deactivates it.
                delegation.deactivation_epoch = self.epoch.saturating_sub(1);
            }
        }
        account.lamports = lamports;
        let mut data = account.data().to_vec();
        stakes::set_rewarded(&mut data, &delegation);
        account.set_data(&data);
        let kind = match delegation.activation(self.epoch, self.history).effective {
            0 => RewardKind::DeactivatedStake,
            _ => RewardKind::Staking,
        };
        let (commission, commission_bps) = self.features.shown_commission(reward.commission_bps);
        Some(Reward {
            pubkey: reward.key,
            lamports: reward.lamports as i64,
            post_balance: lamports,
            kind,
            commission,
            commission_bps,
        })
    }
}

//! Rewards: the lamports that inflation adds for an epoch, and how stakes and their validators share them.
//!
//! reads   stake and vote accounts when an epoch begins; the commissions that vote accounts had one and two epochs
//!         before
//! writes  commissions, in the first block of an epoch; stakes, in the blocks after it
//! memory  64 B per stake account while rewards are distributed
//! source  `bank/partitioned_epoch_rewards`, `inflation_rewards` and `bank.rs` of `solana-runtime` 4.2 for the
//!         arithmetic and its order, which decide every lamport; without what only Alpenglow needs
//!
//! A stake earns points: its lamports times the credits of its vote account, for each epoch since it was last rewarded.
//! The epoch's lamports are divided by all points, and each stake's share between the stake and the vote account's
//! commission. A commission counts as it was at the start of the epoch before the rewarded one, so that it cannot rise
//! at the last moment. What rounding leaves over is never created.

mod calculation;
mod inflation;
mod payout;
mod points;

use std::hash::Hasher;

use agave_feature_set::{
    block_revenue_sharing, commission_rate_in_basis_points, custom_commission_collector, delay_commission_updates,
    relax_post_exec_min_balance_check,
};
use hearth_wire::consts::INCINERATOR;
use hearth_wire::{Hash, Pubkey};
use siphasher::sip::SipHasher13;

use crate::account::Account;
use crate::features::ActiveFeatures;
use crate::programs::is_reserved;
use crate::rent::ACCOUNT_OVERHEAD_BYTES;
#[cfg(test)]
use crate::rent::{LAMPORTS_PER_BYTE, minimum_balance};

pub(crate) use calculation::{EpochBoundary, RewardCalculation, StakeReward};
pub(crate) use inflation::{InflationFeatures, InflationPoint};
pub(crate) use payout::{PayoutBlock, pay_commissions};

/// The rules that decide the rewards of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RewardRules {
    /// How many lamports an epoch adds.
    pub(crate) inflating: InflationPoint,
    /// Which rules are in force.
    pub(crate) features: RewardFeatures,
}

impl RewardRules {
    /// The rules of a chain that began with this inflation, while these features are active.
    pub(crate) fn of(genesis: InflationPoint, features: RewardFeatures, inflation: &InflationFeatures) -> Self {
        Self { inflating: genesis.with_features(inflation), features }
    }
}

/// Which of the cluster's features that concern rewards are active, by their names there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RewardFeatures {
    /// A commission counts as it was an epoch before the rewarded one began; without it, as it is now.
    pub(crate) delay_commission_updates: bool,
    /// A commission counts to the hundredth of a percent; without it, in whole percents.
    pub(crate) commission_rate_in_basis_points: bool,
    /// The vote account's collector gets the commission; without it, the vote account.
    pub(crate) custom_commission_collector: bool,
    /// A delegation that its account's balance no longer covers is reduced, and accounts below the minimum balance may
    /// receive something.
    pub(crate) relax_post_exec_min_balance_check: bool,
    /// After the distribution, the lamports of the epoch-rewards sysvar above its minimum balance are burned.
    pub(crate) block_revenue_sharing: bool,
    /// The lamports that an account must hold for each byte.
    pub(crate) lamports_per_byte: u64,
}

impl RewardFeatures {
    /// Every feature is active, at the usual rent rate.
    #[cfg(test)]
    pub(crate) const ALL: Self = Self {
        delay_commission_updates: true,
        commission_rate_in_basis_points: true,
        custom_commission_collector: true,
        relax_post_exec_min_balance_check: true,
        block_revenue_sharing: true,
        lamports_per_byte: LAMPORTS_PER_BYTE,
    };

    /// The features and the rent rate of a block.
    pub(crate) fn of(features: &ActiveFeatures) -> Self {
        let has = |id: [u8; 32]| features.is_active(&id);
        Self {
            delay_commission_updates: has(delay_commission_updates::ID.to_bytes()),
            commission_rate_in_basis_points: has(commission_rate_in_basis_points::ID.to_bytes()),
            custom_commission_collector: has(custom_commission_collector::ID.to_bytes()),
            relax_post_exec_min_balance_check: has(relax_post_exec_min_balance_check::ID.to_bytes()),
            block_revenue_sharing: has(block_revenue_sharing::ID.to_bytes()),
            lamports_per_byte: features.lamports_per_byte(),
        }
    }

    /// The minimum balance in lamports of an account with `data_len` bytes of data.
    pub(crate) const fn minimum_balance(&self, data_len: usize) -> u64 {
        (ACCOUNT_OVERHEAD_BYTES + data_len as u64).saturating_mul(self.lamports_per_byte)
    }

    /// The commission with which lamports are divided, of a vote account with this one.
    fn counted_commission_bps(&self, commission_bps: u16) -> u16 {
        match self.commission_rate_in_basis_points {
            true => commission_bps,
            false => (commission_bps / 100).min(u8::MAX.into()) * 100,
        }
    }

    /// How a commission is shown with a reward: in percent, and in hundredths of a percent.
    fn shown_commission(&self, commission_bps: u16) -> (Option<u8>, Option<u16>) {
        match (self.custom_commission_collector, self.commission_rate_in_basis_points) {
            (true, _) => (None, None),
            (false, true) => (None, Some(commission_bps)),
            (false, false) => (Some((commission_bps / 100) as u8), None),
        }
    }

    /// Whether an account, other than the vote account that earned them, may collect commission or fees that change
    /// its balance from `before` to `after` lamports.
    pub(crate) fn may_collect(&self, key: &Pubkey, account: &Account, before: u64, after: u64) -> bool {
        let is_lasting = after >= self.minimum_balance(account.data().len())
            || (self.relax_post_exec_min_balance_check && before != 0)
            || *key == INCINERATOR;
        account.is_system_owned() && !is_reserved(key) && is_lasting
    }
}

/// Which of `count` blocks after the first of an epoch pays a stake, the first of them being 0. `blockhash` is the last
/// one before the epoch.
pub fn partition_of(stake: &Pubkey, blockhash: &Hash, count: usize) -> usize {
    let mut hasher = SipHasher13::new();
    hasher.write(blockhash);
    hasher.write(stake);
    ((u128::from(hasher.finish()) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests;

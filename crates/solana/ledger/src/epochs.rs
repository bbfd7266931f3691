//! Epoch boundaries: stakes of the coming epochs, the stake history, the distribution of rewards.
//!
//! reads   vote and stake accounts when an epoch begins
//! writes  the stake history and epoch rewards sysvars; commissions and stakes, through [`crate::rewards`]
//! memory  the stakes of 5 epochs, with the vote accounts of then; 64 B per stake account while rewards are distributed
//! source  `process_new_epoch` of `bank.rs`, `bank/partitioned_epoch_rewards` of `solana-runtime` 4.2
//!
//! The first block of an epoch pays the commissions, and the blocks after it the stakes, about 4,096 in each. Without
//! inflation the same happens with no lamports in it, and only advances the credits that stakes have observed.

use std::collections::BTreeMap;
use std::sync::Arc;

use hearth_wire::{Hash, Pubkey};

use crate::account::Account;
use crate::accounts::Accounts;
use crate::bank_hash::{BankHasher, StakeIndex};
use crate::block::{BlockRewards, Reward};
use crate::epoch::EpochSchedule;
use crate::leaders::Leader;
use crate::rewards::{
    EpochBoundary, PayoutBlock, RewardCalculation, RewardFeatures, RewardRules, StakeReward, partition_of,
    pay_commissions,
};
use crate::stakes::{self, CountedVote, EpochStakes, StakeHistory, VoteStake};
use crate::sysvars::EpochRewards;
use crate::vote_state::VoteState;

/// Number of epochs whose stakes are kept.
const EPOCHS_KEPT: u64 = 5;
/// Stake accounts rewarded per block, on average: a hash divides them among the blocks.
const REWARDED_IN_BLOCK: usize = 4096;

/// The start of a slot.
pub(crate) struct NewSlot<'a> {
    pub(crate) slot: u64,
    pub(crate) parent: u64,
    pub(crate) height: u64,
    pub(crate) parent_blockhash: &'a Hash,
    pub(crate) rules: &'a RewardRules,
    /// The lamports that feature activations have created in this slot.
    pub(crate) created: u64,
}

/// The outcome of beginning a slot.
pub(crate) struct SlotStart {
    /// The epoch of the slot's parent.
    pub(crate) parent_epoch: u64,
    /// The rewards that were paid.
    pub(crate) rewards: BlockRewards,
}

/// The state of the epoch boundaries.
#[derive(Clone, Debug)]
pub(crate) struct Epochs {
    pub(crate) schedule: EpochSchedule,
    stakes: BTreeMap<u64, Arc<EpochStakes>>,
    rewards: Option<Arc<Rewards>>,
}

/// The part of [`Epochs`] that must survive a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct KeptEpochs {
    stakes: Vec<KeptStakes>,
    rewards: Option<Rewards>,
}

/// The stakes of an epoch in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct KeptStakes {
    epoch: u64,
    counted_in: u64,
    votes: Vec<KeptStake>,
}

/// A vote account's stake in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct KeptStake {
    #[serde(with = "VoteStakeFields")]
    vote: VoteStake,
    commission_bps: u16,
    /// It is beside the rest: [`KeptEpochs::vote_accounts`].
    #[serde(skip)]
    account: Account,
}

/// Vote accounts by the epoch in whose stakes they are, and by address.
pub(crate) type VoteAccounts = BTreeMap<(u64, Pubkey), Account>;

impl KeptEpochs {
    /// The vote accounts, each with the epoch in whose stakes it is. They are too large for the text that the rest
    /// becomes.
    pub(crate) fn vote_accounts(&self) -> impl Iterator<Item = (u64, &Pubkey, &Account)> {
        self.stakes.iter().flat_map(|stakes| {
            let epoch = stakes.epoch;
            stakes.votes.iter().map(move |kept| (epoch, &kept.vote.vote, &kept.account))
        })
    }

    /// Puts the vote accounts back. Returns whether these are the ones.
    pub(crate) fn set_vote_accounts(&mut self, mut accounts: VoteAccounts) -> bool {
        for KeptStakes { epoch, votes, .. } in &mut self.stakes {
            for kept in votes {
                let Some(account) = accounts.remove(&(*epoch, kept.vote.vote)) else { return false };
                kept.account = account;
            }
        }
        accounts.is_empty()
    }

    /// A sample for tests: two vote accounts in the stakes of two epochs each.
    #[cfg(test)]
    pub(crate) fn sample() -> Self {
        let vote = |n: u8| KeptStake {
            vote: VoteStake { vote: [n; 32], node: [1; 32], collector: [2; 32], stake: u64::from(n) },
            commission_bps: 700,
            account: Account::with_data(5, [n; 32], &[n; 3762]),
        };
        let of = |epoch: u64| KeptStakes { epoch, counted_in: epoch - 1, votes: vec![vote(epoch as u8), vote(100)] };
        Self { stakes: vec![of(7), of(8)], rewards: None }
    }
}

/// The fields of a [`VoteStake`], for serde: its crate knows only the network's format.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(remote = "VoteStake")]
struct VoteStakeFields {
    vote: Pubkey,
    node: Pubkey,
    collector: Pubkey,
    stake: u64,
}

/// Rewards in distribution, by the block that pays them.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Rewards {
    first_height: u64,
    parts: Vec<Vec<StakeReward>>,
}

/// The rewards by the block that pays each, the first block after that of the epoch's begin being 0.
fn in_parts(rewards: Vec<StakeReward>, parent_blockhash: &Hash, count: usize) -> Vec<Vec<StakeReward>> {
    let mut parts = vec![vec![]; count];
    for reward in rewards {
        parts[partition_of(&reward.key, parent_blockhash, count)].push(reward);
    }
    parts
}

/// The point at which a chain resumes whose rewards may be in distribution.
pub(crate) struct ResumePoint<'a> {
    /// The slot that has ended.
    pub(crate) slot: u64,
    /// The vote accounts as they were when the slot's epoch began.
    pub(crate) votes: &'a BTreeMap<Pubkey, VoteState>,
    /// The features that affect rewards, and the rent rate.
    pub(crate) features: &'a RewardFeatures,
}

impl Epochs {
    /// At genesis, in `slot`: its stakes apply to every epoch whose leaders are already computed.
    pub(crate) fn at_genesis(schedule: EpochSchedule, slot: u64, accounts: &Accounts, index: &StakeIndex) -> Self {
        let (history, all) = (StakeHistory::load(accounts), stakes::stake_accounts(accounts, index));
        let now = schedule.epoch(slot);
        let votes = stakes::vote_stakes(accounts, index, &all, &history, now);
        let of = |epoch| (epoch, Arc::new(EpochStakes::new(epoch, now, votes.iter().cloned())));
        let stakes = (now..=schedule.leader_schedule_epoch(slot)).map(of).collect();
        Self { schedule, stakes, rewards: None }
    }

    /// Restores the state that [`Epochs::kept`] returned.
    pub(crate) fn restore(schedule: EpochSchedule, kept: KeptEpochs) -> Self {
        let of = |KeptStakes { epoch, counted_in, votes }: KeptStakes| {
            let counted =
                |KeptStake { vote: stake, commission_bps, account }| CountedVote { stake, commission_bps, account };
            (epoch, Arc::new(EpochStakes::new(epoch, counted_in, votes.into_iter().map(counted))))
        };
        Self { schedule, stakes: kept.stakes.into_iter().map(of).collect(), rewards: kept.rewards.map(Arc::new) }
    }

    /// The state at the end of a slot, with the stakes of each epoch; rewards may be in distribution
    /// ([`Epochs::resume_rewards`]).
    pub(crate) fn with_stakes(schedule: EpochSchedule, stakes: impl IntoIterator<Item = EpochStakes>) -> Self {
        let stakes = stakes.into_iter().map(|stakes| (stakes.epoch, Arc::new(stakes)));
        let mut epochs = Self { schedule, stakes: stakes.collect(), rewards: None };
        epochs.drop_old();
        epochs
    }

    /// Calculates once more the rewards that are in distribution, if there are any. Fails if the accounts contradict
    /// themselves.
    pub(crate) fn resume_rewards(
        &mut self,
        accounts: &Accounts,
        index: &StakeIndex,
        at: &ResumePoint<'_>,
    ) -> Result<(), &'static str> {
        let sysvar = EpochRewards::load(accounts);
        if !sysvar.active {
            return Ok(());
        }
        let most = self.parts_max() as u64;
        let Some(epoch) =
            self.schedule.epoch(at.slot).checked_sub(1).filter(|_| (1..=most).contains(&sysvar.num_partitions))
        else {
            return Err("rewards are in distribution over more blocks than an epoch has for them, or over none");
        };
        let all = stakes::stake_accounts(accounts, index);
        let history = StakeHistory::load(accounts);
        let boundary = EpochBoundary {
            accounts,
            stakes: &all,
            history: &history,
            rewarded: epoch,
            earlier: [epoch, epoch + 1].map(|epoch| self.stakes.get(&epoch).map(|stakes| &**stakes)),
            features: at.features,
            lamports: sysvar.total_rewards,
            votes: Some(at.votes),
        };
        let count = sysvar.num_partitions as usize;
        let parts = in_parts(boundary.calculate_again(sysvar.total_points)?, &sysvar.parent_blockhash, count);
        self.rewards = Some(Arc::new(Rewards { first_height: sysvar.distribution_starting_block_height, parts }));
        Ok(())
    }

    /// The state that must survive a restart.
    pub(crate) fn kept(&self) -> KeptEpochs {
        let kept = |CountedVote { stake: vote, commission_bps, account }| KeptStake { vote, commission_bps, account };
        let of = |stakes: &Arc<EpochStakes>| {
            let votes = stakes.counted().map(kept).collect();
            KeptStakes { epoch: stakes.epoch, counted_in: stakes.counted_in, votes }
        };
        KeptEpochs { stakes: self.stakes.values().map(of).collect(), rewards: self.rewards.as_deref().cloned() }
    }

    /// The stakes of all epochs that are kept, the oldest first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<EpochStakes>> {
        self.stakes.values()
    }

    /// The stakes of an epoch, if they are known.
    pub(crate) fn stakes(&self, epoch: u64) -> Option<&Arc<EpochStakes>> {
        self.stakes.get(&epoch)
    }

    /// The stakes that are active in the epoch of a slot, which are those that lead the next one.
    pub(crate) fn active_stakes(&self, slot: u64) -> Option<&Arc<EpochStakes>> {
        self.stakes(self.schedule.epoch(slot) + 1)
    }

    /// The leader of a slot, if its epoch's stakes are known and not empty.
    pub(crate) fn leader(&self, slot: u64) -> Option<Leader> {
        let (epoch, index) = self.schedule.epoch_and_index(slot);
        self.stakes(epoch)?.leaders(self.schedule.slots_in_epoch(epoch)).leader(index).copied()
    }

    /// The recipient of a slot's fees, if the slot has a leader, and whether that is the leader's vote account.
    pub(crate) fn fee_collector(&self, slot: u64, features: &RewardFeatures) -> Option<(Pubkey, bool)> {
        let leader = self.leader(slot)?;
        if !features.custom_commission_collector {
            return Some((leader.node, false));
        }
        let vote = self.stakes(self.schedule.epoch(slot))?.vote(&leader.vote)?;
        Some((vote.collector, vote.collector == leader.vote))
    }

    /// Whether rewards are in distribution. Stakes are locked until they are paid.
    pub(crate) fn are_rewards_due(&self) -> bool {
        self.rewards.is_some()
    }

    /// Runs the epoch logic that precedes a slot's sysvars.
    pub(crate) fn begin_slot(&mut self, accounts: &Accounts, hashing: &BankHasher, new: &NewSlot<'_>) -> SlotStart {
        let (epoch, parent_epoch) = (self.schedule.epoch(new.slot), self.schedule.epoch(new.parent));
        let mut rewards = BlockRewards::default();
        if parent_epoch < epoch {
            // The stake index, and the lamports of all accounts, are complete only after this.
            hashing.complete(accounts);
            rewards = self.begin_epoch(accounts, hashing, new);
        }
        rewards.rewards.extend(self.give_rewards(accounts, epoch, new));
        SlotStart { parent_epoch, rewards }
    }

    fn begin_epoch(&mut self, accounts: &Accounts, hashing: &BankHasher, new: &NewSlot<'_>) -> BlockRewards {
        let (epoch, rewarded) = (self.schedule.epoch(new.slot), self.schedule.epoch(new.parent));
        let index = hashing.stake_index();
        let all = stakes::stake_accounts(accounts, &index);
        let mut history = StakeHistory::load(accounts);
        history.add(rewarded, stakes::all_activation(&all, rewarded, &history));
        // The stakes by which an epoch's leaders are drawn were counted as the epoch before began.
        let earlier = [rewarded, epoch].map(|epoch| self.stakes.get(&epoch).map(|stakes| &**stakes));
        // Feature activations come before the rewards, and what they create counts too.
        let capitalization = hashing.capitalization().saturating_add(new.created);
        let boundary = EpochBoundary {
            accounts,
            stakes: &all,
            history: &history,
            rewarded,
            earlier,
            features: &new.rules.features,
            lamports: new.rules.inflating.lamports(&self.schedule, capitalization, rewarded, epoch),
            votes: None,
        };
        let calculated = boundary.calculate();
        let votes = stakes::vote_stakes(accounts, &index, &all, &history, epoch);
        // If whole epochs had no block, the leaders of this epoch are not computed yet either.
        for to_lead in [epoch, self.schedule.leader_schedule_epoch(new.slot)] {
            let of = || Arc::new(EpochStakes::new(to_lead, epoch, votes.iter().cloned()));
            self.stakes.entry(to_lead).or_insert_with(of);
        }
        self.drop_old();
        history.store(accounts);
        self.begin_rewards(accounts, calculated, new)
    }

    /// Pays the commissions, and prepares the blocks that pay the stakes.
    fn begin_rewards(&mut self, accounts: &Accounts, calculated: RewardCalculation, new: &NewSlot<'_>) -> BlockRewards {
        let paid = pay_commissions(accounts, &calculated.commissions, &new.rules.features);
        let count = self.part_count(self.schedule.epoch(new.slot), calculated.stakes.len());
        let parts = in_parts(calculated.stakes, new.parent_blockhash, count);
        let first_height = new.height + 1;
        let sysvar = EpochRewards {
            distribution_starting_block_height: first_height,
            num_partitions: count as u64,
            parent_blockhash: *new.parent_blockhash,
            total_points: calculated.points,
            total_rewards: calculated.lamports,
            distributed_rewards: paid.distributed,
            active: true,
        };
        sysvar.store(accounts);
        self.rewards = Some(Arc::new(Rewards { first_height, parts }));
        BlockRewards { rewards: paid.rewards, num_partitions: Some(count as u64) }
    }

    /// The number of blocks that pay this many stakes in an epoch.
    fn part_count(&self, epoch: u64, stakes: usize) -> usize {
        if self.schedule.warmup && epoch < self.schedule.first_normal_epoch {
            return 1;
        }
        stakes.div_ceil(REWARDED_IN_BLOCK).clamp(1, self.parts_max())
    }

    /// The most blocks that pay the stakes of an epoch: a tenth of the epoch.
    fn parts_max(&self) -> usize {
        (self.schedule.slots_per_epoch / 10).max(1) as usize
    }

    /// Drops the stakes of epochs that no rule asks for any more.
    fn drop_old(&mut self) {
        let newest = self.stakes.keys().next_back().copied().unwrap_or(0);
        self.stakes.retain(|epoch, _| epoch + EPOCHS_KEPT > newest);
    }

    /// Pays the stakes that are due in the slot.
    fn give_rewards(&mut self, accounts: &Accounts, epoch: u64, new: &NewSlot<'_>) -> Vec<Reward> {
        let Some(rewards) = &self.rewards else { return vec![] };
        let Some(part) = new.height.checked_sub(rewards.first_height) else { return vec![] };
        let (part, features) = (part as usize, &new.rules.features);
        let mut sysvar = EpochRewards::load(accounts);
        let mut paid = vec![];
        if let Some(due) = rewards.parts.get(part) {
            let history = &StakeHistory::load(accounts);
            let done = PayoutBlock { accounts, history, epoch, features }.pay(due);
            sysvar.distributed_rewards = sysvar.distributed_rewards.saturating_add(done.distributed);
            paid = done.rewards;
        }
        if part + 1 >= rewards.parts.len() {
            sysvar.active = false;
            self.rewards = None;
        }
        sysvar.store(accounts);
        if !sysvar.active && features.block_revenue_sharing {
            EpochRewards::burn_excess(accounts);
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `get_reward_distribution_num_blocks` says: a block for each 4,096 stakes, at least one and at most a tenth of
    /// an epoch of full length, and one while epochs warm up.
    #[test]
    fn stakes_are_paid_in_a_tenth_of_the_epoch() {
        let blocks = |schedule: EpochSchedule, epoch: u64, stakes: usize| {
            Epochs { schedule, stakes: BTreeMap::new(), rewards: None }.part_count(epoch, stakes)
        };
        let plain = EpochSchedule::without_warmup(512);
        assert_eq!([0, 1, 4_096, 4_097, 8_193].map(|stakes| blocks(plain, 9, stakes)), [1, 1, 1, 2, 3]);
        assert_eq!([51 * 4_096, 1_000_000].map(|stakes| blocks(plain, 9, stakes)), [51, 51]);
        assert_eq!(blocks(EpochSchedule::without_warmup(8), 9, 1_000_000), 1);
        let warm = EpochSchedule { warmup: true, first_normal_epoch: 4, first_normal_slot: 480, ..plain };
        assert_eq!([3, 4].map(|epoch| blocks(warm, epoch, 1_000_000)), [1, 51]);
    }
}

//! Epoch boundaries: stakes of the coming epochs, the stake history, the distribution of rewards.
//!
//! reads   vote and stake accounts when an epoch begins
//! writes  the stake history and epoch rewards sysvars; the credits up to which stakes were rewarded
//! memory  the stakes of 5 epochs; 40 B per stake account while rewards are distributed
//! source  `process_new_epoch` of `bank.rs`, `bank/partitioned_epoch_rewards` and `inflation_rewards` of
//!         `solana-runtime` 4.2
//!
//! Inflation is off, as on a development chain: rewards are distributed with no lamports in them, and only advance the
//! credits observed by stakes, which is also what the cluster does in that case.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

use hearth_wire::{Hash, Pubkey};
use siphasher::sip::SipHasher13;

use crate::account::Account;
use crate::accounts::Accounts;
use crate::bank_hash::{Hashing, StakeIndex};
use crate::epoch::EpochSchedule;
use crate::leaders::Leader;
use crate::stakes::{self, Delegation, EpochStakes, StakeHistory, VoteStake};
use crate::sysvars::EpochRewards;
use crate::vote_state::VoteState;

/// Number of epochs whose stakes are kept.
const EPOCHS_KEPT: u64 = 5;
/// Stake accounts rewarded per block.
const REWARDED_IN_BLOCK: usize = 4096;

/// The start of a slot.
pub(crate) struct NewSlot<'a> {
    pub(crate) slot: u64,
    pub(crate) parent: u64,
    pub(crate) height: u64,
    pub(crate) parent_blockhash: &'a Hash,
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
    stakes: Vec<(u64, Vec<KeptStake>)>,
    rewards: Option<Rewards>,
}

/// A vote account's stake in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct KeptStake(#[serde(with = "VoteStakeFields")] VoteStake);

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
    parts: Vec<Vec<(Pubkey, u64)>>,
    told: EpochRewards,
}

impl Epochs {
    /// At genesis, in `slot`: its stakes apply to every epoch whose leaders are already computed.
    pub(crate) fn at_genesis(schedule: EpochSchedule, slot: u64, accounts: &Accounts, index: &StakeIndex) -> Self {
        let history = StakeHistory::load(accounts);
        let now = schedule.epoch(slot);
        let of = |epoch| (epoch, Arc::new(stakes::epoch_stakes(accounts, index, &history, now, epoch)));
        let stakes = (now..=schedule.leader_schedule_epoch(slot)).map(of).collect();
        Self { schedule, stakes, rewards: None }
    }

    /// Restores the state that [`Epochs::kept`] returned.
    pub(crate) fn restore(schedule: EpochSchedule, kept: KeptEpochs) -> Self {
        let of = |(epoch, votes): (u64, Vec<KeptStake>)| {
            let votes = votes.into_iter().map(|KeptStake(vote)| vote).collect();
            (epoch, Arc::new(EpochStakes::new(epoch, votes)))
        };
        Self { schedule, stakes: kept.stakes.into_iter().map(of).collect(), rewards: kept.rewards.map(Arc::new) }
    }

    /// The state that must survive a restart.
    pub(crate) fn kept(&self) -> KeptEpochs {
        let kept = |stakes: &EpochStakes| stakes.votes.iter().copied().map(KeptStake).collect();
        let stakes = self.stakes.iter().map(|(epoch, stakes)| (*epoch, kept(stakes))).collect();
        KeptEpochs { stakes, rewards: self.rewards.as_deref().cloned() }
    }

    /// The stakes of an epoch, if they are known.
    pub(crate) fn stakes(&self, epoch: u64) -> Option<&Arc<EpochStakes>> {
        self.stakes.get(&epoch)
    }

    /// The leader of a slot, if its epoch's stakes are known and not empty.
    pub(crate) fn leader(&self, slot: u64) -> Option<Leader> {
        let (epoch, index) = self.schedule.epoch_and_index(slot);
        self.stakes(epoch)?.leaders(self.schedule.slots_in_epoch(epoch)).leader(index).copied()
    }

    /// The recipient of a slot's fees, if the slot has a leader: the leader, or with custom collectors the one that its
    /// vote account names.
    pub(crate) fn fee_collector(&self, slot: u64, has_custom: bool) -> Option<Pubkey> {
        let leader = self.leader(slot)?;
        let vote = self.stakes(self.schedule.epoch(slot))?.vote(&leader.vote)?;
        Some(if has_custom { vote.collector } else { vote.node })
    }

    /// Whether rewards are in distribution. Stakes are locked until they are paid.
    pub(crate) fn are_rewards_due(&self) -> bool {
        self.rewards.is_some()
    }

    /// Runs the epoch logic that precedes a slot's sysvars. Returns the epoch of the slot's parent.
    pub(crate) fn begin_slot(&mut self, accounts: &Accounts, hashing: &Hashing, new: &NewSlot<'_>) -> u64 {
        let (epoch, parent) = (self.schedule.epoch(new.slot), self.schedule.epoch(new.parent));
        if parent < epoch {
            // The stake index is complete only after this.
            hashing.complete(accounts);
            self.begin_epoch(accounts, &hashing.stake_index(), epoch, parent, new);
        }
        self.give_rewards(accounts, new.height);
        parent
    }

    fn begin_epoch(&mut self, accounts: &Accounts, index: &StakeIndex, epoch: u64, parent: u64, new: &NewSlot<'_>) {
        let mut history = StakeHistory::load(accounts);
        let delegations = stakes::delegations(accounts, index);
        history.add(parent, stakes::all_activation(&delegations, parent, &history));
        // If whole epochs had no block, the leaders of this epoch are not computed yet either.
        for to_lead in [epoch, self.schedule.leader_schedule_epoch(new.slot)] {
            let of = || Arc::new(stakes::epoch_stakes(accounts, index, &history, epoch, to_lead));
            self.stakes.entry(to_lead).or_insert_with(of);
        }
        let newest = *self.stakes.keys().next_back().expect("stakes were just added");
        self.stakes.retain(|epoch, _| epoch + EPOCHS_KEPT > newest);
        self.begin_rewards(accounts, &delegations, &history, new);
        history.store(accounts);
    }

    fn begin_rewards(
        &mut self,
        accounts: &Accounts,
        delegations: &[(Pubkey, Delegation)],
        history: &StakeHistory,
        new: &NewSlot<'_>,
    ) {
        let mut votes = BTreeMap::new();
        let (mut points, mut credits) = (0, vec![]);
        for (key, delegation) in delegations {
            let vote = votes.entry(delegation.vote).or_insert_with(|| vote_state(accounts, &delegation.vote));
            let Some(vote) = vote else { continue };
            let (earned, observed) = earned(delegation, vote, history);
            points += earned;
            credits.push((*key, observed));
        }
        if points == 0 {
            credits.clear();
        }
        let most = (self.schedule.slots_per_epoch / 10).max(1) as usize;
        let count = credits.len().div_ceil(REWARDED_IN_BLOCK).clamp(1, most);
        let mut parts = vec![vec![]; count];
        for (key, observed) in credits {
            parts[part_of(&key, new.parent_blockhash, count)].push((key, observed));
        }
        let first_height = new.height + 1;
        let told = EpochRewards {
            distribution_starting_block_height: first_height,
            num_partitions: count as u64,
            parent_blockhash: *new.parent_blockhash,
            total_points: points,
            active: true,
            ..EpochRewards::default()
        };
        told.store(accounts);
        self.rewards = Some(Arc::new(Rewards { first_height, parts, told }));
    }

    fn give_rewards(&mut self, accounts: &Accounts, height: u64) {
        let Some(rewards) = &self.rewards else { return };
        let Some(part) = height.checked_sub(rewards.first_height) else { return };
        for (key, observed) in rewards.parts.get(part as usize).into_iter().flatten() {
            accounts.update(key, |account| observe(account, *observed));
        }
        if part + 1 >= rewards.parts.len() as u64 {
            EpochRewards { active: false, ..rewards.told }.store(accounts);
            self.rewards = None;
        }
    }
}

fn observe(account: &mut Account, credits: u64) {
    if Delegation::read(account.data()).is_some() {
        let mut data = account.data().to_vec();
        stakes::set_credits_observed(&mut data, credits);
        account.set_data(&data);
    }
}

fn vote_state(accounts: &Accounts, vote: &Pubkey) -> Option<VoteState> {
    accounts.with(vote, VoteState::of_account)?
}

/// The points that a stake has earned since its last reward, and the credits observed up to now.
fn earned(delegation: &Delegation, vote: &VoteState, history: &StakeHistory) -> (u128, u64) {
    let seen = delegation.credits_observed;
    if vote.credits() < seen {
        // The vote account was recreated.
        return (0, vote.credits());
    }
    let (mut points, mut observed) = (0, seen);
    for &(epoch, last, first) in &vote.epoch_credits {
        let stake = delegation.activation(epoch, history).effective;
        let credits = if seen < first {
            last - first
        } else if seen < last {
            last - observed
        } else {
            0
        };
        observed = observed.max(last);
        points += u128::from(stake) * u128::from(credits);
    }
    (points, observed)
}

/// The index of the block that rewards a stake account.
fn part_of(key: &Pubkey, blockhash: &Hash, count: usize) -> usize {
    let mut hasher = SipHasher13::new();
    hasher.write(blockhash);
    hasher.write(key);
    ((u128::from(hasher.finish()) * count as u128) >> 64) as usize
}

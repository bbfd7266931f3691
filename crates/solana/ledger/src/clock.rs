//! The chain's time: the stake-weighted median of the votes' timestamps, kept near the time that the slots imply.
//!
//! reads   vote accounts; the stakes of the epoch
//! writes  the clock sysvar of a slot that begins
//! memory  one time per vote account
//! source  `update_clock` of `bank.rs` and `stake_weighted_timestamp.rs` of `solana-runtime` 4.2
//!
//! A vote account that has not voted counts with the time 0 at slot 0. So while more than half of the stake is silent,
//! the estimate is at its lower bound, and the time runs a quarter slower than the slots. Timestamps older than an
//! epoch's slots are left out. If none with stake remains, the time stands still.

use std::collections::BTreeMap;

use hearth_wire::Pubkey;

use crate::accounts::Accounts;
use crate::epoch::EpochSchedule;
use crate::sysvars::Clock;
use crate::vote_state::VoteState;

/// How much faster than the slots the time may run, in percent.
const FAST_PERCENT: u128 = 25;
/// How much slower than the slots the time may run, in percent.
const SLOW_PERCENT: u128 = 150;
const SECOND_NS: u128 = 1_000_000_000;

/// The newest timestamp of a vote account, and its stake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VoteTime {
    slot: u64,
    timestamp: i64,
    stake: u64,
}

/// The inputs of a slot's clock.
pub(crate) struct Times<'a> {
    pub(crate) schedule: &'a EpochSchedule,
    pub(crate) slot_ns: u64,
    pub(crate) parent_epoch: u64,
}

impl Times<'_> {
    /// Writes the clock of `slot`. `stakes` are those of its epoch, by vote account.
    pub(crate) fn begin_slot(&self, accounts: &Accounts, slot: u64, stakes: impl Iterator<Item = (Pubkey, u64)>) {
        let before = Clock::load(accounts);
        let votes: Vec<VoteTime> =
            stakes.filter_map(|(key, stake)| self.vote_time(accounts, &key, slot, stake)).collect();
        let start = (self.schedule.first_slot(self.parent_epoch), before.epoch_start_timestamp);
        let estimate = self.estimate(&votes, slot, start);
        let unix_timestamp = estimate.map_or(before.unix_timestamp, |estimate| estimate.max(before.unix_timestamp));
        let epoch = self.schedule.epoch(slot);
        let epoch_start_timestamp = match epoch == self.parent_epoch {
            true => before.epoch_start_timestamp,
            false => unix_timestamp,
        };
        let leader_schedule_epoch = self.schedule.leader_schedule_epoch(slot);
        Clock { slot, epoch_start_timestamp, epoch, leader_schedule_epoch, unix_timestamp }.store(accounts);
    }

    /// The timestamp of a vote account; `None` if it is too old to count, or the account no longer exists.
    fn vote_time(&self, accounts: &Accounts, vote: &Pubkey, slot: u64, stake: u64) -> Option<VoteTime> {
        let (at, timestamp) = accounts.with(vote, VoteState::of_account)??.last_timestamp;
        let age = slot.checked_sub(at)?;
        (age <= self.schedule.slots_per_epoch).then_some(VoteTime { slot: at, timestamp, stake })
    }

    fn elapsed_ns(&self, from: u64, to: u64) -> u128 {
        u128::from(to.saturating_sub(from)) * u128::from(self.slot_ns)
    }

    /// The stake-weighted median of the timestamps, kept near the time that the slots since `start` take; `None` if
    /// they have no stake.
    fn estimate(&self, votes: &[VoteTime], slot: u64, (start_slot, start): (u64, i64)) -> Option<i64> {
        let by_slots = self.elapsed_ns(start_slot, slot);
        let seconds = |ns: u128| (ns / SECOND_NS) as i64;
        let mut by_time = BTreeMap::<i64, u128>::new();
        for VoteTime { slot: at, timestamp, stake } in votes {
            let now = timestamp.saturating_add(seconds(self.elapsed_ns(*at, slot)));
            *by_time.entry(now).or_default() += u128::from(*stake);
        }
        let total: u128 = by_time.values().sum();
        if total == 0 {
            return None;
        }
        let mut sum = 0;
        let half = by_time.into_iter().find(|(_, stake)| {
            sum += stake;
            sum > total / 2
        });
        let estimate = half.expect("all stake is more than half of it").0;
        let since_start = u128::from((estimate as u64).saturating_sub(start as u64)) * SECOND_NS;
        let (fast, slow) = (by_slots * FAST_PERCENT / 100, by_slots * SLOW_PERCENT / 100);
        let bounded = if since_start > by_slots && since_start - by_slots > slow {
            start.saturating_add(seconds(by_slots)).saturating_add(seconds(slow))
        } else if since_start < by_slots && by_slots - since_start > fast {
            start.saturating_add(seconds(by_slots)).saturating_sub(seconds(fast))
        } else {
            estimate
        };
        Some(bounded)
    }
}

#[cfg(test)]
mod tests;

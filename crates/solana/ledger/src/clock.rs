//! The chain's time: the stake-weighted median of the votes' timestamps, kept near the time that the slots imply.
//!
//! reads   vote accounts; the stakes of the epoch
//! writes  the clock sysvar of a slot that begins
//! memory  one time per vote account
//! source  `update_clock` of `bank.rs` and `stake_weighted_timestamp.rs` of `solana-runtime` 4.2
//!
//! Until a vote carries a timestamp, the time follows the slots. The cluster's rule, which never sees such a chain,
//! would let it run a quarter slower.

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

/// The timestamp of a vote account, and its stake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
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
        let told: Vec<Told> = stakes.filter_map(|(key, stake)| self.told(accounts, &key, slot, stake)).collect();
        let start = (self.schedule.first_slot(self.parent_epoch), before.epoch_start_timestamp);
        let estimate = self.estimate(&told, slot, start);
        let unix_timestamp = estimate.max(before.unix_timestamp);
        let epoch = self.schedule.epoch(slot);
        let epoch_start_timestamp = match epoch == self.parent_epoch {
            true => before.epoch_start_timestamp,
            false => unix_timestamp,
        };
        let leader_schedule_epoch = self.schedule.leader_schedule_epoch(slot);
        Clock { slot, epoch_start_timestamp, epoch, leader_schedule_epoch, unix_timestamp }.store(accounts);
    }

    fn told(&self, accounts: &Accounts, vote: &Pubkey, slot: u64, stake: u64) -> Option<Told> {
        let (at, timestamp) = accounts.with(vote, |account| VoteState::read(account.data()))??.last_timestamp;
        let age = slot.checked_sub(at)?;
        (age <= self.schedule.slots_per_epoch && timestamp != 0).then_some(Told { slot: at, timestamp, stake })
    }

    fn elapsed_ns(&self, from: u64, to: u64) -> u128 {
        u128::from(to.saturating_sub(from)) * u128::from(self.slot_ns)
    }

    /// The stake-weighted median of the timestamps, kept near the time that the slots since `start` take.
    fn estimate(&self, told: &[Told], slot: u64, (start_slot, start): (u64, i64)) -> i64 {
        let by_slots = self.elapsed_ns(start_slot, slot);
        let seconds = |ns: u128| (ns / SECOND_NS) as i64;
        let mut by_time = BTreeMap::<i64, u128>::new();
        for Told { slot: at, timestamp, stake } in told {
            let now = timestamp.saturating_add(seconds(self.elapsed_ns(*at, slot)));
            *by_time.entry(now).or_default() += u128::from(*stake);
        }
        let total: u128 = by_time.values().sum();
        if total == 0 {
            return start.saturating_add(seconds(by_slots));
        }
        let mut sum = 0;
        let half = by_time.into_iter().find(|(_, stake)| {
            sum += stake;
            sum > total / 2
        });
        let estimate = half.expect("all stake is more than half of it").0;
        let since_start = u128::from((estimate as u64).saturating_sub(start as u64)) * SECOND_NS;
        let (fast, slow) = (by_slots * FAST_PERCENT / 100, by_slots * SLOW_PERCENT / 100);
        if since_start > by_slots && since_start - by_slots > slow {
            start.saturating_add(seconds(by_slots)).saturating_add(seconds(slow))
        } else if since_start < by_slots && by_slots - since_start > fast {
            start.saturating_add(seconds(by_slots)).saturating_sub(seconds(fast))
        } else {
            estimate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_578_909_061;

    fn estimate(slot: u64, told: &[(u64, i64, u64)]) -> i64 {
        let schedule = EpochSchedule::without_warmup(432_000);
        let times = Times { schedule: &schedule, slot_ns: 400_000_000, parent_epoch: 0 };
        let told = told.iter().map(|&(slot, timestamp, stake)| Told { slot, timestamp, stake });
        times.estimate(&told.collect::<Vec<_>>(), slot, (0, START))
    }

    #[test]
    fn without_votes_the_slots_tell_the_time() {
        assert_eq!((estimate(2, &[]), estimate(5, &[]), estimate(0, &[])), (START, START + 2, START));
        assert_eq!(estimate(1_000, &[(1, START - 50, 0)]), START + 400, "no stake, no say");
    }

    #[test]
    fn the_median_by_stake_counts() {
        // 1,000 slots are 400 s.
        let near = START + 405;
        assert_eq!(estimate(1_000, &[(1_000, near, 3), (1_000, 0, 1), (1_000, i64::MAX, 1)]), near);
        assert_eq!(estimate(1_000, &[(1_000, near, 1), (1_000, near + 9, 1)]), near + 9, "more than half");
        assert_eq!(estimate(1_000, &[(990, near, 1)]), near + 4, "told 10 slots ago");
    }

    #[test]
    fn the_median_is_kept_near_the_slots() {
        assert_eq!(estimate(1_000, &[(1_000, START + 300, 1)]), START + 300);
        assert_eq!(estimate(1_000, &[(1_000, START + 299, 1)]), START + 300);
        assert_eq!(estimate(1_000, &[(1_000, 0, 1)]), START + 300);
        assert_eq!(estimate(1_000, &[(1_000, START + 1_000, 1)]), START + 1_000);
        assert_eq!(estimate(1_000, &[(1_000, START + 1_001, 1)]), START + 1_000);
        assert_eq!(estimate(1_000, &[(1_000, i64::MAX, 1)]), START + 1_000);
    }
}

//! The cluster's rule on vectors computed by hand.

use hearth_wire::consts::VOTE_PROGRAM;

use super::*;
use crate::account::Account;
use crate::vote_state::new_vote_state;

const START: i64 = 1_578_909_061;

fn estimate(slot: u64, votes: &[(u64, i64, u64)]) -> Option<i64> {
    let schedule = EpochSchedule::without_warmup(432_000);
    let times = Times { schedule: &schedule, slot_ns: 400_000_000, parent_epoch: 0 };
    let votes = votes.iter().map(|&(slot, timestamp, stake)| VoteTime { slot, timestamp, stake });
    times.estimate(&votes.collect::<Vec<_>>(), slot, (0, START))
}

#[test]
fn without_stake_there_is_no_estimate() {
    assert_eq!(estimate(2, &[]), None);
    assert_eq!(estimate(1_000, &[(1, START - 50, 0)]), None);
}

#[test]
fn the_median_by_stake_counts() {
    // 1,000 slots are 400 s.
    let near = START + 405;
    assert_eq!(estimate(1_000, &[(1_000, near, 3), (1_000, 0, 1), (1_000, i64::MAX, 1)]), Some(near));
    assert_eq!(estimate(1_000, &[(1_000, near, 1), (1_000, near + 9, 1)]), Some(near + 9), "more than half");
    assert_eq!(estimate(1_000, &[(990, near, 1)]), Some(near + 4), "reported 10 slots ago");
}

#[test]
fn the_median_is_kept_near_the_slots() {
    assert_eq!(estimate(1_000, &[(1_000, START + 300, 1)]), Some(START + 300));
    assert_eq!(estimate(1_000, &[(1_000, START + 299, 1)]), Some(START + 300));
    assert_eq!(estimate(1_000, &[(1_000, 0, 1)]), Some(START + 300));
    assert_eq!(estimate(1_000, &[(1_000, START + 1_000, 1)]), Some(START + 1_000));
    assert_eq!(estimate(1_000, &[(1_000, START + 1_001, 1)]), Some(START + 1_000));
    assert_eq!(estimate(1_000, &[(1_000, i64::MAX, 1)]), Some(START + 1_000));
}

/// The silent voter's estimate is the time of the slots since 1970: far below the bound, which is three quarters of
/// the slots' time, each part rounded down to seconds.
#[test]
fn silent_stake_lets_the_time_run_slower() {
    for (slot, seconds) in [(1, 0), (2, 0), (3, 1), (5, 2), (10, 3), (25, 8), (1_000, 300)] {
        assert_eq!(estimate(slot, &[(0, 0, 7)]), Some(START + seconds), "slot {slot}");
    }
    // Exactly half of the stake votes: the silent half comes first, and is not more than half.
    assert_eq!(estimate(1_000, &[(0, 0, 5), (1_000, START + 410, 5)]), Some(START + 410));
    assert_eq!(estimate(1_000, &[(0, 0, 6), (1_000, START + 410, 5)]), Some(START + 300));
}

/// The vote account's data, whose last 16 bytes that are not filler are the time.
fn voted(slot: u64, timestamp: i64) -> Account {
    let mut data = new_vote_state(&[7; 32], &[8; 32]);
    let credits = data.iter().rposition(|byte| *byte != 0).expect("a voter") + 1;
    // After the voter: the number of credits' epochs, then the time.
    data[credits + 8..credits + 16].copy_from_slice(&slot.to_le_bytes());
    data[credits + 16..credits + 24].copy_from_slice(&timestamp.to_le_bytes());
    assert_eq!(VoteState::read(&data).expect("a vote state").last_timestamp, (slot, timestamp));
    Account::with_data(1, VOTE_PROGRAM, &data)
}

#[test]
fn old_votes_leave_the_parents_time() {
    let (accounts, schedule) = (Accounts::new(), EpochSchedule::without_warmup(32));
    let before = Clock { slot: 0, epoch_start_timestamp: START, unix_timestamp: START, ..Clock::default() };
    before.store(&accounts);
    let begin = |slot: u64, parent_epoch| {
        let times = Times { schedule: &schedule, slot_ns: 1_000_000_000, parent_epoch };
        times.begin_slot(&accounts, slot, [([7; 32], 10)].into_iter());
        Clock::load(&accounts)
    };
    // The account does not exist: nobody with stake counts.
    assert_eq!(begin(4, 0).unix_timestamp, START);
    accounts.store(&[7; 32], voted(0, 0));
    assert_eq!(begin(8, 0).unix_timestamp, START + 6, "8 s less a quarter");
    // Slot 32 is an epoch's slots after slot 0; the start of its parent's epoch still counts.
    let turn = begin(32, 0);
    assert_eq!((turn.epoch, turn.unix_timestamp, turn.epoch_start_timestamp), (1, START + 24, START + 24));
    assert_eq!(begin(33, 1).unix_timestamp, START + 24, "33 slots after its newest vote it is left out");
    assert_eq!(begin(60, 1).unix_timestamp, START + 24);
    accounts.store(&[7; 32], voted(59, START + 61));
    assert_eq!(begin(60, 1).unix_timestamp, START + 62, "28 s of slots since the start allow 42 s more");
    accounts.store(&[7; 32], voted(60, START + 50));
    assert_eq!(begin(61, 1).unix_timestamp, START + 62, "the time does not go back");
    accounts.store(&[7; 32], voted(62, START + 65));
    assert_eq!(begin(61, 1).unix_timestamp, START + 62, "a vote for a later slot is left out");
}

#[test]
fn another_programs_account_is_no_voter() {
    let (accounts, schedule) = (Accounts::new(), EpochSchedule::without_warmup(32));
    Clock { unix_timestamp: START, epoch_start_timestamp: START, ..Clock::default() }.store(&accounts);
    let mut account = voted(1, START + 9);
    account.owner = [9; 32];
    accounts.store(&[7; 32], account);
    let times = Times { schedule: &schedule, slot_ns: 1_000_000_000, parent_epoch: 0 };
    times.begin_slot(&accounts, 8, [([7; 32], 10)].into_iter());
    assert_eq!(Clock::load(&accounts).unix_timestamp, START);
}

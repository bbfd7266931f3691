//! points: what a stake has earned since it was last rewarded, and how its lamports are divided.
//!
//! reads   a delegation and its vote account
//! source  `inflation_rewards/points.rs` and `commission_split` of `solana-runtime` 4.2

use std::cmp::Ordering;

use crate::stakes::{Delegation, StakeHistory};
use crate::vote_state::VoteState;

/// The whole, in hundredths of a percent.
const WHOLE_BPS: u16 = 10_000;
/// Credits that are none: they would mark the epoch of a migration that this chain does not make.
const MIGRATION: (u64, u64, u64) = (u64::MAX, u64::MAX, u64::MAX);

/// The points that a stake has earned since it was last rewarded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EarnedPoints {
    /// Its points: lamports times credits.
    pub(super) points: u128,
    /// The credits that it has observed by now.
    pub(super) credits: u64,
    /// Whether the vote account was created again, with fewer credits: the stake then starts again, without a reward.
    pub(super) is_restarted: bool,
}

impl EarnedPoints {
    pub(super) fn of(delegation: &Delegation, vote: &VoteState, history: &StakeHistory) -> Self {
        let seen = delegation.credits_observed;
        match vote.credits().cmp(&seen) {
            Ordering::Less => Self { points: 0, credits: vote.credits(), is_restarted: true },
            Ordering::Equal => Self { points: 0, credits: seen, is_restarted: false },
            Ordering::Greater => Self::since(seen, delegation, vote, history),
        }
    }

    fn since(seen: u64, delegation: &Delegation, vote: &VoteState, history: &StakeHistory) -> Self {
        let (mut points, mut observed) = (0u128, seen);
        for &(epoch, last, first) in vote.epoch_credits.iter().take_while(|credits| **credits != MIGRATION) {
            // Credits of a genesis may be anything, and wrap as on the cluster.
            let credits = if seen < first {
                last.wrapping_sub(first)
            } else if seen < last {
                last.wrapping_sub(observed)
            } else {
                0
            };
            observed = observed.max(last);
            // Most epochs were rewarded before, and how much stake there was no longer matters.
            if credits != 0 {
                let earned = u128::from(delegation.activation(epoch, history).effective) * u128::from(credits);
                // Credits of another node's archive may be anything, too.
                points = points.saturating_add(earned);
            }
        }
        Self { points, credits: observed, is_restarted: false }
    }
}

/// Divides lamports between a vote account with this commission and its stake: the vote account's part and the
/// stake's, each rounded down. `None` if both should get something and one would get less than a lamport: then neither
/// does, until more has come together.
pub(super) fn split(commission_bps: u16, lamports: u64) -> Option<(u64, u64)> {
    let mine = commission_bps.min(WHOLE_BPS);
    let part = |bps: u16| (u128::from(lamports) * u128::from(bps) / u128::from(WHOLE_BPS)) as u64;
    let (of_vote, of_stake) = (part(mine), part(WHOLE_BPS - mine));
    let is_split = mine != 0 && mine != WHOLE_BPS;
    (!is_split || (of_vote != 0 && of_stake != 0)).then_some((of_vote, of_stake))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delegation(stake: u64, credits_observed: u64) -> Delegation {
        let ever = u64::MAX;
        Delegation { vote: [1; 32], stake, activation_epoch: ever, deactivation_epoch: ever, credits_observed }
    }

    fn earned(credits_observed: u64, epoch_credits: &[(u64, u64, u64)]) -> EarnedPoints {
        let vote = VoteState { epoch_credits: epoch_credits.to_vec(), ..VoteState::default() };
        EarnedPoints::of(&delegation(1_000, credits_observed), &vote, &StakeHistory::default())
    }

    #[test]
    fn credits_count_from_what_was_observed() {
        let of = |points, credits| EarnedPoints { points, credits, is_restarted: false };
        let two = [(0, 10, 0), (1, 25, 10)];
        assert_eq!(earned(0, &two), of(25_000, 25));
        assert_eq!(earned(4, &two), of(21_000, 25), "6 of the first epoch, 15 of the second");
        assert_eq!(earned(10, &two), of(15_000, 25));
        assert_eq!(earned(25, &two), of(0, 25));
        assert_eq!(earned(26, &two), EarnedPoints { points: 0, credits: 25, is_restarted: true });
        assert_eq!(earned(5, &[]), EarnedPoints { points: 0, credits: 0, is_restarted: true });
        assert_eq!(earned(3, &[(4, 30, 20)]), of(10_000, 30), "what fell out of the account is lost");
        assert_eq!(earned(0, &[(0, 10, 0), MIGRATION, (1, 12, 10)]), of(10_000, 10));
    }

    /// As `commission_split` says: 0 and 100 % are not splits, above 100 % is 100 %, both parts are rounded down.
    #[test]
    fn lamports_are_divided_to_the_hundredth_of_a_percent() {
        assert_eq!(split(0, 10), Some((0, 10)));
        assert_eq!((split(10_000, 10), split(u16::MAX, 10)), (Some((10, 0)), Some((10, 0))));
        assert_eq!(split(1_234, 1_000_000_007), Some((123_400_000, 876_600_006)));
        assert_eq!(split(5_000, u64::MAX), Some((u64::MAX / 2, u64::MAX / 2)));
        assert_eq!((split(5_000, 1), split(1, 9_999), split(9_999, 9_999)), (None, None, None));
        assert_eq!(split(1, 10_000), Some((1, 9_999)));
    }
}

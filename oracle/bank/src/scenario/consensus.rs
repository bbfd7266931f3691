//! Votes, stakes and what follows from them at the boundaries of epochs.

use super::*;

fn stakes() -> Acts {
    vec![(80, Box::new(Stakes::default())), (60, Box::new(Stakes::default()))]
}

/// The scenarios of this file.
pub fn scenarios() -> Vec<Scenario> {
    [votes(), rewards(), vec![gone()]].into_iter().flatten().collect()
}

/// Validators that vote late, and wrongly, in that many percent of the cases.
fn careless(late_percent: u64, wrong_percent: u64) -> Voting {
    Voting { late_percent, missing_percent: 10, wrong_percent, ..Voting::default() }
}

/// Votes and vote accounts.
fn votes() -> Vec<Scenario> {
    vec![
        Scenario {
            voting: careless(30, 15),
            ..plain("votes", "votes right, late and wrong", 140, |_| epochs(64), Vec::new)
        },
        Scenario {
            voting: Voting { legacy: true, ..careless(20, 10) },
            ..plain(
                "votes-legacy",
                "the vote instructions that are deprecated",
                110,
                |_| Rules { off: vec![features::deprecate_legacy_vote_ixs::id()], ..epochs(64) },
                Vec::new,
            )
        },
        plain(
            "vote-accounts",
            "vote accounts in every state",
            110,
            |_| epochs(32),
            || vec![(100, Box::new(VoteAccounts::default())), (60, Box::new(VoteAccounts::default()))],
        ),
        diligent(
            "stakes",
            "stake accounts in every state, without rewards",
            170,
            |_| Rules { stake_program: true, ..epochs(32) },
            stakes,
        ),
        diligent("stakes-rewards", "the same with inflation", 170, |_| rewarded(32), stakes),
    ]
}

/// Stakes, and the rewards of epochs.
fn rewards() -> Vec<Scenario> {
    vec![
        diligent(
            "commissions",
            "rewards while commissions and collectors change",
            200,
            |_| rewarded(32),
            || vec![(30, Box::new(Commissions)), (20, Box::new(Stakes::default()))],
        ),
        diligent(
            "commissions-old",
            "the same without delays, basis points and collectors",
            170,
            |_| {
                let off = vec![
                    features::delay_commission_updates::id(),
                    features::commission_rate_in_basis_points::id(),
                    features::custom_commission_collector::id(),
                    features::block_revenue_sharing::id(),
                    features::vote_account_initialize_v2::id(),
                ];
                Rules { off, ..rewarded(32) }
            },
            || vec![(30, Box::new(Commissions)), (20, Box::new(Stakes::default()))],
        ),
        diligent(
            "inflation-custom",
            "inflation with a foundation and a taper",
            140,
            |_| {
                let mut inflation = Inflation::full();
                inflation.initial = 0.9;
                inflation.terminal = 0.3;
                inflation.taper = 0.5;
                inflation.foundation = 0.07;
                inflation.foundation_term = 5.0;
                Rules { inflation, stake_program: true, ..epochs(32) }
            },
            || vec![(20, Box::new(Stakes::default()))],
        ),
        diligent(
            "partitions",
            "rewards of more stakes than a block pays",
            100,
            |_| {
                // Each commission leaves something, so that every stake is paid.
                let validator = |sol, commission_bps| Stake { sol, commission_bps };
                let validators = vec![validator(1_000_000, 900), validator(600_000, 500), validator(300_000, 0)];
                Rules { validators, extra_stakes: 4_200, ..rewarded(64) }
            },
            || vec![],
        ),
        diligent(
            "warmup",
            "epochs that grow from 32 slots",
            300,
            |_| Rules { warmup: true, ..rewarded(128) },
            votes_and_stakes,
        ),
    ]
}

/// Stakes whose vote account has ended, and commissions that are burned.
fn gone() -> Scenario {
    Scenario {
        voting: Voting {
            absent: vec![1, 3, 4],
            late_percent: 6,
            missing_percent: 4,
            wrong_percent: 1,
            ..Voting::default()
        },
        ..plain(
            "gone-votes",
            "vote accounts closed under their stakes, collectors that are vote accounts",
            210,
            |_| {
                let validator = |sol, commission_bps| Stake { sol, commission_bps };
                let voting = [validator(1_000_000, 900), validator(600_000, 500), validator(300_000, 700)];
                let closed = [validator(200_000, 500), validator(100_000, 300)];
                let validators = voting.into_iter().chain(closed).collect();
                // Rent rises with epoch 1, so that no stake account covers its delegation then.
                let pending = vec![(features::set_lamports_per_byte_to_6960::id(), None)];
                Rules { validators, extra_stakes: 20, lamports_per_byte: 1_000, pending, ..rewarded(64) }
            },
            || {
                vec![
                    (100, Box::new(Closings { from_slot: 40, validators: vec![3, 4] })),
                    (100, Box::new(Collectors::default())),
                ]
            },
        )
    }
}

//! Forks, skipped slots, silence, prices.

use super::*;

/// The scenarios of this file.
pub fn scenarios() -> Vec<Scenario> {
    [times(), forks(), prices()].into_iter().flatten().collect()
}

/// Validators that do not vote in some slots.
fn silent(from: u64, until: u64) -> Voting {
    Voting { silent: vec![from..until], late_percent: 10, ..Voting::default() }
}

/// Silence, clocks and slots without blocks.
fn times() -> Vec<Scenario> {
    vec![
        Scenario {
            voting: silent(20, 50),
            ..plain(
                "silence-30",
                "nobody votes for 30 slots",
                100,
                |_| epochs(64),
                || vec![(30, Box::new(Transfers { most: 1 }))],
            )
        },
        Scenario {
            voting: silent(20, 65),
            ..plain(
                "silence-45",
                "nobody votes for 45 slots",
                110,
                |_| epochs(32),
                || vec![(30, Box::new(Transfers { most: 1 }))],
            )
        },
        Scenario {
            voting: Voting { clock_skew: vec![-40, 90, 7], missing_percent: 20, ..Voting::default() },
            ..plain("clocks", "validators whose clocks differ", 100, |_| epochs(32), || vec![])
        },
        Scenario {
            gaps: vec![50..80],
            ..diligent("gap", "no block for 30 slots around a boundary", 110, |_| rewarded(32), votes_and_stakes)
        },
        Scenario {
            // From the last block before it to the first after it are more slots than the slot history holds: 2^20.
            gaps: vec![70..(1 << 20) + 130],
            ..diligent(
                "long-gap",
                "no block for longer than the slot history reaches back",
                (1 << 20) + 180,
                |_| rewarded(1 << 20),
                votes_and_stakes,
            )
        },
        Scenario {
            voting: Voting { absent: vec![1], missing_percent: 10, ..Voting::default() },
            ..plain(
                "delinquent",
                "a validator that never votes loses its stakes",
                250,
                |_| rewarded(32),
                || vec![(50, Box::new(Stakes::default()))],
            )
        },
    ]
}

/// Forks and hard forks.
fn forks() -> Vec<Scenario> {
    vec![
        Scenario {
            skip_percent: 45,
            ..diligent("skips", "nearly half of the slots are skipped", 200, |_| rewarded(32), votes_and_stakes)
        },
        Scenario {
            fork_percent: 10,
            ..plain(
                "forks",
                "forks that are left",
                110,
                |_| epochs(64),
                || vec![(60, Box::new(Transfers { most: 2 })), (50, Box::new(nonce::Nonces::default()))],
            )
        },
        Scenario {
            fork_percent: 12,
            skip_percent: 10,
            ..diligent("forks-epochs", "forks over boundaries with rewards", 170, |_| rewarded(32), votes_and_stakes)
        },
        Scenario {
            hard_forks: vec![9, 30, 31, 64],
            skip_percent: 15,
            ..plain("hard-forks", "hard forks", 80, |_| epochs(32), || vec![(40, Box::new(Transfers { most: 2 }))])
        },
    ]
}

/// Prices, and other kinds of genesis.
fn prices() -> Vec<Scenario> {
    vec![
        plain(
            "prices",
            "prices that move with every block",
            120,
            |_| Rules { target_signatures_per_slot: 6, hashes_per_tick: Some(3), ..epochs(64) },
            || vec![(60, Box::new(Transfers { most: 6 })), (50, Box::new(nonce::Nonces::default()))],
        ),
        plain(
            "flood",
            "a block of 20,350 signatures",
            16,
            |_| Rules { users: 13, ..epochs(64) },
            || {
                vec![
                    (100, Box::new(Flood { slots: 6..7, signatures: 20_350 })),
                    (60, Box::new(nonce::Nonces::default())),
                ]
            },
        ),
        diligent(
            "alone",
            "one validator that keeps all rewards",
            110,
            |_| Rules { validators: vec![Stake { sol: 1_000_000, commission_bps: 10_000 }], ..rewarded(32) },
            || vec![(30, Box::new(Stakes::default()))],
        ),
        diligent(
            "testnet",
            "a genesis that says testnet",
            70,
            |_| Rules { cluster: ClusterType::Testnet, hashes_per_tick: Some(2), ..rewarded(32) },
            votes_and_stakes,
        ),
    ]
}

/// Long ledgers for measurements, which `record-all` leaves out.
pub fn loads() -> Vec<Scenario> {
    vec![
        diligent(
            "load-transfers",
            "1,000 transfers a block",
            100,
            |_| Rules { users: 200, ..epochs(64) },
            || vec![(100, Box::new(Steady { count: 1_000 }))],
        ),
        diligent(
            "load-votes",
            "200 validators that vote in nearly every block",
            100,
            |_| {
                let validators = (0..200).map(|_| Stake { sol: 1_000, commission_bps: 500 }).collect();
                Rules { validators, ..epochs(64) }
            },
            Vec::new,
        ),
        diligent(
            "load-tokens",
            "tokens, 100 times what another ledger has",
            100,
            |_| with(&[MEMO_3, TOKEN], epochs(64)),
            || (0..100).map(|_| (100, Box::new(Tokens::spl()) as Box<dyn Act>)).collect(),
        ),
    ]
}

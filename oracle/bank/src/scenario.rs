//! The scenarios by name. Each says what its genesis is like, how validators vote, and what happens in its blocks.

use std::ops::Range;

use agave_feature_set as features;
use solana_cluster_type::ClusterType;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{address_lookup_table, config};

use crate::acts::flood::Flood;
use crate::acts::stake::Stakes;
use crate::acts::system::{Accounts, Transfers};
use crate::acts::token::Tokens;
use crate::acts::vote::{Commissions, VoteAccounts};
use crate::acts::{Act, budget, configuration, invalid, loader, nonce, precompile, table, token_2022};
use crate::genesis::{Rules, Stake};
use crate::programs::{ASSOCIATED, MEMO_1, MEMO_3, TOKEN, TOKEN_2022};
use crate::rng::Rng;
use crate::votes::Voting;

/// Acts, each with the percentage of blocks that it is part of.
type Acts = Vec<(u64, Box<dyn Act>)>;

/// A kind of ledger.
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub slots: u64,
    pub rules: fn(&mut Rng) -> Rules,
    pub acts: fn() -> Acts,
    pub voting: Voting,
    pub skip_percent: u64,
    pub fork_percent: u64,
    pub hard_forks: Vec<u64>,
    /// Slots that are all skipped; fewer than an epoch, whose leaders would be unknown.
    pub gaps: Vec<Range<u64>>,
}

/// Returns the scenario called `name`.
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}

/// A scenario whose votes are mostly right, with a slot skipped now and then.
fn plain(
    name: &'static str,
    about: &'static str,
    slots: u64,
    rules: fn(&mut Rng) -> Rules,
    acts: fn() -> Acts,
) -> Scenario {
    let voting = Voting { late_percent: 10, missing_percent: 40, wrong_percent: 1, ..Voting::default() };
    let hard_forks = vec![];
    Scenario { name, about, slots, rules, acts, voting, skip_percent: 4, fork_percent: 0, hard_forks, gaps: vec![] }
}

/// The same with validators that vote nearly always: after 31 votes they earn credits, and at boundaries rewards.
fn diligent(
    name: &'static str,
    about: &'static str,
    slots: u64,
    rules: fn(&mut Rng) -> Rules,
    acts: fn() -> Acts,
) -> Scenario {
    let voting = Voting { late_percent: 6, missing_percent: 4, wrong_percent: 1, ..Voting::default() };
    Scenario { voting, ..plain(name, about, slots, rules, acts) }
}

fn epochs(slots_per_epoch: u64) -> Rules {
    Rules { slots_per_epoch, ..Rules::default() }
}

fn rewarded(slots_per_epoch: u64) -> Rules {
    Rules { inflation: Inflation::full(), stake_program: true, ..epochs(slots_per_epoch) }
}

/// Features that a chain like mainnet lacks: code of the first version deploys.
fn with_old_code(rules: Rules) -> Rules {
    Rules { off: vec![features::disable_sbpf_v0_v1_v2_deployment::id()], ..rules }
}

fn with(programs: &[Pubkey], rules: Rules) -> Rules {
    Rules { programs: programs.to_vec(), ..rules }
}

/// All scenarios, in the order in which `record-all` makes them.
pub fn all() -> Vec<Scenario> {
    [programs(), consensus(), chains(), mixtures()].into_iter().flatten().collect()
}

/// One program, or one part of the transaction path, each.
fn programs() -> Vec<Scenario> {
    vec![
        plain(
            "transfers",
            "transfers that succeed and fail",
            100,
            |_| epochs(32),
            || vec![(90, Box::new(Transfers { most: 5 }))],
        ),
        plain(
            "accounts",
            "accounts created, allocated and assigned",
            100,
            |_| epochs(64),
            || vec![(90, Box::new(Accounts::default())), (60, Box::new(Accounts::default()))],
        ),
        plain(
            "nonces",
            "nonce accounts and transactions on them",
            110,
            |_| epochs(64),
            || vec![(90, Box::new(nonce::Nonces::default())), (60, Box::new(nonce::Nonces::default()))],
        ),
        plain(
            "tables",
            "lookup tables, and transactions that load through them",
            110,
            |_| with(&[address_lookup_table::id()], epochs(64)),
            || vec![(100, Box::new(table::Tables::default())), (70, Box::new(table::Tables::default()))],
        ),
        plain(
            "budgets",
            "requests to the compute budget",
            100,
            |_| with(&[MEMO_3, TOKEN], epochs(64)),
            || vec![(100, Box::new(budget::Budgets)), (100, Box::new(budget::Budgets))],
        ),
        plain(
            "loader",
            "programs deployed, upgraded, called, closed",
            90,
            |_| with_old_code(epochs(64)),
            || vec![(60, Box::new(loader::Programs::default()))],
        ),
        plain(
            "loader-refuses",
            "programs of a version that no longer deploys",
            40,
            |_| epochs(64),
            || vec![(50, Box::new(loader::Programs::default()))],
        ),
        plain(
            "configurations",
            "the config program",
            60,
            |_| with(&[config::id()], epochs(32)),
            || vec![(100, Box::new(configuration::Configurations::default()))],
        ),
        plain(
            "tokens",
            "SPL Token and memos",
            110,
            |_| with(&[MEMO_3, TOKEN], epochs(64)),
            || vec![(100, Box::new(Tokens::spl())), (60, Box::new(Tokens::spl()))],
        ),
        plain(
            "tokens-2022",
            "Token-2022 with extensions, associated accounts",
            100,
            |_| with(&[TOKEN_2022, ASSOCIATED, MEMO_3], epochs(64)),
            || vec![(100, Box::new(token_2022::Extended::default())), (50, Box::new(Tokens::of(TOKEN_2022)))],
        ),
        plain(
            "precompiles",
            "signatures checked by precompiles",
            90,
            |_| with(&[MEMO_3], epochs(64)),
            || vec![(100, Box::new(precompile::Precompiles)), (100, Box::new(precompile::Precompiles))],
        ),
        plain(
            "invalid",
            "transactions that are wrong as a whole",
            190,
            |_| with(&[MEMO_3], epochs(64)),
            || vec![(100, Box::new(invalid::Invalid)), (60, Box::new(invalid::Invalid))],
        ),
    ]
}

fn stakes() -> Acts {
    vec![(80, Box::new(Stakes::default())), (60, Box::new(Stakes::default()))]
}

fn votes_and_stakes() -> Acts {
    vec![(50, Box::new(Stakes::default())), (40, Box::new(VoteAccounts::default())), (10, Box::new(Commissions))]
}

/// Votes, stakes and what follows from them at the boundaries of epochs.
fn consensus() -> Vec<Scenario> {
    let voting =
        |late_percent, wrong_percent| Voting { late_percent, missing_percent: 10, wrong_percent, ..Voting::default() };
    let none = || -> Acts { vec![] };
    vec![
        Scenario { voting: voting(30, 15), ..plain("votes", "votes right, late and wrong", 140, |_| epochs(64), none) },
        Scenario {
            voting: Voting { legacy: true, ..voting(20, 10) },
            ..plain(
                "votes-legacy",
                "the vote instructions that are deprecated",
                110,
                |_| Rules { off: vec![features::deprecate_legacy_vote_ixs::id()], ..epochs(64) },
                none,
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

/// Forks, skipped slots, silence, prices.
fn chains() -> Vec<Scenario> {
    let silent = |from, until| Voting { silent: vec![from..until], late_percent: 10, ..Voting::default() };
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
            voting: Voting { absent: vec![1], missing_percent: 10, ..Voting::default() },
            ..plain(
                "delinquent",
                "a validator that never votes loses its stakes",
                250,
                |_| rewarded(32),
                || vec![(50, Box::new(Stakes::default()))],
            )
        },
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

fn everything() -> Acts {
    vec![
        (50, Box::new(Transfers { most: 2 })),
        (25, Box::new(Accounts::default())),
        (25, Box::new(nonce::Nonces::default())),
        (30, Box::new(table::Tables::default())),
        (30, Box::new(budget::Budgets)),
        (12, Box::new(loader::Programs::default())),
        (15, Box::new(configuration::Configurations::default())),
        (35, Box::new(Tokens::spl())),
        (20, Box::new(precompile::Precompiles)),
        (25, Box::new(invalid::Invalid)),
        (30, Box::new(Stakes::default())),
        (20, Box::new(VoteAccounts::default())),
        (8, Box::new(Commissions)),
    ]
}

fn common(rules: Rules) -> Rules {
    with(&[MEMO_3, TOKEN, address_lookup_table::id(), config::id()], rules)
}

/// Features that change what the other acts do, and that a chain may lack.
fn optional() -> Vec<Pubkey> {
    vec![
        features::commission_rate_in_basis_points::id(),
        features::create_account_allow_prefund::id(),
        features::custom_commission_collector::id(),
        features::block_revenue_sharing::id(),
        features::define_ltds_fee_only_semantics::id(),
        features::delay_commission_updates::id(),
        features::deprecate_legacy_vote_ixs::id(),
        features::direct_account_pointers_in_program_input::id(),
        features::disable_sbpf_v0_v1_v2_deployment::id(),
        features::limit_instruction_accounts::id(),
        features::loader_v3_minimum_extend_program_size::id(),
        features::raise_cpi_nesting_limit_to_8::id(),
        features::relax_post_exec_min_balance_check::id(),
        features::vote_account_initialize_v2::id(),
    ]
}

/// Features in motion, and everything at once.
fn mixtures() -> Vec<Scenario> {
    vec![
        diligent(
            "features-pending",
            "features that activate with epoch 1, and with epoch 3",
            130,
            |_| {
                let late = features::set_lamports_per_byte_to_5080::id();
                let mut pending: Vec<_> = optional().into_iter().map(|id| (id, None)).collect();
                pending.push((late, Some(80)));
                Rules { off: vec![late], pending, ..common(rewarded(32)) }
            },
            everything,
        ),
        plain(
            "features-rent",
            "rent that falls at boundaries",
            110,
            |_| {
                let (first, second) =
                    (features::set_lamports_per_byte_to_6333::id(), features::set_lamports_per_byte_to_1322::id());
                let last = features::set_lamports_per_byte_to_6960::id();
                // Two at once: the lower one counts. The third is active from slot 50 on without the change of rent.
                let pending = vec![(first, None), (second, None), (last, Some(50))];
                Rules { off: vec![first, second, last], pending, ..epochs(32) }
            },
            || {
                vec![
                    (70, Box::new(Accounts::default())),
                    (50, Box::new(Transfers { most: 2 })),
                    (30, Box::new(invalid::Invalid)),
                ]
            },
        ),
        diligent(
            "features-random",
            "each optional feature on, off or pending by lot",
            110,
            |rng| {
                let mut rules = common(rewarded(32));
                for id in optional() {
                    match rng.below(3) {
                        0 => rules.off.push(id),
                        1 => rules.pending.push((id, None)),
                        _ => {}
                    }
                }
                rules
            },
            everything,
        ),
        diligent("everything", "all of it", 140, |_| common(with_old_code(rewarded(32))), everything),
        Scenario {
            fork_percent: 6,
            skip_percent: 12,
            hard_forks: vec![50],
            ..diligent(
                "everything-forks",
                "all of it, with forks and a hard fork",
                120,
                |rng| {
                    let hashes_per_tick = rng.chance(50).then(|| rng.between(1, 5));
                    let target_signatures_per_slot = rng.between(5, 40);
                    Rules { hashes_per_tick, target_signatures_per_slot, ..common(with_old_code(rewarded(32))) }
                },
                everything,
            )
        },
        plain(
            "old-memo",
            "a program of the second loader",
            40,
            |_| with(&[MEMO_1], epochs(32)),
            || vec![(100, Box::new(crate::acts::budget::OldMemos))],
        ),
    ]
}

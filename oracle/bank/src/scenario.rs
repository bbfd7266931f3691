//! The scenarios by name. Each says what its genesis is like, how validators vote, and what happens in its blocks.

mod chains;
mod consensus;
mod mixtures;
mod programs;

use std::ops::Range;

use agave_feature_set as features;
use solana_cluster_type::ClusterType;
use solana_inflation::Inflation;
use solana_pubkey::Pubkey;
use solana_sdk_ids::{address_lookup_table, config};

use crate::acts::flood::Flood;
use crate::acts::gone::{Closings, Collectors};
use crate::acts::loader_v4::{self, Abandoned};
use crate::acts::refused::RefusedTransfers;
use crate::acts::stake::Stakes;
use crate::acts::system::{Accounts, Steady, Transfers};
use crate::acts::token::Tokens;
use crate::acts::vote::{Commissions, VoteAccounts};
use crate::acts::{Act, budget, configuration, invalid, loader, nonce, precompile, probe, table, token_2022};
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
    /// Slots that are all skipped. No epoch may lie among them as a whole: the next one's leaders would be unknown.
    pub gaps: Vec<Range<u64>>,
}

/// Returns the scenario called `name`.
pub fn named(name: &str) -> Option<Scenario> {
    all().into_iter().chain(chains::loads()).find(|scenario| scenario.name == name)
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
    [programs::scenarios(), consensus::scenarios(), chains::scenarios(), mixtures::scenarios()]
        .into_iter()
        .flatten()
        .collect()
}

/// Stakes, vote accounts and commissions at once.
fn votes_and_stakes() -> Acts {
    vec![(50, Box::new(Stakes::default())), (40, Box::new(VoteAccounts::default())), (10, Box::new(Commissions))]
}

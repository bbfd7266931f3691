//! Deliberate bugs are noticed by some seed: `--features mutations`.
//!
//! `HEARTH_MUTATION` names one bug, in place of those that are known to be noticed, or is `tried` for those of which
//! that is to be confirmed; `HEARTH_SIM_SEEDS` says how many seeds are tried in place of 2,000.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hearth_mutation::{Mutation, set_active};
use hearth_sim::plan::Plan;
use hearth_sim::runs::threads;
use hearth_sim::world::{Outcome, run};
use parking_lot::Mutex;

/// Seeds until a bug must be noticed.
const SEEDS_MAX: u64 = 2_000;

/// Bugs that are noticed, each within 60 seeds when it was added here. Of the others none was within 40 to 60.
const NOTICED: [Mutation; 17] = [
    Mutation::ForgottenLockouts,
    Mutation::LateThreshold,
    Mutation::LowThreshold,
    Mutation::UnaskedSwitch,
    Mutation::EarlyVote,
    Mutation::SkippedTower,
    Mutation::DoubleCount,
    Mutation::LighterFork,
    Mutation::LowConfirmation,
    Mutation::IgnoredDuplicate,
    Mutation::KeptVersion,
    Mutation::StaleSchedule,
    Mutation::ForeignShred,
    Mutation::UnchainedBlock,
    Mutation::MissedUndo,
    Mutation::DoubleFee,
    Mutation::ForgottenStatus,
];

/// Bugs that an invariant is there for, which no run has confirmed yet: `HEARTH_MUTATION=tried` runs them. One that a
/// seed notices belongs into [`NOTICED`], after that was seen; until then no test asserts any of these.
const TRIED: [Mutation; 6] = [
    // `confirmed-by-stake` weighs votes by the stakes of the block's epoch, which change.
    Mutation::StaleStakes,
    // `lamports`: one transaction in sixteen gives lamports away, and then fails.
    Mutation::MintedFailure,
    // `snapshots`: the accounts of a snapshot are hashed again.
    Mutation::UnhashedChange,
    // `snapshots`: accounts are written up to 0.4 s after the cut, when others have changed them.
    Mutation::LostCut,
    // `newer-values`: datagrams of gossip come twice, overtake each other, and are sent again by strangers.
    Mutation::OlderValue,
    // `one-version`: a leader crashes within its slot, and is up again before the slot is over.
    Mutation::RepeatedSlot,
];

/// The first outcome of `seeds` that shows the bug, on all cores: a seed that fails without the bug too shows nothing.
fn noticed(mutation: Mutation, seeds: u64) -> Option<Outcome> {
    let (next, is_found, found) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= seeds || is_found.load(Relaxed) {
                return;
            }
            let outcome = run_with(Some(mutation), seed);
            if outcome.violation.is_some() && run_with(None, seed).violation.is_none() {
                is_found.store(true, Relaxed);
                found.lock().get_or_insert(outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(work);
        }
    });
    found.into_inner()
}

/// Runs a seed with the bug, or without any.
fn run_with(mutation: Option<Mutation>, seed: u64) -> Outcome {
    // Of this thread alone, on which the run is.
    set_active(mutation);
    run(&Plan::of(seed), None)
}

#[test]
fn bugs_are_noticed() {
    let named = std::env::var("HEARTH_MUTATION").ok();
    let parse = |name: &str| Mutation::parse(name).unwrap_or_else(|| panic!("there is no bug {name}"));
    let tried = match named.as_deref() {
        None => NOTICED.to_vec(),
        Some("tried") => TRIED.to_vec(),
        Some(name) => vec![parse(name)],
    };
    let seeds = std::env::var("HEARTH_SIM_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS_MAX, |seeds| seeds.parse().expect("a number of seeds"));
    let mut missed = vec![];
    for mutation in tried {
        match noticed(mutation, seeds) {
            None => missed.push(mutation.name()),
            Some(outcome) => {
                let (violation, _) = outcome.violation.expect("it was noticed");
                println!("{mutation}: seed {}, {}: {}", outcome.plan.seed, violation.invariant.name(), violation.what);
            }
        }
    }
    assert!(missed.is_empty(), "no seed of {seeds} notices {}", missed.join(", "));
}

//! The EVM node on a simulated disk, for many seeds: a longer run of the single-seed test.
//!
//! reads   the command line
//! writes  the test's output; the seeds
//! memory  one line

use serde_json::json;

use super::Outcome;
use crate::run::{self, Args, cargo};

/// Suffix of each seed in the test's output.
const SEED: &str = ": digest ";

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let seeds = args.number("--seeds", 20)?;
    let first = args.number("--seed", run::random_seed())?;
    args.end()?;
    let mut test = cargo();
    test.args(["test", "--release", "--locked", "--package", "hearth-evm-utxo", "--test", "crash"]);
    test.args(["simulation::every_end_leaves_what_was_promised", "--", "--exact", "--nocapture"]);
    test.env("HEARTH_SEED", first.to_string()).env("HEARTH_SIMULATE_SEEDS", seeds.to_string());
    let mut done = 0u64;
    let result = run::run_seeing(&mut test, |line| done += u64::from(line.contains(SEED)));
    let wrong = result.err().map(|why| format!("after {done} seeds from {first} on: {why}"));
    let figures = json!({ "first_seed": first, "seeds": seeds, "done": done });
    Ok(Outcome { figures, wrong: wrong.into_iter().collect() })
}

//! The fuzz targets, for as long as one likes.
//!
//! reads   the corpus in `fuzz/corpus`
//! writes  inputs that break a property, into `fuzz/artifacts`; without cargo-fuzz, the seed
//! memory  the fuzzer's own

use serde_json::json;

use super::Outcome;
use crate::fuzz;
use crate::run::{self, Args};

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let seconds = args.number("--minutes", 10)? * 60;
    args.end()?;
    if fuzz::has_coverage() { with_coverage(seconds) } else { with_mutations(seconds) }
}

/// Coverage-guided, each target in turn.
fn with_coverage(seconds: u64) -> Result<Outcome, String> {
    let targets = fuzz::targets()?;
    let each = seconds.div_ceil(targets.len() as u64);
    let mut wrong = Vec::new();
    for target in &targets {
        wrong.extend(run::run(&mut fuzz::coverage(target, each)?).err().map(|why| format!("{target}: {why}")));
    }
    Ok(Outcome { figures: json!({ "with": "cargo-fuzz", "seconds_each": each, "targets": targets }), wrong })
}

/// Seeded mutations on the stable compiler.
fn with_mutations(seconds: u64) -> Result<Outcome, String> {
    println!("cargo-fuzz on a nightly toolchain: not installed; seeded mutations instead");
    let seed = run::random_seed();
    let result = run::run(fuzz::mutations(seconds).env("HEARTH_SEED", seed.to_string()));
    let wrong = result.err().map(|why| format!("HEARTH_SEED={seed}: {why}")).into_iter().collect();
    Ok(Outcome { figures: json!({ "with": "mutations", "seconds": seconds, "seed": seed }), wrong })
}

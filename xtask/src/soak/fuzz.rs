//! The parsers on malformed bytes.
//!
//! reads   the corpus in `fuzz/corpus`
//! writes  inputs that break something, into `fuzz/artifacts`; with seeded mutations, the seed
//! memory  the fuzzer's own

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::Outcome;
use crate::run::{self, Args, cargo, cargo_nightly};

const TARGETS: [&str; 8] = ["txn", "entry", "shred", "gossip", "repair", "tower", "genesis", "archive"];

/// Tests that mutate a corpus by seed, without the fuzzer.
struct Mutations {
    package: &'static str,
    program: &'static str,
    tests: &'static str,
    /// Mutants of each input for one seed: some seconds' worth.
    rounds: u64,
}

const MUTATIONS: [Mutations; 3] = [
    Mutations { package: "hearth-wire", program: "wire", tests: "replay_corpus::mutated", rounds: 100_000 },
    Mutations { package: "hearth-ledger", program: "hostile", tests: "genesis::mutated", rounds: 10_000 },
    Mutations { package: "hearth-ledger", program: "hostile", tests: "archives::mutated", rounds: 10_000 },
];

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let time = Duration::from_secs(args.number("--minutes", 10)? * 60);
    args.end()?;
    if run::answers(cargo_nightly().args(["fuzz", "--version"])) { cargo_fuzz(time) } else { seeds(time) }
}

/// Coverage-guided, each target in turn.
fn cargo_fuzz(time: Duration) -> Result<Outcome, String> {
    let seconds = time.as_secs() / TARGETS.len() as u64;
    let mut wrong = Vec::new();
    for target in TARGETS {
        let limit = format!("-max_total_time={seconds}");
        let mut fuzz = cargo_nightly();
        fuzz.args(["fuzz", "run", target, "--", &limit, "-print_final_stats=1"]);
        wrong.extend(run::run(&mut fuzz).err());
    }
    Ok(Outcome { figures: json!({ "with": "cargo-fuzz", "seconds_each": seconds, "targets": TARGETS }), wrong })
}

/// Runs seeded mutations of the corpus on the stable compiler; prints the seeds, so that any can be rerun.
fn seeds(time: Duration) -> Result<Outcome, String> {
    println!("cargo-fuzz on a nightly toolchain: not installed; seeded mutations instead");
    let base = run::random_seed();
    let (start, mut count, mut wrong) = (Instant::now(), 0, Vec::new());
    while start.elapsed() < time && wrong.is_empty() {
        let seed = base + count;
        let failed = MUTATIONS.iter().filter_map(|of| run::run(&mut of.command(seed)).err());
        wrong.extend(failed.map(|why| format!("HEARTH_SEED={seed}: {why}")));
        count += 1;
    }
    let rounds = MUTATIONS.map(|of| of.rounds);
    let figures = json!({ "with": "seeds", "first_seed": base, "seeds": count, "rounds_per_input": rounds });
    Ok(Outcome { figures, wrong })
}

impl Mutations {
    fn command(&self, seed: u64) -> Command {
        let mut command = cargo();
        command.args(["test", "--release", "--locked", "--quiet", "--package", self.package, "--test", self.program]);
        command.arg(self.tests).env("HEARTH_SEED", seed.to_string());
        command.env("HEARTH_FUZZ_ROUNDS", self.rounds.to_string());
        command
    }
}

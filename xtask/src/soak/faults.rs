//! Damage to every kind of file that a node writes, hundreds of times: longer runs of the fault tests.
//!
//! reads   the command line
//! writes  the tests' output: a table of outcomes by kind of file, and a line of figures for each
//! memory  a line
//!
//! A Solana ledger is opened in-process; an Ethereum chain is started as a node. Each trial copies a chain whose
//! transactions were all acknowledged, flips a bit, zeroes a range or truncates a file, and starts on the copy.

use serde_json::json;

use super::Outcome;
use crate::run::{self, Args, cargo};

const TESTS: [(&str, &[&str], &str); 2] = [
    ("solana", &["--package", "hearth-node", "--lib"], "boot::tests::damage::no_damage_is_silent"),
    ("ethereum", &["--package", "hearth", "--test", "end_to_end"], "faults::no_damage_to_ethereum_is_silent"),
];

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let mutations = args.number("--mutations", 300)?;
    let seed = args.number("--seed", run::random_seed())?;
    let only = args.value("--only")?.map(str::to_owned);
    args.end()?;
    let (mut said, mut wrong) = (Vec::new(), Vec::new());
    for (name, target, test) in TESTS.into_iter().filter(|(name, ..)| only.as_ref().is_none_or(|only| only == name)) {
        let mut command = cargo();
        command.args(["test", "--release", "--locked"]).args(target);
        command.args([test, "--", "--exact", "--nocapture"]);
        command.env("HEARTH_SEED", seed.to_string()).env("HEARTH_FAULTS", mutations.to_string());
        let result = run::run_seeing(&mut command, |line| {
            if line.starts_with(&format!("seed {seed}:")) {
                said.push(line.to_owned());
            }
        });
        wrong.extend(result.err().map(|why| format!("HEARTH_SEED={seed} {name}: {why}")));
    }
    if said.is_empty() {
        wrong.push("no test said how many mutations it made".into());
    }
    let figures = json!({ "seed": seed, "mutations_each": mutations, "said": said });
    Ok(Outcome { figures, wrong })
}

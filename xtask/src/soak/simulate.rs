//! Whole nodes of a cluster on virtual time, seed after seed, by the program of the crate `sim`.
//!
//! reads   the command line
//! writes  what the program says; its last line of figures
//! memory  the lines that name seeds which failed

use serde_json::json;

use super::Outcome;
use crate::run::{self, Args, cargo};

/// What the program takes as it is.
const OPTIONS: [&str; 5] = ["--hours", "--seeds", "--first", "--seed", "--threads"];

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let mut command = cargo();
    command.args(["run", "--release", "--locked", "--package", "hearth-sim", "--bin", "simulate", "--"]);
    for option in OPTIONS {
        if let Some(value) = args.value(option)? {
            command.args([option, value]);
        }
    }
    args.end()?;
    let (mut last, mut failed) = (String::new(), Vec::new());
    let result = run::run_seeing(&mut command, |line| {
        if line.starts_with("run it again:") || line.contains(" is broken at ") {
            failed.push(line.to_owned());
        }
        line.clone_into(&mut last);
    });
    let wrong = if failed.is_empty() { result.err().into_iter().collect() } else { failed };
    Ok(Outcome { figures: json!({ "said": last }), wrong })
}

//! Ten nodes under load, with packet loss, killed nodes and network partitions: a longer run of the end-to-end test.
//!
//! reads   the command line
//! writes  the test's output; its figures
//! memory  one line

use serde_json::{Value, json};

use super::Outcome;
use crate::run::{self, Args, cargo};

/// Seconds within which all nodes must confirm new slots after a restart or a heal.
const RECOVERS_WITHIN_S: u64 = 30;
/// Prefix of the figures in the test's output.
const FIGURES: &str = "figures ";

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let seconds = 60 * args.number("--minutes", 10)?;
    let numbers = [
        ("HEARTH_LOSS", or_none(&mut args, "--loss", 5)?),
        ("HEARTH_KILL_EVERY", or_none(&mut args, "--kill-every", 30)?),
        ("HEARTH_CUT_EVERY", or_none(&mut args, "--cut-every", 0)?),
        ("HEARTH_RATE", args.number("--rate", 1_000)?),
        ("HEARTH_VALIDATORS", args.number("--validators", 1)?),
        ("HEARTH_SEED", args.number("--seed", 1)?),
        ("HEARTH_SECONDS", seconds),
        ("HEARTH_RECOVERS_WITHIN", RECOVERS_WITHIN_S),
    ];
    args.end()?;
    let mut test = cargo();
    test.args(["test", "--release", "--locked", "--workspace", "--test", "end_to_end"]);
    test.args(["cluster_soak::ten_nodes_through_loss_and_kills", "--", "--exact", "--nocapture"]);
    test.envs(numbers.map(|(name, number)| (name, number.to_string())));
    let mut figures = json!({});
    let result = run::run_seeing(&mut test, |line| {
        if let Some(found) = line.strip_prefix(FIGURES).and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            figures = found;
        }
    });
    Ok(Outcome { figures, wrong: result.err().into_iter().collect() })
}

/// Parses a number that may be 0, which disables the option.
fn or_none(args: &mut Args<'_>, name: &str, default: u64) -> Result<u64, String> {
    let Some(text) = args.value(name)? else { return Ok(default) };
    text.parse().map_err(|_| format!("{name} {text}: expected a whole number; 0 is none"))
}

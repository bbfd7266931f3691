//! Ten nodes under load, with loss, with nodes that are killed and with a network that is cut: the end-to-end test of
//! it, run for longer.
//!
//! reads   the command line
//! writes  what the test says; its figures
//! memory  one line

use serde_json::{Value, json};

use super::Outcome;
use crate::run::{self, Args, cargo};

/// After a node was started again, or a cut was healed, all nodes have confirmed what is new within this, seconds.
const RECOVERS_WITHIN_S: u64 = 30;
/// Before the figures in what the test says.
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

/// A number that may be 0: none.
fn or_none(args: &mut Args<'_>, name: &str, default: u64) -> Result<u64, String> {
    let Some(text) = args.value(name)? else { return Ok(default) };
    text.parse().map_err(|_| format!("{name} {text}: expected a whole number; 0 is none"))
}

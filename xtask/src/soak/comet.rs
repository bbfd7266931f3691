//! Kills the application and CometBFT in random order, for many seeds.
//!
//! reads   the tests' output
//! memory  one line of output at a time

use serde_json::json;

use super::Outcome;
use crate::cometbft;
use crate::run::Args;

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let seeds = args.number("--seeds", 50)?;
    args.end()?;
    let tested = cometbft::test(seeds, |_| {})?;
    let wrong = if tested { vec![] } else { vec!["CometBFT could not be fetched".into()] };
    Ok(Outcome { figures: json!({ "seeds": seeds }), wrong })
}

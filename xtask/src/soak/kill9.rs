//! A node killed without warning under full load, a hundred times: a longer run of the end-to-end test, with `hearth
//! bench` as the load.
//!
//! reads   the command line
//! writes  the test's output; its line of figures
//! memory  one line

use serde_json::json;

use super::Outcome;
use crate::run::{self, Args, cargo};

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let kills = args.number("--kills", 100)?;
    let seed = args.number("--seed", run::random_seed())?;
    args.end()?;
    let mut test = cargo();
    test.args(["test", "--release", "--locked", "--package", "hearth", "--test", "end_to_end"]);
    test.args(["kills::killed_at_any_moment", "--", "--exact", "--nocapture"]);
    test.env("HEARTH_SEED", seed.to_string()).env("HEARTH_KILLS", kills.to_string()).env("HEARTH_FULL_RATE", "1");
    let mut said = Vec::new();
    let result = run::run_seeing(&mut test, |line| {
        if line.starts_with(&format!("seed {seed}:")) {
            said.push(line.to_owned());
        }
    });
    let figures = json!({ "seed": seed, "kills": kills, "said": said });
    Ok(Outcome { figures, wrong: result.err().map(|why| format!("HEARTH_SEED={seed}: {why}")).into_iter().collect() })
}

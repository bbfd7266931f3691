//! How fast the same recorded ledgers are on Agave's bank and here, in alternating rounds of one run.
//!
//! reads   the lines of `bank replay` and of `hearth ledger replay --recorded`
//! writes  ledgers into a temporary folder; a line about each
//! memory  three numbers a round
//! source  goals: transfers and votes at five times the rate of Agave's bank, programs at its rate
//!
//! Both execute one transaction after another. The time to check signatures counts for neither.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::observe::median;
use super::{Outcome, bank};
use crate::run::{self, Args, TempFolder};

/// The scenarios of full blocks, and how many times Agave's rate is the goal.
const LEDGERS: [(&str, f64); 3] = [("load-transfers", 5.0), ("load-votes", 5.0), ("load-tokens", 1.0)];

/// The seconds that one ledger takes, in each round.
#[derive(Default)]
struct Rounds {
    ours: Vec<f64>,
    agave: Vec<f64>,
}

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let rounds = args.number("--rounds", 5)?;
    let seed = args.number("--seed", 1)?;
    let given = args.value("--binary")?;
    args.end()?;
    // What is built for the ledgers alone is hardly optimised.
    let bank = bank::build("oracle-speed", &["--config", "profile.release.opt-level=3"])?;
    let hearth = run::hearth(given)?;
    let folder = TempFolder::new("soak-bank-speed")?;
    let (mut ledgers, mut wrong) = (vec![], vec![]);
    for (scenario, goal) in LEDGERS {
        let ledger = folder.path().join(scenario);
        let mut record = Command::new(&bank);
        record.args(["record", "--scenario", scenario, "--seed"]).arg(seed.to_string()).arg("--out").arg(&ledger);
        run::output(&mut record)?;
        let mut measured = Rounds::default();
        for _ in 0..rounds {
            measured.agave.push(seconds_of_agave(&replayed(&bank, &["replay"], &ledger)?)?);
            measured.ours.push(seconds_here(&replayed(&hearth, &["ledger", "replay"], &ledger)?)?);
        }
        let figures = measured.figures(scenario, goal);
        println!("{figures}");
        wrong.extend(missed(&figures));
        ledgers.push(figures);
    }
    Ok(Outcome { figures: json!({ "seed": seed, "rounds": rounds, "ledgers": ledgers }), wrong })
}

/// Returns the output of a program that replays a ledger.
fn replayed(program: &Path, command: &[&str], ledger: &Path) -> Result<String, String> {
    run::output(Command::new(program).args(command).arg("--recorded").arg(ledger))
}

/// The seconds in the oracle's line, without those for signatures.
fn seconds_of_agave(said: &str) -> Result<f64, String> {
    let line: Value = serde_json::from_str(said.trim()).map_err(|error| format!("the oracle said {said}: {error}"))?;
    let number = |name: &str| line[name].as_f64().ok_or_else(|| format!("the oracle's line has no {name}: {line}"));
    Ok(number("seconds")? - number("seconds_checking_signatures")?)
}

/// The seconds in a line such as `DIR: 99 blocks, 5 transactions and 0 refused as recorded; 0.001000 s a slot, …`.
fn seconds_here(said: &str) -> Result<f64, String> {
    let found = || {
        let (counts, speed) = said.trim().rsplit_once("; ")?;
        let blocks: f64 = counts.rsplit_once(": ")?.1.split_once(' ')?.0.parse().ok()?;
        let seconds: f64 = speed.split_once(" s a slot")?.0.parse().ok()?;
        Some(seconds * blocks)
    };
    found().filter(|seconds| *seconds > 0.0).ok_or_else(|| format!("hearth ledger replay said {said}"))
}

impl Rounds {
    /// The medians, and the median, the least and the greatest of the rounds' own ratios.
    fn figures(&self, scenario: &str, goal: f64) -> Value {
        let mut ratios: Vec<f64> = self.agave.iter().zip(&self.ours).map(|(agave, ours)| agave / ours).collect();
        ratios.sort_by(f64::total_cmp);
        json!({
            "scenario": scenario,
            "seconds": median(self.ours.clone()),
            "seconds_agave": median(self.agave.clone()),
            "times_as_fast": median(ratios.clone()),
            "times_as_fast_min": ratios[0],
            "times_as_fast_max": ratios[ratios.len() - 1],
            "goal": goal,
        })
    }
}

/// Returns a sentence if a ledger misses its goal.
fn missed(figures: &Value) -> Option<String> {
    let (found, goal) = (figures["times_as_fast"].as_f64()?, figures["goal"].as_f64()?);
    let scenario = figures["scenario"].as_str()?;
    (found < goal).then(|| format!("{scenario}: {found:.2} times as fast as Agave's bank, the goal is {goal}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seconds_of_both_are_read() {
        let agave = r#"{"ledger":"d","blocks":3,"transactions":9,"seconds":2.5,"seconds_checking_signatures":0.5}"#;
        assert_eq!(seconds_of_agave(agave), Ok(2.0));
        assert!(seconds_of_agave("{}").unwrap_err().contains("seconds"));
        let here =
            "/tmp/a: b/load: 4 blocks, 9 transactions and 1 refused as recorded; 0.250000 s a slot, 9 transactions/s\n";
        assert_eq!(seconds_here(here), Ok(1.0));
        for other in ["", "/tmp/load: DIFFERS at slot 3: its hash", "x: 4 blocks; 0.000000 s a slot"] {
            assert!(seconds_here(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_ledger_misses_its_goal_by_its_median() {
        let measured = Rounds { ours: vec![1.0, 2.0, 1.0], agave: vec![4.0, 2.0, 9.0] };
        let figures = measured.figures("load-votes", 5.0);
        let expected = json!({
            "scenario": "load-votes", "seconds": 1.0, "seconds_agave": 4.0, "times_as_fast": 4.0,
            "times_as_fast_min": 1.0, "times_as_fast_max": 9.0, "goal": 5.0,
        });
        assert_eq!(figures, expected);
        assert!(missed(&figures).unwrap().starts_with("load-votes: 4.00 times as fast"));
        assert_eq!(missed(&measured.figures("load-tokens", 1.0)), None);
    }
}

//! New random ledgers of the cluster's own bank, replayed by ours.
//!
//! reads   the oracle's line about each ledger
//! writes  ledgers into a temporary folder; of one that differs, the smallest that still does
//! memory  one line
//! source  `oracle/bank`, a workspace of its own: 500 crates, 15 to 25 minutes once

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::Outcome;
use crate::run::{self, Args, TempFolder, cargo};

/// The most replays that shrinking a ledger may take.
const SHRINK_REPLAYS: u32 = 300;

/// The two programs and the folder between them.
struct Oracle {
    bank: PathBuf,
    hearth: PathBuf,
    folder: TempFolder,
}

/// A ledger by what makes it.
#[derive(Clone)]
struct Recipe {
    scenario: String,
    seed: u64,
    /// The last slot; `None` for all of the scenario's.
    blocks: Option<u64>,
    /// The numbers of its transactions; `None` for all.
    only: Option<Vec<u64>>,
}

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let blocks = args.number("--blocks", 5_000)?;
    let first = args.number("--seed", run::random_seed())?;
    let given = args.value("--scenario")?;
    let hearth = args.value("--binary")?;
    args.end()?;
    let oracle =
        Oracle { bank: build("oracle", &[])?, hearth: run::hearth(hearth)?, folder: TempFolder::new("soak-bank")? };
    let scenarios = match given {
        Some(name) => vec![name.to_owned()],
        None => oracle.scenarios()?,
    };
    let (mut done, mut transactions, mut ledgers) = (0, 0, 0);
    let mut wrong = vec![];
    while done < blocks && wrong.is_empty() {
        let scenario = scenarios[ledgers as usize % scenarios.len()].clone();
        let recipe = Recipe { scenario, seed: first + ledgers, blocks: None, only: None };
        let made = oracle.record(&recipe)?;
        done += number(&made, "blocks")?;
        transactions += number(&made, "made")?;
        ledgers += 1;
        if let Some(difference) = oracle.difference()? {
            println!("{} differs: {difference}", recipe.line());
            wrong.push(oracle.shrink(recipe, &made)?);
        }
    }
    let figures = json!({ "first_seed": first, "ledgers": ledgers, "blocks": done, "transactions": transactions });
    Ok(Outcome { figures, wrong })
}

/// The oracle, built in a folder of this name among the build outputs if it is not there.
pub(super) fn build(folder: &str, options: &[&str]) -> Result<PathBuf, String> {
    let target = run::target_dir().join(folder);
    let mut cargo = cargo();
    cargo.args(["build", "--release", "--locked"]).args(options).current_dir(run::root().join("oracle/bank"));
    run::run(cargo.env("CARGO_TARGET_DIR", &target))?;
    Ok(target.join("release/bank"))
}

fn number(made: &Value, name: &str) -> Result<u64, String> {
    made[name].as_u64().ok_or_else(|| format!("the oracle's line has no number {name}: {made}"))
}

impl Recipe {
    /// The arguments that make the ledger.
    fn args(&self) -> Vec<String> {
        let mut args = vec!["--scenario".into(), self.scenario.clone(), "--seed".into(), self.seed.to_string()];
        if let Some(blocks) = self.blocks {
            args.extend(["--blocks".into(), blocks.to_string()]);
        }
        if let Some(only) = &self.only {
            args.extend(["--only".into(), ranges(only)]);
        }
        args
    }

    /// The command that makes it again.
    fn line(&self) -> String {
        format!("bank record {} --out DIR", self.args().join(" "))
    }
}

impl Oracle {
    fn scenarios(&self) -> Result<Vec<String>, String> {
        let list = run::output(Command::new(&self.bank).arg("list"))?;
        Ok(list.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
    }

    fn ledger(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a ledger, and returns what the oracle says about it.
    fn record(&self, recipe: &Recipe) -> Result<Value, String> {
        let mut command = Command::new(&self.bank);
        command.arg("record").args(recipe.args()).arg("--out").arg(self.ledger());
        let said = run::output(&mut command)?;
        serde_json::from_str(said.trim()).map_err(|error| format!("the oracle said {said}: {error}"))
    }

    /// Replays the ledger in the folder; what the replay says if it differs.
    fn difference(&self) -> Result<Option<String>, String> {
        let mut command = Command::new(&self.hearth);
        command.args(["ledger", "replay", "--recorded"]).arg(self.ledger()).stdin(Stdio::null());
        let output = command.output().map_err(|error| format!("cannot start {}: {error}", self.hearth.display()))?;
        if output.status.success() {
            return Ok(None);
        }
        let said = [output.stdout, output.stderr].concat();
        Ok(Some(String::from_utf8_lossy(&said).trim().to_owned()))
    }

    fn differs(&self, recipe: &Recipe) -> Result<bool, String> {
        self.record(recipe)?;
        Ok(self.difference()?.is_some())
    }

    /// Shortens a ledger that differs, then leaves transactions out; says how to make what is left.
    fn shrink(&self, recipe: Recipe, made: &Value) -> Result<String, String> {
        let with_blocks = |blocks| Recipe { blocks: Some(blocks), ..recipe.clone() };
        let blocks = fewest(number(made, "slot")?, |blocks| self.differs(&with_blocks(blocks)))?;
        let short = with_blocks(blocks);
        let count = number(&self.record(&short)?, "made")?;
        let with_only = |only: &[u64]| Recipe { only: Some(only.to_vec()), ..short.clone() };
        let only = needed((0..count).collect(), |only| self.differs(&with_only(only)))?;
        let smallest = with_only(&only);
        self.record(&smallest)?;
        let difference = self.difference()?.unwrap_or_default();
        Ok(format!("{}: {difference}", smallest.line()))
    }
}

/// Returns the least of `1..=most` that fails, where all above one that fails do too, and `most` does.
fn fewest(most: u64, mut fails: impl FnMut(u64) -> Result<bool, String>) -> Result<u64, String> {
    let (mut passes, mut failing) = (0, most);
    while failing - passes > 1 {
        let middle = passes + (failing - passes) / 2;
        if fails(middle)? { failing = middle } else { passes = middle }
    }
    Ok(failing)
}

/// Leaves out chunks of `all`, ever smaller ones, while what is left fails.
fn needed(all: Vec<u64>, mut fails: impl FnMut(&[u64]) -> Result<bool, String>) -> Result<Vec<u64>, String> {
    let mut kept = all;
    let mut size = kept.len();
    let mut replays = 0;
    while size > 0 {
        let mut at = 0;
        while at < kept.len() && replays < SHRINK_REPLAYS {
            let end = kept.len().min(at + size);
            let rest = [&kept[..at], &kept[end..]].concat();
            replays += 1;
            if fails(&rest)? { kept = rest } else { at = end }
        }
        size /= 2;
    }
    Ok(kept)
}

/// Numbers in ascending order as the oracle reads them: `0-9,12`, or `none`.
fn ranges(numbers: &[u64]) -> String {
    let mut ranges: Vec<(u64, u64)> = vec![];
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let range = |(from, to): &(u64, u64)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    if ranges.is_empty() { "none".into() } else { ranges.iter().map(range).collect::<Vec<_>>().join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_blocks_that_fail_are_found() {
        for first in [1, 2, 37, 99, 100] {
            assert_eq!(fewest(100, |blocks| Ok(blocks >= first)), Ok(first));
        }
    }

    #[test]
    fn only_what_is_needed_stays() {
        let fails = |only: &[u64]| Ok(only.contains(&7) && only.contains(&40));
        assert_eq!(needed((0..64).collect(), fails), Ok(vec![7, 40]));
        assert_eq!(needed((0..64).collect(), |_| Ok(true)), Ok(vec![]));
    }

    #[test]
    fn numbers_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 9, 10]), "0-2,5,9-10");
        assert_eq!(ranges(&[]), "none");
    }
}

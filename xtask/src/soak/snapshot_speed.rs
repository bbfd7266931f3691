//! How long a large state takes to be written as an archive and to be read again, by Agave and here, in one run.
//!
//! reads   the lines of the bench `snapshot` of `hearth-ledger` and of `bank measure-snapshot`
//! writes  one archive into a temporary folder, for both to read
//! memory  six numbers a round
//! source  goals: at least as fast as Agave, and within twice the memory of the state

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::observe::median;
use super::{Outcome, bank};
use crate::run::{self, Args, TempFolder, cargo};

/// The most memory, in states.
const STATES_MAX: f64 = 2.0;
/// The ends of the bench's lines that count, and the figures' names.
const OF_BENCH: [(&str, &str); 4] = [
    ("as an archive", "seconds_writing"),
    ("s to start from the archive", "seconds_loading"),
    ("meanwhile, the state included", "states_writing"),
    ("in a process that starts from it", "states_loading"),
];
/// The figures' names in the oracle's line.
const OF_AGAVE: [&str; 2] = ["seconds_writing", "seconds_loading"];

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let accounts = args.number("--accounts", 1_000_000)?;
    let rounds = args.number("--rounds", 3)?;
    args.end()?;
    let bank = bank::build("oracle-speed", &["--config", "profile.release.opt-level=3"])?;
    let (mut ours, mut agave) = (vec![], vec![]);
    for _ in 0..rounds {
        let folder = TempFolder::new("soak-snapshot-speed")?;
        ours.push(of_bench(&bench(accounts, folder.path())?)?);
        let mut measure = Command::new(&bank);
        measure.arg("measure-snapshot").arg("--genesis").arg(folder.path().join("genesis.bin"));
        let said = run::output(measure.arg("--archive").arg(archive(folder.path())?))?;
        println!("{}", said.trim());
        agave.push(of_agave(&said)?);
    }
    let figures = figures(&ours, &agave);
    let wrong = missed(&figures);
    Ok(Outcome { figures: json!({ "accounts": accounts, "rounds": rounds, "medians": figures }), wrong })
}

/// Returns the lines of the bench, which leaves its archive and its genesis in `folder`.
fn bench(accounts: u64, folder: &Path) -> Result<Vec<String>, String> {
    let mut bench = cargo();
    bench.args(["bench", "--locked", "--package", "hearth-ledger", "--bench", "snapshot"]);
    bench.env("HEARTH_ACCOUNTS", accounts.to_string()).env("HEARTH_BENCH_KEEP", folder);
    let mut lines = vec![];
    run::run_seeing(&mut bench, |line| lines.push(line.to_owned()))?;
    Ok(lines)
}

/// The archive in a folder.
fn archive(folder: &Path) -> Result<PathBuf, String> {
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            return Ok(path);
        }
    }
    Err(format!("the bench left no archive in {}", folder.display()))
}

/// The numbers that begin the bench's lines, in the order of [`OF_BENCH`].
fn of_bench(lines: &[String]) -> Result<[f64; 4], String> {
    let mut numbers = [0.0; 4];
    for (number, (end, name)) in numbers.iter_mut().zip(OF_BENCH) {
        let line = lines.iter().find(|line| line.ends_with(end));
        let first = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        *number = first.ok_or_else(|| format!("the bench has no line of {name}, which ends with `{end}`"))?;
    }
    Ok(numbers)
}

/// The numbers in the oracle's line, in the order of [`OF_AGAVE`].
fn of_agave(said: &str) -> Result<[f64; 2], String> {
    let line: Value = serde_json::from_str(said.trim()).map_err(|error| format!("the oracle said {said}: {error}"))?;
    let mut numbers = [0.0; 2];
    for (number, name) in numbers.iter_mut().zip(OF_AGAVE) {
        *number = line[name].as_f64().ok_or_else(|| format!("the oracle's line has no {name}: {line}"))?;
    }
    Ok(numbers)
}

/// The medians of the rounds.
fn figures(ours: &[[f64; 4]], agave: &[[f64; 2]]) -> Value {
    let mut figures = json!({});
    for (at, (_, name)) in OF_BENCH.iter().enumerate() {
        figures[*name] = median(ours.iter().map(|round| round[at]).collect()).into();
    }
    for (at, name) in OF_AGAVE.iter().enumerate() {
        figures[format!("agave_{name}")] = median(agave.iter().map(|round| round[at]).collect()).into();
    }
    figures
}

/// The goals that the medians miss.
fn missed(figures: &Value) -> Vec<String> {
    let of = |name: &str| figures[name].as_f64().unwrap_or_default();
    let slow = OF_AGAVE.iter().filter_map(|name| {
        let (ours, agave) = (of(name), of(&format!("agave_{name}")));
        (ours > agave).then(|| format!("{name}: {ours:.2} s, Agave's {agave:.2} s"))
    });
    let large = ["states_writing", "states_loading"].into_iter().filter_map(|name| {
        let states = of(name);
        (states > STATES_MAX).then(|| format!("{name}: {states:.2} times the state, at most {STATES_MAX} are allowed"))
    });
    slow.chain(large).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_both_are_read() {
        let lines = [
            "     300 B an account in memory, tables and data",
            "    1.25 s to write 40 MB as an archive",
            "    1.50 times the state in memory at most meanwhile, the state included",
            "    2.00 s to start from the archive",
            "    1.10 times the state in memory at most in a process that starts from it",
            "    0.50 s to start from the snapshot (0.40 s of it reading), 5 accounts",
        ];
        assert_eq!(of_bench(&lines.map(str::to_owned)), Ok([1.25, 2.0, 1.5, 1.1]));
        assert!(of_bench(&lines[..2].iter().map(|line| line.to_string()).collect::<Vec<_>>()).is_err());
        assert_eq!(of_agave(r#"{"seconds_loading":3.5,"seconds_writing":2}"#), Ok([2.0, 3.5]));
        assert!(of_agave("{}").unwrap_err().contains("seconds_writing"));
    }

    #[test]
    fn medians_miss_goals() {
        let figures = figures(&[[1.0, 4.0, 1.5, 2.5], [1.0, 4.0, 1.5, 2.5], [9.0, 4.0, 1.5, 0.1]], &[[2.0, 3.0]]);
        let missed = missed(&figures);
        assert_eq!(missed.len(), 2, "{missed:?}");
        assert!(missed[0].starts_with("seconds_loading: 4.00 s, Agave's 3.00 s"), "{missed:?}");
        assert!(missed[1].starts_with("states_loading: 2.50 times"), "{missed:?}");
    }
}

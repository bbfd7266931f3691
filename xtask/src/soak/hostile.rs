//! Attacks at stated rates while legitimate transactions are sent: a longer run of the end-to-end test.
//!
//! reads   the test's output
//! writes  the test's output; the judged figures; the file of results, and the page that shows it
//! memory  one line of output, and a row for each attack
//!
//! The attacker is part of the test, since it makes packets with the nodes' own crates, which the chores do not import.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Outcome, escaped};
use crate::run::{self, Args, cargo};

/// The tests: one for each chain.
const TESTS: &str = "hostile_soak::attacks_on_";
/// Prefix of the figures in a test's output.
const FIGURES: &str = "figures ";
const HEAD: &str = "| Attack | A second: stated, reached | Attacker's cores | Sent, landed | p50 before, during, after \
                    | p99 before, during, after | Memory, bound | Counters that rose |\n\
                    |---|---|---|---|---|---|---|---|\n";

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let (seconds, rate) = (args.number("--seconds", 10)?, args.number("--rate", 1_000)?);
    let (attack, file) = (args.value("--attack")?, args.value("--json")?);
    args.end()?;
    let mut test = cargo();
    test.args(["test", "--release", "--locked", "--package", "hearth", "--test", "end_to_end"]);
    test.args([TESTS, "--", "--nocapture", "--test-threads=1"]);
    test.env("HEARTH_SECONDS", seconds.to_string()).env("HEARTH_RATE", rate.to_string());
    if let Some(attack) = attack {
        test.env("HEARTH_ATTACK", attack);
    }
    let mut chains = vec![];
    let ended = run::run_seeing(&mut test, |line| {
        chains.extend(line.strip_prefix(FIGURES).and_then(|text| serde_json::from_str::<Value>(text).ok()));
    });
    let outcome = joined(&chains, seconds, rate, ended.err());
    if let Some(file) = file {
        save(Path::new(file), &outcome)?;
    }
    Ok(outcome)
}

/// The figures of all chains together. A test that failed before it had figures says why itself.
fn joined(chains: &[Value], seconds: u64, rate: u64, error: Option<String>) -> Outcome {
    let all = |name: &str| -> Vec<Value> {
        chains.iter().filter_map(|chain| chain[name].as_array()).flatten().cloned().collect()
    };
    let rows = all("rows");
    let mut wrong: Vec<String> = all("wrong").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if wrong.is_empty() {
        wrong.extend(error);
    }
    if rows.is_empty() && wrong.is_empty() {
        wrong.push("no attack was made: is there one of this name?".into());
    }
    Outcome { figures: json!({ "seconds": seconds, "rate": rate, "rows": rows }), wrong }
}

/// Writes the file of results.
fn save(file: &Path, outcome: &Outcome) -> Result<(), String> {
    let hearth = run::output(Command::new(run::target_dir().join("release/hearth")).arg("--version"))?;
    let mut result = outcome.figures.clone();
    result["date"] = run::output(Command::new("date").args(["-u", "+%F"]))?.trim().into();
    result["hearth"] = hearth.lines().next().unwrap_or_default().into();
    result["cores"] = std::thread::available_parallelism().map_or(0, usize::from).into();
    result["wrong"] = outcome.wrong.clone().into();
    let text = serde_json::to_string_pretty(&result).map_err(|error| error.to_string())?;
    std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
}

/// The page of a file of results.
pub fn page(text: &str) -> Result<String, String> {
    let result: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut page = "# What was seen under attack\n\n[Under attack](hostile.md) describes each attack and how to run \
                    them. This page shows the results in `docs/hostile.json`.\n"
        .to_owned();
    let rows: Vec<&Value> = result["rows"].as_array().into_iter().flatten().collect();
    if rows.is_empty() {
        return Ok(page + "\nNo run is recorded yet.\n");
    }
    page += &format!(
        "\n{}: {}, on {} cores. {} legitimate transactions a second, in windows of {} s. Latencies in milliseconds, \
         memory in MiB.\n",
        shown(&result["date"]),
        shown(&result["hearth"]),
        shown(&result["cores"]),
        shown(&result["rate"]),
        shown(&result["seconds"]),
    );
    for (chain, title) in [("solana", "A Solana node"), ("evm", "An EVM node")] {
        let lines: Vec<String> = rows.iter().filter(|row| row["chain"] == chain).map(|row| line(row)).collect();
        if !lines.is_empty() {
            page += &format!("\n## {title}\n\n{HEAD}{}", lines.concat());
        }
    }
    let wrong: Vec<&str> = result["wrong"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if !wrong.is_empty() {
        page += "\n## What did not hold\n\n";
        wrong.iter().for_each(|why| page += &format!("- {}\n", escaped(why)));
    }
    Ok(page)
}

/// A row of the table.
fn line(row: &Value) -> String {
    let windows = |name: &str| {
        let of = |window: &str| rounded(&row[window][name]);
        format!("{}, {}, {}", of("before"), of("during"), of("after"))
    };
    let mib = |name: &str| (row[name].as_u64().unwrap_or_default() >> 20).to_string();
    let counters = row["counters"].as_object().into_iter().flatten();
    let counters: Vec<String> = counters.map(|(name, rise)| format!("`{name}` {}", shown(rise))).collect();
    format!(
        "| {} ({}) | {}, {} | {:.2} | {}, {} | {} | {} | {}, {} | {} |\n",
        shown(&row["attack"]),
        shown(&row["unit"]),
        shown(&row["rate"]),
        rounded(&row["reached"]),
        row["cores"].as_f64().unwrap_or_default(),
        shown(&row["sent"]),
        shown(&row["landed"]),
        windows("p50_ms"),
        windows("p99_ms"),
        mib("held_bytes"),
        mib("held_bytes_max"),
        counters.join(", "),
    )
}

fn rounded(value: &Value) -> String {
    value.as_f64().map_or_else(|| "–".to_owned(), |number| format!("{number:.0}"))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => escaped(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(chain: &str) -> Value {
        json!({
            "chain": chain, "attack": "garbage", "unit": "datagrams", "rate": 10_000, "reached": 9_876.5,
            "cores": 0.25, "sent": 100, "landed": 100, "held_bytes": 3 << 20, "held_bytes_max": 5 << 20,
            "before": { "p50_ms": 1.2, "p99_ms": 2.2 }, "during": { "p50_ms": 1.4, "p99_ms": 3.0 },
            "after": { "p50_ms": 1.0, "p99_ms": 2.0 }, "counters": { "gossip_malformed": 7 },
        })
    }

    #[test]
    fn rows_of_both_chains_are_joined() {
        let of = |chain: &str| json!({ "rows": [row(chain)], "wrong": [] });
        let Outcome { figures, wrong } = joined(&[of("solana"), of("evm")], 10, 1_000, None);
        assert_eq!(figures["rows"].as_array().map(Vec::len), Some(2));
        assert_eq!(wrong, [""; 0]);
        let late = json!({ "rows": [row("evm")], "wrong": ["evm, garbage: late"] });
        assert_eq!(joined(&[late], 10, 1_000, Some("exit".into())).wrong, ["evm, garbage: late"]);
        assert_eq!(joined(&[of("evm")], 10, 1_000, Some("exit".into())).wrong, ["exit"]);
        assert_eq!(joined(&[], 10, 1_000, None).wrong.len(), 1);
    }

    #[test]
    fn results_become_a_page() {
        let empty = page("{}").unwrap();
        assert!(empty.ends_with("\nNo run is recorded yet.\n"), "{empty}");
        let result = json!({
            "date": "2026-11-28", "hearth": "hearth 0.1.0", "cores": 2, "rate": 1_000, "seconds": 10,
            "rows": [row("solana")], "wrong": ["solana, garbage: a|b"],
        });
        let text = page(&result.to_string()).unwrap();
        let line = "| garbage (datagrams) | 10000, 9876 | 0.25 | 100, 100 | 1, 1, 1 | 2, 3, 2 | 3, 5 \
                    | `gossip_malformed` 7 |\n";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("## A Solana node") && !text.contains("## An EVM node"), "{text}");
        assert!(text.ends_with("\n## What did not hold\n\n- solana, garbage: a\\|b\n"), "{text}");
        assert!(page("no JSON").is_err());
    }
}

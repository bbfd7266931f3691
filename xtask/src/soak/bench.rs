//! Full load for a long time: no stall, flat memory, nothing lost.
//!
//! reads   the report of `hearth bench --json`
//! writes  the judged figures
//! memory  the report

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Outcome;
use crate::run::{self, Args, TempFolder};

/// The longest time without a transaction more, seconds.
const STALL_MAX_S: f64 = 1.0;
/// Memory may grow by this from ten seconds after the start to the end, bytes: pages of tables touched late.
const GROWTH_MAX: f64 = 32.0 * 1024.0 * 1024.0;

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let minutes = args.number("--minutes", 10)?;
    let (binary, config) = (args.value("--binary")?, args.value("--config")?);
    args.end()?;
    let binary = run::hearth(binary)?;
    judge(&measured(&binary, minutes * 60, config)?)
}

/// Runs `hearth bench` for some seconds, and returns its report.
pub(super) fn measured(binary: &Path, seconds: u64, config: Option<&str>) -> Result<Value, String> {
    let folder = TempFolder::new("soak-bench")?;
    let report = folder.path().join("report.json");
    let mut bench = Command::new(binary);
    bench.args(["bench", "--duration", &seconds.to_string(), "--json"]).arg(&report);
    bench.args(config.iter().flat_map(|file| ["--config", file]));
    run::run(&mut bench)?;
    let report = std::fs::read_to_string(&report).map_err(|error| format!("no report: {error}"))?;
    serde_json::from_str(&report).map_err(|error| format!("the report is no JSON: {error}"))
}

fn judge(report: &Value) -> Result<Outcome, String> {
    let number = |name: &str| report[name].as_f64().ok_or_else(|| format!("the report lacks {name:?}"));
    let (stall, growth) = (number("longest_stall_s")?, number("rss_growth_bytes")?);
    let (unresolved, landed) = (number("unresolved")?, number("landed")?);
    let mut wrong = Vec::new();
    let mut expect = |good: bool, what: String| {
        if !good {
            wrong.push(what)
        }
    };
    expect(landed > 0.0, "nothing landed".into());
    expect(stall <= STALL_MAX_S, format!("a stall of {stall} s"));
    expect(growth <= GROWTH_MAX, format!("memory grew by {growth} bytes"));
    expect(unresolved == 0.0, format!("{unresolved} transactions unresolved"));
    expect(report["interrupted"] != true, "interrupted".into());
    let names =
        ["txn_per_s", "duration_s", "landed", "longest_stall_s", "rss_growth_bytes", "rss_bytes_max", "unresolved"];
    let figures = names.iter().map(|name| ((*name).to_owned(), report[*name].clone()));
    Ok(Outcome { figures: json!(figures.collect::<serde_json::Map<_, _>>()), wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_is_judged() {
        let good = json!({
            "txn_per_s": { "mean": 1.0 }, "longest_stall_s": 0.4, "rss_growth_bytes": -5, "unresolved": 0, "landed": 9,
            "interrupted": false,
        });
        assert_eq!(judge(&good).unwrap().wrong, [] as [&str; 0]);
        let bad = [
            ("longest_stall_s", json!(1.2)),
            ("rss_growth_bytes", json!(1u64 << 30)),
            ("unresolved", json!(-1)),
            ("landed", json!(0)),
            ("interrupted", json!(true)),
        ];
        for (name, value) in bad {
            let mut report = good.clone();
            report[name] = value;
            assert_eq!(judge(&report).unwrap().wrong.len(), 1, "{name}");
        }
        assert!(judge(&json!({})).is_err());
    }
}

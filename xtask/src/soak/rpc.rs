//! Latencies that clients see: on an idle node, and on the same node at two thirds of its capacity.
//!
//! reads   the reports of `hearth bench --url … --json`
//! writes  the judged figures
//! memory  three reports

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::Outcome;
use crate::node::{Node, free_ports};
use crate::run::{self, Args, TempFolder};

/// Submitted over RPC until the status is there, median, milliseconds.
const PROCESSED_MAX_MS: f64 = 20.0;
/// Upper bound for confirmation: one slot of the default length.
const CONFIRMED_MAX_MS: f64 = 400.0;
/// Questions at 200 a second until they are answered, 99th percentile.
const ANSWERS_MAX_MS: f64 = 10.0;
const QUESTIONS: &str = "200";

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let seconds = args.number("--seconds", 20)?.to_string();
    let binary = args.value("--binary")?;
    args.end()?;
    let binary = run::hearth(binary)?;
    let folder = TempFolder::new("soak-rpc")?;
    let port = free_ports()?;
    let node = Node::start_whole(&binary, folder.path(), port)?;
    let bench = Bench { binary: &binary, folder: folder.path(), port, seconds: &seconds, pid: node.id() };
    let alone = bench.run("alone", &["--rate", "0", "--probes", "20", "--questions", QUESTIONS])?;
    let most = bench.run("most", &["--presign", "--probes", "0"])?;
    let rate = (number(&most, "/txn_per_s/mean")? * 2.0 / 3.0).floor().to_string();
    let loaded = bench.run("loaded", &["--presign", "--rate", &rate, "--questions", QUESTIONS])?;
    node.stop()?;
    judge(&alone, &most, &loaded)
}

/// Runs benches against one node.
struct Bench<'a> {
    binary: &'a PathBuf,
    folder: &'a Path,
    port: u16,
    seconds: &'a str,
    pid: u32,
}

impl Bench<'_> {
    fn run(&self, name: &str, options: &[&str]) -> Result<Value, String> {
        let config = self.folder.join("bench.toml");
        let report = self.folder.join(name);
        std::fs::write(&config, format!("name = \"soak-{}\"\n", self.port)).map_err(|error| error.to_string())?;
        let mut bench = Command::new(self.binary);
        bench.args(["bench", "--url", &format!("http://127.0.0.1:{}", self.port), "--duration", self.seconds]);
        bench.args(["--warmup", "3", "--pid", &self.pid.to_string()]).args(options);
        bench.arg("--config").arg(config).arg("--json").arg(&report);
        run::run(&mut bench)?;
        let report = std::fs::read_to_string(&report).map_err(|error| format!("no report: {error}"))?;
        serde_json::from_str(&report).map_err(|error| format!("the report is no JSON: {error}"))
    }
}

fn number(report: &Value, path: &str) -> Result<f64, String> {
    report.pointer(path).and_then(Value::as_f64).ok_or_else(|| format!("the report lacks {path}"))
}

fn judge(alone: &Value, most: &Value, loaded: &Value) -> Result<Outcome, String> {
    let mut wrong = Vec::new();
    let latency = "/target/latency";
    for (name, report) in [("alone", alone), ("at two thirds", loaded)] {
        let at = |path: &str| number(report, &format!("{latency}/{path}"));
        for (what, found, most) in [
            ("processed p50", at("processed_ms/p50")?, PROCESSED_MAX_MS),
            ("answers p99", at("answers_ms/p99")?, ANSWERS_MAX_MS),
            ("probes lost", at("probes_lost")? + at("questions_failed")?, 0.0),
        ] {
            if found > most {
                wrong.push(format!("{name}: {what} {found:.1}, at most {most}"));
            }
        }
    }
    let confirmed = number(alone, &format!("{latency}/confirmed_ms/p50"))?;
    if confirmed > CONFIRMED_MAX_MS {
        wrong.push(format!("alone: confirmed p50 {confirmed:.1} ms, at most {CONFIRMED_MAX_MS}"));
    }
    let figures = json!({
        "most": most["txn_per_s"],
        "most_cpu_us_per_txn": most["cpu_us_per_txn"],
        "alone": alone["target"]["latency"],
        "loaded": loaded["target"]["latency"],
        "loaded_txn_per_s": loaded["txn_per_s"]["mean"],
        "landed_share": loaded["target"]["landed_share"],
    });
    Ok(Outcome { figures, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(processed: f64, confirmed: f64, answers: f64) -> Value {
        let wait = |p50: f64, p99: f64| json!({ "p50": p50, "p99": p99 });
        let latency = json!({
            "processed_ms": wait(processed, 0.0), "confirmed_ms": wait(confirmed, 0.0),
            "answers_ms": wait(0.0, answers), "probes_lost": 0, "questions_failed": 0,
        });
        json!({ "target": { "latency": latency } })
    }

    #[test]
    fn each_wait_is_judged() {
        let good = report(3.0, 200.0, 5.0);
        assert_eq!(judge(&good, &json!({}), &good).unwrap().wrong, [] as [&str; 0]);
        for bad in [report(30.0, 200.0, 5.0), report(3.0, 500.0, 5.0), report(3.0, 200.0, 15.0)] {
            assert_eq!(judge(&bad, &json!({}), &good).unwrap().wrong.len(), 1, "{bad}");
        }
        assert!(judge(&json!({}), &json!({}), &good).is_err());
    }
}

//! `hearth bench`: its options, the numbers it writes for machines, and how it ends.

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::node::{Process, Setup, ends_when_unread};

/// A bench with a configuration of its own, and its result.
struct Bench {
    setup: Setup,
    arguments: Vec<String>,
}

impl Bench {
    fn new(test: &str, arguments: &str) -> Self {
        let setup = Setup::new(test);
        let arguments = arguments.split_whitespace().map(str::to_owned).collect();
        Self { setup, arguments }
    }

    fn command(&self) -> Command {
        let mut command = self.setup.command("bench");
        command.args(&self.arguments).arg("--json").arg(self.setup.folder.path().join("result.json"));
        command
    }

    fn result(&self) -> Value {
        let text =
            std::fs::read_to_string(self.setup.folder.path().join("result.json")).expect("the result is written");
        serde_json::from_str(&text).expect("the result is JSON")
    }

    /// Runs to the end; gives the summary and the result.
    fn run(&self) -> (String, Value) {
        let output = self.command().output().expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        (text, self.result())
    }
}

fn number(result: &Value, path: &str) -> f64 {
    result.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number at {path} in {result:#}"))
}

fn count(result: &Value, path: &str) -> u64 {
    result.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no count at {path} in {result:#}"))
}

fn text<'a>(result: &'a Value, path: &str) -> &'a str {
    result.pointer(path).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {path} in {result:#}"))
}

/// Everything was accounted for, and something landed.
fn is_balanced(result: &Value) {
    let dropped = result["dropped"].as_object().expect("an object of counts");
    let dropped: u64 = dropped.values().map(|count| count.as_u64().expect("a count")).sum();
    assert_eq!(count(result, "/unresolved"), 0);
    assert_eq!(count(result, "/sent"), count(result, "/landed") + count(result, "/failed") + dropped, "{result:#}");
    assert!(count(result, "/landed") > 0, "{result:#}");
}

fn dropped_places(result: &Value) -> Vec<&String> {
    result["dropped"].as_object().expect("an object of counts").keys().collect()
}

/// Each line's total is the one before and its own rate, but for the length of the second.
fn totals_grow_by_the_rates(summary: &str) {
    let number = |text: &str| text.replace(',', "").parse::<f64>().ok();
    let lines = summary.lines().filter(|line| line.contains(" in all"));
    let lines: Vec<(Option<f64>, f64)> = lines
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (number(words[2]), number(words[4]).expect("a total"))
        })
        .collect();
    assert!(lines.len() >= 3 && lines[0].0.is_none(), "{summary}");
    for pair in lines.windows(2) {
        let (grown, rate) = (pair[1].1 - pair[0].1, pair[1].0.expect("a rate"));
        assert!((grown / rate - 1.0).abs() < 0.3, "{grown} at {rate}: {summary}");
    }
}

/// Drops because of a full pool or a late block are expected; any other drop is a failure.
fn nothing_went_wrong(result: &Value) {
    assert_eq!(count(result, "/failed"), 0);
    for (place, dropped) in result["dropped"].as_object().expect("an object of counts") {
        assert!(dropped == 0 || place == "bank_slot_ended", "{place}: {dropped}");
    }
}

#[test]
fn bench_reports() {
    let bench = Bench::new("bench", "--duration 2 --warmup 1 --yardstick");
    let (summary, result) = bench.run();
    is_balanced(&result);
    nothing_went_wrong(&result);

    let [mean, median, p5, p95, max] =
        ["mean", "median", "p5", "p95", "max"].map(|name| number(&result, &format!("/txn_per_s/{name}")));
    assert!(0.0 < p5 && p5 <= median && median <= p95 && p95 <= max && p5 <= mean && mean <= max, "{result:#}");
    let duration = number(&result, "/duration_s");
    assert!((1.5..10.0).contains(&duration), "{duration}");
    assert_eq!(number(&result, "/warmup_s"), 1.0);
    let cores = std::thread::available_parallelism().expect("cores").get() as f64;
    assert!(number(&result, "/cores") > 0.0 && number(&result, "/cores") <= cores);
    // Measured transactions are a subset of the landed ones.
    assert!(mean * duration <= count(&result, "/landed") as f64 + 1.0, "{result:#}");
    assert!(number(&result, "/cpu_us_per_txn/node") > 0.0 && number(&result, "/cpu_us_per_txn/load") > 0.0);
    assert!((1 << 20..2_000_000_000).contains(&count(&result, "/rss_bytes_max")), "{result:#}");
    assert!(!text(&result, "/bottleneck/tile").is_empty() && !text(&result, "/bottleneck/why").is_empty());
    let stages = result["latency"].as_array().expect("a list of stages");
    let names: Vec<&str> = stages.iter().filter_map(|stage| stage["stage"].as_str()).collect();
    assert_eq!(names[..6], ["quic", "verify", "dedup", "pack", "bank", "executed"], "{result:#}");
    for stage in stages {
        let [p50, p90, p99, max] =
            ["p50_us", "p90_us", "p99_us", "max_us"].map(|name| number(stage, &format!("/{name}")));
        assert!(p50 <= p90 && p90 <= p99 && p99 <= max && max < 60e6, "{stage}");
    }
    assert!(count(stages.last().unwrap(), "/count") > 0 && summary.contains("from receipt to"), "{summary}");
    let off = result["switched_off"].as_array().expect("a list of names");
    assert!(off.iter().any(|line| line == "no snapshots are taken"), "{off:?}");
    assert!(off.iter().all(Value::is_string) && off[0].as_str().is_some_and(|name| name.contains("hashes_per_tick")));
    let (sign, verify) = (number(&result, "/yardstick_ns/sign"), number(&result, "/yardstick_ns/verify_strict"));
    assert!(1000.0 < sign && sign < verify, "{sign} {verify}");
    let efficiency = mean * (sign + verify) / 1e9 / number(&result, "/cores");
    assert!((number(&result, "/efficiency") / efficiency - 1.0).abs() < 1e-6, "{efficiency}: {result:#}");
    assert_eq!(text(&result, "/config/name"), bench.setup.name);
    assert_eq!(count(&result, "/config/development/genesis/fund_initial_accounts"), 64);
    // The value that 0 was resolved to, and keys that were not measured.
    assert!(count(&result, "/config/layout/verify_tile_count") > 0 && count(&result, "/cores") > 0);
    assert!(result["rss_growth_bytes"].is_null() && !summary.contains("after the first 10 s"), "{summary}");
    assert!(number(&result, "/cores_used") > 0.0 && number(&result, "/cores_used") <= cores * 1.05, "{result:#}");
    assert!(dropped_places(&result).iter().all(|place| !place.contains(' ')), "{result:#}");
    totals_grow_by_the_rates(&summary);
    assert!(!text(&result, "/machine/cpu").is_empty() && result["commit"].is_string());
    assert_eq!((&result["interrupted"], &result["measured"]), (&false.into(), &true.into()));

    for part in [
        "(warm-up)",
        "of 2 seconds: too few for p5–p95",
        "whole run, warm-up included",
        "txn/s      mean",
        "sent       ",
        "unresolved 0",
        "cpu        ",
        "limit      ",
        "yardstick",
        "off        ",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    // A bench leaves nothing behind: neither its chain nor its workspace.
    assert!(!bench.setup.ledger().join("bench").exists() && !bench.setup.workspace().exists());
}

#[test]
fn bench_holds_a_rate() {
    let bench =
        Bench::new("rate", "--duration 2 --warmup 1 --rate 200 --conflict 0.5 --accounts-from 8 --accounts-to 16");
    let (_, result) = bench.run();
    is_balanced(&result);
    nothing_went_wrong(&result);
    let mean = number(&result, "/txn_per_s/mean");
    assert!((100.0..300.0).contains(&mean), "{mean}");
    assert!(result.get("yardstick_ns").is_none() && result.get("efficiency").is_none());
}

#[test]
fn json_on_standard_output_is_alone_there() {
    let setup = Setup::new("stdout");
    let output = setup.output("bench", &["--duration", "1", "--warmup", "0", "--rate", "200", "--json", "-"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    is_balanced(&serde_json::from_slice(&output.stdout).expect("JSON and nothing else"));
    assert!(said.contains("core 0") && said.contains("txn/s      mean"), "{said}");
}

#[test]
fn bench_without_a_reader_ends() {
    let setup = Setup::new("unread");
    let status = ends_when_unread(setup.command("bench").args(["--duration", "600", "--warmup", "600"]), "   1 s ");
    assert!(status.success(), "{status}");
    assert!(!setup.workspace().exists());
}

#[test]
fn bench_signs_ahead() {
    let (_, result) = Bench::new("presign", "--duration 1 --warmup 0 --presign").run();
    is_balanced(&result);
    nothing_went_wrong(&result);
    let off = result["switched_off"].as_array().expect("a list");
    assert!(off.iter().any(|name| name.as_str().is_some_and(|name| name.contains("signed before"))), "{off:?}");
}

#[test]
fn ctrl_c_ends_a_bench_with_its_summary() {
    let bench = Bench::new("ctrl-c", "--duration 600 --warmup 1");
    let process = Process::start(&mut bench.command());
    process.wait_for_line("   2 s ");
    process.signal(Signal::INT);
    let (status, lines) = process.wait();
    let summary = lines.join("\n");
    assert_eq!(status.code(), Some(0), "{summary}");
    assert!(summary.contains("interrupted") && summary.contains("txn/s      mean"), "{summary}");
    let result = bench.result();
    assert_eq!(result["interrupted"], true);
    is_balanced(&result);
    assert!(number(&result, "/duration_s") < 60.0);
}

#[test]
fn ctrl_c_before_anything_is_measured_says_so() {
    // In the moment of the first line, while signing ahead, in the yardstick and in the warm-up.
    let cases = [
        ("early", "--duration 600 --presign", "core 0", "nothing had landed"),
        ("signing", "--duration 600 --presign", "signing ahead", "nothing had landed"),
        ("yardstick", "--duration 600 --yardstick", "yardstick", "nothing had landed"),
        ("warming", "--duration 600 --warmup 600 --rate 500", "   1 s ", "transactions had landed"),
    ];
    for (test, arguments, moment, landed) in cases {
        let bench = Bench::new(test, arguments);
        let process = Process::start(&mut bench.command());
        process.wait_for_any(moment);
        process.signal(Signal::INT);
        let (status, said) = process.wait_with_errors();
        assert_eq!(status.code(), Some(130), "{test}: {said}");
        assert!(said.contains("interrupted before anything was measured") && said.contains(landed), "{test}: {said}");
        assert!(!said.contains("txn/s      mean") && !said.contains("panicked"), "{test}: {said}");
        // The transactions sent until then are recorded, and nothing that was not measured.
        let written = bench.setup.folder.path().join("result.json").exists();
        assert!(!written || bench.result()["measured"] == false, "{test}");
        assert!(written == (test == "warming") || ["early", "signing"].contains(&test), "{test}");
        if test == "warming" {
            let result = bench.result();
            is_balanced(&result);
            assert!(result["interrupted"] == true && result["txn_per_s"].is_null(), "{result:#}");
            assert!(result["bottleneck"].is_null() && result["seconds"] == serde_json::json!([]), "{result:#}");
        }
        assert!(!bench.setup.ledger().join("bench").exists() && !bench.setup.workspace().exists(), "{test}");
    }
}

#[test]
fn a_second_bench_leaves_the_first_alone() {
    let bench = Bench::new("bench-twice", "--duration 2 --warmup 1");
    let first = Process::start(&mut bench.command());
    first.wait_for_line("net:0");
    let second = bench.command().output().expect("the binary starts");
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    // Its configuration names the ports that the first one has.
    let reasons = ["another `hearth bench`", "belongs to a running node", "the port is in use"];
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
    let (status, output) = first.wait();
    assert!(status.success(), "{output:#?}");
    is_balanced(&bench.result());
}

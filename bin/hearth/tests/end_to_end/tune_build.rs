//! `hearth tune build` with our own workloads: the study parses what the node's commands print.

use std::fs;

use serde_json::Value;

use super::node::{hearth, output};

/// The program itself is the only build, so nothing is compiled; others may be at work.
const SPEC: &str = "reference = \"ours\"\nbin = \"hearth\"\nrounds = 1\n[quiet]\nsteal = 1\nforeign = 1\npressure = 1\n\
    pace = 1\n[[row]]\nname = \"ours\"\n";

#[test]
fn our_own_workloads_print_what_the_study_reads() {
    let folder = tempfile::tempdir().unwrap();
    let spec = format!("{SPEC}binary = {:?}\n", env!("CARGO_BIN_EXE_hearth"));
    fs::write(folder.path().join("study.toml"), spec).unwrap();
    let mut command = hearth();
    command.args(["tune", "build", "study.toml", "--folder", "out", "--json", "found.json"]).current_dir(folder.path());
    let output = output(&mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&fs::read(folder.path().join("found.json")).unwrap()).unwrap();
    assert!(report["failed"].as_object().is_some_and(|failed| failed.is_empty()), "{report:#}");
    let rows = fs::read_to_string(folder.path().join("out/results.csv")).unwrap();
    for metric in [
        "txn_per_s",
        "cpu_us_per_txn",
        "block_ns_per_txn",
        "empty_block_ns",
        "tiles_ns_per_txn",
        "blake2_256",
        "sr25519_verify",
        "ed25519_verify",
    ] {
        let value = |build: &str| {
            let mut rows = rows.lines().map(|row| row.split(',').collect::<Vec<_>>());
            let row = rows.find(|row| row[0] == build && row.contains(&metric)).unwrap_or_else(|| panic!("{metric}"));
            row[row.len() - 2].split(' ').next().and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
        };
        assert!(value("ours") > 0.0 && value("ours (copy)") > 0.0, "{metric}: {rows}");
    }
}

#[test]
fn the_answer_of_an_analysis_may_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("results.csv"), "build,metric,value\na,lat,10 ms\nb,lat,12 ms\n").unwrap();
    let mut command = hearth();
    command.args(["tune", "analyze", "results.csv", "--min", "lat", "--json", "-"]).current_dir(folder.path());
    let output = output(&mut command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&found["goals"][0]["unit"], &found["exact_pareto"][0]), (&"s".into(), &"a".into()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no file is called `-`");
}

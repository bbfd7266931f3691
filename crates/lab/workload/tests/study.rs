//! Verifies that the shipped study can read the program's output.

use std::path::Path;
use std::process::Command;
use std::{fs, str};

use regex::Regex;

#[test]
fn the_shipped_study_reads_what_the_program_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../config/study.toml");
    let study: toml::Table = fs::read_to_string(path).expect("the shipped study").parse().expect("TOML");
    let output = Command::new(env!("CARGO_BIN_EXE_hearth-workload")).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = str::from_utf8(&output.stdout).expect("text");
    let workloads = study["workload"].as_array().expect("a list");
    let metrics: Vec<_> = workloads.iter().flat_map(|one| one["metric"].as_array().expect("a list")).collect();
    assert!(!metrics.is_empty());
    for metric in metrics {
        let regex = Regex::new(metric["regex"].as_str().expect("text")).expect("an expression");
        let found: Vec<&str> = regex.captures_iter(printed).map(|one| one.get(1).expect("a value").as_str()).collect();
        let [value] = found[..] else { panic!("{metric}: {found:?}") };
        assert!(value.parse::<f64>().is_ok_and(|value| value > 0.0), "{metric}: {value}");
    }
}

//! The targets on the stable compiler: the whole corpus, then seeded mutations of it.
//!
//! - `HEARTH_FUZZ_SECONDS`: how long to try mutations, over all targets together; 5 by default.
//! - `HEARTH_SEED`: which mutations; one that differs from run to run by default.
//! - `HEARTH_FUZZ_TARGET`: one target in place of all.
//! - `HEARTH_FUZZ_INPUT`: one file in place of corpus and mutations; a path from the top of the repository, or
//!   absolute.

mod accepted;
mod mutate;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_fuzz::runner::{self, Broken, Plan};
use hearth_fuzz::{TARGETS, Target, scratch, selected};
use hearth_testkit::random::seed;

/// Committed files of all targets together, in bytes.
const CORPUS_BYTES_MAX: u64 = 600_000;
/// The page with the table of targets.
const PAGE: &str = "../docs/fuzzing.md";

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn targets() -> Vec<&'static Target> {
    match set("HEARTH_FUZZ_TARGET") {
        Some(_) => vec![selected()],
        None => TARGETS.iter().collect(),
    }
}

/// The inputs to replay: those of the corpus, or the one file.
fn inputs(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let Some(path) = set("HEARTH_FUZZ_INPUT") else { return runner::corpus(target.name) };
    let path = runner::package().join("..").join(path);
    let bytes = runner::read(&path);
    vec![(path, bytes)]
}

#[test]
fn properties_hold_on_the_corpus_and_on_mutations() {
    let targets = targets();
    let is_one = set("HEARTH_FUZZ_INPUT").is_some();
    assert!(!is_one || targets.len() == 1, "HEARTH_FUZZ_TARGET names the target of HEARTH_FUZZ_INPUT");
    let mut broken: Vec<Broken> = targets.iter().copied().filter_map(replay).collect();
    if broken.is_empty() && !is_one {
        broken = try_mutations(&targets);
    }
    scratch::remove();
    let lines: Vec<String> = broken.iter().map(Broken::to_string).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

fn replay(target: &'static Target) -> Option<Broken> {
    let inputs = inputs(target);
    assert!(!inputs.is_empty(), "{} has a corpus", target.name);
    match runner::replay(target, &inputs) {
        Ok(summary) => {
            println!("{:>20}: {} files, at most {:?} each", target.name, summary.inputs, summary.slowest);
            None
        }
        Err(broken) => Some(broken),
    }
}

fn try_mutations(targets: &[&'static Target]) -> Vec<Broken> {
    let seconds = set("HEARTH_FUZZ_SECONDS").map_or(5, |text| text.parse().expect("a number of seconds"));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan { seed: seed(), time: Duration::from_secs(seconds), threads };
    println!("HEARTH_SEED={} HEARTH_FUZZ_SECONDS={seconds}", plan.seed);
    match runner::mutate(targets, plan) {
        Ok(summaries) => {
            for summary in &summaries {
                println!("{:>20}: {} inputs, at most {:?} each", summary.target, summary.inputs, summary.slowest);
                assert!(summary.inputs > 0, "{} had no time", summary.target);
            }
            Vec::new()
        }
        Err(broken) => broken,
    }
}

#[test]
fn each_target_has_a_corpus_and_a_row_of_the_page() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert!(names.is_sorted(), "targets are in the order of their names");
    let folders = std::fs::read_dir(runner::package().join("corpus")).expect("the corpus is committed");
    let folders: BTreeSet<String> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(folders.iter().eq(&names), "{folders:?}");
    let page = String::from_utf8(runner::read(&runner::package().join(PAGE))).expect("UTF-8");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let wanted: Vec<String> =
        TARGETS.iter().map(|target| format!("| `{}` | {} |", target.name, target.drives)).collect();
    assert_eq!(rows, wanted, "the table of targets in docs/fuzzing.md");
}

#[test]
fn a_busy_machine_makes_no_failure() {
    let (second, busy) = (Duration::from_secs(1), 5 * runner::HANG);
    assert_eq!(runner::hangs(runner::HANG, busy), None, "it had no core for most of the time");
    assert!(runner::hangs(runner::HANG + second, busy).unwrap().contains("120 s of CPU time"));
    assert!(runner::hangs(second, runner::STALL + second).unwrap().contains("not ended after 1800 s"));
}

#[test]
fn the_corpus_is_small() {
    let files = TARGETS.iter().flat_map(|target| runner::corpus(target.name));
    let bytes: u64 = files.map(|(_, bytes)| bytes.len() as u64).sum();
    assert!(bytes <= CORPUS_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn a_broken_property_is_kept_with_its_command() {
    fn refuses_seven(input: &[u8]) {
        assert!(!input.contains(&7), "seven");
    }
    static TARGET: Target = Target { name: "vote", drives: "", run: refuses_seven, tokens: &[] };
    let inputs = vec![(PathBuf::from("good"), vec![1, 2]), (PathBuf::from("bad"), vec![7])];
    let broken = runner::replay(&TARGET, &inputs).unwrap_err();
    assert_eq!(broken.input, Path::new("bad"));
    assert!(broken.why.contains("seven"), "{broken}");
    assert!(broken.to_string().contains("HEARTH_FUZZ_TARGET=vote HEARTH_FUZZ_INPUT=bad"), "{broken}");

    let plan = Plan { seed: 1, time: Duration::from_secs(60), threads: 1 };
    let broken = runner::mutate(&[&TARGET], plan).unwrap_err();
    let kept = runner::read(&broken[0].input);
    std::fs::remove_file(&broken[0].input).unwrap();
    assert!(kept.contains(&7));
}

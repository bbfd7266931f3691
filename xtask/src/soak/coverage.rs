//! Which lines of the chain's rules the recorded ledgers reach.
//!
//! reads   recorded ledgers; LLVM's `llvm-profdata` and `llvm-cov` of the compiler's version: those that
//!         `LLVM_PROFDATA` and `LLVM_COV` name, those of rustup's component llvm-tools, or the system's
//! writes  a binary of its own among the build outputs, profiles into a temporary folder; the lines that are missed
//! memory  the report, a few megabytes
//! source  `-C instrument-coverage` of rustc; the tracefile of lcov, `geninfo(1)`

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::Outcome;
use crate::run::{self, Args, TempFolder, cargo};

/// The ledgers that the tests replay.
const RECORDED: &str = "crates/solana/svm/tests/recorded";

/// The measured parts: names, and paths of files or of folders.
const PARTS: [(&str, &[&str]); 5] = [
    ("svm", &["crates/solana/svm/src/"]),
    (
        "bank",
        &[
            "crates/solana/ledger/src/bank/",
            "crates/solana/ledger/src/bank_hash.rs",
            "crates/solana/ledger/src/bank_hash/",
            "crates/solana/ledger/src/block_costs.rs",
            "crates/solana/ledger/src/blockhash.rs",
            "crates/solana/ledger/src/cost.rs",
            "crates/solana/ledger/src/fees.rs",
        ],
    ),
    (
        "epochs",
        &[
            "crates/solana/ledger/src/clock.rs",
            "crates/solana/ledger/src/epoch.rs",
            "crates/solana/ledger/src/epochs.rs",
            "crates/solana/ledger/src/features.rs",
            "crates/solana/ledger/src/features/",
            "crates/solana/ledger/src/hard_forks.rs",
            "crates/solana/ledger/src/sysvars.rs",
        ],
    ),
    ("rewards", &["crates/solana/ledger/src/rewards.rs", "crates/solana/ledger/src/rewards/"]),
    (
        "stakes",
        &[
            "crates/solana/ledger/src/leaders.rs",
            "crates/solana/ledger/src/stakes.rs",
            "crates/solana/ledger/src/vote_state.rs",
        ],
    ),
];

/// For each file how often each line ran; lines without code are not there.
type Lines = BTreeMap<String, BTreeMap<u64, u64>>;

pub fn run(mut args: Args<'_>) -> Result<Outcome, String> {
    let recorded = args.value("--recorded")?.map_or_else(|| run::root().join(RECORDED), PathBuf::from);
    args.end()?;
    let (profdata, cov) = (tool("llvm-profdata")?, tool("llvm-cov")?);
    let folder = TempFolder::new("soak-coverage")?;
    let hearth = build(folder.path())?;
    let profiles = folder.path().join("replay");
    let mut replay = Command::new(&hearth);
    replay.args(["ledger", "replay", "--recorded"]).arg(&recorded);
    run::run(replay.env("LLVM_PROFILE_FILE", profiles.join("%p.profraw")))?;
    let merged = folder.path().join("all.profdata");
    run::run(Command::new(profdata).args(["merge", "--sparse", "--output"]).arg(&merged).arg(&profiles))?;
    let mut export = Command::new(cov);
    export.args(["export", "--format=lcov", "--skip-functions", "--ignore-filename-regex=/registry/|/rustc/"]);
    export.arg(format!("--instr-profile={}", merged.display())).arg(&hearth);
    let lines = lines(&run::output(&mut export)?, &run::root());
    let parts: Vec<Value> = PARTS.iter().map(|(name, paths)| part(name, paths, &lines)).collect();
    missed(&lines).iter().for_each(|line| println!("{line}"));
    parts.iter().for_each(|part| println!("{part}"));
    let empty = parts.iter().filter(|part| part["lines"] == 0);
    let wrong = empty.map(|part| format!("no line of {} is in the report", part["part"])).collect();
    Ok(Outcome { figures: json!({ "parts": parts }), wrong })
}

/// The binary with counters. Build scripts have them, too, and their profiles go away with the folder.
fn build(folder: &Path) -> Result<PathBuf, String> {
    let target = run::target_dir().join("coverage");
    let mut cargo = cargo();
    cargo.args(["build", "--release", "--locked", "--package", "hearth"]).env("CARGO_TARGET_DIR", &target);
    cargo.env("RUSTFLAGS", "-C instrument-coverage").env("LLVM_PROFILE_FILE", folder.join("build-%p.profraw"));
    run::run(&mut cargo)?;
    Ok(target.join("release/hearth"))
}

/// LLVM's program of this name, of the compiler's version: another one does not read its profiles.
fn tool(name: &str) -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os(name.to_uppercase().replace('-', "_")) {
        return Ok(given.into());
    }
    let about = run::output(Command::new("rustc").arg("-vV"))?;
    let sysroot = run::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let llvm = field("LLVM version:").split('.').next().unwrap_or_default();
    let of_rustup = Path::new(sysroot.trim()).join("lib/rustlib").join(field("host:")).join("bin").join(name);
    let places = [of_rustup, PathBuf::from(format!("{name}-{llvm}"))];
    let found = places.into_iter().find(|place| run::answers(Command::new(place).arg("--version")));
    found.ok_or_else(|| {
        format!("there is no {name} of LLVM {llvm}: `rustup component add llvm-tools`, or Debian's package llvm-{llvm}")
    })
}

/// Reads a tracefile: the files below `root`, by their paths in it. A path that is relative is of the workspace, too.
fn lines(tracefile: &str, root: &Path) -> Lines {
    let mut all = Lines::new();
    let mut file = None;
    for record in tracefile.lines() {
        if let Some(path) = record.strip_prefix("SF:") {
            let path = Path::new(path);
            let below = path.strip_prefix(root).ok().or_else(|| path.is_relative().then_some(path));
            file = below.map(|path| path.to_string_lossy().into_owned());
        }
        let counted = record.strip_prefix("DA:").and_then(|counts| {
            let mut counts = counts.split(',').map(str::parse::<u64>);
            Some((counts.next()?.ok()?, counts.next()?.ok()?))
        });
        if let (Some(file), Some((line, count))) = (&file, counted) {
            // Generic functions of several crates may name a line more than once.
            let before: &mut u64 = all.entry(file.clone()).or_default().entry(line).or_default();
            *before = count.max(*before);
        }
    }
    all
}

fn is_in(file: &str, paths: &[&str]) -> bool {
    paths.iter().any(|path| file == *path || (path.ends_with('/') && file.starts_with(path)))
}

/// The figures of a part.
fn part(name: &str, paths: &[&str], lines: &Lines) -> Value {
    let counts: Vec<u64> =
        lines.iter().filter(|(file, _)| is_in(file, paths)).flat_map(|(_, lines)| lines.values().copied()).collect();
    let reached = counts.iter().filter(|count| **count > 0).count();
    let percent = (1_000 * reached / counts.len().max(1)) as f64 / 10.0;
    json!({ "part": name, "lines": counts.len(), "reached": reached, "percent": percent })
}

/// The lines of all parts that nothing reached, a line of text for each file.
fn missed(lines: &Lines) -> Vec<String> {
    let is_measured = |file: &str| PARTS.iter().any(|(_, paths)| is_in(file, paths));
    let mut all = vec![];
    for (file, lines) in lines.iter().filter(|(file, _)| is_measured(file)) {
        let ranges = ranges(lines);
        if !ranges.is_empty() {
            all.push(format!("{file}: {}", ranges.join(", ")));
        }
    }
    all
}

/// Missed lines as ranges, over lines without code.
fn ranges(lines: &BTreeMap<u64, u64>) -> Vec<String> {
    let mut ranges: Vec<(u64, u64)> = vec![];
    let mut is_open = false;
    for (line, count) in lines {
        match ranges.last_mut() {
            Some((_, last)) if *count == 0 && is_open => *last = *line,
            _ if *count == 0 => ranges.push((*line, *line)),
            _ => {}
        }
        is_open = *count == 0;
    }
    let range = |(from, to): (u64, u64)| if from == to { from.to_string() } else { format!("{from}-{to}") };
    ranges.into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACEFILE: &str = "\
SF:/src/crates/solana/ledger/src/stakes.rs
FN:3,f
DA:3,2
DA:4,0
DA:6,0
DA:7,1
DA:9,0
DA:4,0
LF:5
end_of_record
SF:crates/solana/ledger/src/rewards/points.rs
DA:1,0
DA:1,7
end_of_record
SF:/elsewhere/crates/solana/ledger/src/stakes.rs
DA:1,0
end_of_record
";

    #[test]
    fn lines_are_counted_by_part() {
        let lines = lines(TRACEFILE, Path::new("/src"));
        assert_eq!(lines.len(), 2);
        let of = |at: usize| part(PARTS[at].0, PARTS[at].1, &lines);
        assert_eq!(of(0), json!({ "part": "svm", "lines": 0, "reached": 0, "percent": 0.0 }));
        assert_eq!(of(3), json!({ "part": "rewards", "lines": 1, "reached": 1, "percent": 100.0 }));
        assert_eq!(of(4), json!({ "part": "stakes", "lines": 5, "reached": 2, "percent": 40.0 }));
        assert_eq!(missed(&lines), ["crates/solana/ledger/src/stakes.rs: 4-6, 9"]);
    }

    #[test]
    fn all_parts_are_there() {
        for path in PARTS.iter().flat_map(|(_, paths)| *paths) {
            assert!(run::root().join(path).exists(), "{path}");
        }
    }
}

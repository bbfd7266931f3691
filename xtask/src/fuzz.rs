//! The engines that run the fuzz targets.
//!
//! reads   the names of the targets: the folders of `fuzz/corpus`
//! writes  what cargo-fuzz finds beyond the corpus, below the folder of build outputs; inputs that break a property,
//!         into `fuzz/artifacts`

use std::path::PathBuf;
use std::process::Command;

use crate::run::{self, cargo, cargo_nightly, target_dir};

/// Name of cargo-fuzz's program, which has all targets.
const PROGRAM: &str = "hearth-fuzz";

/// Returns the names of the targets, in order.
pub fn targets() -> Result<Vec<String>, String> {
    let folder = run::root().join("fuzz/corpus");
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// Whether a nightly toolchain with cargo-fuzz is installed.
pub fn has_coverage() -> bool {
    run::answers(cargo_nightly().args(["fuzz", "--version"]))
}

/// Returns the command that replays the corpus and tries mutations for this long, over all targets together, on the
/// stable compiler. The whole workspace is named, and nothing of it but this test runs: otherwise crates would be
/// compiled again, with fewer features than the other tests need.
pub fn mutations(seconds: u64) -> Command {
    let mut command = cargo();
    command.args(["test", "--release", "--locked", "--workspace", "--test", "fuzz", "--", "--nocapture"]);
    command.env("HEARTH_FUZZ_SECONDS", seconds.to_string());
    command
}

/// Returns the command that runs a target under coverage guidance for this long. It starts with the committed corpus
/// and what earlier runs on this machine have found.
pub fn coverage(target: &str, seconds: u64) -> Result<Command, String> {
    let found = made(target_dir().join("fuzz-corpus").join(target))?;
    let artifacts = made(run::root().join("fuzz/artifacts").join(target))?;
    let mut command = cargo_nightly();
    command.args(["fuzz", "run", PROGRAM]).arg(found).arg(run::root().join("fuzz/corpus").join(target)).arg("--");
    command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    command.arg(format!("-artifact_prefix={}/", artifacts.display())).env("HEARTH_FUZZ_TARGET", target);
    Ok(command)
}

/// Makes a folder, if it is not there.
fn made(path: PathBuf) -> Result<PathBuf, String> {
    std::fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_folders_of_the_corpus() {
        let names = targets().unwrap();
        assert!(names.len() >= 20, "{names:?}");
        assert!(names.iter().any(|name| name == "txn"), "{names:?}");
    }
}

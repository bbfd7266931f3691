//! Regenerates the vectors of our own tests with the cluster's crates.
//!
//! reads   the committed vectors
//! writes  new ones into a temporary folder
//! memory  both files
//! source  `oracle/`, workspaces of their own: that of the shredder builds RocksDB, which takes 20 to 30 CPU
//!         minutes

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::Outcome;
use crate::run::{self, Args, TempFolder, cargo};

/// Agave's verdicts on blocks of our own test.
const VERDICTS: &str = "crates/solana/pipeline/tests/verdicts/agave.tsv";

/// A workspace, and the vector file it generates.
const ORACLES: [(&str, &str); 2] = [
    ("oracle/precompiles", "crates/solana/svm/tests/vectors/precompiles.bin"),
    ("oracle/shreds", "crates/solana/pipeline/src/shred/tests/vectors.bin"),
];

pub fn run(args: Args<'_>) -> Result<Outcome, String> {
    args.end()?;
    let folder = TempFolder::new("soak-oracle")?;
    let (mut figures, mut wrong) = (vec![], vec![]);
    for (workspace, vectors) in ORACLES {
        let (figure, difference) = compare(workspace, vectors, &folder.path().join("vectors.bin"))?;
        figures.push(figure);
        wrong.extend(difference);
    }
    let (figure, difference) = judge(folder.path())?;
    figures.push(figure);
    wrong.extend(difference);
    Ok(Outcome { figures: figures.into(), wrong })
}

fn compare(workspace: &str, vectors: &str, fresh: &Path) -> Result<(Value, Option<String>), String> {
    run::run(&mut oracle(workspace, fresh))?;
    let fresh = std::fs::read(fresh).map_err(|error| format!("{workspace} wrote nothing: {error}"))?;
    compared(vectors, &fresh)
}

/// Lets Agave judge the blocks of the pipeline's test again.
fn judge(folder: &Path) -> Result<(Value, Option<String>), String> {
    let path = folder.join("blocks");
    let example = ["run", "--release", "--locked", "--package", "hearth-pipeline", "--example", "bad_blocks"];
    let blocks = run::output(cargo().args(example))?;
    std::fs::write(&path, blocks).map_err(|error| format!("{}: {error}", path.display()))?;
    let verdicts = run::output(&mut oracle("oracle/blocks", &path))?;
    compared(VERDICTS, verdicts.as_bytes())
}

/// The program of an oracle's workspace, which gets one path.
fn oracle(workspace: &str, path: &Path) -> Command {
    let mut oracle = cargo();
    oracle.args(["run", "--locked", "--"]).arg(path).current_dir(run::root().join(workspace));
    oracle.env("CARGO_TARGET_DIR", run::target_dir().join("oracle"));
    oracle
}

fn compared(name: &str, fresh: &[u8]) -> Result<(Value, Option<String>), String> {
    let committed = std::fs::read(run::root().join(name)).map_err(|error| format!("{name}: {error}"))?;
    let figure = json!({ "file": name, "bytes": fresh.len(), "bytes_committed": committed.len() });
    Ok((figure, difference(name, &committed, fresh)))
}

fn difference(vectors: &str, committed: &[u8], fresh: &[u8]) -> Option<String> {
    let equal = committed.iter().zip(fresh).take_while(|(a, b)| a == b).count();
    (committed != fresh).then(|| format!("{vectors} differs from what the oracle makes, from byte {equal} on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference("file", b"abc", b"abc"), None);
        assert!(difference("file", b"abc", b"abd").unwrap().contains("byte 2"));
        assert!(difference("file", b"abc", b"ab").unwrap().contains("byte 2"));
    }
}

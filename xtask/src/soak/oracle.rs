//! Regenerates the vectors of our own tests with the cluster's crates.
//!
//! reads   the committed vectors
//! writes  new ones into a temporary folder
//! memory  both files
//! source  `oracle/`, workspaces of their own: that of the shredder builds RocksDB, which takes 20 to 30 CPU
//!         minutes

use std::path::Path;

use serde_json::{Value, json};

use super::Outcome;
use crate::run::{self, Args, TempFolder, cargo};

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
    Ok(Outcome { figures: figures.into(), wrong })
}

fn compare(workspace: &str, vectors: &str, fresh: &Path) -> Result<(Value, Option<String>), String> {
    let root = run::root();
    let committed = std::fs::read(root.join(vectors)).map_err(|error| format!("{vectors}: {error}"))?;
    let mut oracle = cargo();
    oracle.args(["run", "--locked", "--"]).arg(fresh).current_dir(root.join(workspace));
    oracle.env("CARGO_TARGET_DIR", run::target_dir().join("oracle"));
    run::run(&mut oracle)?;
    let fresh = std::fs::read(fresh).map_err(|error| format!("{workspace} wrote nothing: {error}"))?;
    let figure = json!({ "file": vectors, "bytes": fresh.len(), "bytes_committed": committed.len() });
    Ok((figure, difference(vectors, &committed, &fresh)))
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

//! The vectors of our own shredder's tests, made anew by the cluster's crates.
//!
//! reads   the vectors that are committed
//! writes  new ones into a temporary folder
//! memory  both files
//! source  `oracle/`, a workspace of its own: it builds RocksDB, which takes 20 to 30 CPU minutes

use serde_json::json;

use super::Outcome;
use crate::run::{self, Args, TempFolder, cargo};

const VECTORS: &str = "crates/pipeline/src/shred/tests/vectors.bin";

pub fn run(args: Args<'_>) -> Result<Outcome, String> {
    args.end()?;
    let root = run::root();
    let committed = std::fs::read(root.join(VECTORS)).map_err(|error| format!("{VECTORS}: {error}"))?;
    let folder = TempFolder::new("soak-oracle")?;
    let fresh = folder.path().join("vectors.bin");
    let mut oracle = cargo();
    oracle.args(["run", "--locked", "--"]).arg(&fresh).current_dir(root.join("oracle"));
    oracle.env("CARGO_TARGET_DIR", run::target_dir().join("oracle"));
    run::run(&mut oracle)?;
    let fresh = std::fs::read(&fresh).map_err(|error| format!("the oracle wrote nothing: {error}"))?;
    Ok(Outcome {
        figures: json!({ "file": VECTORS, "bytes": fresh.len(), "bytes_committed": committed.len() }),
        wrong: difference(&committed, &fresh).into_iter().collect(),
    })
}

fn difference(committed: &[u8], fresh: &[u8]) -> Option<String> {
    let equal = committed.iter().zip(fresh).take_while(|(a, b)| a == b).count();
    (committed != fresh).then(|| format!("{VECTORS} differs from what the oracle makes, from byte {equal} on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named() {
        assert_eq!(difference(b"abc", b"abc"), None);
        assert!(difference(b"abc", b"abd").unwrap().contains("byte 2"));
        assert!(difference(b"abc", b"ab").unwrap().contains("byte 2"));
    }
}

//! One of each: one function reads Unix time, and one library has the locks.
//!
//! reads   every Rust file
//! writes  findings

use super::RuleFindings;
use super::code::{line_of, words};
use super::paths::leaves;
use super::tree::Tree;

/// The one function that reads Unix time.
const CLOCK: &str = "crates/base/ring/src/unix_time.rs";
/// The ways to read it.
const READS: [&str; 2] = ["SystemTime::now", "UNIX_EPOCH.elapsed"];

/// The standard library's locks.
const LOCKS: [&str; 3] = ["Mutex", "RwLock", "Condvar"];
/// Files that use them all the same, and why. Loom's locks, in `tile`, are not the standard library's.
const LOCKED: [(&str, &str); 6] = [
    ("crates/solana/svm/src/engine.rs", ENGINE),
    ("crates/solana/svm/src/environment.rs", ENGINE),
    ("crates/solana/svm/src/worker.rs", ENGINE),
    ("crates/solana/svm/src/delayed.rs", ENGINE),
    ("crates/solana/svm/benches/svm/raw.rs", ENGINE),
    ("oracle/bank/src/chain.rs", "the cluster's forks of banks are behind one"),
];
const ENGINE: &str = "the cluster's engine has them in its interface";

/// Outside tests one function reads Unix time: a test of a file's times sets them by the machine's clock.
pub fn clock(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust().filter(|file| file.path != CLOCK) {
        let tests_from = file.tests_from().unwrap_or(usize::MAX);
        for (call, at) in READS.into_iter().flat_map(|call| words(&file.code, call).map(move |at| (call, at))) {
            let line = line_of(&file.code, at);
            if line < tests_from {
                found.at(&file.path, line, format!("`{call}`: `hearth_ring::unix_time` reads Unix time"));
            }
        }
    }
}

/// Locks are `parking_lot`'s, in tests too; an exception is in use.
pub fn locks(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust() {
        let exception = LOCKED.iter().find(|(path, _)| *path == file.path);
        let std = words(&file.code, "std").flat_map(|at| leaves(&file.code, at));
        let locks: Vec<_> = std.filter(|leaf| is_lock(&leaf.path)).collect();
        match exception {
            Some((_, why)) if locks.is_empty() => {
                found.at(&file.path, 0, format!("no lock of the standard library, but an exception: {why}"));
            }
            Some(_) => {}
            None => {
                for leaf in locks {
                    let line = line_of(&file.code, leaf.at);
                    found.at(&file.path, line, format!("`{}`: locks are `parking_lot`'s", leaf.path.join("::")));
                }
            }
        }
    }
}

/// Whether a path leads to one of the locks.
fn is_lock(path: &[&str]) -> bool {
    matches!(path, ["std", "sync", name, ..] if LOCKS.contains(name))
}

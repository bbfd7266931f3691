//! What the program is built of: the node without the lab's heavy crates, and no crate compiled twice.
//!
//! reads   `cargo tree`, which compiles nothing
//! writes  nothing
//! memory  the names of the crates

use std::collections::BTreeSet;

use crate::run::{self, cargo};

/// Crates that only the lab may bring: databases, file formats, another network's signatures, the sampler.
const OF_THE_LAB: [&str; 6] = ["libsqlite3-sys", "rusqlite", "redis", "parquet", "schnorrkel", "pprof"];
/// What makes the program a node of either chain.
const OF_A_NODE: [&str; 2] = ["hearth-node", "hearth-evm-node"];

/// The program, or without its default features the node alone.
const PROGRAM: [&str; 4] = ["--package", "hearth", "--edges", "normal,build"];
/// All that `cargo test --workspace` compiles.
const TESTS: [&str; 3] = ["--workspace", "--edges", "normal,build,dev"];

/// A crate with its version, and the features that it is compiled with.
type Crates = BTreeSet<(String, String)>;

/// Checks that a build without the lab is a node without what only the lab may bring.
pub fn check_without_lab() -> Result<(), String> {
    is_node_alone(&crates(&[&PROGRAM[..], &["--no-default-features"]].concat())?)
}

/// Checks that the program and the tests compile each crate with the same features, so that it is compiled once.
pub fn check_once() -> Result<(), String> {
    are_same(&crates(&PROGRAM)?, &crates(&TESTS)?)
}

/// `cargo xtask without-lab`: compiles the node alone, as far as its types go.
pub fn compile_without_lab() -> Result<(), String> {
    let args = ["check", "--release", "--locked", "--package", "hearth", "--no-default-features", "--bins"];
    run::run(cargo().args(args))
}

fn crates(args: &[&str]) -> Result<Crates, String> {
    let format = ["tree", "--locked", "--color", "never", "--prefix", "none", "--format", "{p}|{f}"];
    Ok(parse(&run::output(cargo().args(format).args(args))?))
}

/// Parses lines of the form `name v1.2.3|feature,feature`, with ` (*)` behind one that has been listed before.
fn parse(tree: &str) -> Crates {
    let lines = tree.lines().map(|line| line.strip_suffix(" (*)").unwrap_or(line));
    lines.filter_map(|line| line.split_once('|')).map(|(name, features)| (name.into(), features.into())).collect()
}

fn is_node_alone(crates: &Crates) -> Result<(), String> {
    let has = |name: &&str| crates.iter().any(|(found, _)| found.split(' ').next() == Some(*name));
    let missing: Vec<&str> = OF_A_NODE.into_iter().filter(|name| !has(name)).collect();
    let heavy: Vec<&str> = OF_THE_LAB.into_iter().filter(has).collect();
    match (&missing[..], &heavy[..]) {
        ([], []) => Ok(()),
        ([], heavy) => Err(format!(
            "a node without the lab has {}: `cargo tree --package hearth --no-default-features --invert NAME` says why",
            heavy.join(", ")
        )),
        (missing, _) => Err(format!("a program without the lab lacks {}, so it is no node", missing.join(", "))),
    }
}

fn are_same(program: &Crates, tests: &Crates) -> Result<(), String> {
    let twice: Vec<String> =
        program.difference(tests).map(|(name, features)| format!("\n  {name} with the features {features}")).collect();
    match twice[..] {
        [] => Ok(()),
        _ => Err(format!(
            "the tests compile these with more features, so they and all above them are compiled twice; name the \
             features in bin/hearth/Cargo.toml:{}",
            twice.concat()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "hearth v0.1.0 (/a)|\nhearth-node v0.1.0 (/b)|\nhearth-evm-node v0.1.0 (/c)|\n";

    #[test]
    fn lab_crate_in_a_node_is_named() {
        assert_eq!(is_node_alone(&parse(NODE)), Ok(()));
        let with = |line: &str| is_node_alone(&parse(&format!("{NODE}{line}"))).unwrap_err();
        let heavy = with("rusqlite v0.41.1|bundled (*)");
        assert!(heavy.contains("has rusqlite:"), "{heavy}");
        // A name that begins like one is another crate.
        assert_eq!(is_node_alone(&parse(&format!("{NODE}redis-protocol v1.0.0|"))), Ok(()));
        let empty = is_node_alone(&parse("hearth v0.1.0 (/a)|")).unwrap_err();
        assert!(empty.contains("lacks hearth-node, hearth-evm-node"), "{empty}");
    }

    #[test]
    fn crate_with_other_features_is_named() {
        let tests = parse("either v1.19.0|default,std\neither v1.19.0|std (*)\nbytes v1.0.0|\n");
        assert_eq!(are_same(&parse("either v1.19.0|std\nbytes v1.0.0| (*)\n"), &tests), Ok(()));
        let twice = are_same(&parse("either v1.19.0|serde,std\nbytes v1.0.0|\n"), &tests).unwrap_err();
        assert!(twice.ends_with(":\n  either v1.19.0 with the features serde,std"), "{twice}");
    }
}

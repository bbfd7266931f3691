//! Checks the dependency graph: no lab-only crates in the node, no crate compiled twice, no deliberate bugs.
//!
//! reads   `cargo tree` and `cargo metadata`, which compile nothing
//! memory  the names of the crates

use std::collections::BTreeSet;

use crate::run::{self, cargo};
use crate::tidy;

/// Crates from outside that only the lab may bring: databases, file formats, another network's signatures, the sampler.
const OF_THE_LAB: [&str; 6] = ["libsqlite3-sys", "rusqlite", "redis", "parquet", "schnorrkel", "pprof"];
/// Packages that make the program a node of either chain.
const OF_A_NODE: [&str; 2] = ["hearth-node", "hearth-evm-node"];
/// The crate of deliberate bugs, and its feature that turns them into code.
const BUGS: &str = "hearth-mutation";
const HAS_BUGS: &str = "mutations";

/// The program, or without its default features the node alone.
const PROGRAM: [&str; 4] = ["--package", "hearth", "--edges", "normal,build"];
/// Arguments that select everything `cargo test --workspace` compiles.
const TESTS: [&str; 3] = ["--workspace", "--edges", "normal,build,dev"];

/// A crate with its version, and the features that it is compiled with.
type Crates = BTreeSet<(String, String)>;

/// Checks that a build without the lab is a node without the lab's own crates and their exclusive dependencies.
pub fn check_without_lab() -> Result<(), String> {
    let lab: Vec<String> = tidy::packages_in("crates/lab/")?;
    let lab: Vec<&str> = lab.iter().map(String::as_str).chain(OF_THE_LAB).collect();
    let alone = crates(&[&PROGRAM[..], &["--no-default-features"]].concat())?;
    is_node_alone(&alone, &crates(&PROGRAM)?, &lab)
}

/// Checks that the program and the tests compile each crate with the same features, so that it is compiled once, and
/// that neither has the deliberate bugs.
pub fn check_once() -> Result<(), String> {
    let program = crates(&PROGRAM)?;
    has_no_bugs(&program)?;
    are_same(&program, &crates(&TESTS)?)
}

/// Checks licences, sources and bans by cargo-deny, where it is installed. Advisories are in a database on the network,
/// which the tests do not need.
pub fn deny() -> Result<(), String> {
    if !run::answers(cargo().args(["deny", "--version"])) {
        println!("cargo-deny is not installed, skipped; `cargo install --locked cargo-deny` installs it");
        return Ok(());
    }
    run::run(cargo().args(["deny", "--locked", "check", "bans", "licenses", "sources"]))
}

/// `cargo xtask without-lab`: type-checks the node alone. Generates no code, but rechecks every crate whose features
/// differ without the lab, and all crates above it: minutes the first time, then only what has changed.
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

/// Checks that `alone` is a node without any crate of `lab`, and that `whole` holds all of `lab`: an outdated name
/// would make the check vacuous.
fn is_node_alone(alone: &Crates, whole: &Crates, lab: &[&str]) -> Result<(), String> {
    let has = |crates: &Crates, name: &str| crates.iter().any(|(found, _)| found.split(' ').next() == Some(name));
    let missing: Vec<&str> = OF_A_NODE.into_iter().filter(|name| !has(alone, name)).collect();
    if !missing.is_empty() {
        return Err(format!("a program without the lab lacks {}, so it is no node", missing.join(", ")));
    }
    let unknown: Vec<&str> = lab.iter().copied().filter(|name| !has(whole, name)).collect();
    if !unknown.is_empty() {
        return Err(format!(
            "the program with the lab lacks {}: is that the lab's under another name?",
            unknown.join(", ")
        ));
    }
    let heavy: Vec<&str> = lab.iter().copied().filter(|name| has(alone, name)).collect();
    if !heavy.is_empty() {
        return Err(format!(
            "a node without the lab has {}: `cargo tree --package hearth --no-default-features --invert NAME` says why",
            heavy.join(", ")
        ));
    }
    Ok(())
}

/// Whether a program holds the crate of deliberate bugs without the feature that makes them code.
fn has_no_bugs(program: &Crates) -> Result<(), String> {
    let found = program.iter().filter(|(name, _)| name.split(' ').next() == Some(BUGS));
    let features: Vec<&str> = found.map(|(_, features)| features.as_str()).collect();
    if features.is_empty() {
        return Err(format!("the program lacks {BUGS}: has the crate of deliberate bugs another name?"));
    }
    match features.iter().flat_map(|features| features.split(',')).any(|feature| feature == HAS_BUGS) {
        true => Err(format!("the program has the feature {HAS_BUGS} of {BUGS}, and with it deliberate bugs")),
        false => Ok(()),
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
        let whole = parse(&format!("{NODE}rusqlite v0.41.1|bundled (*)\nhearth-bench v0.1.0 (/d)|\n"));
        let look = |alone: &str| is_node_alone(&parse(alone), &whole, &["rusqlite", "hearth-bench"]);
        assert_eq!(look(NODE), Ok(()));
        for (line, name) in
            [("rusqlite v0.41.1|bundled (*)", "rusqlite"), ("hearth-bench v0.1.0 (/d)|", "hearth-bench")]
        {
            let heavy = look(&format!("{NODE}{line}")).unwrap_err();
            assert!(heavy.contains(&format!("has {name}:")), "{heavy}");
        }
        // A name that begins like one is another crate.
        assert_eq!(look(&format!("{NODE}rusqlite-types v1.0.0|")), Ok(()));
        let empty = look("hearth v0.1.0 (/a)|").unwrap_err();
        assert!(empty.contains("lacks hearth-node, hearth-evm-node"), "{empty}");
    }

    #[test]
    fn name_that_no_program_has_is_refused() {
        let stale = is_node_alone(&parse(NODE), &parse(NODE), &["rusqlite"]).unwrap_err();
        assert!(stale.contains("lacks rusqlite"), "{stale}");
    }

    #[test]
    fn program_with_deliberate_bugs_is_refused() {
        let look = |tree: &str| has_no_bugs(&parse(tree));
        assert_eq!(look("hearth-mutation v0.1.0 (/d)|\n"), Ok(()));
        assert_eq!(look("hearth-mutation v0.1.0 (/d)|default (*)\n"), Ok(()));
        for features in ["mutations", "default,mutations"] {
            let refused = look(&format!("{NODE}hearth-mutation v0.1.0 (/d)|{features}\n")).unwrap_err();
            assert!(refused.contains("deliberate bugs"), "{refused}");
        }
        assert!(look(NODE).unwrap_err().contains("lacks hearth-mutation"));
    }

    #[test]
    fn crate_with_other_features_is_named() {
        let tests = parse("either v1.19.0|default,std\neither v1.19.0|std (*)\nbytes v1.0.0|\n");
        assert_eq!(are_same(&parse("either v1.19.0|std\nbytes v1.0.0| (*)\n"), &tests), Ok(()));
        let twice = are_same(&parse("either v1.19.0|serde,std\nbytes v1.0.0|\n"), &tests).unwrap_err();
        assert!(twice.ends_with(":\n  either v1.19.0 with the features serde,std"), "{twice}");
    }
}

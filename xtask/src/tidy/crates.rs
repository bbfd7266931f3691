//! Rules on packages: allowed imports, features, licences.
//!
//! reads   `cargo metadata` of the packages, ARCHITECTURE.md, the manifests
//! writes  findings
//! memory  the table

use super::RuleFindings;
use super::tree::{Tree, short_name};

/// The page with the tables.
pub const TABLE: &str = "ARCHITECTURE.md";
/// The heading above the table of imports.
const HEADING: &str = "## Who may import whom";

/// The crate of test helpers: a dev-dependency of anyone, and never more.
const TESTKIT: &str = "testkit";
/// The client with which tests query a server: any crate may have it as a dev-dependency.
const CLIENT: &str = "rpc-client";

/// Crates from outside that only these of ours may import: no async in tiles, one user of each protocol
/// and of the engine.
const OUTSIDE: [(&str, &[&str]); 8] = [
    ("tokio", &["serve", "rpc", "web3"]),
    ("axum", &["serve"]),
    ("quinn-proto", &["quic"]),
    ("rustls", &["quic"]),
    ("ureq", &["rpc-client"]),
    ("indicatif", &["command"]),
    ("solana-svm", &["svm"]),
    ("libc", &["ring", "tile"]),
];

const FEATURES_MAX: usize = 5;
const LICENSE: &str = "Apache-2.0";

/// One row: a crate or a layer, and its allowed imports.
pub struct Row<'a> {
    /// Name of the crate or layer, without backticks.
    pub name: &'a str,
    /// Text of the middle column.
    pub text: &'a str,
    /// Names that it may import, without backticks.
    pub imports: Vec<&'a str>,
    /// Everything may be imported.
    pub all: bool,
}

/// Parses the table below a heading. The first cell holds the crate or layer, the last lists imports: names in
/// backticks, `–` for none, `all` for all but testkit.
pub fn rows<'a>(text: &'a str, heading: &str) -> Vec<Row<'a>> {
    let section = text.lines().skip_while(|line| *line != heading).skip(1);
    let rows = section.take_while(|line| !line.starts_with('#')).filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let names = |cell: &'_ str| cell.len() > 1 && cell.starts_with('`');
        let last = cells[cells.len() - 1];
        let imports = last.split(',').map(str::trim).filter(|cell| names(cell)).map(|cell| cell.trim_matches('`'));
        let text = if cells.len() > 2 { cells[1] } else { "" };
        Row { name: cells[0].trim_matches('`'), text, imports: imports.collect(), all: last == "all" }
    })
    .collect()
}

/// Dependencies between our own crates are those of the table; only dev-dependencies may add testkit and the client.
pub fn imports(tree: &Tree, found: &mut RuleFindings) {
    let Some(file) = tree.file(TABLE) else { return found.at(TABLE, 0, "is missing") };
    let rows = rows(&file.text, HEADING);
    for row in &rows {
        let known = |name: &str| tree.packages.iter().any(|package| package.short_name() == name);
        for name in std::iter::once(&row.name).chain(&row.imports).filter(|name| !known(name)) {
            found.at(TABLE, 0, format!("the table names `{name}`, which is no crate of the workspace"));
        }
    }
    for package in &tree.packages {
        let name = package.short_name();
        let Some(row) = rows.iter().find(|row| row.name == name) else {
            found.at(TABLE, 0, format!("`{name}` has no row under \"{}\"", HEADING.trim_start_matches("# ")));
            continue;
        };
        let ours = |name: &str| tree.packages.iter().any(|package| package.name == name);
        for dependency in package.dependencies.iter().filter(|dependency| ours(&dependency.name)) {
            let imported = short_name(&dependency.name);
            let allowed = match imported {
                TESTKIT => dependency.dev,
                CLIENT if dependency.dev => true,
                _ => row.all || row.imports.contains(&imported),
            };
            if !allowed {
                found.at(&package.manifest(), 0, format!("`{name}` may not import `{imported}`, says {TABLE}"));
            }
        }
    }
}

/// Crates from outside that bring a way of working with them stay where they belong.
pub fn outside_crates(tree: &Tree, found: &mut RuleFindings) {
    for package in &tree.packages {
        let name = package.short_name();
        for (outside, users) in OUTSIDE {
            let uses = package.dependencies.iter().any(|dependency| dependency.name == outside && !dependency.dev);
            if uses && !users.contains(&name) {
                found.at(&package.manifest(), 0, format!("`{outside}` belongs to {} alone", users.join(" and ")));
            }
        }
    }
}

/// Behaviour is configuration; features are for platforms and heavy dependencies.
pub fn features(tree: &Tree, found: &mut RuleFindings) {
    let mut names: Vec<&str> = tree.packages.iter().flat_map(|p| p.features.iter().map(String::as_str)).collect();
    names.retain(|name| *name != "default");
    names.sort_unstable();
    names.dedup();
    if names.len() > FEATURES_MAX {
        found.at("Cargo.toml", 0, format!("{} features, at most {FEATURES_MAX}: {}", names.len(), names.join(", ")));
    }
}

/// Every package declares its licence.
pub fn license(tree: &Tree, found: &mut RuleFindings) {
    for package in tree.packages.iter().filter(|package| package.license != LICENSE) {
        found.at(&package.manifest(), 0, format!("`license` is {:?}, not {LICENSE:?}", package.license));
    }
    if !tree.file("LICENSE").is_some_and(|file| file.text.contains("Version 2.0")) {
        found.at("LICENSE", 0, "the Apache licence's text is missing");
    }
}

/// Every package takes the workspace's lints.
pub fn lints(tree: &Tree, found: &mut RuleFindings) {
    for package in &tree.packages {
        let path = package.manifest();
        let takes = |text: &str| text.contains("[lints]\nworkspace = true");
        if !tree.file(&path).is_some_and(|file| takes(&file.text)) {
            found.at(&path, 0, "expected `[lints]` with `workspace = true`");
        }
    }
}

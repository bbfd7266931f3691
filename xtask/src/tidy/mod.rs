//! `cargo xtask tidy`: the repository checks its own rules.
//!
//! reads   the working tree's text, `cargo metadata`
//! writes  one line per finding: `path:line: rule: text`
//! memory  the text of the working tree
//! source  CONTRIBUTING.md, and the tables "Layers" and "Who may import whom" of ARCHITECTURE.md

mod code;
mod crates;
mod doc_comments;
mod functions;
mod host;
mod layers;
mod modules;
mod one_of_each;
mod pages;
mod paths;
mod sources;
#[cfg(test)]
mod tests;
mod tree;
mod words;

use tree::Tree;

/// Something that breaks a rule.
#[derive(Debug, PartialEq)]
struct Finding {
    rule: &'static str,
    path: String,
    /// Counted from 1; 0 is the file as a whole.
    line: usize,
    what: String,
}

/// A rule: its name, and the function that finds violations.
type Rule = (&'static str, fn(&Tree, &mut RuleFindings));

const RULES: &[Rule] = &[
    ("imports", crates::imports),
    ("layers", layers::imports),
    ("circles", modules::circles),
    ("outside-crates", crates::outside_crates),
    ("features", crates::features),
    ("license", crates::license),
    ("lints", crates::lints),
    ("unsafe", sources::unsafe_blocks),
    ("safety-comment", sources::safety_comments),
    ("module-doc", sources::module_docs),
    ("header-fields", sources::header_fields),
    ("file-size", sources::file_size),
    ("line-width", sources::line_width),
    ("ignored-test", sources::ignored_tests),
    ("sleep-in-test", sources::sleeps),
    ("test-programs", sources::test_programs),
    ("function-size", functions::size),
    ("host", host::gives),
    ("map-order", host::loops),
    ("clock", one_of_each::clock),
    ("locks", one_of_each::locks),
    ("words", words::forbidden),
    ("paths", words::absolute_paths),
    ("dialect", words::dialect),
    ("short-docs", doc_comments::short),
    ("links", pages::links),
    ("book", pages::book),
];

/// Collects the findings of one rule.
struct RuleFindings {
    rule: &'static str,
    findings: Vec<Finding>,
}

impl RuleFindings {
    fn at(&mut self, path: &str, line: usize, what: impl Into<String>) {
        self.findings.push(Finding { rule: self.rule, path: path.into(), line, what: what.into() });
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let find = |(rule, find): &Rule| {
        let mut found = RuleFindings { rule, findings: Vec::new() };
        find(tree, &mut found);
        found.findings
    };
    RULES.iter().flat_map(find).collect()
}

/// The names of the packages below a folder of the repository.
pub fn packages_in(folder: &str) -> Result<Vec<String>, String> {
    let packages = tree::workspace()?.into_iter().filter(|package| package.folder.starts_with(folder));
    Ok(packages.map(|package| package.name).collect())
}

/// Runs `cargo xtask tidy`.
pub fn run() -> Result<(), String> {
    let tree = Tree::read(&crate::run::root())?;
    let findings = check(&tree);
    for Finding { rule, path, line, what } in &findings {
        println!("{path}:{line}: {rule}: {what}");
    }
    println!("tidy: {} rules, {} files, {} findings", RULES.len(), tree.files.len(), findings.len());
    if findings.is_empty() { Ok(()) } else { Err(format!("tidy: {} findings, see above", findings.len())) }
}

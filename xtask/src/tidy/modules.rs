//! Rule on the modules of a crate: no import cycles.
//!
//! reads   every Rust file under a `src/`
//! writes  findings
//! memory  the code and the imports of one crate
//!
//! A module is a file `NAME.rs`, or a folder `NAME/` with everything in it. Only sibling modules are compared: those
//! that the crate's root declares with each other, and likewise those that each module declares. A module imports a
//! sibling if its code has a path into it, by `crate::` or out of itself by `super::`, in a `use` or elsewhere. An
//! import from the parent module does not count, unless the parent itself imports that name from below: then the path
//! leads there. Code that is compiled for tests only does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::RuleFindings;
use super::paths::{Leaf, inline_modules, leaves, test_modules, without_tests};
use super::tree::{File, Tree};
use super::{code, paths};

/// A file of a crate, tests left out.
struct Source<'a> {
    path: &'a str,
    /// The path of its module, from the crate's root on.
    module: Vec<&'a str>,
    code: String,
}

impl Source<'_> {
    /// Returns the module that the code at `at` is in; `inline` are the modules whose body is in the file.
    fn module_at<'b>(&'b self, inline: &[(&'b str, Range<usize>)], at: usize) -> Vec<&'b str> {
        let within = inline.iter().filter(|(_, range)| range.contains(&at)).map(|(name, _)| *name);
        self.module.iter().copied().chain(within).collect()
    }
}

/// Imports among siblings: for each pair of modules, by path, the files and lines.
type Imports<'a> = BTreeMap<(String, String), Vec<(&'a str, usize)>>;

/// Modules that import each other, directly or by way of others among them.
type Circle = BTreeSet<String>;

/// Finds every import that makes a circle.
pub fn circles(tree: &Tree, found: &mut RuleFindings) {
    for (root, files) in by_crate(tree) {
        let imports = imports(root, &files);
        for circle in circles_of(&imports) {
            let inside = |(from, to): &(String, String)| circle.contains(from) && circle.contains(to);
            for ((from, to), places) in imports.iter().filter(|(pair, _)| inside(pair)) {
                let more: Vec<String> = places[1..].iter().map(|(path, line)| format!("{path}:{line}")).collect();
                let more = if more.is_empty() { String::new() } else { format!("; also at {}", more.join(", ")) };
                let (path, line) = places[0];
                found.at(path, line, format!("`{from}` imports `{to}`, in the circle of {}{more}", quoted(&circle)));
            }
        }
    }
}

fn quoted(circle: &Circle) -> String {
    circle.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The files of each crate, by the folder that its `src/` is in.
fn by_crate(tree: &Tree) -> BTreeMap<&str, Vec<&File>> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in tree.rust() {
        if let Some((root, _)) = file.path.split_once("/src/") {
            crates.entry(root).or_default().push(file);
        }
    }
    crates
}

/// Returns the path of a file's module, empty for the crate's root; `None` for a separate program.
fn module_of<'a>(root: &str, file: &'a File) -> Option<Vec<&'a str>> {
    let path = file.path.strip_prefix(root)?.strip_prefix("/src/")?.strip_suffix(".rs")?;
    let mut module: Vec<&str> = path.split('/').collect();
    match module[..] {
        ["lib" | "main"] => module.clear(),
        ["bin", ..] => return None,
        [.., "mod"] => drop(module.pop()),
        _ => {}
    }
    Some(module)
}

fn sources<'a>(root: &str, files: &[&'a File]) -> Vec<Source<'a>> {
    let files = files.iter().filter(|file| !file.is_test());
    let modules: Vec<(&'a File, Vec<&'a str>)> =
        files.filter_map(|file| Some((*file, module_of(root, *file)?))).collect();
    let mut of_tests: Vec<Vec<&str>> = vec![];
    for (file, module) in &modules {
        of_tests.extend(test_modules(&file.code).into_iter().map(|name| [&module[..], &[name]].concat()));
    }
    let is_code = |module: &[&str]| !of_tests.iter().any(|test| module.starts_with(test));
    let code = modules.into_iter().filter(|(_, module)| is_code(&module[..]));
    code.map(|(file, module)| Source { path: &file.path, module, code: without_tests(&file.code) }).collect()
}

/// Collects all imports from one module to a sibling.
fn imports<'a>(root: &str, files: &[&'a File]) -> Imports<'a> {
    let sources = sources(root, files);
    let paths_of = |source: &Source<'_>| {
        let module = &source.module;
        (1..=module.len()).map(|len| module[..len].join("::")).collect::<Vec<_>>()
    };
    let modules: BTreeSet<String> = sources.iter().flat_map(paths_of).collect();
    let reexports = reexports(&sources, &modules);
    let mut imports = Imports::new();
    for source in &sources {
        let own = &source.module;
        let inline = inline_modules(&source.code);
        for (start, leaf) in paths::absolute(&source.code) {
            let path = resolved(source.module_at(&inline, start), &leaf);
            let shared = own.iter().zip(&path).take_while(|(own, name)| own == name).count();
            // A module's ancestors and descendants are not its siblings.
            if shared == own.len() || shared == path.len() {
                continue;
            }
            let (from, target) = (own[..=shared].join("::"), path[..=shared].join("::"));
            let to = modules.get(&target).or_else(|| reexports.get(&target));
            if let Some(to) = to.filter(|to| **to != from) {
                let line = code::line_of(&source.code, leaf.at);
                imports.entry((from, to.clone())).or_default().push((source.path, line));
            }
        }
    }
    for places in imports.values_mut() {
        places.sort_unstable();
        places.dedup();
    }
    imports
}

/// Returns the path to which a path in `module` leads, from the crate's root on.
fn resolved<'a>(module: Vec<&'a str>, leaf: &Leaf<'a>) -> Vec<&'a str> {
    let mut full = module;
    for name in &leaf.path {
        match *name {
            "crate" => full.clear(),
            "super" => drop(full.pop()),
            "self" => {}
            name => full.push(name),
        }
    }
    full
}

/// The names that modules import from those below them: the path of each, and that of the module which it is from.
fn reexports(sources: &[Source<'_>], modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut reexports = BTreeMap::new();
    for source in sources {
        let inline = inline_modules(&source.code);
        for at in code::words(&source.code, "use") {
            let module = source.module_at(&inline, at);
            for leaf in leaves(&source.code, at + "use".len()) {
                let path = resolved(module.clone(), &leaf);
                if path.len() > module.len() && path.starts_with(&module) {
                    let from = path[..=module.len()].join("::");
                    if modules.contains(&from) {
                        reexports.insert([&module[..], &[leaf.name]].concat().join("::"), from);
                    }
                }
            }
        }
    }
    reexports
}

/// The circles, each once.
fn circles_of(imports: &Imports<'_>) -> BTreeSet<Circle> {
    let reached: BTreeMap<&str, Circle> =
        imports.keys().map(|(from, _)| (from.as_str(), reach(imports, from))).collect();
    let leads = |from: &str, to: &str| reached.get(from).is_some_and(|reached| reached.contains(to));
    let circle = |of: &str| {
        let others = reached.keys().copied().filter(|other| leads(of, other) && leads(other, of));
        others.map(str::to_owned).collect::<Circle>()
    };
    reached.keys().filter(|module| leads(module, module)).map(|module| circle(module)).collect()
}

/// All modules that `from` imports, directly or by way of others.
fn reach(imports: &Imports<'_>, from: &str) -> Circle {
    let next = |of: &str| imports.keys().filter(|(from, _)| from == of).map(|(_, to)| to.clone()).collect::<Vec<_>>();
    let mut reached = Circle::new();
    let mut left = next(from);
    while let Some(module) = left.pop() {
        if reached.insert(module.clone()) {
            left.extend(next(&module));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Finding;

    fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
        let all = files.iter().map(|(path, text)| File::new(&format!("crates/base/ring/src/{path}"), text)).collect();
        let mut found = RuleFindings { rule: "circles", findings: vec![] };
        circles(&Tree { files: all, packages: vec![] }, &mut found);
        found.findings
    }

    /// Whether the module `a` imports `b`, where `b` imports `a`, by the text of `a`'s file.
    fn leads(path: &str, text: &str) -> bool {
        let root = ("lib.rs", "mod a;\nmod b;\npub use b::{Bee, Wasp as Hornet};\n#[cfg(test)]\nmod c;\n");
        !findings(&[root, ("b/mod.rs", "use crate::{a::A, c::C};\n"), (path, text)]).is_empty()
    }

    #[test]
    fn paths_lead_out_of_a_module() {
        for (path, text) in [
            ("a.rs", "use crate::b::B;"),
            ("a.rs", "use crate::{c, b::{self, B}};"),
            ("a.rs", "fn f() -> super::b::B { g() }"),
            ("a/mod.rs", "fn f() { crate::Bee::new() }"),
            ("a.rs", "use crate::Hornet;"),
            ("a/deep.rs", "use super::super::b;"),
            ("a/deep/mod.rs", "mod d {\n    use super::super::super::b;\n}"),
            ("a.rs", "#[cfg(test)]\nuse c::C;\nuse crate::b;"),
            ("a.rs", "struct A {\n    #[cfg(test)]\n    c: u8,\n}\nuse crate::b;"),
            ("a.rs", "#[cfg(not(test))]\nuse crate::b;"),
        ] {
            assert!(leads(path, text), "{path}: {text}");
        }
    }

    #[test]
    fn tests_and_inner_paths_are_no_imports() {
        for (path, text) in [
            ("a.rs", "use crate::a::b;"),
            ("a.rs", "pub(crate) use b::B;"),
            ("a.rs", "// use crate::b;\nconst A: &str = \"crate::b\";"),
            ("a/deep.rs", "use super::b;"),
            ("a.rs", "mod d {\n    use super::b;\n}"),
            ("a.rs", "use crate::Wasp;"),
            ("a.rs", "#[cfg(test)]\nuse crate::{b, c};"),
            ("a.rs", "#[cfg(test)]\nmod tests {\n    use crate::b;\n}"),
            ("a.rs", "#[cfg(test)]\nfn f<A, B>(b: crate::b::B) {\n    crate::b::f();\n}"),
            ("a/tests.rs", "use crate::b;"),
            ("c.rs", "use crate::b;"),
        ] {
            assert!(!leads(path, text), "{path}: {text}");
        }
    }

    #[test]
    fn circle_is_reported_by_its_imports() {
        let files = [
            ("a.rs", "\nuse crate::b;\nuse crate::d;\n"),
            ("b.rs", "use crate::c;\n"),
            ("c/mod.rs", "use crate::a::A;\n\nfn f() { crate::a::f() }\n"),
            ("d.rs", ""),
        ];
        let reported: Vec<_> = findings(&files).into_iter().map(|it| (it.path, it.line, it.what)).collect();
        let place = |path: &str| format!("crates/base/ring/src/{path}");
        let circle = "in the circle of `a`, `b`, `c`";
        let expected = [
            (place("a.rs"), 2, format!("`a` imports `b`, {circle}")),
            (place("b.rs"), 1, format!("`b` imports `c`, {circle}")),
            (place("c/mod.rs"), 1, format!("`c` imports `a`, {circle}; also at crates/base/ring/src/c/mod.rs:3")),
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn circles_are_found_at_every_level() {
        let files = [
            ("a/mod.rs", "mod b;\nmod c;\npub use c::C;\npub struct A;\n"),
            ("a/b.rs", "use super::C;\n"),
            ("a/c/mod.rs", "mod d;\nuse super::A;\n"),
            ("a/c/d.rs", "use crate::a::A;\nuse super::super::b::B;\n"),
            ("e.rs", "use crate::a::c::C;\n"),
        ];
        let reported: Vec<_> = findings(&files).into_iter().map(|it| (it.path, it.line, it.what)).collect();
        let place = |path: &str| format!("crates/base/ring/src/{path}");
        let circle = "in the circle of `a::b`, `a::c`";
        let expected = [
            (place("a/b.rs"), 1, format!("`a::b` imports `a::c`, {circle}")),
            (place("a/c/d.rs"), 2, format!("`a::c` imports `a::b`, {circle}")),
        ];
        assert_eq!(reported, expected);
    }
}

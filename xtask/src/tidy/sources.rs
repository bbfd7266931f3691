//! Rules on Rust files: unsafe, module documentation, sizes, tests that would not run or would wait for time to pass.
//!
//! reads   every Rust file
//! writes  findings

use std::collections::{BTreeMap, BTreeSet};

use super::RuleFindings;
use super::code::{line_of, words};
use super::tree::{File, Tree};

const FILE_LINES_MAX: usize = 900;
const LINE_CHARS_MAX: usize = 120;
/// A `SAFETY:` comment begins at most this many lines above its block.
const SAFETY_ABOVE: usize = 12;

/// Returns whether unsafe code may be in this file.
fn may_be_unsafe(file: &File) -> bool {
    let sys = ["crates/base/tile/src/sys.rs", "crates/base/tile/src/sys/"];
    matches!(file.krate(), Some("ring" | "crypto")) || sys.iter().any(|sys| file.path.starts_with(sys))
}

/// The word `unsafe`, or a lint switched off for it, elsewhere.
pub fn unsafe_blocks(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust().filter(|file| !may_be_unsafe(file)) {
        for at in words(&file.code, "unsafe") {
            found.at(&file.path, line_of(&file.code, at), "only ring, crypto and tile::sys may be unsafe");
        }
        let sys_alone = file.path == "crates/base/tile/src/lib.rs";
        for at in words(&file.code, "unsafe_code").filter(|_| !sys_alone) {
            found.at(&file.path, line_of(&file.code, at), "the lint `unsafe_code` is denied, here as everywhere");
        }
    }
}

/// Every unsafe block and implementation has a comment that says why it is sound.
pub fn safety_comments(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust() {
        let text: Vec<&str> = file.text.lines().collect();
        for at in words(&file.code, "unsafe") {
            let next = file.code[at + "unsafe".len()..].trim_start();
            let line = line_of(&file.code, at);
            let above = &text[line.saturating_sub(1 + SAFETY_ABOVE)..line];
            let claims = next.starts_with('{') || words(next, "impl").next() == Some(0);
            if claims && !above.iter().any(|line| line.contains("SAFETY:")) {
                found.at(&file.path, line, "no `// SAFETY:` comment above");
            }
        }
    }
}

/// Every module opens with documentation of its purpose.
pub fn module_docs(tree: &Tree, found: &mut RuleFindings) {
    let modules = tree.rust().filter(|file| {
        let of_crate = file.krate().is_some() && file.path.contains("/src/");
        (of_crate || file.path.starts_with("xtask/src/")) && !file.is_test()
    });
    for file in modules.filter(|file| !file.text.starts_with("//! ")) {
        found.at(&file.path, 1, "opens without `//!`: what is it for, what does it read, write, hold and drop?");
    }
}

/// The fields of a module's header, one per line.
const FIELDS: [&str; 5] = ["reads", "writes", "memory", "drops", "source"];
/// Required fields in a tile's header; `source` is optional.
const FIELDS_OF_A_TILE: [&str; 4] = ["reads", "writes", "memory", "drops"];
/// Required fields in a tile's other modules if one of their structs can grow.
const FIELDS_OF_A_HOLDER: [&str; 2] = ["memory", "drops"];
/// Types of fields that can grow.
const GROWING: [&str; 7] = ["Vec", "VecDeque", "HashMap", "HashSet", "BTreeMap", "BTreeSet", "BinaryHeap"];

/// Whether a file has a tile.
fn is_tile(file: &File) -> bool {
    let is_impl = |at: usize| {
        let item = file.code[..at].rsplit(['{', '}', ';']).next().unwrap_or_default();
        words(item, "impl").next().is_some()
    };
    file.krate() == Some("pipeline") && !file.is_test() && words(&file.code, "Tile for").any(is_impl)
}

/// Returns a tile's folder name; `None` for a file outside of any.
fn folder(file: &File) -> Option<&str> {
    let (name, _) = file.path.strip_prefix("crates/solana/pipeline/src/")?.split_once('/')?;
    Some(name)
}

/// Whether a struct outside the tests has a field of a type that can grow, and owns it.
fn can_grow(file: &File) -> bool {
    let lines = file.tests_from().map_or(usize::MAX, |from| from - 1);
    let code = file.code.lines().take(lines).collect::<Vec<_>>().join("\n");
    let is_owned = |fields: &str, at: usize| {
        let before = fields[..at].split_whitespace().next_back().unwrap_or_default();
        !before.ends_with('&') && !before.contains("&'")
    };
    words(&code, "struct").any(|at| {
        let fields = fields(&code[at..]);
        let is_held = |name: &str, at: usize| fields[at + name.len()..].starts_with('<') && is_owned(fields, at);
        GROWING.iter().any(|name| words(fields, name).any(|at| is_held(name, at)))
    })
}

/// Returns the fields of the struct that the text begins with, with the opening bracket; empty if it has none.
fn fields(code: &str) -> &str {
    let Some(open) = code.find(['{', '(', ';']) else { return "" };
    let mut depth = 0;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[open..open + at];
        }
    }
    &code[open..]
}

/// Requires header fields: a tile states its inputs, outputs, memory and drops; its other modules state memory and
/// drops if a struct can grow. No header may have a field with nothing to say.
pub fn header_fields(tree: &Tree, found: &mut RuleFindings) {
    let tiles: BTreeSet<&str> = tree.rust().filter(|file| is_tile(file)).filter_map(folder).collect();
    for file in tree.rust() {
        let mut said = vec![];
        let header = file.text.lines().map_while(|line| line.strip_prefix("//!"));
        for (index, line) in header.enumerate() {
            // A line that is further in continues the field above.
            let line = line.strip_prefix(' ').unwrap_or(line);
            let (name, text) = line.split_once(' ').unwrap_or((line, ""));
            let Some(field) = FIELDS.into_iter().find(|field| *field == name) else { continue };
            if matches!(text.trim(), "" | "–") {
                found.at(&file.path, index + 1, format!("`{field}` says nothing: leave it out"));
            } else {
                said.push(field);
            }
        }
        let is_of_tile = !file.is_test() && folder(file).is_some_and(|name| tiles.contains(name));
        let (what, wanted) = if is_tile(file) {
            ("the tile's header", &FIELDS_OF_A_TILE[..])
        } else if is_of_tile && can_grow(file) {
            ("the header of what can grow", &FIELDS_OF_A_HOLDER[..])
        } else {
            continue;
        };
        let missing: Vec<&str> = wanted.iter().copied().filter(|field| !said.contains(field)).collect();
        if !missing.is_empty() {
            found.at(&file.path, 1, format!("{what} does not say `{}`", missing.join("`, `")));
        }
    }
}

/// Files that a reader can hold in mind.
pub fn file_size(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust() {
        let lines = file.text.lines().count();
        if lines > FILE_LINES_MAX {
            found.at(&file.path, 0, format!("{lines} lines, at most {FILE_LINES_MAX}"));
        }
    }
}

/// Lines that fit; a literal or a table's row may be longer.
pub fn line_width(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust() {
        for (index, line) in file.text.lines().enumerate() {
            let chars = line.chars().count();
            let table = line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with('|');
            if chars > LINE_CHARS_MAX && !line.contains('"') && !table && !line.contains("://") {
                found.at(&file.path, index + 1, format!("{chars} characters, at most {LINE_CHARS_MAX}"));
            }
        }
    }
}

/// A test that is not run proves nothing; nor does an example in the documentation.
pub fn ignored_tests(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust() {
        for at in words(&file.code, "#[ignore") {
            found.at(&file.path, line_of(&file.code, at), "a test that is not run");
        }
        for (index, line) in file.text.lines().enumerate() {
            let doc = line.trim_start();
            if (doc.starts_with("///") || doc.starts_with("//!")) && doc.contains("```ignore") {
                found.at(&file.path, index + 1, "an example that is not compiled; `text` if it is none");
            }
        }
    }
}

/// Tests wait for a condition with a deadline, never for time to pass.
pub fn sleeps(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.rust() {
        let Some(from) = file.tests_from() else { continue };
        for at in words(&file.code, "recv_timeout(").filter(|at| is_sleep_in_disguise(&file.code, *at)) {
            let line = line_of(&file.code, at);
            if line >= from {
                found.at(&file.path, line, "a sleep in disguise: wait for a condition with a deadline, not for time");
            }
        }
        for at in ["sleep(", "park_timeout("].iter().flat_map(|word| words(&file.code, word)) {
            let line = line_of(&file.code, at);
            // A method of that name is the code under test.
            if line >= from && !file.code[..at].ends_with('.') {
                found.at(&file.path, line, "wait for a condition with a deadline, not for time");
            }
        }
    }
}

/// Returns whether a channel wait only waits for time: its result is ignored, or no message is expected.
fn is_sleep_in_disguise(code: &str, at: usize) -> bool {
    let statement = code[..at].rsplit(['{', '}', ';']).next().unwrap_or_default().trim_start();
    let is_dropped = ["let _ =", "_ =", "drop("].iter().any(|begin| statement.starts_with(begin));
    let behind = behind_call(&code[at..]).trim_start();
    is_dropped || [".unwrap_err()", ".expect_err(", ".is_err()"].iter().any(|end| behind.starts_with(end))
}

/// Returns the text after the call that `code` begins with; empty if the call does not end.
fn behind_call(code: &str) -> &str {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => return &code[at + 1..],
            ')' => depth -= 1,
            _ => {}
        }
    }
    ""
}

/// Integration tests of a crate are modules of one program, since each program links the crate and everything below it.
pub fn test_programs(tree: &Tree, found: &mut RuleFindings) {
    let mut programs: BTreeMap<&str, &str> = BTreeMap::new();
    for file in tree.rust() {
        let Some((folder, name)) = file.path.split_once("/tests/") else { continue };
        let is_program = match name.split_once('/') {
            None => true,
            Some((_, name)) => name == "main.rs",
        };
        if !is_program || folder.contains("/src") {
            continue;
        }
        if let Some(first) = programs.insert(folder, &file.path) {
            found.at(&file.path, 0, format!("the tests in {first} are a program already: make these a module of it"));
        }
    }
}

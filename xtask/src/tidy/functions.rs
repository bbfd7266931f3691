//! Rule: functions fit on a screen.
//!
//! reads   every Rust file
//! writes  findings

use super::RuleFindings;
use super::code::{is_word, line_of, words};
use super::tree::{File, Tree};

const LINES_MAX: usize = 70;

/// Functions that may be longer, each with its reason: file, function, why.
const LONGER: &[(&str, &str, &str)] = &[];

/// A function's name and its first and last line, counted from 1.
struct Function<'a> {
    name: &'a str,
    first: usize,
    last: usize,
}

/// No function is longer than [`LINES_MAX`] without a reason, and no reason outlives its function.
pub fn size(tree: &Tree, found: &mut RuleFindings) {
    exceeding(tree, LONGER, found);
}

fn exceeding(tree: &Tree, longer: &[(&str, &str, &str)], found: &mut RuleFindings) {
    let mut used = vec![false; longer.len()];
    for file in tree.rust() {
        for Function { name, first, last } in functions(file) {
            let lines = last - first + 1;
            if lines <= LINES_MAX {
                continue;
            }
            match longer.iter().position(|(path, function, _)| *path == file.path && *function == name) {
                Some(reason) => used[reason] = true,
                None => found.at(&file.path, first, format!("`{name}` has {lines} lines, at most {LINES_MAX}")),
            }
        }
    }
    for ((path, name, _), _) in longer.iter().zip(used).filter(|(_, used)| !used) {
        found.at(path, 0, format!("`{name}` is listed as longer than {LINES_MAX} lines, and no longer is"));
    }
}

fn functions(file: &File) -> Vec<Function<'_>> {
    let code = &file.code;
    let function = |at: usize| {
        let name = code[at + 2..].trim_start();
        let name = &name[..name.find(|c| !is_word(c))?];
        let end = body_end(&code[at..])?;
        (!name.is_empty()).then(|| Function { name, first: line_of(code, at), last: line_of(code, at + end) })
    };
    words(code, "fn").filter_map(function).collect()
}

/// Returns the end of the body that follows; `None` for a declaration without one.
fn body_end(code: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut round = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '(' | '[' => round += 1,
            ')' | ']' => round = round.saturating_sub(1),
            ';' if depth == 0 && round == 0 => return None,
            '{' => depth += 1,
            '}' if depth <= 1 => return (depth == 1).then_some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_name_to_brace() {
        let text = "trait T {\n    fn none(&self) -> [u8; 4];\n    fn one() {}\n}\nfn outer(f: fn(u8)) {\n    if x {\n    }\n    fn inner() {\n    }\n}\n";
        let file = File::new("crates/base/ring/src/a.rs", text);
        let found: Vec<_> = functions(&file).iter().map(|f| (f.name, f.first, f.last)).collect();
        assert_eq!(found, [("one", 3, 3), ("outer", 5, 10), ("inner", 8, 9)]);
    }

    #[test]
    fn a_reason_lets_a_function_be_longer_and_goes_with_it() {
        let long = format!("//! x\nfn long() {{\n{}}}\n", "    f();\n".repeat(LINES_MAX));
        let tree = |text: &str| Tree { files: vec![File::new("crates/base/ring/src/a.rs", text)], packages: vec![] };
        let listed = [("crates/base/ring/src/a.rs", "long", "a table")];
        let count = |tree: &Tree, longer: &[_]| {
            let mut found = RuleFindings { rule: "function-size", findings: vec![] };
            exceeding(tree, longer, &mut found);
            found.findings.len()
        };
        assert_eq!(count(&tree(&long), &[]), 1);
        assert_eq!(count(&tree(&long), &listed), 0);
        assert_eq!(count(&tree("fn long() {}"), &listed), 1);
    }
}

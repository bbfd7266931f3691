//! Paths in Rust code: where they lead, and which code is there for tests alone.
//!
//! reads   the code of a file, comments and literals blanked
//! writes  paths, names of modules
//! memory  as much as the code

use std::ops::Range;

use super::code::{is_word, words};

/// A path to one item, including the prefix before the enclosing braces.
#[derive(Debug, PartialEq)]
pub struct Leaf<'a> {
    /// The path's segments. The last is empty for `*` and for anything that is not a name.
    pub path: Vec<&'a str>,
    /// The name it is bound to: its alias or its last segment.
    pub name: &'a str,
    /// The offset of its last name.
    pub at: usize,
}

/// The paths of the tree that begins at `at`, as in `a::{b, c::d as e}`.
pub fn leaves(code: &str, at: usize) -> Vec<Leaf<'_>> {
    let mut found = vec![];
    read_tree(code, at, vec![], &mut found);
    found
}

/// Reads one tree; returns where it ends.
fn read_tree<'a>(code: &'a str, start: usize, mut path: Vec<&'a str>, found: &mut Vec<Leaf<'a>>) -> usize {
    let mut at = after_spaces(code, start);
    loop {
        if code[at..].starts_with('{') {
            return read_group(code, at + 1, &path, found);
        }
        let name = word_at(code, at);
        let end = at + name.len();
        path.push(name);
        let next = after_spaces(code, end);
        if !name.is_empty() && code[next..].starts_with("::") {
            at = after_spaces(code, next + "::".len());
            continue;
        }
        let renamed = word_at(code, next) == "as" && next > end;
        let alias = if renamed { after_spaces(code, next + "as".len()) } else { at };
        let alias_name = word_at(code, alias);
        found.push(Leaf { path, name: alias_name, at });
        // Skip a character that begins no name, so that the reader of a group makes progress.
        let skipped = if name.is_empty() { code[at..].chars().next().map_or(0, char::len_utf8) } else { 0 };
        return (alias + alias_name.len()).max(end + skipped);
    }
}

/// Reads the trees between braces; returns where the group ends.
fn read_group<'a>(code: &'a str, start: usize, path: &[&'a str], found: &mut Vec<Leaf<'a>>) -> usize {
    let mut at = start;
    loop {
        at = after_spaces(code, at);
        match code[at..].chars().next() {
            None => return at,
            Some('}') => return at + 1,
            Some(',') => at += 1,
            Some(_) => at = read_tree(code, at, path.to_vec(), found),
        }
    }
}

fn after_spaces(code: &str, at: usize) -> usize {
    code.len() - code[at..].trim_start().len()
}

fn word_at(code: &str, at: usize) -> &str {
    let rest = &code[at..];
    &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())]
}

/// Every path that begins with `crate` or `super`, with where it begins.
pub fn absolute(code: &str) -> impl Iterator<Item = (usize, Leaf<'_>)> {
    let starts = ["crate", "super"].into_iter().flat_map(move |word| {
        words(code, word).filter(move |at| {
            let before = code[..*at].trim_end();
            // `super` may follow another; `$crate` is the crate that a macro is from.
            let begins = !before.ends_with("::") && !before.ends_with('$');
            begins && code[at + word.len()..].trim_start().starts_with("::")
        })
    });
    starts.flat_map(move |at| leaves(code, at).into_iter().map(move |leaf| (at, leaf)))
}

/// Modules whose body is in this file, each with the body's range.
pub fn inline_modules(code: &str) -> Vec<(&str, Range<usize>)> {
    let module = |at: usize| {
        let name_at = after_spaces(code, at + "mod".len());
        let name = word_at(code, name_at);
        let open = after_spaces(code, name_at + name.len());
        code[open..].starts_with('{').then(|| (name, open..item_end(code, open)))
    };
    words(code, "mod").filter_map(module).collect()
}

/// The modules in files of their own that are there for tests alone.
pub fn test_modules(code: &str) -> Vec<&str> {
    let module = |(at, end): (usize, usize)| {
        let item = &code[at..end];
        let at = words(item, "mod").next()?;
        let name = word_at(item, after_spaces(item, at + "mod".len()));
        (item.ends_with(';') && !name.is_empty()).then_some(name)
    };
    test_items(code).into_iter().filter_map(module).collect()
}

/// The code with test-only parts blanked; line numbers stay the same.
pub fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut kept = 0;
    for (at, end) in test_items(code) {
        out.push_str(&code[kept..at]);
        out.extend(code[at..end].chars().map(|c| if c == '\n' { c } else { ' ' }));
        kept = end;
    }
    out.push_str(&code[kept..]);
    out
}

/// The ranges of items, statements and fields under `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let mut items: Vec<(usize, usize)> = vec![];
    for (at, _) in code.match_indices("#[cfg(") {
        let attribute = &code[at..at + code[at..].find(']').unwrap_or(0)];
        let is_for_tests = words(attribute, "test").next().is_some() && !attribute.contains("not(test");
        let is_inside = items.last().is_some_and(|(_, end)| at < *end);
        if is_for_tests && !is_inside {
            items.push((at, item_end(code, at)));
        }
    }
    items
}

/// Returns the end of the item, statement or field that begins at `start`, its attributes included.
fn item_end(code: &str, start: usize) -> usize {
    let mut head = start;
    while code[after_spaces(code, head)..].starts_with("#[") {
        head = code[head..].find(']').map_or(code.len(), |close| head + close + 1);
    }
    let (mut round, mut angle, mut curly) = (0usize, 0usize, 0usize);
    let mut before = ' ';
    for (at, c) in code[head..].char_indices() {
        let outside = curly == 0 && round == 0;
        match c {
            '(' | '[' => round += 1,
            ')' | ']' => round = round.saturating_sub(1),
            '{' => curly += 1,
            // An item without a body of its own ends with the enclosing block.
            '}' if curly <= 1 => return head + at + curly,
            '}' => curly -= 1,
            '<' => angle += 1,
            '>' if !matches!(before, '-' | '=') => angle = angle.saturating_sub(1),
            ';' if outside => return head + at + 1,
            ',' if outside && angle == 0 => return head + at + 1,
            _ => {}
        }
        before = c;
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_their_paths() {
        let code = "use a::{self, b::{C as D, *}, e};\nf();";
        let found: Vec<_> = leaves(code, 3).into_iter().map(|leaf| (leaf.path.join("::"), leaf.name)).collect();
        let expected = [("a::self", "self"), ("a::b::C", "D"), ("a::b::", ""), ("a::e", "e")];
        assert_eq!(found, expected.map(|(path, name)| (path.to_owned(), name)));
        // A path that ends at once, and an unterminated group.
        assert_eq!(leaves("crate::", 0).len(), 1);
        assert_eq!(leaves("crate::{a, é", 0).len(), 2);
    }

    #[test]
    fn only_tests_are_left_out() {
        for (code, left) in [
            ("#[cfg(test)]\nuse a::{b, c};\nd", "; d"),
            ("#[cfg(test)]\n#[path = \"\"]\nmod t;\nd", "d"),
            ("#[cfg(test)]\npub fn f<A, B>(a: [u8; 2]) -> A {\n    g();\n}\nd", "d"),
            ("struct S {\n    #[cfg(test)]\n    a: Vec<(u8, u8)>,\n    b: u8,\n}", "struct S { b: u8, }"),
            ("S {\n    #[cfg(test)]\n    a: 1\n}\nd", "S { } d"),
            ("{\n    #[cfg(test)]\n    self.f(1);\n    d\n}", "{ d }"),
            ("#[cfg(not(test))]\nuse a;", "#[cfg(not(test))] use a;"),
            ("#[cfg(all(test, not(loom)))]\nuse a;\nd", "d"),
        ] {
            let without = without_tests(code);
            assert_eq!(without.split_whitespace().collect::<Vec<_>>().join(" "), left, "{code}");
            assert_eq!(without.lines().count(), code.lines().count(), "{code}");
        }
        assert_eq!(test_modules("#[cfg(test)]\nmod a;\n#[cfg(test)]\nmod b {}\nmod c;"), ["a"]);
    }
}

//! A rule on doc comments: few are as short as the name below them.
//!
//! reads   every Rust file, but for tests and the command line
//! writes  a finding
//! memory  the path of each file with such a comment

use super::RuleFindings;
use super::code::words;
use super::tree::{File, Tree};

/// A doc comment of one line with at most this many words seldom says more than the name below it.
const WORDS_MAX: usize = 3;
/// Maximum of such comments in the whole tree. Counters and settings, whose comments are on generated pages, have some.
const SHORT_MAX: usize = 60;
/// Number of files that the finding names, those with the most first.
const FILES_SHOWN: usize = 8;

/// A doc comment says what the name and the type do not: a unit, a shape, a range, a reason. Files that use clap are
/// exempt: their comments are the help of the command line.
pub fn short(tree: &Tree, found: &mut RuleFindings) {
    let files = tree.rust().filter(|file| words(&file.code, "clap").next().is_none());
    let counted = files.map(|file| (count(file), file.path.as_str()));
    let mut places: Vec<(usize, &str)> = counted.filter(|(count, _)| *count > 0).collect();
    let sum: usize = places.iter().map(|(count, _)| count).sum();
    if sum <= SHORT_MAX {
        return;
    }
    places.sort_unstable_by(|a, b| b.cmp(a));
    let worst: Vec<String> = places.iter().take(FILES_SHOWN).map(|(count, path)| format!("{path} {count}")).collect();
    let worst = worst.join(", ");
    let short = format!("{sum} doc comments are one line of at most {WORDS_MAX} words");
    found.at(".", 0, format!("{short}, at most {SHORT_MAX} may be: {worst}"));
}

/// Returns how many doc comments before the file's tests are one line of at most [`WORDS_MAX`] words.
fn count(file: &File) -> usize {
    let before_tests = file.tests_from().map_or(usize::MAX, |line| line - 1);
    let lines = file.text.lines().take(before_tests);
    let docs: Vec<Option<&str>> = lines.map(|line| line.trim_start().strip_prefix("///")).collect();
    let comments = docs.chunk_by(|above, below| above.is_some() && below.is_some());
    comments.filter(|lines| matches!(lines, [Some(doc)] if doc.split_whitespace().count() <= WORDS_MAX)).count()
}

//! Rules on every text file: words that mark unfinished work, paths of one machine, and words that mark a dialect.
//!
//! reads   every text file
//! writes  findings

use std::collections::BTreeMap;

use super::RuleFindings;
use super::code::words;
use super::tree::{File, Tree};

/// Words that mark unfinished work. Words in capitals match exactly, others in any case.
const WORDS: [&str; 9] = ["todo!", "unimplemented!", "TODO", "FIXME", "XXX", "HACK", "for now", "placeholder", "dummy"];

/// Beginnings of paths that exist on one machine only.
const PATHS: [&str; 4] = ["/home/", "/root/", "/Users/", "/mnt/"];

/// Words that hide who does what: "is told", "whoever asks", "made anew". Each is a reason to look at the sentence.
const DIALECT: [&str; 3] = ["told", "anew", "whoever"];
/// Maximum lines of the whole tree with such a word.
const DIALECT_LINES_MAX: usize = 90;
/// French quotes. Prose has "double quotes", and code has backticks.
const FRENCH_QUOTES: [char; 2] = ['\u{ab}', '\u{bb}'];

/// Exempt are files that name the words in order to forbid them, or hold third-party text.
fn exempt(file: &File) -> bool {
    let names = ["package-lock.json", "LICENSE"];
    file.path.starts_with("xtask/src/tidy/")
        || file.path.starts_with("fuzz/")
        || names.iter().any(|name| file.path.ends_with(name))
}

/// Committed work is finished.
pub fn forbidden(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.files.iter().filter(|file| !exempt(file)) {
        for (index, line) in file.text.lines().enumerate() {
            let small = line.to_lowercase();
            for word in WORDS {
                let shouted = word.chars().all(char::is_uppercase);
                if words(if shouted { line } else { &small }, word).next().is_some() {
                    found.at(&file.path, index + 1, format!("`{word}`: finish it, or say what it is"));
                }
            }
        }
    }
}

/// Committed files work in any folder.
pub fn absolute_paths(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.files.iter().filter(|file| !exempt(file)) {
        for (index, line) in file.text.lines().enumerate() {
            let begins = |path: &str| {
                line.match_indices(path).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || "._-}/".contains(c))
                })
            };
            for path in PATHS.iter().filter(|path| begins(path)) {
                found.at(&file.path, index + 1, format!("`{path}…` is a path of one machine"));
            }
        }
    }
}

/// Prose stays in plain English: few lines have a word of the dialect, and none has French quotes.
pub fn dialect(tree: &Tree, found: &mut RuleFindings) {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| !exempt(file)) {
        for (index, line) in file.text.lines().enumerate() {
            if line.contains(FRENCH_QUOTES) {
                found.at(&file.path, index + 1, "French quotes: use \"double quotes\", or backticks for code");
            }
            let small = line.to_lowercase();
            if DIALECT.iter().any(|word| words(&small, word).next().is_some()) {
                *lines.entry(file.krate().unwrap_or(&file.path)).or_default() += 1;
            }
        }
    }
    let sum: usize = lines.values().sum();
    if sum > DIALECT_LINES_MAX {
        let places: Vec<String> = lines.iter().map(|(place, count)| format!("{place} {count}")).collect();
        let words = DIALECT.join("`, `");
        let places = places.join(", ");
        found.at(".", 0, format!("{sum} lines have `{words}`, at most {DIALECT_LINES_MAX} may: {places}"));
    }
}

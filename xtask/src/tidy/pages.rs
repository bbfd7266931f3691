//! Rules on Markdown pages: links resolve, and the book lists every page.
//!
//! reads   every Markdown file
//! writes  findings
//! source  the anchors that GitHub and mdBook give to headings

use super::RuleFindings;
use super::tree::{File, Tree};

/// The book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Links between the pages lead to files that are there, and to headings that they have.
pub fn links(tree: &Tree, found: &mut RuleFindings) {
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (line, target) in targets(file) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { file.path.clone() } else { joined(folder_of(file), path) };
            let folder = format!("{path}/");
            if !tree.files.iter().any(|file| file.path == path || file.path.starts_with(&folder)) {
                found.at(&file.path, line, format!("the link to `{target}` leads nowhere"));
            } else if !anchor.is_empty()
                && let Some(page) = tree.file(&path).filter(|page| page.path.ends_with(".md"))
                && !anchors(&page.text).iter().any(|known| known == anchor)
            {
                found.at(&file.path, line, format!("{path} has no heading for `#{anchor}`"));
            }
        }
    }
}

/// Every page under `docs/` is in the table of contents, once.
pub fn book(tree: &Tree, found: &mut RuleFindings) {
    let Some(summary) = tree.file(SUMMARY) else { return };
    let listed: Vec<String> = targets(summary).map(|(_, target)| joined(folder_of(summary), target)).collect();
    let pages = tree.files.iter().filter(|file| file.path.starts_with("docs/") && file.path.ends_with(".md"));
    for page in pages.filter(|page| page.path != SUMMARY) {
        match listed.iter().filter(|path| **path == page.path).count() {
            1 => {}
            0 => found.at(&page.path, 0, format!("not in {SUMMARY}")),
            times => found.at(&page.path, 0, format!("{times} times in {SUMMARY}")),
        }
    }
}

/// The link targets of a page, by line, except in code.
fn targets(file: &File) -> impl Iterator<Item = (usize, &str)> {
    outside_code(&file.text).flat_map(|(line, text)| {
        let rests = text.split("](").skip(1);
        rests.filter_map(|rest| rest.split_once(')')).map(move |(target, _)| (line, target))
    })
}

/// Lines outside fenced code, counted from 1.
fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((index + 1, line))
    })
}

/// The anchors of a page's headings: small letters, without punctuation, a hyphen for each space; the second of a name
/// is numbered.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = vec![];
    let headings = outside_code(text)
        .filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    for heading in headings {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = |n: usize| if n == 0 { anchor.clone() } else { format!("{anchor}-{n}") };
        let free = (0..).map(numbered).find(|name| !anchors.contains(name));
        anchors.extend(free);
    }
    anchors
}

fn folder_of(file: &File) -> &str {
    file.path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// A path relative to a folder, without `.` and `..`.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_that_pages_link_to() {
        let text =
            "# A Node, and `its` tiles\n#no heading\n## Next\n```\n# code\n```\n## Next\n### The monitor's table\n";
        assert_eq!(anchors(text), ["a-node-and-its-tiles", "next", "next-1", "the-monitors-table"]);
    }
}

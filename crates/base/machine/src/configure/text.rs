//! Formats reports for a person.
//!
//! reads   reports
//! writes  text

use std::fmt::Write;

use super::{Remedy, Report};

/// Column where a stage's text begins.
const INDENT: usize = 21;
/// Columns of a line. Commands are never broken, so that they can be copied.
const WIDTH: usize = 118;

/// One line per stage; below a stage with faults, their cost and remedy.
pub fn reports(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        let state = if report.faults.is_empty() { "ok" } else { "mend" };
        let head = format!("{:14} {state:4}  ", report.stage.name());
        if report.faults.is_empty() {
            text += &wrapped(&head, &report.note);
        }
        for (index, fault) in report.faults.iter().enumerate() {
            let head = if index == 0 { head.clone() } else { " ".repeat(INDENT) };
            text += &wrapped(&head, &fault.what);
            text += &wrapped(&" ".repeat(INDENT), &format!("costs: {}", fault.costs));
            let sign = if matches!(fault.remedy, Remedy::ByHand(_)) { "by hand: " } else { "$ " };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{:INDENT$}{sign}{}", "", fault.remedy.command());
        }
    }
    text
}

fn wrapped(head: &str, words: &str) -> String {
    let mut text = String::new();
    let mut line = head.to_owned();
    for word in words.split_whitespace() {
        if line.chars().count() + word.chars().count() > WIDTH && line.trim().len() > head.trim().len() {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(INDENT);
        }
        line.push_str(word);
        line.push(' ');
    }
    text + line.trim_end() + "\n"
}

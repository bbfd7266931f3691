//! How many cases ended how, by suite and fork.
//!
//! memory  a row for each suite and fork; the names of cases that are not as expected

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::expected::ExpectedFailures;
use crate::files::Suite;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As the test says, on every path.
    Passed,
    /// Not as the test says; the difference in words.
    Failed(String),
    /// It was not run: why.
    Unrun(&'static str),
}

impl From<Result<(), String>> for Ending {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Passed)
    }
}

/// A row of the score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Number of cases that passed.
    pub passed: usize,
    /// Number of cases that failed as expected.
    pub expected: usize,
    /// Number of cases that failed unexpectedly.
    pub failed: usize,
    /// Number of cases that were not run.
    pub unrun: usize,
}

impl Row {
    /// Adds another row's cases.
    pub fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.expected += other.expected;
        self.failed += other.failed;
        self.unrun += other.unrun;
    }
}

/// The score of a run, and the failures that were not expected.
#[derive(Debug, Default)]
pub struct Score {
    /// By suite and fork; the fork is empty where a suite has none.
    pub rows: BTreeMap<(&'static str, String), Row>,
    /// Why cases were not run, and how many.
    pub unrun: BTreeMap<&'static str, usize>,
    /// By line of the list: how many of its cases failed.
    pub listed: BTreeMap<usize, usize>,
    /// Lines of the list that a case was meant by.
    met: BTreeSet<usize>,
    failures: Vec<String>,
    /// Parts of the list that no case bears out any more; known at the end.
    stale: Vec<String>,
}

impl Score {
    /// Counts a case by its ending and the list of expected failures.
    pub fn add(&mut self, suite: Suite, fork: &str, name: &str, ending: Ending, expected: &ExpectedFailures) {
        let row = self.rows.entry((suite.name(), fork.to_owned())).or_default();
        let line = expected.line_of(name);
        match ending {
            Ending::Passed => row.passed += 1,
            Ending::Unrun(why) => {
                row.unrun += 1;
                *self.unrun.entry(why).or_default() += 1;
                return;
            }
            Ending::Failed(why) => match line {
                Some(line) => {
                    row.expected += 1;
                    *self.listed.entry(line).or_default() += 1;
                }
                None => {
                    row.failed += 1;
                    self.failures.push(format!("FAILED {} {fork} {name}: {why}", suite.name()));
                }
            },
        }
        self.met.extend(line);
    }

    /// All cases are counted: looks for lines of the list that have become untrue.
    pub fn close(&mut self, expected: &ExpectedFailures) {
        let untrue = self.met.iter().filter(|line| !self.listed.contains_key(*line));
        self.stale = untrue
            .map(|line| {
                format!("PASSED {}: expected.txt says that it fails; take that off", expected.lines[*line].part)
            })
            .collect();
    }

    /// Returns the deviations from the expected, a line each.
    pub fn wrong(&self) -> Vec<&str> {
        self.failures.iter().chain(&self.stale).map(String::as_str).collect()
    }

    /// How many cases passed.
    pub fn passed(&self) -> usize {
        self.rows.values().map(|row| row.passed).sum()
    }

    /// The rows as lines of text.
    pub fn table(&self) -> String {
        let mut out = String::new();
        for ((suite, fork), Row { passed, expected, failed, unrun }) in &self.rows {
            let cells = format!("{passed:>8} passed {expected:>4} failed as expected {failed:>4} failed");
            let _ = writeln!(out, "{suite:<12} {fork:<24} {cells} {unrun:>6} not run");
        }
        for (why, count) in &self.unrun {
            let _ = writeln!(out, "{count:>8} not run: {why}");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_failures_are_expected_and_must_fail() {
        let expected = ExpectedFailures::listed().expect("it reads");
        let listed = "x/stSStoreTest/InitCollisionParis.json/a";
        let mut score = Score::default();
        score.add(Suite::State, "Cancun", listed, Ending::Failed("another root".into()), &expected);
        score.add(Suite::State, "Cancun", listed, Ending::Passed, &expected);
        score.add(Suite::State, "Cancun", "x/other", Ending::Passed, &expected);
        score.close(&expected);
        assert_eq!(score.wrong(), [""; 0]);
        let row = Row { passed: 2, expected: 1, failed: 0, unrun: 0 };
        assert_eq!(score.rows[&("state", "Cancun".to_owned())], row);
        // It passes now, all of it.
        let mut score = Score::default();
        score.add(Suite::State, "Cancun", listed, Ending::Passed, &expected);
        score.add(Suite::State, "Cancun", "x/other", Ending::Failed("why".into()), &expected);
        score.add(Suite::State, "London", "x/old", Ending::Unrun("old"), &expected);
        score.close(&expected);
        let wrong = score.wrong();
        assert_eq!(wrong.len(), 2);
        assert!(wrong[0].contains("x/other: why") && wrong[1].contains("InitCollision"), "{wrong:?}");
        assert!(score.table().contains("1 not run: old"));
    }
}

//! What a search has found: the layout to take, how sure that is, and the path that led there.
//!
//! reads   nothing: it is what [`mod@super::search`] fills
//! writes  sentences of it

use serde::{Deserialize, Serialize};

use super::Measured;
use super::decide::Verdict;
use super::space::{Layout, Space};

/// Why trying ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// No move won any more.
    NoMoveWins,
    /// There is no other layout left to try.
    NothingLeft,
    /// As many trials as were allowed.
    Trials,
    /// The time was up.
    Time,
    /// After one was shown to be better, others disturbed whatever was tried from there.
    Busy,
}

/// What became of a layout that was tried against the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// It took the place of the best.
    Taken,
    /// It is no better.
    NoBetter,
    /// It is not known: the best beside it failed, or others disturbed them. It may be tried again.
    NotCompared(String),
    /// It does not work.
    Failed(String),
}

/// Why the candidate and the default were not told apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoVerdict {
    /// There was no room to try another layout than the default.
    NothingTried,
    /// Nothing that was tried seemed better than the default.
    NothingBetter,
    /// There was no room for as many pairs of runs as would tell.
    NoRoom,
    /// Others disturbed so many of the runs that there was none.
    Disturbed(String),
    /// The candidate failed in the last comparison.
    Candidate(String),
    /// The default did.
    Default(String),
}

/// A layout that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The round, from 0.
    pub round: usize,
    /// The layout.
    pub layout: Layout,
    /// What it was tried against.
    pub against: Layout,
    /// Why it was tried.
    pub why: String,
    /// Its rates, and those of the best in the same pairs.
    pub pairs: Vec<(f64, f64)>,
    /// What became of it.
    pub fate: Fate,
    /// What limited it, in a sentence.
    pub says: String,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The layout to take; the default where none is shown to be better.
    pub layout: Layout,
    /// The default.
    pub default: Layout,
    /// What the default did when it was first tried.
    pub first: Measured,
    /// The best of the trials.
    pub candidate: Layout,
    /// What the last comparison says of the candidate, or why there is no such thing.
    pub verdict: Result<Verdict, NoVerdict>,
    /// Rates of the last comparison: the default's and the candidate's.
    pub pairs: Vec<(f64, f64)>,
    /// What limits the layout to take, in a sentence.
    pub says: String,
    /// All that was tried, in order.
    pub steps: Vec<Step>,
    /// Why trying ended.
    pub ended: Ended,
    /// Trials, repeated ones included, and those that others disturbed left out.
    pub trials: usize,
    /// Trials of which nothing is known, since others disturbed each run of them.
    pub disturbed: usize,
    /// Layouts among them.
    pub layouts: usize,
    /// Seconds of all trials.
    pub seconds: f64,
    /// How much a run differs from the next of the same layout, as a part of the rate; nothing where none was repeated.
    pub noise: Option<f64>,
}

impl Found {
    /// Whether another layout than the default is to be taken.
    pub fn is_better(&self) -> bool {
        matches!(self.verdict, Ok(Verdict::Better(_)))
    }
}

/// A verdict in words.
pub fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Better(gain) => {
            format!("{:+.1} %, at least {:+.1} %", 100.0 * gain.value, 100.0 * gain.at_least)
        }
        Verdict::TooSmall(gain) => {
            format!(
                "{:+.2} %, at least {:+.2} %, which is too little to matter",
                100.0 * gain.value,
                100.0 * gain.at_least
            )
        }
        Verdict::NotShown(gain) => format!("{:+.1} %, which may be noise", 100.0 * gain.value),
    }
}

/// A step in a line.
pub fn line(space: &Space, step: &Step) -> String {
    let gains: Vec<String> =
        step.pairs.iter().map(|(ours, theirs)| format!("{:+.1} %", 100.0 * (ours / theirs - 1.0))).collect();
    let fate = match &step.fate {
        Fate::Taken => format!("{}: taken", gains.join(", ")),
        Fate::NoBetter => format!("{}: no better", gains.join(", ")),
        Fate::NotCompared(why) => format!("not compared: {why}"),
        Fate::Failed(why) => format!("does not work: {why}"),
    };
    format!("{} ({}): {fate}", step.why, space.change(&step.against, &step.layout))
}

//! The result of a search: the recommended layout, how certain that is, and the path that led there.
//!
//! reads   nothing: [`mod@super::search`] fills it
//! writes  sentences about it

use serde::{Deserialize, Serialize};

use super::LayoutMeasurement;
use super::decide::Verdict;
use super::space::{Layout, Space};

/// Why the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// No move improved the layout any more.
    NoMoveWins,
    /// No untried layout was left.
    NothingLeft,
    /// The maximum number of trials was reached.
    Trials,
    /// The time was up.
    Time,
    /// After a better layout was shown, others disturbed every further trial.
    Busy,
}

/// The outcome of trying a layout against the best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialVerdict {
    /// The layout replaced the best one.
    Taken,
    /// The layout is not shown to be better than the best one.
    NoBetter,
    /// Unknown: the best failed next to it, or others disturbed them. It may be tried again.
    NotCompared(String),
    /// The layout does not work, for this reason.
    Failed(String),
}

/// Why the candidate and the default could not be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoVerdict {
    /// The budget allowed no layout but the default.
    NothingTried,
    /// No tried layout seemed better than the default.
    NothingBetter,
    /// The budget did not allow enough pairs of runs.
    NoRoom,
    /// Others disturbed too many of the runs.
    Disturbed(String),
    /// The candidate failed in the last comparison.
    Candidate(String),
    /// The default failed in the last comparison.
    Default(String),
}

/// One tried layout, and how it compared with the best at that time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Number of the round, from 0.
    pub round: usize,
    /// The layout that was tried.
    pub layout: Layout,
    /// The layout it was tried against.
    pub against: Layout,
    /// Why it was tried.
    pub why: String,
    /// Its rates, and those of the best in the same pairs.
    pub pairs: Vec<(f64, f64)>,
    /// The verdict on this layout against the other one.
    pub fate: TrialVerdict,
    /// The cause that limited this layout's rate, in a sentence.
    pub says: String,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchResult {
    /// The recommended layout; the default if none is shown to be better.
    pub layout: Layout,
    /// The layout that the configuration leads to without a search.
    pub default: Layout,
    /// The measurement of the default's first run.
    pub first: LayoutMeasurement,
    /// The best layout of the trials.
    pub candidate: Layout,
    /// The verdict of the last comparison, or why there is none.
    pub verdict: Result<Verdict, NoVerdict>,
    /// Rates of the last comparison: the default's and the candidate's.
    pub pairs: Vec<(f64, f64)>,
    /// The cause that limits the recommended layout's rate, in a sentence.
    pub says: String,
    /// All tried layouts, in order.
    pub steps: Vec<Step>,
    /// Why the search ended.
    pub ended: SearchEnd,
    /// Trials, including repetitions but not disturbed ones.
    pub trials: usize,
    /// Trials without a result because others disturbed every run of them.
    pub disturbed: usize,
    /// Distinct layouts among the trials.
    pub layouts: usize,
    /// Seconds of all trials.
    pub seconds: f64,
    /// Variation between runs of the same layout, as a fraction of the rate; none if none was repeated.
    pub noise: Option<f64>,
}

impl SearchResult {
    /// Returns whether a layout other than the default is recommended.
    pub fn is_better(&self) -> bool {
        matches!(self.verdict, Ok(Verdict::Better(_)))
    }
}

/// Returns a verdict in words, with the gain in percent.
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

/// Describes a step in one line.
pub fn line(space: &Space, step: &Step) -> String {
    let gains: Vec<String> =
        step.pairs.iter().map(|(ours, theirs)| format!("{:+.1} %", 100.0 * (ours / theirs - 1.0))).collect();
    let fate = match &step.fate {
        TrialVerdict::Taken => format!("{}: taken", gains.join(", ")),
        TrialVerdict::NoBetter => format!("{}: no better", gains.join(", ")),
        TrialVerdict::NotCompared(why) => format!("not compared: {why}"),
        TrialVerdict::Failed(why) => format!("does not work: {why}"),
    };
    format!("{} ({}): {fate}", step.why, space.change(&step.against, &step.layout))
}

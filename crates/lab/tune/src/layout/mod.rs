//! Searches for the best layout: how many tiles of each kind, and which of them share a core.
//!
//! reads   measurements of layouts, from the caller's [`Evaluate`]
//! writes  a [`SearchResult`]: the recommended layout, by how much it is better, and the path that led there
//! memory  the trials
//!
//! [`space`] defines layouts, [`model`] estimates their cost from measured regimes, [`propose`] picks what to try next,
//! [`decide`] compares two layouts, [`mod@search`] runs the search and [`search_result`] describes its result.
//! [`journal`] stores each trial on disk.
//!
//! Proposals are derived from measurements and cheap to get wrong: each is a suggestion that two or three runs next to
//! the best layout so far must confirm. The final verdict uses none of these runs, which were selected for their luck,
//! but fresh ones that alternate between the default and the candidate.

pub mod decide;
pub mod journal;
pub mod model;
pub mod propose;
pub mod report;
pub mod search;
pub mod search_result;
pub mod space;

pub use decide::Verdict;
pub use search::{Budget, search};
pub use search_result::SearchResult;
pub use space::{Kind, Layout, Space};

use serde::{Deserialize, Serialize};

/// How a tile spent the time of a trial, as shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// Useful work of the tile, with housekeeping.
    pub busy: f64,
    /// Blocked by a consumer.
    pub backpressure: f64,
    /// Nothing to do, parked time included.
    pub wait: f64,
}

/// The measurement of a layout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayoutMeasurement {
    /// Transactions executed per second, as the bench measures them.
    pub rate: f64,
    /// Each tile, in the order of [`Layout::tiles`].
    pub tiles: Vec<Vec<Use>>,
    /// The kind that limits it, as an index into the space, if known.
    pub limit: Option<usize>,
    /// The cause that limits the rate, in a sentence.
    pub says: String,
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The layout ran without a disturbance.
    Measured(LayoutMeasurement),
    /// The layout does not work.
    Failed(String),
    /// Others disturbed every run, so there is no result.
    Disturbed(String),
}

/// A trial that has an outcome, with all its repetitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The outcome after all repetitions.
    pub outcome: Outcome,
    /// Duration with all repetitions, in seconds.
    pub seconds: f64,
}

/// Runs trials of layouts.
pub trait Evaluate {
    /// Why no further layout can be tried.
    type Error;

    /// Tries a layout once. A disturbed trial is repeated only while it can finish within `left` seconds.
    fn evaluate(&mut self, layout: &Layout, left: f64) -> Result<Trial, Self::Error>;
}

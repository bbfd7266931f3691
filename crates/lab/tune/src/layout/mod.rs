//! Which layout is best: how many tiles of each kind, and which of them share a core.
//!
//! reads   what a layout does when it is tried, from whoever tries it: an [`Evaluate`]
//! writes  a [`Found`]: the layout to take, by how much it is better, and the path that led there
//! memory  the trials
//!
//! [`space`] says what a layout is, [`model`] what one costs by the regimes that were read, [`propose`] what to try
//! next, [`decide`] when one is better, [`mod@search`] the course of it all and [`found`] what comes of it. [`journal`]
//! keeps each trial on the disk.
//!
//! Moves are found by what was measured and are cheap to be wrong about: each is a suggestion, which two or three runs
//! beside the best so far have to bear out. What is told in the end rests on none of these runs, which were picked for
//! their luck, but on fresh ones, the default and the candidate in turn.

pub mod decide;
pub mod found;
pub mod journal;
pub mod model;
pub mod propose;
pub mod report;
pub mod search;
pub mod space;

pub use decide::Verdict;
pub use found::Found;
pub use search::{Budget, search};
pub use space::{Kind, Layout, Space};

use serde::{Deserialize, Serialize};

/// How a tile spent the time of a trial, each a share of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Use {
    /// It worked.
    pub busy: f64,
    /// It was held up by a consumer.
    pub backpressure: f64,
    /// It had nothing to do.
    pub wait: f64,
}

/// What a layout did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Transactions a second.
    pub rate: f64,
    /// Each tile, in the order of [`Layout::tiles`].
    pub tiles: Vec<Vec<Use>>,
    /// The kind that limits it, by its place in the space, where somebody could tell.
    pub limit: Option<usize>,
    /// What limits it, in a sentence.
    pub says: String,
}

/// What became of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It ran.
    Measured(Measured),
    /// It does not work.
    Failed(String),
    /// Others disturbed each run of it, so that nothing is known of it.
    Disturbed(String),
}

/// A trial that is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// What became of it.
    pub outcome: Outcome,
    /// How long it took, with all that was done again, in seconds.
    pub seconds: f64,
}

/// Tries layouts.
pub trait Evaluate {
    /// Why nothing can be tried any more.
    type Error;

    /// Tries a layout once. In `left` seconds it should be done: what takes longer is not done again.
    fn evaluate(&mut self, layout: &Layout, left: f64) -> Result<Trial, Self::Error>;
}

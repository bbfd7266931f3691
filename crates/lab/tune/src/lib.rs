//! `hearth tune`: studies of which build, layout or machine is better, and how certain that is.
//!
//! reads   results as CSV; for [`matrix`] and [`layout`] see there
//! writes  the answer, as text, as JSON and as a page
//! memory  the results
//!
//! [`hearth_stats`] reads results in tidy form from any source; [`analysis`] answers questions about them by the rule
//! of [`hearth_stats::paired_bootstrap`] or of [`hearth_stats::median_rule`]. [`matrix`] produces such results: it
//! builds a matrix of [`options`] and measures it. [`layout`] searches for the best layout of a node, [`hearth_score`]
//! scores a machine; all of them run programs by [`mod@run`].

pub mod analysis;
mod command;
pub mod confounding;
pub mod dominance;
pub mod effects;
pub mod layout;
pub mod level;
pub mod matrix;
pub mod options;
pub mod page;
pub mod quantization;
pub mod recipe;
pub mod run;
pub mod text;

pub use command::{Command, TuneError, run};

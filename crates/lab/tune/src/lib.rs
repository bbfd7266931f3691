//! Studies: which build, which layout or which machine is better, and how sure one can be: `hearth tune`.
//!
//! reads   results as CSV; of [`matrix`] and [`layout`]: see there
//! writes  the answer, as text, as JSON and as a page
//! memory  the results
//!
//! [`hearth_stats`] reads results in tidy form, whoever measured them; [`analysis`] answers what is asked of them by
//! the rule of [`hearth_stats::paired_bootstrap`], or by that of [`hearth_stats::median_rule`]. [`matrix`] makes such
//! results: it builds a matrix of [`options`] and measures it. [`layout`] looks for the best layout of a node,
//! [`hearth_score`] at what a machine can do; all of them by a [`mod@run`].

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

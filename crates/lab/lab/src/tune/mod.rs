//! Studies: which build, or which layout, is better, and how sure one can be.
//!
//! [`table`] reads results in tidy form, whoever measured them; [`analysis`] answers what is asked of them by the rule
//! of [`paired`], or by that of the [`article`] that this started from. [`build`] makes such results: it builds a
//! matrix and measures it. [`layout`] looks for the best layout of a node, [`machine`] at what a machine can do; all of
//! them by a [`run`].

pub mod analysis;
pub mod article;
pub mod beaten;
pub mod build;
pub mod coarse;
pub mod confounding;
pub mod effects;
pub mod goal;
pub mod layout;
pub mod machine;
pub mod meant;
pub mod page;
pub mod paired;
pub mod recipe;
pub mod run;
pub mod table;
pub mod text;
pub mod unit;

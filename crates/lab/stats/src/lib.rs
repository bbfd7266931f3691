//! Statistics that every comparison in the lab goes by, and whether others disturbed what was measured.
//!
//! [`table`] reads results in tidy form, whoever measured them, each value in its [`unit`](mod@unit). [`objective`]
//! says which metrics are to be great or small. [`paired_bootstrap`] compares within rounds, with intervals that hold
//! for all at once; [`median_rule`] compares medians, each interval for itself. [`quiet`] tells by the kernel's counts,
//! and by the [`pace`] of the cores, whether others were at work meanwhile.

pub mod median_rule;
pub mod objective;
pub mod pace;
pub mod paired_bootstrap;
pub mod quiet;
pub mod table;
pub mod unit;

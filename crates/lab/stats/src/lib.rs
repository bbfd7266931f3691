//! Statistics for all comparisons in the lab, and detection of disturbances during measurements.
//!
//! [`table`] reads results in tidy form from any source, each value in its [`unit`](mod@unit). [`objective`] defines
//! which metrics to maximize or minimize. [`paired_bootstrap`] compares within rounds, with intervals that hold
//! simultaneously; [`median_rule`] compares medians, each with its own interval. [`quiet`] uses the kernel's counts and
//! the [`pace`] of the cores to detect whether others used the machine meanwhile.

pub mod median_rule;
pub mod objective;
pub mod pace;
pub mod paired_bootstrap;
pub mod quiet;
pub mod table;
pub mod unit;

//! Runs a program for any kind of study: it is ended completely, and identified.

pub mod identity;
pub mod process;

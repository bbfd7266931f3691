//! The lab of this program: the commands that measure, watch and tune nodes, and what looks at a node from within its
//! process.

pub mod instruments;
pub mod monitor;
pub mod profile;
pub mod purse;

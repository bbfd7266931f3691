//! testkit: helpers shared by the benches and tests of the other crates; a dev-dependency only.
//!
//! reads   command-line arguments of `cargo bench` (a name filter); seeds; files that a test damages; requests to a
//!         fake node
//! writes  one line per figure to standard output; damage, into files; a fake node's answers
//! memory  one sample per round
//!
//! Tests wait only by [`wait_until`] and [`wait_for`].

pub mod bench;
pub mod damage;
pub mod http;
pub mod ports;
pub mod random;
mod wait;

pub use wait::{PATIENCE, pause, wait_for, wait_until};

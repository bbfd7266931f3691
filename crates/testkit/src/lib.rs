//! testkit: what the benches and tests of the other crates share; a dev-dependency only.
//!
//! reads   command-line arguments of `cargo bench` (a name filter); seeds
//! writes  one line per figure to standard output
//! memory  one sample per round

pub mod bench;
pub mod random;

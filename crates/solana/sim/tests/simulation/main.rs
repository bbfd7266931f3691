//! The simulator's tests: two hundred seeds hold, each is the same in every run, a node that misses epochs catches up,
//! recorded sessions come to the same blocks again, and its page says what it does.
//!
//! `HEARTH_SIM_SEEDS` is how many seeds are run in place of two hundred.

mod behind;
mod determinism;
#[cfg(feature = "mutations")]
mod mutations;
mod page;
mod seeds;
mod sessions;

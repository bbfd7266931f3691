//! tile: what turns a job into a thread on a core.
//!
//! A *tile* is one job: it reads frags from links, writes frags to links and counts. This crate holds the
//! [`Tile`] trait, the loop that runs tiles on a core (alone, or several in turn on a shared one), the
//! topology as data, affinity strings, counters and the accounting of time in regimes. It knows no tile.
//!
//! Read in this order: [`tile`](mod@tile) (what a tile is), [`runner`] (one tile's loop), [`core`] (a core and the
//! tiles on it), [`topology`] (which tiles, which links), [`affinity`] (which cores).

pub mod affinity;
pub mod bandwidth;
pub mod clock;
pub mod core;
pub mod counters;
pub mod latency;
pub mod outside;
pub mod panics;
pub mod regime;
pub mod rig;
pub mod runner;
pub mod sys;
#[cfg(test)]
mod testing;
pub mod tile;
pub mod topology;
pub mod wake;

pub use clock::Clock;
pub use counters::{CounterDecl, CounterKind, CounterSet};
pub use hearth_ring::FragMeta;
pub use latency::LatencyDecl;
pub use tile::{Entropy, Filter, Frag, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};

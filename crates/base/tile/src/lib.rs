//! tile: runs jobs as tiles on the threads of pinned cores.
//!
//! A *tile* is one job: it reads frags from links, writes frags to links, and counts. This crate holds the [`Tile`]
//! trait, the loop that runs tiles on a core (alone, or several in turn on a shared one), the topology as data,
//! affinity strings, counters, and the accounting of time in regimes. It knows no particular tile.
//!
//! Read in this order: [`tile`](mod@tile) (what a tile is), [`runner`] (one tile's loop), [`core`] (a core and its
//! tiles), [`topology`] (which tiles, which links), [`affinity`] (which cores).

// Loom models only wake-ups, nothing else of this crate.
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
pub mod affinity;
#[cfg(not(loom))]
pub mod bandwidth;
#[cfg(not(loom))]
pub mod clock;
#[cfg(not(loom))]
pub mod core;
#[cfg(not(loom))]
pub mod counters;
#[cfg(not(loom))]
pub mod external_tile;
mod flag;
#[cfg(not(loom))]
pub mod latency;
#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(not(loom))]
pub mod panics;
#[cfg(not(loom))]
pub mod regime;
#[cfg(not(loom))]
pub mod rig;
#[cfg(not(loom))]
pub mod runner;
#[cfg(loom)]
#[path = "core/shared.rs"]
mod shared;
mod sync;
#[cfg(not(loom))]
pub mod sys;
#[cfg(loom)]
mod sys {
    #[path = "loom_event.rs"]
    pub mod event;
}
#[cfg(all(test, not(loom)))]
mod testing;
#[cfg(not(loom))]
pub mod tile;
#[cfg(not(loom))]
pub mod topology;
pub mod wake;

#[cfg(not(loom))]
pub use clock::Clock;
#[cfg(not(loom))]
pub use counters::{CounterDecl, CounterKind, CounterSet};
#[cfg(not(loom))]
pub use hearth_ring::FragMeta;
#[cfg(not(loom))]
pub use latency::LatencyDecl;
#[cfg(not(loom))]
pub use tile::{Entropy, Filter, Frag, Host, In, InitError, Out, Poll, Port, Tile, WaitFor};

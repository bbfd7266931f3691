//! Watches a node from outside: what its tiles and links did in the last moment, and what that means.
//!
//! reads   the workspace of another process, read-only; the kernel's account of its threads in `/proc`
//! writes  [`Sample`], what happened between two looks; [`Diagnosis`], the same in a sentence
//! memory  a copy of all counters per look
//! drops   nothing: it is no part of the node, and costs it only the cache lines that it reads
//!
//! The stages: [`Watch::attach`] → [`Watch::look`] from time to time → [`Sample::between`] two looks → [`diagnose`],
//! all of it by [`Seconds`] → [`snapshot`], [`Screen`] or [`Second::json`].

mod attach;
mod bandwidth;
mod columns;
mod diagnosis;
mod evm;
mod latency;
mod node_counters;
mod numbers;
mod sample;
mod screen;
mod seconds;
mod text;
mod threads;

pub use attach::{AttachError, Watch};
pub use bandwidth::{Bandwidth, PeerSample};
pub use columns::Table;
pub use diagnosis::{Advice, Diagnosis, Finding, diagnose};
pub use evm::EvmSample;
pub use latency::{Stage, Stages, time, write_stages};
pub use node_counters::NodeCounters;
pub use sample::{CoreSample, LinkSample, Regimes, Sample, TileSample, TileState};
pub use screen::{Screen, ScreenError};
pub use seconds::{Second, Seconds};
pub use text::snapshot;

//! ring: the shared-memory workspace with its links and counters; the only lock-free code of Hearth.
//!
//! A node owns one workspace: one mapped file that holds the topology, every link and every counter. A link joins one
//! producer to many consumers. Each fragment (frag) has 32 bytes of metadata in a ring of `depth` entries, and a
//! payload of at most `mtu` bytes next to it. A *reliable* consumer holds credits: the producer never overtakes it. A
//! *lossy* consumer is overtaken if it is slow, and detects and counts the loss.
//!
//! [`EventCount`] is where threads of one process sleep until a condition holds.
//!
//! Another process may map the file read-only with [`Observer`], without privileges, while the node runs and
//! after it crashed. A process of the node itself may [attach](Workspace::attach) the parts that it works with, which
//! are on pages of their own.
//!
//! reads   the workspace file of a stale or running node
//! writes  the workspace file
//! memory  [`WorkspacePlan::size`] bytes, all reserved at startup; another `mtu` bytes per lossy consumer
//! drops   frags overtaken on lossy consumers, counted per consumer as `overrun_poll` and `overrun_read`
//! source  Firedancer's tango (mcache, dcache, fseq) for the division of labour; the seqlock follows H.-J. Boehm, "Can
//!         seqlocks get along with programming language memory models?", MSPC 2012

// Loom models only the core, without memory maps.
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
#[allow(unsafe_code)]
mod consumer;
#[cfg(not(loom))]
mod directory;
#[cfg(not(loom))]
mod error;
mod event_count;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod file;
mod frag;
#[cfg(not(loom))]
mod lines;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod map;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod observer;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod pages;
#[cfg(not(loom))]
mod plan;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod producer;
mod protocol;
mod sync;
mod unix_time;
#[cfg(not(loom))]
#[allow(unsafe_code)]
mod workspace;

#[cfg(all(test, loom))]
#[allow(unsafe_code)]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(not(loom))]
pub use consumer::{Consumer, Overrun, PollResult};
#[cfg(not(loom))]
pub use error::WorkspaceError;
pub use event_count::EventCount;
pub use frag::FragMeta;
#[cfg(not(loom))]
pub use observer::{ConsumerView, LinkView, Observer};
#[cfg(not(loom))]
pub use pages::prefer_large_pages;
#[cfg(not(loom))]
pub use plan::{ConsumerPlan, CountersPlan, HugePages, LinkPlan, SharePlan, WorkspacePlan};
#[cfg(not(loom))]
pub use producer::Producer;
pub use unix_time::unix_time;
#[cfg(not(loom))]
pub use workspace::{Counters, WORKSPACE_FOLDER, Workspace, workspace_path};

//! snapshot: the whole state at the end of one slot in one file, so that a start need not execute every block.
//!
//! reads   snapshot files; accounts and statuses while banks go on writing them
//! writes  `DIR/SLOT.snapshot`, by way of `DIR/SLOT.part`, which becomes it only when whole and on stable storage
//! memory  a few chunks of 1 MiB; an account's data may make one 11 MiB
//! disk    the newest [`keep`](SnapshotConfig::keep), and the one being written
//! drops   a snapshot that finds no room: its part file is removed, and it is said and counted
//! source  our own format (format.rs); the tests cut files, flip bits, fill the disk
//!
//! The walk: [`Snapshots`] says when a snapshot is due; the ledger then cuts the state at a slot's end; the
//! [taker](crate::snapshot_taker) walks it shard by shard and hands it to the [`Writer`]. [`load()`] reads the newest
//! file that is whole, [`prove()`] what another node has sent. [`Manifest`] is what a file holds besides.

mod account;
mod error;
mod folder;
mod format;
mod load;
mod manifest;
mod prove;
mod schedule;
mod writer;

#[cfg(test)]
mod tests;

pub use error::{Fault, SnapshotError};
pub use folder::{Folder, SnapshotFile};
pub use format::VERSION;
pub use load::{Loaded, Summary, load, verify};
pub use manifest::Manifest;
pub use prove::prove;
pub(crate) use schedule::{Cut, Job};
pub use schedule::{SnapshotConfig, Snapshots};
pub use writer::Writer;

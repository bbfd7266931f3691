//! snapshot: the whole state at the end of a slot in one file, so that startup need not replay every block.
//!
//! reads   snapshot files; accounts and statuses while banks continue to write them
//! writes  `DIR/SLOT.snapshot`, from `DIR/SLOT.part`, which is renamed only once it is complete and durable
//! memory  a few chunks of 1 MiB; an account's data may make one 11 MiB
//! disk    the newest [`keep`](SnapshotConfig::keep), and the one being written
//! drops   a snapshot for which there is no room: its part file is removed, and the failure reported and counted
//! source  our own format (format.rs); the tests truncate files, flip bits, fill the disk
//!
//! [`Snapshots`] decides when a snapshot is due; the ledger then cuts the state at a slot's end; the
//! [taker](crate::snapshot_taker) walks it shard by shard and passes it to the [`Writer`]. [`load()`] reads the newest
//! valid file, [`prove()`] one from another node. [`Manifest`] is the rest of a file's contents.

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
pub use load::{LoadedSnapshot, Summary, load, verify};
pub use manifest::Manifest;
pub use prove::{prove, prove_on};
pub(crate) use schedule::{Cut, DueArchive, DueSnapshots, Job};
pub use schedule::{SnapshotConfig, Snapshots};
pub use writer::Writer;

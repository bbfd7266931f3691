//! The state on disk: a log of each block's changes, and now and then a checkpoint of everything, so that the log stays
//! short.
//!
//! reads   at the start: the oldest checkpoint kept and every record after it
//! writes  one record a block, in one write; checkpoints in the background
//! memory  at the start one log file; later one record, and a frame of a checkpoint
//! source  a block's record is written before anything in memory changes, so that a full disk loses nothing; it is on
//!         disk when [`Syncer::sync`] returns. A start never truncates synced records: a record says how far the log
//!         was synced when it was written

mod bytes;
mod checkpoint;
mod files;
mod log;
mod record;
#[cfg(test)]
mod tests;

pub(super) use checkpoint::{Checkpoint, write as write_checkpoint, write_entries};
pub(super) use files::Files;
pub(super) use log::Log;
pub use log::Syncer;
pub(super) use record::Record;

use std::path::Path;

use super::StateError;

/// An error of the system about a file.
fn io<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> StateError + use<'a> {
    move |source| StateError::Io { what, path: path.to_path_buf(), source }
}

/// An error about a damaged file, with the place.
fn damaged(path: &Path, offset: usize, what: impl Into<String>) -> StateError {
    StateError::Damaged { path: path.to_path_buf(), offset: offset as u64, what: what.into() }
}

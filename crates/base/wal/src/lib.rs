//! The checksummed append-only log under every store: appending, reading, and what a damaged or torn file still holds.
//!
//! A log is a file that only grows: records one behind the other, each with a checksum. The owner says how its records
//! look on disk ([`Framing`]) and what is in their bodies. This crate knows the rest:
//!
//! - [`Appender`] writes a record whole or not at all, also where the disk is full or fails.
//! - [`Walk`] reads records in order. Where the bytes are none it finds the next record behind them, and says what lies
//!   between. [`read_record`] reads one record whose place is known.
//! - [`Disk`] and [`Volume`] are what a log does to files, so that tests can put a [`faulty`] one in their place.
//! - [`files`] names, lists and locks what is in a log's folder.
//! - [`store_file`] opens, puts, renames and removes a store's files. [`mount`] lets a test replace the file system
//!   below one folder, and [`simulated`] is a disk that stands there and can lose what was never synced.
//! - [`frames`] is a framing for owners that have none, and [`pool_file`] keeps what waits in a pool.
//!
//! What a start does about bad bytes follows one rule. *Torn* is what a process or a machine left that stopped while it
//! wrote: the owner cuts it off, and nobody was told that it is there. *Damaged* is everything else: it is named and
//! never cut off. Bad bytes are damage when something says that they were once on stable storage: a record behind them,
//! or another file. Which of the two counts, the owner decides with [`Stretch`] and [`Walk::rest`].
//!
//! ```
//! use hearth_wal::{Appender, Fault, Framing, Memory, Step, Walk, crc};
//! use std::io::IoSlice;
//! use std::sync::Arc;
//!
//! /// `length u8 | crc u32 | body`.
//! #[derive(Clone, Copy)]
//! struct Small;
//!
//! impl Framing for Small {
//!     const HEAD: usize = 5;
//!
//!     fn length(&self, head: &[u8], _: u64) -> Result<u64, Fault> {
//!         Ok(5 + u64::from(head[0]))
//!     }
//!
//!     fn verify(&self, record: &[u8], at: u64) -> Result<(), Fault> {
//!         let stored = u32::from_le_bytes(*record[1..].first_chunk().expect("a head"));
//!         Fault::unless_equal(stored, crc(&[&at.to_le_bytes(), &record[5..]]))
//!     }
//! }
//!
//! let file = Arc::new(Memory::default());
//! let mut end = Appender::new(file.clone(), 0);
//! let sum = crc(&[&0u64.to_le_bytes(), b"block"]).to_le_bytes();
//! end.append(&mut [IoSlice::new(&[5]), IoSlice::new(&sum), IoSlice::new(b"block")])?;
//!
//! let mut walk = Walk::new(&*file, Small, 0, end.end());
//! assert!(matches!(walk.step()?, Step::Record { bytes, .. } if &bytes[5..] == b"block"));
//! assert!(matches!(walk.step()?, Step::End));
//! # Ok::<(), std::io::Error>(())
//! ```

mod appender;
mod disk;
pub mod faulty;
pub mod files;
pub mod frames;
mod framing;
pub mod mount;
pub mod pool_file;
pub mod simulated;
mod source;
pub mod store_file;
#[cfg(test)]
mod tests;
mod walk;

pub use appender::Appender;
pub use disk::{Disk, FileSystem, Memory, Volume, write_all};
pub use framing::{Fault, Framing, crc};
pub use source::{Source, is_blank};
pub use walk::{Step, Stretch, Walk, read_record};

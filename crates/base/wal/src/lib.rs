//! The checksummed append-only log under every store: appending, reading, and recovery of damaged or torn files.
//!
//! A log is a file that only grows: consecutive records, each with a checksum. The owner defines their format
//! ([`Framing`]) and the contents of their bodies. This crate does the rest:
//!
//! - [`Appender`] writes a record whole or not at all, also where the disk is full or fails.
//! - [`Walk`] reads records in order. After invalid bytes it finds the next record, and reports the stretch between.
//!   [`read_record`] reads one record at a known offset.
//! - [`Disk`] and [`Volume`] are the file operations of a log, which tests can replace with [`faulty`] ones.
//! - [`files`] names, lists and locks the files in a log's folder.
//! - [`store_file`] opens, replaces, renames and removes a store's files. [`mount`] lets a test replace the file system
//!   below one folder, and [`simulated`] is a disk to mount there that can lose unsynced data.
//! - [`frames`] is a framing for owners without one, and [`pool_file`] persists the waiting transactions of a pool.
//!
//! At a start, invalid bytes are handled by one rule. *Torn* bytes are what a process or machine left that stopped
//! during a write: the owner truncates them, since they were never acknowledged. *Damage* is everything else: it is
//! reported and never truncated. Invalid bytes are damage if there is evidence that they were once on stable storage: a
//! later record, or another file. The owner decides between the two with [`DamagedRange`] and [`Walk::rest`].
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
pub use walk::{DamagedRange, Step, Walk, read_record};

//! blockstore: blocks on disk, as an append-only log of checksummed records with an index.
//!
//! reads   FEC sets from the store tile; any thread reads blocks back through a [`Reader`]
//! writes  `DIR/NNNNNNNNNN.log` (segments), `DIR/NNNNNNNNNN.index` beside each, `DIR/lock`
//! memory  about 64 B per stored slot, plus 8 KiB for each slot being written (256 at most)
//! disk    at most `limit_size`: the oldest segments are dropped, each as a whole
//! drops   duplicate sets, sets of dropped slots, sets from `disable_from_slot` on: reported by [`AppendResult`]
//! source  our own format (record.rs, index.rs); the tests kill the process, flip bits and fill the disk
//!
//! Blocks are written once, in order, and dropped by age, so a log needs no compaction, no memory table and has no
//! write amplification. [`BlockStore::append_set`] is one write(2) in the caller's thread; everything that may block
//! (fdatasync, index files, deletion) is done by the store's own thread, the keeper.
//!
//! A slot is *whole* once the log holds all its sets; it is then closed by a record in the same write as its last set.
//! It is *durable* once that record and all before it are on stable storage ([`SyncPolicy`]). A kill at any time loses
//! at most the record being written, and a power failure at most what was not yet durable.

mod background;
mod entries;
mod error;
mod index;
mod open;
mod reader;
mod record;
mod scan;
mod store;
#[cfg(test)]
mod tests;

pub use background::SteppedKeeper;
pub use entries::entries;
pub use error::{Damage, Finding, StoreError};
pub use hearth_wal::Fault;
pub use open::Recovery;
pub use reader::{Block, Reader, SlotInfo};
pub use record::{FecSetRecord, SET_DATA_SIZE_MAX, VERSION, block_size};
pub use store::{AppendResult, BlockStore};

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A position in the log: segment number and byte offset in it; later appends have greater positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPosition(u64);

impl LogPosition {
    const fn new(segment: u32, offset: u32) -> Self {
        Self((segment as u64) << 32 | offset as u64)
    }

    const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    const fn to_bits(self) -> u64 {
        self.0
    }

    const fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    const fn offset(self) -> u32 {
        self.0 as u32
    }
}

/// When appended data is synced. A kill of the process never loses appended data; this is about power failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// As soon as a slot is whole. Slots that become whole during a sync wait for the next.
    EachSlot,
    /// At most this often.
    Every(Duration),
    /// Left to the kernel. A slot counts as durable once the kernel has its data.
    Kernel,
}

/// The configuration of a block store.
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum bytes on disk; at least three segments.
    pub limit_size: u64,
    /// Bytes per segment, 256 KiB to 1 GiB. The oldest segment is dropped as a whole.
    pub segment_size: u64,
    /// When data is synced.
    pub sync: SyncPolicy,
    /// Nothing is stored from this slot on (`disable_blockstore_from_slot`).
    pub disable_from_slot: Option<u64>,
    /// The chain's genesis hash. A store of another chain is refused.
    pub genesis_hash: [u8; 32],
}

/// Smallest segment size: room for a few of the longest records.
pub const SEGMENT_SIZE_MIN: u64 = 256 << 10;
/// Largest segment size: offsets have 32 bits, and a drop should free little at a time.
pub const SEGMENT_SIZE_MAX: u64 = 1 << 30;
/// Data shreds per FEC set: the increment from one set's index to the next.
const SHREDS_PER_SET: u32 = 32;
/// Minimum segments in `limit_size`: one being written, one being dropped, one to keep.
const SEGMENTS_MIN: u64 = 3;

impl Config {
    /// A store of at most `limit_size` bytes, in about 32 segments, synced as each slot becomes whole.
    pub fn new(limit_size: u64, genesis_hash: [u8; 32]) -> Self {
        let segment_size = (limit_size / 32).clamp(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX / 4);
        Self { limit_size, segment_size, sync: SyncPolicy::EachSlot, disable_from_slot: None, genesis_hash }
    }

    fn check(&self) -> Result<(), StoreError> {
        let needed = SEGMENTS_MIN * self.segment_size.max(SEGMENT_SIZE_MIN);
        let sized = (SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX).contains(&self.segment_size);
        if sized && self.limit_size >= needed {
            return Ok(());
        }
        Err(StoreError::Limit { limit_size: self.limit_size, segment_size: self.segment_size, needed })
    }
}

/// The numbers of the segment files in `dir`, ascending.
fn list_segments(dir: &Path) -> Result<Vec<u32>, StoreError> {
    numbered(dir, "log")
}

fn numbered(dir: &Path, extension: &str) -> Result<Vec<u32>, StoreError> {
    let numbers = hearth_wal::files::numbered(dir, extension).map_err(|e| StoreError::io("listing", dir, e))?;
    Ok(numbers.into_iter().filter_map(|number| number.try_into().ok()).collect())
}

fn log_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:010}.log"))
}

fn index_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:010}.index"))
}

//! history: the outcome of each transaction, on disk, searchable by signature and by address.
//!
//! reads   batches of transaction metadata from the banks, block by block; any thread queries a [`HistoryReader`]
//! writes  `DIR/NNNNNNNNNN.history` (segments of a log), `DIR/NNNNNNNNNN.table` (the sorted index of a full one)
//! memory  the index of the last segment, at most twice [`Config::segment_size`], and three times that while a segment
//!         is sealed; 256 KiB of unwritten data. On disk at most `limit_size`: the oldest segments are dropped as a
//!         whole
//! drops   nothing within the limit; batches of blocks that were never closed, when the log is reopened
//! source  our own format (record.rs, meta.rs, table.rs)
//!
//! ```text
//! bank ─ batch ─► History::append ─► log ─► the historian's thread ─► index in memory ─► tables on disk
//!                 History::close  ─┘          └─► indexed slot: the block may be called confirmed
//! ```
//!
//! The store tile appends the banks' batches as they arrive, in any order, and closes a block once it is whole in the
//! block store and all its transactions are here. Only closed blocks can be found. The transactions themselves are in
//! the block store, not here.
//!
//! A block's record is never synced before the block is: after a power failure the log ends at the last good record,
//! and the blocks after it are recorded again when startup replays them ([`History::last_slot`] says from where). Every
//! start reads the whole log: [`History::recovery`] names damaged ranges with the last block before each, so that
//! startup can replay from there. A log has one writer, which the block store's lock ensures too.

mod batch;
mod check;
mod compactor;
mod index;
mod meta;
mod open;
mod reader;
mod record;
mod recovery;
mod scan;
mod search;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use batch::{BATCH_SIZE_MAX, Batch, BatchWriter};
pub use check::check;
pub use meta::{BlockMeta, Details, DetailsParts, MetaParts, TransactionMeta, memos};
pub use reader::{AddressEntry, HistoryReader, LocatedTransaction, TransactionPosition};
pub use recovery::{Damage, HistoryCheck, Recovery};
pub use writer::History;

use std::io;
use std::path::{Path, PathBuf};

use hearth_wire::TagHasher;

/// The configuration of the log.
#[derive(Clone, Debug)]
pub struct Config {
    /// Maximum bytes of the log and its tables on disk; at least four segments.
    pub limit_size: u64,
    /// Bytes of one segment of the log, 64 KiB to 1 GiB.
    pub segment_size: u64,
    /// Whether segments are synced, each second and when they are full.
    pub sync: bool,
    /// A log of another genesis is refused.
    pub genesis_hash: [u8; 32],
}

/// Smallest segment size in bytes.
pub const SEGMENT_SIZE_MIN: u64 = 64 << 10;
/// Largest segment size in bytes: offsets in a segment have 32 bits, and one batch may exceed the size.
pub const SEGMENT_SIZE_MAX: u64 = 1 << 30;
/// Number of segments within the limit: each costs a search one lookup.
const SEGMENTS: u64 = 64;

impl Config {
    /// A log of at most `limit_size` bytes in about 64 segments and their tables.
    pub fn new(limit_size: u64, genesis_hash: [u8; 32]) -> Self {
        let segment_size = (limit_size / SEGMENTS).clamp(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX);
        let limit_size = limit_size.max(4 * segment_size);
        Self { limit_size, segment_size, sync: true, genesis_hash }
    }
}

/// The secret under which signatures and addresses are hashed, the same for a log's whole life: without it nobody can
/// make addresses that share a hash.
#[derive(Clone)]
pub struct HistoryKey(TagHasher);

impl HistoryKey {
    pub(crate) fn new(key: u64) -> Self {
        Self(TagHasher::new(key))
    }

    /// The hash of a signature.
    pub fn signature(&self, signature: &[u8; 64]) -> u64 {
        self.0.hash64(signature)
    }

    /// The hash of an address.
    pub fn address(&self, address: &[u8; 32]) -> u64 {
        self.0.hash64(address)
    }
}

/// A failure of the history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// No room on the device. The data is retained, and the same call may be retried when there is room.
    #[error(
        "no room for the transaction history in {}: {source}; free some space or lower rpc.history_limit_size",
        file.display()
    )]
    NoRoom {
        /// The file that could not grow.
        file: PathBuf,
        /// Why the file could not grow, as the system says it.
        source: io::Error,
    },
    /// Another failure of the file system.
    #[error("{doing} {}: {source}", file.display())]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file on which it failed.
        file: PathBuf,
        /// Why the operation failed, as the system says it.
        source: io::Error,
    },
    /// The log belongs to another chain.
    #[error("{} is the history of another genesis; move the folder away to begin a new one", file.display())]
    OtherChain {
        /// The path of the segment's file.
        file: PathBuf,
    },
    /// The log was written in another format.
    #[error(
        "{} is of history format {found}, this program reads {}; move the folder away to begin a new one",
        file.display(),
        record::VERSION
    )]
    Version {
        /// The path of the segment's file.
        file: PathBuf,
        /// The version of the file.
        found: u32,
    },
    /// The bytes on disk are not those that were written.
    #[error("{} at byte {offset}: {what}", file.display())]
    Corrupt {
        /// The path of the damaged file: a segment's or a table's.
        file: PathBuf,
        /// Offset of the damage.
        offset: u64,
        /// The kind of damage.
        what: &'static str,
    },
}

impl HistoryError {
    fn io(doing: &'static str, file: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let file = file.to_path_buf();
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::NoRoom { file, source },
            _ => Self::Io { doing, file, source },
        }
    }
}

/// The numbers of the segments in `dir`, ascending.
fn list_segments(dir: &Path) -> Result<Vec<u32>, HistoryError> {
    let numbers = hearth_wal::files::numbered(dir, "history").map_err(|e| HistoryError::io("listing", dir, e))?;
    Ok(numbers.into_iter().filter_map(|number| number.try_into().ok()).collect())
}

fn log_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:010}.history"))
}

fn table_path(dir: &Path, segment: u32) -> PathBuf {
    dir.join(format!("{segment:010}.table"))
}

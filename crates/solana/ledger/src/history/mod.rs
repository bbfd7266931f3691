//! history: what became of each transaction, on disk, and where to find it by signature and by address.
//!
//! reads   batches of transaction metadata from the banks, block by block; any thread asks a [`HistoryReader`]
//! writes  `DIR/NNNNNNNNNN.history` (segments of a log), `DIR/NNNNNNNNNN.table` (the sorted index of a full one)
//! memory  the index of the last segment, at most twice [`Config::segment_size`] and three times that for the moment
//!         in which a segment is sealed; 256 KiB of what is not written yet
//! disk    at most `limit_size`: the oldest segments go, whole
//! drops   nothing within the limit; batches of blocks that were never closed, when the log is opened again
//! source  our own format (record.rs, meta.rs, table.rs)
//!
//! ```text
//! bank ─ batch ─► History::append ─► log ─► the historian's thread ─► index in memory ─► tables on disk
//!                 History::close  ─┘          └─► indexed slot: the block may be called confirmed
//! ```
//!
//! The store tile appends what the banks send as it comes, in any order, and closes a block once it is whole in the
//! block store and all its transactions are here. Only a closed block is ever found. The transactions themselves
//! are in the block store and not here.
//!
//! A block's record is not brought to stable storage before the block is: after a power failure the log ends at the
//! last good record, and the blocks behind it are recorded again when they are executed at the start
//! ([`History::last_slot`] says from where). Every start reads all of the log: bytes that are not what was written are
//! named by [`History::recovery`], with the last block before them, so that the start can execute the blocks from there
//! on. One log has one writer: the block store's lock guards it too.

mod batch;
mod check;
mod historian;
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
pub use meta::{BlockMeta, Details, MetaParts, Reward, RewardKind, TransactionMeta, memos};
pub use reader::{AddressEntry, HistoryReader, Located, Place};
pub use recovery::{Checked, Damage, Recovery};
pub use writer::History;

use std::io;
use std::path::{Path, PathBuf};

use hearth_wire::TagHasher;

/// How the log is kept.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes the log and its tables may take on disk; at least four segments.
    pub limit_size: u64,
    /// Bytes of one segment of the log, 64 KiB to 1 GiB.
    pub segment_size: u64,
    /// Whether segments are brought to stable storage, each second and when they are full.
    pub sync: bool,
    /// A log of another genesis is refused.
    pub genesis_hash: [u8; 32],
}

/// The smallest segment.
pub const SEGMENT_SIZE_MIN: u64 = 64 << 10;
/// The largest: offsets in a segment are 32 bits, and one batch may go beyond.
pub const SEGMENT_SIZE_MAX: u64 = 1 << 30;
/// Segments that the limit is cut into: each costs a search one look.
const SEGMENTS: u64 = 64;

impl Config {
    /// A log of at most `limit_size` bytes in about 64 segments and their tables.
    pub fn new(limit_size: u64, genesis_hash: [u8; 32]) -> Self {
        let segment_size = (limit_size / SEGMENTS).clamp(SEGMENT_SIZE_MIN, SEGMENT_SIZE_MAX);
        let limit_size = limit_size.max(4 * segment_size);
        Self { limit_size, segment_size, sync: true, genesis_hash }
    }
}

/// The secret under which signatures and addresses are hashed, the same for a log's whole life: nobody who does not
/// know it can make addresses that share a hash.
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
    /// No room on the device. What was to be written is kept; the same call may be made again when there is room.
    #[error(
        "no room for the transaction history in {}: {source}; free some space or lower rpc.history_limit_size",
        file.display()
    )]
    NoRoom {
        /// The file that could not grow.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another failure of the file system.
    #[error("{doing} {}: {source}", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log belongs to another chain.
    #[error("{} is the history of another genesis; move the folder away to begin a new one", file.display())]
    OtherChain {
        /// The segment.
        file: PathBuf,
    },
    /// The log was written in another format.
    #[error(
        "{} is of history format {found}, this program reads {}; move the folder away to begin a new one",
        file.display(),
        record::VERSION
    )]
    Version {
        /// The segment.
        file: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Bytes on disk that are not what was written.
    #[error("{} at byte {offset}: {what}", file.display())]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong.
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

//! error: the block store's errors, each of which names the file.
//!
//! source  `std::io::ErrorKind` distinguishes a full disk from a broken one

use hearth_wal::Fault;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the block store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has the store open.
    #[error("the block store in {} is in use by process {pid}; stop it, or choose another [ledger] path", dir.display())]
    InUse {
        /// The directory of the store, which holds the lock file.
        dir: PathBuf,
        /// Contents of the lock file, or `unknown`.
        pid: String,
    },
    /// The store was written in another format.
    #[error("{} is of block store format {found}, this program reads {expected}; move the directory away to start with an empty one", file.display())]
    Version {
        /// The path of the segment file.
        file: PathBuf,
        /// The version of the file.
        found: u32,
        /// The version that this program supports.
        expected: u32,
    },
    /// The store holds blocks of another chain.
    #[error("{} holds blocks of another genesis; move the directory away, or choose another [ledger] path", file.display())]
    OtherChain {
        /// The path of the segment file.
        file: PathBuf,
    },
    /// The limits contradict each other.
    #[error("ledger.limit_size of {limit_size} bytes is too little for segments of {segment_size}: at least {needed}")]
    Limit {
        /// The configured limit, bytes.
        limit_size: u64,
        /// The configured segment size, bytes.
        segment_size: u64,
        /// The smallest limit for that segment size.
        needed: u64,
    },
    /// No room on the device, or a quota or file size limit is reached. Nothing was appended, and the same call may be
    /// retried when there is room.
    #[error("no room for blocks in {}: {source}; free some space or lower ledger.limit_size", file.display())]
    NoRoom {
        /// The file that could not grow.
        file: PathBuf,
        /// Why the file could not grow, as the system says it.
        source: io::Error,
    },
    /// The limit is reached, and the next start needs all blocks: none was dropped, and nothing was appended.
    #[error(
        "ledger.limit_size of {limit_size} bytes is reached, and the next start needs every block after slot {needed_after}, the last snapshot's; raise the limit, or make room for a snapshot"
    )]
    Held {
        /// The configured limit, bytes.
        limit_size: u64,
        /// The slot after which all blocks are needed.
        needed_after: u64,
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
    /// Data could not be synced. Data that was not durable before may be lost, so the store accepts no more.
    #[error("writing blocks to stable storage failed, the store takes no more: {0}")]
    SyncFailed(String),
    /// A set that no block can contain.
    #[error("slot {slot}, FEC set {fec_set_index}: {why}")]
    BadSet {
        /// The slot of the set's block.
        slot: u64,
        /// Index of the set's first data shred in the block.
        fec_set_index: u32,
        /// The rule that the set violates.
        why: &'static str,
    },
    /// The bytes on disk are not those that were written.
    #[error("{0}")]
    Corrupt(Damage),
}

impl StoreError {
    pub(super) fn io(doing: &'static str, file: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let file = file.to_path_buf();
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::NoRoom { file, source },
            _ => Self::Io { doing, file, source },
        }
    }
}

/// A damaged range of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The path of the segment file.
    pub file: PathBuf,
    /// Offset of the first wrong record, bytes.
    pub offset: u64,
    /// Bytes from there to the next record that verifies, or to the end of the file.
    pub length: u64,
    /// The kind of damage.
    pub what: Finding,
}

/// The kind of damage at a place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A record fails verification.
    Record(Fault),
    /// The segment's file ends before data that was durable.
    Cut,
    /// The whole segment file is missing, between its neighbours or at the end.
    MissingSegment,
    /// Sets of a slot are missing although its closing record exists.
    MissingSets {
        /// The slot that lacks sets.
        slot: u64,
        /// Number of its sets that are in the log.
        found: u32,
        /// Number of sets according to its closing record.
        written: u32,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, length, what } = self;
        write!(f, "{} at byte {offset} ({length} bytes): ", file.display())?;
        match what {
            Finding::Record(fault) => write!(f, "{fault}"),
            Finding::Cut => write!(f, "the file ends here, and what is missing was on stable storage"),
            Finding::MissingSegment => write!(f, "the segment file is missing"),
            Finding::MissingSets { slot, found, written } => {
                write!(f, "slot {slot} has {found} of the {written} FEC sets that were written")
            }
        }
    }
}

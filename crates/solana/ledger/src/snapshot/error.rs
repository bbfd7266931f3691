//! error: what can go wrong with a snapshot, each naming the file.
//!
//! reads   nothing
//! writes  nothing
//! memory  none
//! source  `std::io::ErrorKind` tells a full disk from a broken one

use std::io;
use std::path::{Path, PathBuf};

/// A failure of a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// No room on the device (or a quota, or a limit on file size).
    #[error("no room for a snapshot in {}: {source}; free some space, or set another snapshots.path", file.display())]
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
    /// The file was written in another format.
    #[error("{} is of snapshot format {found}, this program reads {expected}", file.display())]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// The file is of another chain.
    #[error("{} is a snapshot of another chain", file.display())]
    OtherChain {
        /// The file.
        file: PathBuf,
    },
    /// The file is not what was written.
    #[error("{} is damaged at byte {offset}: {fault}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Offset of the first wrong chunk, bytes.
        offset: u64,
        /// What is wrong.
        fault: Fault,
    },
    /// The block at whose end it was cut cannot be read back.
    #[error("the snapshot of slot {slot} lacks its block's id: {source}")]
    Block {
        /// The slot.
        slot: u64,
        /// Why.
        source: Box<crate::blockstore::StoreError>,
    },
    /// The block at whose end it was cut is on a fork that was left.
    #[error("the block of slot {slot} is on a fork that was left")]
    Undone {
        /// The slot.
        slot: u64,
    },
    /// The node stops: the snapshot is not finished.
    #[error("{} was not finished: the node stops", file.display())]
    Stopped {
        /// The file.
        file: PathBuf,
    },
}

/// What is wrong with a place in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file ends within a chunk, or before its last.
    #[error("the file is cut off")]
    Cut,
    /// The bytes that begin every chunk are not there.
    #[error("no chunk begins here")]
    Magic,
    /// A chunk of a kind, or of a size, that there is not.
    #[error("impossible chunk header")]
    Header,
    /// A chunk that belongs elsewhere.
    #[error("chunk {found} where chunk {expected} should be")]
    Order {
        /// The chunk's own number.
        found: u32,
        /// Its place in the file.
        expected: u32,
    },
    /// A chunk's checksum differs.
    #[error("checksum mismatch: {stored:08x} is written, {computed:08x} was computed")]
    Checksum {
        /// As the header has it.
        stored: u32,
        /// Of the bytes found.
        computed: u32,
    },
    /// A chunk's checksum is right, but the content is not of this format.
    #[error("malformed content: {0}")]
    Content(&'static str),
    /// The digest over all chunks differs.
    #[error("the digest over all chunks is not the one that was written")]
    Digest,
    /// The sums over all accounts differ.
    #[error("{found_accounts} accounts with {found_lamports} lamports, written were {accounts} with {lamports}")]
    Sums {
        /// Accounts found.
        found_accounts: u64,
        /// Their lamports.
        found_lamports: u128,
        /// Accounts written.
        accounts: u64,
        /// Their lamports.
        lamports: u128,
    },
}

impl SnapshotError {
    pub(super) fn io(doing: &'static str, file: &Path, source: io::Error) -> Self {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let file = file.to_path_buf();
        match source.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::NoRoom { file, source },
            _ => Self::Io { doing, file, source },
        }
    }

    pub(super) fn damaged(file: &Path, offset: u64, fault: Fault) -> Self {
        Self::Damaged { file: file.to_path_buf(), offset, fault }
    }
}

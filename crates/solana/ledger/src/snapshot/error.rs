//! error: the errors of snapshots, each of which names the file.
//!
//! source  `std::io::ErrorKind` distinguishes a full disk from a broken one

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
    /// The file was written in another format.
    #[error("{} is of snapshot format {found}, this program reads {expected}", file.display())]
    Version {
        /// The path of the snapshot.
        file: PathBuf,
        /// The version of the file.
        found: u32,
        /// The version that this program supports.
        expected: u32,
    },
    /// The file belongs to another chain.
    #[error("{} is a snapshot of another chain", file.display())]
    OtherChain {
        /// The path of the snapshot.
        file: PathBuf,
    },
    /// The file is not as it was written.
    #[error("{} is damaged at byte {offset}: {fault}", file.display())]
    Damaged {
        /// The path of the snapshot.
        file: PathBuf,
        /// Offset of the first wrong chunk, bytes.
        offset: u64,
        /// The kind of damage.
        fault: Fault,
    },
    /// The snapshot's block cannot be read back.
    #[error("the snapshot of slot {slot} lacks its block's id: {source}")]
    Block {
        /// The slot at whose end the state was captured.
        slot: u64,
        /// The block store's error.
        source: Box<crate::blockstore::StoreError>,
    },
    /// The snapshot's block is on an abandoned fork.
    #[error("the block of slot {slot} is on a fork that was left")]
    Undone {
        /// The slot at whose end the state was captured.
        slot: u64,
    },
    /// The node is stopping: the snapshot is not finished.
    #[error("{} was not finished: the node stops", file.display())]
    Stopped {
        /// The path under which it was being written.
        file: PathBuf,
    },
}

/// The kind of damage in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The file ends within a chunk, or before its last.
    #[error("the file is cut off")]
    Cut,
    /// The magic bytes of a chunk are missing.
    #[error("no chunk begins here")]
    Magic,
    /// A chunk's kind or size is invalid.
    #[error("impossible chunk header")]
    Header,
    /// A chunk is out of order.
    #[error("chunk {found} where chunk {expected} should be")]
    Order {
        /// The chunk's own number.
        found: u32,
        /// Its position in the file.
        expected: u32,
    },
    /// A chunk's checksum differs.
    #[error("checksum mismatch: {stored:08x} is written, {computed:08x} was computed")]
    Checksum {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the stored bytes.
        computed: u32,
    },
    /// A chunk's checksum is right, but its content does not decode.
    #[error("malformed content: {0}")]
    Content(&'static str),
    /// The digest over all chunks differs.
    #[error("the digest over all chunks is not the one that was written")]
    Digest,
    /// The sums over all accounts differ.
    #[error("{found_accounts} accounts with {found_lamports} lamports, written were {accounts} with {lamports}")]
    Sums {
        /// Accounts in the file.
        found_accounts: u64,
        /// Sum of these accounts' lamports.
        found_lamports: u128,
        /// Accounts according to the last chunk.
        accounts: u64,
        /// Lamports according to the last chunk.
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

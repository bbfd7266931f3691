//! error: why an archive is refused.
//!
//! source  the checks that `agave-snapshots` and `solana-runtime` 4.2 make when they load one, and those of this reader

use std::io;
use std::path::{Path, PathBuf};

use hearth_wire::Hash;
use hearth_wire::base58::encode_32;

/// A failure that names its archive.
#[derive(Debug, thiserror::Error)]
#[error("{}: {fault}", file.display())]
pub struct ArchiveError {
    /// The path of the archive, or of the file or folder on which the system failed.
    pub file: PathBuf,
    /// A description of the fault.
    pub fault: Fault,
}

impl ArchiveError {
    /// Names the archive in which `fault` was found.
    pub fn of(file: &Path, fault: Fault) -> Self {
        Self { file: file.to_path_buf(), fault }
    }
}

/// A fault of an archive, or the reason why it cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The file's name does not say which snapshot it is.
    #[error("the name is neither snapshot-SLOT-HASH.tar.zst nor incremental-snapshot-BASE-SLOT-HASH.tar.zst")]
    Name,
    /// The archive is packed with another compressor.
    #[error("archives packed with lz4 are not read; ask for one of type .tar.zst")]
    Lz4,
    /// The system refused a read.
    #[error("cannot be read: {0}")]
    Read(io::Error),
    /// The system refused a write.
    #[error("cannot be written: {0}")]
    Write(io::Error),
    /// The archive ends too early.
    #[error("the archive is cut off")]
    Cut,
    /// The compressed data is damaged.
    #[error("damaged: {0}")]
    Packing(io::Error),
    /// A header of the tar is malformed.
    #[error("damaged: a file's header in the archive is malformed")]
    Header,
    /// The archive holds a file that no snapshot has, by its name or kind, or holds a file twice.
    #[error("it holds {name:?}, which {why}")]
    Entry {
        /// The entry's name, made printable.
        name: String,
        /// Why it may not be there.
        why: &'static str,
    },
    /// The archive lacks a file that every snapshot has.
    #[error("it lacks {0}")]
    Missing(&'static str),
    /// The archive has more of something than the reader accepts.
    #[error("it has more {what} than {most}, the most that is read")]
    TooLarge {
        /// The things that are too many, e.g. "accounts".
        what: &'static str,
        /// The most that the reader accepts, in that unit.
        most: u64,
    },
    /// The archive has another version of the format.
    #[error("the snapshot's version is {0:?}, this program reads 1.2.0")]
    Version(String),
    /// A value is impossible, or a length reaches beyond its container.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// The account files are not those that the bank's fields list.
    #[error("the account file of slot {slot} {why}")]
    Storage {
        /// The slot in the file's name.
        slot: u64,
        /// A description of the fault.
        why: &'static str,
    },
    /// Two places name different slots.
    #[error("{place} is of slot {found}, the archive's name says {expected}")]
    Slot {
        /// The part of the archive that names the slot.
        place: &'static str,
        /// The slot that this place names.
        found: u64,
        /// The slot in the archive's name.
        expected: u64,
    },
    /// A hash differs from the one that was computed.
    #[error("{what} is {}, computed was {}", encode_32(found), encode_32(computed))]
    Hash {
        /// The hash as the message names it, e.g. "the bank's hash".
        what: &'static str,
        /// The hash that the archive states.
        found: Hash,
        /// The hash of the archive's contents.
        computed: Hash,
    },
    /// The lamports of all accounts are not the capitalization.
    #[error("the capitalization is {found} lamports, the accounts have {computed}")]
    Capitalization {
        /// The capitalization that the archive states.
        found: u64,
        /// The sum of the lamports of all accounts.
        computed: u128,
    },
    /// The incremental archive builds on another full one.
    #[error("it builds on the snapshot of slot {base}, not on that of slot {full}")]
    Base {
        /// The base of the incremental archive.
        base: u64,
        /// The slot of the full archive.
        full: u64,
    },
    /// The archive on which a new one is to build is not of an earlier slot.
    #[error("it is of slot {base}, and not of an earlier slot than the state to be written, which is of slot {slot}")]
    NotEarlier {
        /// The slot of the archive.
        base: u64,
        /// The slot of the state.
        slot: u64,
    },
    /// A configured hard fork is at or before the bank's slot, and the bank was made without it.
    #[error(
        "the bank has hard forks at {}, this node is configured with {} (consensus.hard_forks)",
        list(found),
        list(configured)
    )]
    HardForks {
        /// The slots of the bank's hard forks.
        found: Vec<u64>,
        /// The slots of the forks that are configured.
        configured: Vec<u64>,
    },
    /// The archive is of another chain.
    #[error("it is of another chain: {0} differs")]
    OtherChain(&'static str),
    /// The transaction statuses of the last blocks, which an archive must hold, are not known.
    #[error("cannot be written: {0}")]
    Transactions(String),
}

fn list(slots: &[u64]) -> String {
    match slots {
        [] => String::from("no slot"),
        slots => format!("slots {}", slots.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl Fault {
    /// The fault behind an error of reading and unpacking.
    pub(super) fn reading(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Cut,
            // Errors of the unpacker itself have no OS error number.
            _ if error.raw_os_error().is_some() => Self::Read(error),
            _ => Self::Packing(error),
        }
    }
}

//! What can go wrong with the state.

use std::path::PathBuf;

use alloy_primitives::{Address, B256};

/// An error of the state, and its place.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file could not be read or written. Nothing that was reported as synced is lost by it.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// The operation that failed: "cannot write".
        what: &'static str,
        /// The file that could not be read or written.
        path: PathBuf,
        /// Why it failed, as the operating system says it.
        source: std::io::Error,
    },
    /// A file is damaged.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The path of the damaged file.
        path: PathBuf,
        /// The offset of the damaged record, in bytes.
        offset: u64,
        /// The fault that was found there.
        what: String,
    },
    /// The files are those of a chain with another genesis.
    #[error("{} holds a chain whose genesis is {found}; this genesis is {expected}", path.display())]
    OtherChain {
        /// The file that names the other genesis.
        path: PathBuf,
        /// The hash of block zero in the file.
        found: B256,
        /// The hash of block zero that was given.
        expected: B256,
    },
    /// Another process uses the files.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// There is a state where a new one was to be made.
    #[error("{} already has a state; give an empty directory", .0.display())]
    NotEmpty(PathBuf),
    /// An entry that cannot be in a state.
    #[error("a state cannot have {0}")]
    BadEntry(String),
    /// A block that is not the head's successor.
    #[error("block {number} cannot follow block {head}")]
    NotNext {
        /// The height of the refused block.
        number: u64,
        /// The height of the head.
        head: u64,
    },
    /// A block whose state is no longer kept, or not there yet.
    #[error("the state of block {number} is not kept; blocks {oldest} to {head} are")]
    NotKept {
        /// The height of the requested state.
        number: u64,
        /// The oldest block whose state is kept.
        oldest: u64,
        /// The height of the newest block.
        head: u64,
    },
    /// The state of this block is readable, but the nodes of its tries are not kept any more: it can neither be proven
    /// nor changed hypothetically.
    #[error("the trie nodes of block {0} are not kept any more")]
    NoProofs(u64),
    /// A change sets a code by its hash alone, and the code has never been seen.
    #[error("the code {hash} of account {address} is unknown")]
    UnknownCode {
        /// The account that would have the code.
        address: Address,
        /// The hash of its code.
        hash: B256,
    },
    /// No code has this hash.
    #[error("no code has the hash {0}")]
    NoCode(B256),
}

impl revm::database_interface::DBErrorMarker for StateError {}

//! Recorded sessions: what a node of a cluster received from the network, so that the node can be run again with it.
//!
//! reads   the queue of a [`Tap`], the ledger's roots; a folder of a session
//! writes  a folder of a session: [`mod@format`] has the packets, [`folder`] the files that the node began with
//! memory  the queue; a chunk of the file; at the end of a recording, and in a replay, all packets
//! drops   none without a word: a session that lacks a packet says so, and a replay refuses it
//!
//! A session begins with a new ledger folder: a genesis and what was downloaded beside it, no block and no vote of the
//! node's own. It ends with the node, after a number of slots, or at a limit of bytes. `crates/solana/sim` replays it.

pub mod folder;
pub mod format;
pub mod recorder;
pub mod sets;

use std::path::PathBuf;

use hearth_crypto::sha256::sha256;
use hearth_pipeline::capture::Tap;
use hearth_pipeline::repair::nonce::NonceKey;

use format::FormatError;

pub use recorder::Capture;

/// Why a session cannot be recorded, or not be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The node is alone, so that it receives nothing.
    #[error("a session is that of a node in a cluster: `development.capture.folder` needs `gossip.enabled`")]
    Alone,
    /// The node has blocks or votes already, which a replay would not have.
    #[error("a recorded session begins with a new ledger folder, and {} has blocks or votes: name another", .0.display())]
    NotNew(PathBuf),
    /// The session's folder has files.
    #[error("{} is not empty: a recorded session needs a folder of its own", .0.display())]
    NotEmpty(PathBuf),
    /// The node keeps its own files in the session's folder, or below it.
    #[error("the ledger or its snapshots are in {}: a recorded session needs a folder of its own", .0.display())]
    Shared(PathBuf),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The operation that failed: `read`, `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why that failed, as the system says it.
        source: std::io::Error,
    },
    /// The file of the packets is damaged.
    #[error("{}: {why}", path.display())]
    Format {
        /// The path of the file of packets.
        path: PathBuf,
        /// The fault, and its place in the file.
        why: FormatError,
    },
}

/// The additional settings of the tiles of a recorded node, or of its replay.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Draws the secrets of all tiles, so that a replay has the same ones.
    pub seed: [u8; 32],
    /// Copies what the node receives; `None` in a replay.
    pub tap: Option<Tap>,
}

/// The secret by which repair and shred recognize responses, in a session with this seed.
pub fn nonces(seed: &[u8; 32]) -> NonceKey {
    NonceKey(sha256(&[seed, b"nonces"]))
}

#[cfg(test)]
mod set_tests;
#[cfg(test)]
mod tests;

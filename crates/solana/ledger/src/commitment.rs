//! Commitment levels: how certain it is that a block stays on the chain.
//!
//! A block in progress is processed. It is confirmed once it is durable on disk and the node has voted for it, and
//! final once its votes have made it their root, or, if the node does not vote, once the chain is confirmed 32 slots
//! further. Where forks are kept, consensus decides both.

use serde::{Deserialize, Serialize};

/// Slots from confirmed to final, for a node that does not vote.
pub const SLOTS_TO_FINAL: u64 = 32;

/// The certainty that an answer must have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Commitment {
    /// Executed, in a block that may not have ended.
    Processed,
    /// In a block that is durable, or that consensus has confirmed.
    Confirmed,
    /// In a block that is 32 slots deep, or rooted by votes.
    #[default]
    Finalized,
}

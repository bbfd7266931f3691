//! How sure it is that a block stays.
//!
//! A block in the making is processed; it is confirmed once it is durable on disk and the node has voted
//! for it, and final once its votes have made it their root, or, where the node does not vote, once the
//! chain is confirmed 32 slots further. Where forks are kept, consensus says both.

use serde::{Deserialize, Serialize};

/// Slots from confirmed to final.
pub const SLOTS_TO_FINAL: u64 = 32;

/// How sure an answer shall be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Commitment {
    /// Executed, in a block that may not have ended.
    Processed,
    /// In a block that is durable.
    Confirmed,
    /// 32 slots further.
    #[default]
    Finalized,
}

//! error: why shreds do not form a set, or sets do not form a slot.

use hearth_crypto::reed_solomon::ReedSolomonError;
use hearth_wire::shred::ShredError;
use thiserror::Error;

/// Why a shred or a set was refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DeshredError {
    /// The shred belongs to another slot.
    #[error("a shred of slot {0}")]
    Slot(u64),
    /// The shred breaks the rules of sets.
    #[error(transparent)]
    Shred(#[from] ShredError),
    /// Its root, signature, version or chained root differs from that of the set's first shred.
    #[error("contradicts the shreds of its set that came before")]
    Conflict,
    /// The recovered shreds do not hash to the root, or do not belong to this set.
    #[error("set {0} does not recover to what was signed")]
    Recovered(u32),
    /// A set is chained to another root than that of the previous set.
    #[error("set {0} is not chained to the set before")]
    Chain(u32),
    /// The erasure code failed, which cannot happen for shreds that parse.
    #[error(transparent)]
    Code(#[from] ReedSolomonError),
}

//! Why shreds do not make a set, or sets a slot.

use hearth_crypto::reed_solomon::ReedSolomonError;
use hearth_wire::shred::ShredError;
use thiserror::Error;

/// Why a shred or a set was refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DeshredError {
    /// A shred of another slot.
    #[error("a shred of slot {0}")]
    Slot(u64),
    /// A shred that breaks the rules for sets.
    #[error(transparent)]
    Shred(#[from] ShredError),
    /// A root, signature, version or chained root other than that of the set's first shred.
    #[error("contradicts the shreds of its set that came before")]
    Conflict,
    /// The shreds recovered do not hash to the root, or are no shreds of this set.
    #[error("set {0} does not recover to what was signed")]
    Recovered(u32),
    /// A set is chained to a root other than that of the set before.
    #[error("set {0} is not chained to the set before")]
    Chain(u32),
    /// The erasure code refused; it does not, for shreds that parse.
    #[error(transparent)]
    Code(#[from] ReedSolomonError),
}

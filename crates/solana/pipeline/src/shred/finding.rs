//! finding: what a shred reveals besides its own bytes: void blocks, and leaders that equivocate.
//!
//! memory  two shreds per contradiction
//! drops   nothing: the receiver limits how many are noted

/// A side effect of receiving a shred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The slot has started: void what the store holds of it from before a restart. Otherwise an equivocating leader
    /// could get sets of both blocks stored.
    Begun(u64),
    /// The slot was evicted after sets of it were handed out: void them for the same reason.
    Evicted(u64),
    /// The slot's sets so far belong to two blocks: void those that were kept.
    Torn(u64),
    /// The slot's leader has contradicted itself.
    Contradiction(Conflict),
}

/// The shred that the received one contradicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContradictedShred {
    /// A shred of a set that is in memory, in its wire bytes.
    Shred(Vec<u8>),
    /// A data shred of a stored set.
    Stored {
        /// Index of the set.
        set_index: u32,
        /// Index of the shred in the set.
        place: usize,
    },
}

/// Proof that a leader has contradicted itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The slot of both shreds.
    pub slot: u64,
    /// The received shred, which was refused.
    pub theirs: Vec<u8>,
    /// The shred that it contradicts.
    pub ours: ContradictedShred,
}

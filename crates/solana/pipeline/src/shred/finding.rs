//! What shreds show beside themselves: blocks that are void, and leaders that have made two.
//!
//! memory  two shreds of a contradiction
//! drops   nothing: how many are noted is for whoever notes them

/// What a shred shows beside itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The slot has begun: whatever is stored of it came before a start, and is void. A leader that made two blocks
    /// could otherwise have sets of both stored.
    Begun(u64),
    /// The slot had to make room, and sets of it were handed out: they are void for the same reason.
    Evicted(u64),
    /// The slot's sets so far are of two blocks: what was kept of it is void.
    Torn(u64),
    /// The slot's leader has contradicted itself.
    Contradiction(Conflict),
}

/// The other shred of a contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ours {
    /// Here it is.
    Shred(Vec<u8>),
    /// A data shred of a set that is stored.
    Stored {
        /// The set.
        set_index: u32,
        /// The shred's place in it.
        place: usize,
    },
}

/// A leader's contradiction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The slot.
    pub slot: u64,
    /// The shred that was not taken.
    pub theirs: Vec<u8>,
    /// The one that it contradicts.
    pub ours: Ours,
}

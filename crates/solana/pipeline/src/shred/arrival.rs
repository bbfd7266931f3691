//! How a shred came, and why one is not taken.

/// Where a shred came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShredSource {
    /// Down the tree.
    Turbine,
    /// It was asked for.
    Repair,
}

/// Where a shred came from, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub source: ShredSource,
    pub now_ns: u64,
}

/// Why a shred was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No shred.
    Malformed,
    /// Of another chain.
    Version,
    /// Too far ahead.
    Ahead,
    /// Final already, or of a parent that cannot be.
    Old,
    /// It breaks the rules of sets.
    Rules,
    /// Its slot's leader is not known.
    NoLeader,
    /// This node leads its slot.
    Own,
    /// There already.
    Duplicate,
    /// The proof leads to no root.
    Proof,
    /// The leader did not sign the root.
    Signature,
    /// The leader signed this and something else: two blocks for a slot.
    Equivocation,
    /// There is no room for another set or slot.
    NoRoom,
    /// The set's parity is none of its data, so that only its data shreds are taken; or the set is not chained to its
    /// neighbour.
    BrokenSet,
    /// Of a block that was dumped, or not beside what is there of the one that is taken instead.
    Dumped,
    /// Who sent it on has not signed for it.
    Sender,
}

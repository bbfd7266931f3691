//! arrival: how a shred arrived, and why one is refused.

/// The origin of a shred: the tree, or a repair response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShredSource {
    /// Down the Turbine tree.
    Turbine,
    /// As the response to a repair request.
    Repair,
}

/// The origin of a shred, and its time of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub source: ShredSource,
    pub now_ns: u64,
}

/// Why a shred was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShredRefusal {
    /// It does not parse as a shred.
    Malformed,
    /// It carries another shred version.
    Version,
    /// Its slot is too far ahead.
    Ahead,
    /// Its slot is already final, or its parent is impossible.
    Old,
    /// It breaks the rules of FEC sets.
    Rules,
    /// Its slot's leader is unknown.
    NoLeader,
    /// This node leads its slot.
    Own,
    /// It is already here.
    Duplicate,
    /// Its proof leads to no Merkle root.
    Proof,
    /// The leader did not sign the root.
    Signature,
    /// The leader signed this shred and a contradictory one: two blocks for a slot.
    Equivocation,
    /// No room for another set or slot.
    NoRoom,
    /// The set's parity does not match its data, so only its data shreds are accepted; or the set is not chained to its
    /// neighbour.
    BrokenSet,
    /// It belongs to a dumped block, or is not adjacent to the stored sets of the block that replaces it.
    Dumped,
    /// The retransmitter did not sign it.
    Sender,
}

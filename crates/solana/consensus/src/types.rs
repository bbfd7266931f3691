//! What goes into consensus and what comes out of it.
//!
//! reads   nothing
//! writes  plain values
//! memory  what they hold
//! source  `docs/cluster-protocol.md` section 6

use std::fmt;

pub use hearth_wire::vote::AccountVotes;
use hearth_wire::vote::Lockout;
use hearth_wire::{Hash, Pubkey};

/// A version of a block, known by what its bank came to. The order is the cluster's for ties: lower slot, smaller hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BankId {
    /// The slot.
    pub slot: u64,
    /// The bank's hash.
    pub hash: Hash,
}

impl fmt::Debug for BankId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, ..] = self.hash;
        write!(f, "{}:{a:02x}{b:02x}", self.slot)
    }
}

/// A block that was executed to its end.
#[derive(Clone, Debug)]
pub struct FrozenBank {
    /// What it is.
    pub id: BankId,
    /// Which bank it was executed on.
    pub parent: BankId,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
    /// The node that made it.
    pub leader: Pubkey,
    /// The vote accounts that are otherwise than in the parent, as they are after it: those that voted, and at an
    /// epoch's begin those whose stake changed. For the bank that a node starts from, all.
    pub votes: Vec<AccountVotes>,
}

/// A vote to be sent: what a `TowerSync` instruction tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TowerVote {
    /// The block voted for; the tower's newest vote is for its slot.
    pub id: BankId,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
    /// The votes that bind, the oldest first.
    pub votes: Vec<Lockout>,
    /// The tower's root.
    pub root: Option<u64>,
    /// Unix time in seconds, unless it stood still or went back.
    pub timestamp: Option<i64>,
    /// Whether the fork of the last vote is left: the instruction is then `TowerSyncSwitch` with a hash of zeros.
    pub is_switch: bool,
    /// The bank whose blockhash the transaction names.
    pub blockhash_of: BankId,
}

/// What the node has to do. Actions are done in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the tower on disk, durably, and only then send the vote.
    Vote {
        /// The vote.
        vote: TowerVote,
        /// The tower's file.
        saved: Vec<u8>,
    },
    /// Send the last vote again in a new transaction: the first did not land. The tower is as it was.
    Refresh(TowerVote),
    /// Build on this bank: proof of history goes on from its last blockhash at tick height
    /// `(slot + 1) * TICKS_PER_SLOT`, and an own block under way is dropped.
    Reset(BankId),
    /// These are rooted now, the oldest first; the last one is the root. What does not descend from it is dropped.
    Root(Vec<BankId>),
    /// More than two thirds of the stake voted for this block or one above it. What is rooted is confirmed, told or
    /// not.
    Confirmed(BankId),
    /// More than two thirds of the stake have rooted this slot.
    Finalized(u64),
    /// Our version of this slot is not the cluster's: drop it and what was built on it, and get another one. Which of
    /// the others is the cluster's shows when it is executed:
    /// [`duplicate_confirmed`](crate::Consensus::duplicate_confirmed) has the hash that it must come to.
    Dump(u64),
    /// The cluster has this slot's block, here it is dead: ask others for its ancestors until enough of them agree, and
    /// tell that to [`crate::Consensus::on_ancestors`].
    AskAncestors(u64),
    /// Too few were seen to have this block of ours: send its shreds again.
    Rebroadcast(u64),
    /// Begin to make the block of `slot`.
    Begin {
        /// The slot.
        slot: u64,
        /// The bank to build on; every slot between is skipped, and its ticks come first.
        parent: BankId,
    },
}

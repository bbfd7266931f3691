//! The inputs and outputs of consensus.
//!
//! memory  what they hold
//! source  `docs/cluster-protocol.md` section 6

use std::fmt;

pub use hearth_wire::vote::AccountVotes;
use hearth_wire::vote::Lockout;
use hearth_wire::{Hash, Pubkey};

/// A version of a block, identified by its bank hash. The order is the cluster's for ties: lower slot, smaller hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BankId {
    /// The slot, which all versions of the block share.
    pub slot: u64,
    /// The bank hash, which a node knows once it has executed the block.
    pub hash: Hash,
}

impl fmt::Debug for BankId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, ..] = self.hash;
        write!(f, "{}:{a:02x}{b:02x}", self.slot)
    }
}

/// A fully executed block.
#[derive(Clone, Debug)]
pub struct FrozenBank {
    /// The block's slot and bank hash.
    pub id: BankId,
    /// The bank that the block builds on.
    pub parent: BankId,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
    /// The node that produced it.
    pub leader: Pubkey,
    /// The vote accounts that differ from the parent, in their state after the block: those that voted, and at an
    /// epoch's start those whose stake changed. For the bank that a node starts from, all.
    pub votes: Vec<AccountVotes>,
}

/// A vote to send: the contents of a `TowerSync` instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TowerVote {
    /// The block voted for; the tower's newest vote is for its slot.
    pub id: BankId,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
    /// The binding votes, the oldest first.
    pub votes: Vec<Lockout>,
    /// The slot of the tower's root, if the tower has one.
    pub root: Option<u64>,
    /// Unix time in seconds, unless the clock stood still or went back.
    pub timestamp: Option<i64>,
    /// Whether this is a switch: the instruction is then `TowerSyncSwitch` with a hash of zeros.
    pub is_switch: bool,
    /// The bank whose blockhash the transaction uses.
    pub blockhash_of: BankId,
}

/// An action for the node. Actions must be carried out in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Save the tower durably, and only then send the vote.
    Vote {
        /// The vote to send.
        vote: TowerVote,
        /// The tower's file contents.
        saved: Vec<u8>,
    },
    /// Send the last vote in a new transaction, because the first did not land. The tower is unchanged.
    Refresh(TowerVote),
    /// Build on this bank: proof of history continues from its last blockhash at tick height `(slot + 1) *
    /// TICKS_PER_SLOT`, and an own block in progress is abandoned.
    Reset(BankId),
    /// These banks are rooted, the oldest first; the last is the root. What does not descend from it is dropped.
    Root(Vec<BankId>),
    /// More than two thirds of the stake voted for this block or a descendant. What is rooted is confirmed, whether or
    /// not this was emitted.
    Confirmed(BankId),
    /// More than two thirds of the stake have rooted this slot.
    Finalized(u64),
    /// Our version of this slot is not the cluster's: dump it and its descendants, and get another one. Which of the
    /// others is the cluster's turns out when it is executed:
    /// [`duplicate_confirmed`](crate::Consensus::duplicate_confirmed) has the expected hash.
    Dump(u64),
    /// The cluster has this slot's block, which is dead here: ask others for its ancestors until enough of them agree,
    /// and pass the result to [`crate::Consensus::on_ancestors`].
    AskAncestors(u64),
    /// Our own block has reached too few: broadcast its shreds again.
    Rebroadcast(u64),
    /// Start the block of `slot`.
    Begin {
        /// The slot to start.
        slot: u64,
        /// The bank to build on; all slots in between are skipped, and their ticks come first.
        parent: BankId,
    },
}

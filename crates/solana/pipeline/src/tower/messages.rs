//! messages: the events and commands that replay and tower exchange.
//!
//! memory  the contents of a message
//! drops   nothing: each side handles all messages of the other
//!
//! Each side handles the other's messages in the order in which they were sent. A message may be older than what its
//! receiver has sent meanwhile: replay may report a block whose parent tower has just commanded to drop, for example.
//! [`Event::Dumped`] marks the point up to which that can happen.

use std::sync::Arc;

use hearth_consensus::{BankId, FrozenBank};
use hearth_ledger::epoch::EpochSchedule;
use hearth_ledger::stakes::EpochStakes;
use hearth_wire::vote::VoteTarget;
use hearth_wire::{Hash, Pubkey};

/// Maximum slots above the root for which tower tracks the store's contents: those of seven hours.
pub const SLOTS_MAX: usize = 65_536;

/// A block that replay has executed to its end: its bank no longer changes.
#[derive(Clone, Debug)]
pub struct FrozenBlock {
    /// The facts about the block that consensus needs.
    pub bank: FrozenBank,
    /// Its last entry's hash.
    pub blockhash: Hash,
    /// The authorized voter, in the block's epoch, of each account in `bank.votes` that has stake and a voter; of every
    /// such account if the block is the first of its epoch.
    pub voters: Vec<(Pubkey, Pubkey)>,
}

/// The state of ledger and store at which tower starts.
#[derive(Clone, Debug)]
pub struct Start {
    /// The ledger's last block, which is the root, with all vote accounts.
    pub block: FrozenBlock,
    /// The slots of its ancestors, as far as known.
    pub ancestors: Vec<u64>,
    /// How slots are divided into epochs.
    pub schedule: EpochSchedule,
    /// The stakes of the root's epoch, and of those whose leaders it determines.
    pub epochs: Vec<Arc<EpochStakes>>,
    /// What the store has above the root, by slot. Without it, tower could produce an own slot of the previous run
    /// again.
    pub stored: Vec<StoredBlock>,
}

/// The state of a slot in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// The slot that the store has something of.
    pub slot: u64,
    /// The slot of its parent.
    pub parent: u64,
    /// Whether the block is whole.
    pub is_whole: bool,
}

/// A report of replay to tower.
#[derive(Clone, Debug)]
pub enum Event {
    /// The stakes of an epoch became known, or replay moved to a fork with others. Precedes the blocks of the epoch.
    Epoch(Arc<EpochStakes>),
    /// A block was executed: another node's, or this node's own. Parents come first.
    Frozen(Box<FrozenBlock>),
    /// The block of a slot cannot be executed.
    Dead(u64),
    /// An own slot was retracted before poh started it, because a command of tower needs the ledger.
    Retracted(u64),
    /// [`Command::Dump`] of this slot is done: no later message is about what was dropped.
    Dumped(u64),
    /// The state of a slot in the store has changed.
    Stored(StoredBlock),
    /// The store no longer has anything of this slot.
    Voided(u64),
    /// Whether a whole block waits to be executed.
    Backlog(bool),
}

/// Tower's commands to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Build on this block from now on; an own slot that has not started is retracted.
    BuildOn(BankId),
    /// Start an own slot on this block.
    Begin {
        /// The slot to produce.
        slot: u64,
        /// The executed block to build on.
        parent: BankId,
    },
    /// This block is the root: forget what does not descend from it.
    Root(BankId),
    /// More than two thirds of the stake voted for this block or one above it.
    Confirmed(BankId),
    /// More than two thirds of the stake has rooted this slot.
    Finalized(u64),
    /// The block of this slot is not the cluster's: drop it and what was executed on it.
    Dump(u64),
    /// Another node's vote, by an account with stake: compare the hash that it names.
    Voted(VoteTarget),
}

//! messages: the events and commands that replay and tower exchange.
//!
//! memory  what a message holds
//! drops   nothing: each side handles all messages of the other
//!
//! Each side handles the other's messages in the order in which they were sent. A message may be older than what its
//! receiver has sent meanwhile: replay may report a block on one that tower has just had dropped, for example.
//! [`Event::Dumped`] says up to where that can be.

use std::sync::Arc;

use hearth_consensus::{BankId, FrozenBank};
use hearth_ledger::epoch::EpochSchedule;
use hearth_ledger::stakes::EpochStakes;
use hearth_wire::vote::Voted;
use hearth_wire::{Hash, Pubkey};

/// Slots above the root of which tower hears what the store has: those of seven hours.
pub const SLOTS_MAX: usize = 65_536;

/// A block that was executed to its end.
#[derive(Clone, Debug)]
pub struct FrozenBlock {
    /// What consensus counts of it.
    pub bank: FrozenBank,
    /// Its last entry's hash.
    pub blockhash: Hash,
    /// The authorized voter, in the block's epoch, of each account in `bank.votes` that has stake and one; of every
    /// such account where the block is the first of its epoch.
    pub voters: Vec<(Pubkey, Pubkey)>,
}

/// What tower begins with.
#[derive(Clone, Debug)]
pub struct Start {
    /// The ledger's last block, which is the root, with all vote accounts.
    pub block: FrozenBlock,
    /// The slots of its ancestors, as far as they are known.
    pub ancestors: Vec<u64>,
    /// How slots are divided into epochs.
    pub schedule: EpochSchedule,
    /// The stakes of the root's epoch and of those that its leaders are known for.
    pub epochs: Vec<Arc<EpochStakes>>,
    /// What the store has above the root, by slot. Without it an own slot of the run before could be made again.
    pub stored: Vec<StoredBlock>,
}

/// What the store has of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    /// The slot.
    pub slot: u64,
    /// The slot of its parent.
    pub parent: u64,
    /// Whether the block is whole.
    pub is_whole: bool,
}

/// What replay reports to tower.
#[derive(Clone, Debug)]
pub enum Event {
    /// The stakes of an epoch are known, or a fork that replay went to has others. Comes before blocks of the epoch.
    Epoch(Arc<EpochStakes>),
    /// A block was executed to its end: another node's, or this node's own. Parents come first.
    Frozen(Box<FrozenBlock>),
    /// The block of a slot cannot be executed.
    Dead(u64),
    /// An own slot was taken back, which proof of history had not begun: tower sent a command that the ledger is needed
    /// for.
    Retracted(u64),
    /// [`Command::Dump`] of this slot is done: no message behind this one is about what was dropped.
    Dumped(u64),
    /// What the store has of a slot has changed.
    Stored(StoredBlock),
    /// The store no longer has anything of this slot.
    Voided(u64),
    /// Whether a whole block waits to be executed.
    Backlog(bool),
}

/// What tower commands replay to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Proof of history goes on from this block; an own slot that was not begun is taken back.
    BuildOn(BankId),
    /// Begin an own slot on this block.
    Begin {
        /// The slot.
        slot: u64,
        /// The block that it is built on.
        parent: BankId,
    },
    /// This block is the root: what does not descend from it is forgotten.
    Root(BankId),
    /// More than two thirds of the stake voted for this block or one above it.
    Confirmed(BankId),
    /// More than two thirds of the stake have rooted this slot.
    Finalized(u64),
    /// The block of this slot is not the cluster's: drop it and what was executed on it.
    Dump(u64),
    /// Another node's vote, by an account with stake: compare the hash that it names.
    Voted(Voted),
}

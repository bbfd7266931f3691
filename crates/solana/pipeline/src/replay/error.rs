//! Why a block cannot be executed.
//!
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2

use hearth_ledger::{Outcome, SlotError};
use hearth_wire::entry::EntryError;

use crate::poh::check::BlockError;

/// Why a block cannot be executed: the first fault by its place in the block, once its entries and ticks are right.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The ledger does not take the block.
    #[error("slot {slot}: {source}")]
    Slot {
        /// The slot.
        slot: u64,
        /// Why.
        source: SlotError,
    },
    /// The block is no sequence of entries.
    #[error("slot {slot}: {source}")]
    Entries {
        /// The slot.
        slot: u64,
        /// Why.
        source: EntryError,
    },
    /// The block's hash chain or its ticks are wrong.
    #[error("slot {slot}: {source}")]
    Chain {
        /// The slot.
        slot: u64,
        /// Why.
        source: BlockError,
    },
    /// A signature in a block.
    #[error("slot {slot}: a transaction of the block has a wrong signature, {signature}")]
    Signature {
        /// The slot.
        slot: u64,
        /// The transaction's first signature.
        signature: String,
    },
    /// A transaction of the block does not land.
    #[error("slot {slot}: transaction {index} of the block does not land: {outcome:?}")]
    DoesNotLand {
        /// The slot.
        slot: u64,
        /// Which transaction of the block, from 0.
        index: usize,
        /// What became of it.
        outcome: Outcome,
    },
}

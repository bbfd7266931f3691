//! error: why a block cannot be executed.
//!
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2

use hearth_ledger::{Outcome, SlotError};
use hearth_wire::entry::EntryError;

use crate::poh::check::BlockError;

/// Why a block cannot be executed: the first fault in block order, once its entries and ticks are valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The ledger rejects the slot.
    #[error("slot {slot}: {source}")]
    Slot {
        /// The block's slot.
        slot: u64,
        /// The ledger's reason.
        source: SlotError,
    },
    /// The bytes are not a sequence of entries.
    #[error("slot {slot}: {source}")]
    Entries {
        /// The block's slot.
        slot: u64,
        /// The parser's reason.
        source: EntryError,
    },
    /// The hash chain or the ticks are wrong.
    #[error("slot {slot}: {source}")]
    Chain {
        /// The block's slot.
        slot: u64,
        /// The broken rule.
        source: BlockError,
    },
    /// A transaction's signature is wrong.
    #[error("slot {slot}: a transaction of the block has a wrong signature, {signature}")]
    Signature {
        /// The block's slot.
        slot: u64,
        /// The transaction's first signature.
        signature: String,
    },
    /// A transaction cannot land, or the block has no room for it.
    #[error("slot {slot}: transaction {index} of the block does not land: {outcome:?}")]
    DoesNotLand {
        /// The block's slot.
        slot: u64,
        /// Index of the transaction in the block, from 0.
        index: usize,
        /// Its outcome.
        outcome: Outcome,
    },
}

//! error: why a block cannot be executed.
//!
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2

use hearth_ledger::{Outcome, SlotError, TransactionError};
use hearth_wire::entry::{EntryError, EntryErrorKind};
use hearth_wire::txn::ParseErrorKind;

use crate::poh::check::BlockError;

/// Why a block cannot be executed: the first fault in block order, once its entries and ticks are valid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The ledger rejects the slot.
    #[error("slot {slot}: {source}")]
    Slot {
        /// The slot that the ledger rejects.
        slot: u64,
        /// Why the ledger does not begin or end the slot.
        source: SlotError,
    },
    /// The bytes are not a sequence of entries.
    #[error("slot {slot}: {source}")]
    Entries {
        /// The slot whose block does not parse.
        slot: u64,
        /// Why the bytes are no entries, from their parser.
        source: EntryError,
    },
    /// The hash chain or the ticks are wrong.
    #[error("slot {slot}: {source}")]
    Chain {
        /// The slot whose block breaks the rule.
        slot: u64,
        /// The rule of the hash chain that the block breaks.
        source: BlockError,
    },
    /// A transaction's signature is wrong.
    #[error("slot {slot}: a transaction of the block has a wrong signature, {signature}")]
    Signature {
        /// The slot whose block has the transaction.
        slot: u64,
        /// The transaction's first signature.
        signature: String,
    },
    /// A transaction cannot land, or the block has no room for it.
    #[error("slot {slot}: transaction {index} of the block does not land: {outcome:?}")]
    DoesNotLand {
        /// The slot whose block has the transaction.
        slot: u64,
        /// Index of the transaction in the block, from 0.
        index: usize,
        /// Why the transaction does not land.
        outcome: Outcome,
    },
}

impl ReplayError {
    /// The error with which Agave marks such a block as dead, as its `BlockstoreProcessorError` is printed for
    /// debugging. `None` if the block was not judged.
    pub fn cluster_name(&self) -> Option<String> {
        let invalid = |error: TransactionError| format!("InvalidTransaction({error:?})");
        match self {
            Self::Slot { .. } => None,
            Self::Entries { source, .. } => Some(match source.kind {
                EntryErrorKind::BlockMarker => "BlockComponentProcessor(BlockComponentPreMigration)".into(),
                EntryErrorKind::Truncated | EntryErrorKind::Count | EntryErrorKind::TrailingBytes => unreadable(),
                EntryErrorKind::Transaction(kind) => match kind {
                    ParseErrorKind::Truncated | ParseErrorKind::CompactU16 | ParseErrorKind::TrailingBytes => {
                        unreadable()
                    }
                    ParseErrorKind::UnsupportedVersion => invalid(TransactionError::UnsupportedVersion),
                    _ => invalid(TransactionError::SanitizeFailure),
                },
            }),
            Self::Chain { source, .. } => Some(format!("InvalidBlock({})", source.cluster_name())),
            Self::Signature { .. } => Some(invalid(TransactionError::SignatureFailure)),
            Self::DoesNotLand { outcome: Outcome::NotCommitted(error), .. } => Some(invalid(*error)),
            Self::DoesNotLand { .. } => None,
        }
    }

    /// The error, and what Agave calls it.
    pub fn with_cluster_name(&self) -> String {
        match self.cluster_name() {
            Some(name) => format!("{self} (in Agave: {name})"),
            None => self.to_string(),
        }
    }
}

fn unreadable() -> String {
    "FailedToLoadEntries(InvalidShredData)".into()
}

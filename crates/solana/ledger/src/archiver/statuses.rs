//! statuses: the transactions of the last 300 blocks as an archive has them.
//!
//! reads   the blocks; where and how each signature landed
//! memory  one block; 64 B for each transaction

use hearth_wire::entry::EntryError;
use hearth_wire::{Signature, Txn};

use crate::archive::{SLOTS_MAX, SlotStatuses};
use crate::block::BlockSummary;
use crate::blockstore::{Reader, StoreError};
use crate::status_cache::LandedStatus;

/// Why the transactions of the last 300 blocks are not known.
#[derive(Debug, thiserror::Error)]
pub enum StatusesError {
    /// A block cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A block is not a valid sequence of entries.
    #[error("slot {slot}: {source}")]
    Entries {
        /// The slot of the block.
        slot: u64,
        /// The rule that the entries violate, and where.
        source: EntryError,
    },
    /// A block is not stored, or the result of one of its transactions is not known.
    #[error(
        "an archive needs the transactions of the last 300 blocks, and those of slot {slot}, or their results, are not \
         here. A node that has joined a chain has them once it has followed 300 blocks"
    )]
    Unknown {
        /// The slot of the block.
        slot: u64,
    },
}

/// The transactions of one block. `None` if the result of one is not known.
pub(super) fn of_block<'a>(
    slot: u64,
    transactions: impl IntoIterator<Item = Txn<'a>>,
    landed: impl Fn(&Signature) -> Option<LandedStatus>,
) -> Option<SlotStatuses> {
    let with_result = |txn: Txn<'a>| {
        let status = landed(txn.first_signature())?;
        (status.slot == slot).then_some((txn, status.result))
    };
    let transactions: Vec<_> = transactions.into_iter().map(with_result).collect::<Option<_>>()?;
    Some(SlotStatuses::of_block(slot, transactions))
}

/// The transactions of the last 300 blocks up to `newest`, the oldest block first. `landed` says where and how a
/// signature landed; `reading` learns the slot of each block before that is read.
pub fn last_statuses(
    blocks: &Reader,
    newest: &BlockSummary,
    landed: impl Fn(&Signature) -> Option<LandedStatus>,
    mut reading: impl FnMut(u64),
) -> Result<Vec<SlotStatuses>, StatusesError> {
    let mut all = vec![];
    // A ledger that an archive started knows no block before that one's, but what became of their transactions.
    let (mut slot, oldest) = (newest.slot, (newest.height + 1).saturating_sub(SLOTS_MAX as u64));
    for height in (oldest..=newest.height).rev() {
        reading(slot);
        if height == 0 {
            // The genesis has none, and a chain may lack it as a block.
            all.push(SlotStatuses { slot, hashes: vec![] });
            break;
        }
        let stored = blocks.block(slot)?.ok_or(StatusesError::Unknown { slot })?;
        let entries = stored.entries().map_err(|source| StatusesError::Entries { slot, source })?;
        let transactions = entries.iter().flat_map(|entry| entry.transactions());
        all.push(of_block(slot, transactions, &landed).ok_or(StatusesError::Unknown { slot })?);
        slot = stored.info.parent_slot;
    }
    all.reverse();
    Ok(all)
}

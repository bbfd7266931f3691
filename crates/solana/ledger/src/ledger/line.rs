//! line: the blocks below the last one, as far back as they are kept.
//!
//! reads   the summaries of the line's blocks; which of them are durable, and which are rooted
//! writes  from where on they are wanted
//! memory  200 B for each block that somebody wants beyond those that are kept anyway: 512 below the oldest that may be
//!         gone back to, and all above it
//! drops   nothing

use std::sync::atomic::Ordering::Relaxed;

use super::{BlockSummary, Chain, Ledger, NO_VOTES};
use crate::commitment::{Commitment, SLOTS_TO_FINAL};

impl Ledger {
    /// The slots of the line's blocks from `slot` on, the oldest first: as far back as blocks are kept, which is 512
    /// blocks below the root, and to the root however far that is.
    pub fn line_from(&self, slot: u64) -> Vec<u64> {
        let chain = self.chain();
        let from = chain.blocks.partition_point(|block| block.slot < slot);
        chain.blocks.range(from..).map(|block| block.slot).collect()
    }

    /// The first block above the slot `after` on the way to the block of the slot `to`, and its parent. `None` where
    /// the line has no block of `to`, as while the ledger is on another fork; where `to` is not above `after`; and
    /// where the parent is no longer kept, against which there is [`Ledger::keep_line_from`].
    pub fn next_on_line(&self, after: u64, to: u64) -> Option<(BlockSummary, BlockSummary)> {
        let chain = self.chain();
        let last = chain.find(to)?;
        let at = chain.blocks.partition_point(|block| block.slot <= after);
        (1..=last).contains(&at).then(|| (chain.blocks[at], chain.blocks[at - 1]))
    }

    /// The newest block that ended and has this commitment; the oldest that is known if none has.
    pub(crate) fn block<'a>(&self, chain: &'a Chain, commitment: Commitment) -> &'a BlockSummary {
        &chain.blocks[self.position(chain, commitment)]
    }

    /// Where among the blocks the newest of this commitment is.
    pub(crate) fn position(&self, chain: &Chain, commitment: Commitment) -> usize {
        let stored = self.stored_slot.load(Relaxed).min(chain.last().slot);
        let newest = match commitment {
            Commitment::Processed => return chain.blocks.len() - 1,
            Commitment::Confirmed => stored,
            Commitment::Finalized => match self.rooted_slot.load(Relaxed) {
                NO_VOTES => stored.saturating_sub(SLOTS_TO_FINAL),
                rooted => rooted.min(stored),
            },
        };
        let after = chain.blocks.partition_point(|block| block.slot <= newest);
        after.saturating_sub(1)
    }

    /// Summaries are kept from the block of `slot` on, for who is slower than the chain, until a later slot is given.
    pub fn keep_line_from(&self, slot: u64) {
        self.wanted_from.store(slot, Relaxed);
    }
}

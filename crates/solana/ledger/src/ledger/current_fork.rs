//! current_fork: the blocks of the current fork, as far back as they are kept.
//!
//! reads   the summaries of its blocks; which of them are durable, and which are rooted
//! writes  the slot from which on a listener wants them
//! memory  200 B for each block that a listener wants beyond those that are kept anyway: 512 below the oldest possible
//!         rewind target, and all above it

use std::sync::atomic::Ordering::Relaxed;

use super::{BlockSummary, Chain, Ledger, NO_VOTES};
use crate::commitment::{Commitment, SLOTS_TO_FINAL};

impl Ledger {
    /// The slots of the current fork's blocks from `slot` on, the oldest first, as far back as blocks are kept: to the
    /// root however far that is, and 512 blocks below it.
    pub fn line_from(&self, slot: u64) -> Vec<u64> {
        let chain = self.chain();
        let from = chain.blocks.partition_point(|block| block.slot < slot);
        chain.blocks.range(from..).map(|block| block.slot).collect()
    }

    /// The first block above the slot `after` on the way to the block of slot `to`, and its parent. `None` if the
    /// current fork has no block of `to`, for instance while the ledger is on another one; if `to` is not above
    /// `after`; and if the parent is no longer kept, which [`Ledger::keep_line_from`] prevents.
    pub fn next_on_line(&self, after: u64, to: u64) -> Option<(BlockSummary, BlockSummary)> {
        let chain = self.chain();
        let last = chain.find(to)?;
        let at = chain.blocks.partition_point(|block| block.slot <= after);
        (1..=last).contains(&at).then(|| (chain.blocks[at], chain.blocks[at - 1]))
    }

    /// The newest ended block at this commitment; the oldest known if there is none.
    pub(crate) fn block<'a>(&self, chain: &'a Chain, commitment: Commitment) -> &'a BlockSummary {
        &chain.blocks[self.position(chain, commitment)]
    }

    /// The index of the newest block at this commitment.
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

    /// Keeps summaries from the block of `slot` on, for a reader slower than the chain, until a later slot is given.
    pub fn keep_line_from(&self, slot: u64) {
        self.wanted_from.store(slot, Relaxed);
    }
}

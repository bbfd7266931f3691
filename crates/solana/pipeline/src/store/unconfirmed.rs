//! unconfirmed: transaction metadata of blocks that the cluster has not confirmed.
//!
//! reads   batches of metadata: from this node's banks, and from replay for other nodes' blocks
//! writes  the batches of one block, once it is confirmed and all of them are here
//! memory  batches, [`BYTES_MAX`] at most; 64 B per block that has any
//! drops   all batches of a block if one does not fit, here or in replay: the recorder counts such blocks; a bank's
//!         batches for a block that replay has executed since: replay's batches have the same transactions
//!
//! The ledger may leave a block for another one of the same slot. The history therefore takes nothing of a block before
//! the cluster has confirmed it, and the batches wait here. It takes all transactions of a block or none, because a
//! transaction is found by its index in the block.

use std::collections::BTreeMap;

use hearth_ledger::history::Batch;

/// Maximum bytes of batches that wait for their blocks to be confirmed.
pub const BYTES_MAX: usize = 256 << 20;

/// The batches of one block.
#[derive(Debug, Default)]
struct BlockHistory {
    batches: Vec<Vec<u8>>,
    /// Number of transactions in these batches and in dropped ones.
    transactions: u64,
    /// Whether batches were dropped, here or in replay; then `batches` is empty.
    is_dropped: bool,
    /// Whether replay has executed the block: then its batches are the history, not those of a bank.
    is_replayed: bool,
}

impl BlockHistory {
    /// Bytes of its batches.
    fn size(&self) -> usize {
        self.batches.iter().map(Vec::len).sum()
    }
}

/// The batches of all unconfirmed blocks.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedBlocks {
    blocks: BTreeMap<u64, BlockHistory>,
    bytes: usize,
}

impl UnconfirmedBlocks {
    /// Starts the block of a slot that replay has executed, replacing any other block of that slot. Replay has dropped
    /// the metadata of `dropped` of its transactions.
    pub fn begin(&mut self, slot: u64, dropped: u64) {
        self.remove(slot);
        let block = BlockHistory { batches: vec![], transactions: dropped, is_dropped: dropped > 0, is_replayed: true };
        self.blocks.insert(slot, block);
    }

    /// Adds a batch of one of this node's banks. After a fork switch replay executes an own block again, while a batch
    /// of the bank may still be on its link: replay's batches win.
    pub fn add_from_bank(&mut self, batch: &[u8]) {
        let slot = Batch::read(batch).slot;
        if !self.blocks.get(&slot).is_some_and(|block| block.is_replayed) {
            self.add(batch);
        }
    }

    /// Adds a batch to its block, or drops all of the block's batches if there is no room.
    pub fn add(&mut self, batch: &[u8]) {
        let Batch { slot, count, .. } = Batch::read(batch);
        let block = self.blocks.entry(slot).or_default();
        block.transactions += u64::from(count);
        if block.is_dropped {
            return;
        }
        if self.bytes + batch.len() > BYTES_MAX {
            block.is_dropped = true;
            self.bytes -= block.size();
            block.batches = vec![];
        } else {
            self.bytes += batch.len();
            block.batches.push(batch.to_vec());
        }
    }

    /// Takes the batches of a block of `transactions` transactions, and whether they were dropped; `None` until all
    /// have arrived. Forgets the blocks of earlier slots.
    pub fn take(&mut self, slot: u64, transactions: u64) -> Option<(Vec<Vec<u8>>, bool)> {
        while let Some(earlier) = self.blocks.first_key_value().map(|(first, _)| *first).filter(|first| *first < slot) {
            self.remove(earlier);
        }
        if self.blocks.get(&slot).map_or(0, |block| block.transactions) < transactions {
            return None;
        }
        let block = self.remove(slot).unwrap_or_default();
        Some((block.batches, block.is_dropped))
    }

    fn remove(&mut self, slot: u64) -> Option<BlockHistory> {
        let block = self.blocks.remove(&slot)?;
        self.bytes -= block.size();
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(slot: u64, count: u16, size: usize) -> Vec<u8> {
        let mut bytes = slot.to_le_bytes().to_vec();
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(count.to_le_bytes());
        bytes.resize(18 + size, 1);
        bytes
    }

    #[test]
    fn complete_block_is_taken_once() {
        let mut unconfirmed = UnconfirmedBlocks::default();
        unconfirmed.add(&batch(5, 2, 10));
        assert_eq!(unconfirmed.take(5, 3), None);
        unconfirmed.add(&batch(5, 1, 0));
        unconfirmed.begin(4, 0);
        unconfirmed.add(&batch(4, 1, 0));
        assert_eq!(unconfirmed.take(5, 3), Some((vec![batch(5, 2, 10), batch(5, 1, 0)], false)));
        assert_eq!(unconfirmed.take(4, 0), Some((vec![], false)), "it was before 5");
        assert_eq!(unconfirmed.bytes, 0);
    }

    #[test]
    fn another_block_replaces_batches_of_its_slot() {
        let mut unconfirmed = UnconfirmedBlocks::default();
        unconfirmed.add(&batch(5, 9, 3));
        unconfirmed.add(&batch(5, 1, 3));
        unconfirmed.begin(5, 0);
        assert_eq!(unconfirmed.take(5, 1), None, "batches of the first block do not count");
        unconfirmed.add(&batch(5, 2, 1));
        assert_eq!(unconfirmed.take(5, 2), Some((vec![batch(5, 2, 1)], false)));
        assert_eq!(unconfirmed.bytes, 0);
    }

    #[test]
    fn replayed_block_takes_no_batch_of_a_bank() {
        let mut unconfirmed = UnconfirmedBlocks::default();
        unconfirmed.add_from_bank(&batch(5, 2, 3));
        unconfirmed.begin(5, 0);
        unconfirmed.add_from_bank(&batch(5, 1, 3));
        unconfirmed.add(&batch(5, 2, 1));
        unconfirmed.add_from_bank(&batch(5, 1, 3));
        assert_eq!(unconfirmed.take(5, 3), None, "the bank's transactions do not count");
        unconfirmed.add(&batch(5, 1, 2));
        assert_eq!(unconfirmed.take(5, 3), Some((vec![batch(5, 2, 1), batch(5, 1, 2)], false)));
        assert_eq!(unconfirmed.bytes, 0);
        unconfirmed.add_from_bank(&batch(6, 1, 3));
        assert_eq!(unconfirmed.take(6, 1), Some((vec![batch(6, 1, 3)], false)), "another own block");
    }

    #[test]
    fn batch_that_does_not_fit_drops_its_block() {
        let mut unconfirmed = UnconfirmedBlocks::default();
        unconfirmed.add(&batch(5, 1, BYTES_MAX - 100));
        unconfirmed.add(&batch(5, 2, 200));
        assert_eq!(unconfirmed.bytes, 0);
        unconfirmed.add(&batch(6, 1, 200));
        unconfirmed.add(&batch(5, 1, 0));
        assert_eq!(unconfirmed.take(5, 4), Some((vec![], true)));
        assert_eq!(unconfirmed.take(6, 1), Some((vec![batch(6, 1, 200)], false)));
    }

    #[test]
    fn metadata_that_replay_dropped_is_not_waited_for() {
        let mut unconfirmed = UnconfirmedBlocks::default();
        unconfirmed.begin(5, 3);
        assert_eq!(unconfirmed.take(5, 4), None);
        assert_eq!(unconfirmed.take(5, 3), Some((vec![], true)));
    }
}

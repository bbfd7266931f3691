//! agreed: where others make blocks too, what store must be told: what the cluster agreed on, and what became of the
//! transactions of blocks that were executed beside the tiles.
//!
//! reads   batches of metadata, from whoever executes; the newest slot that is confirmed
//! writes  the same, to the store tile
//! memory  the batches of blocks that are not confirmed, [`BYTES_MAX`] at most
//! drops   batches beyond that: their block has no history then, and is counted
//! source  –
//!
//! A block of a fork may be left and another take its slot, so what a block did is kept here until it is confirmed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hearth_ledger::history::Batch;

/// Bytes of batches that wait for their blocks to be confirmed.
pub const BYTES_MAX: usize = 256 << 20;

/// The batches of a block.
#[derive(Debug, Default)]
struct Recorded {
    batches: Vec<Vec<u8>>,
    transactions: u64,
    /// Some did not fit.
    is_lost: bool,
}

#[derive(Debug, Default)]
struct Held {
    blocks: BTreeMap<u64, Recorded>,
    bytes: usize,
}

impl Held {
    fn remove(&mut self, slot: u64) -> Option<Recorded> {
        let block = self.blocks.remove(&slot)?;
        self.bytes -= block.batches.iter().map(Vec::len).sum::<usize>();
        Some(block)
    }

    fn push(&mut self, slot: u64, batch: Vec<u8>) {
        let block = self.blocks.entry(slot).or_default();
        block.transactions += u64::from(Batch::read(&batch).count);
        if self.bytes + batch.len() > BYTES_MAX {
            block.is_lost = true;
        } else {
            self.bytes += batch.len();
            block.batches.push(batch);
        }
    }
}

/// What consensus and replay tell store.
#[derive(Default)]
pub struct Agreed {
    confirmed: AtomicU64,
    held: Mutex<Held>,
    tell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Agreed {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cluster has confirmed the block of this slot, which is on the ledger's line.
    pub fn confirm(&self, slot: u64) {
        if self.confirmed.fetch_max(slot, SeqCst) < slot
            && let Some(tell) = self.tell.get()
        {
            tell();
        }
    }

    /// Has `tell` called whenever more is confirmed. The first one given stays.
    pub(super) fn on_confirmed(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.tell.set(Box::new(tell));
    }

    /// The newest slot that is confirmed.
    pub fn confirmed(&self) -> u64 {
        self.confirmed.load(SeqCst)
    }

    /// What the transactions of a block did that was executed: of another one in this slot nothing is kept.
    pub fn record(&self, slot: u64, batches: Vec<Vec<u8>>) {
        let mut held = self.held();
        held.remove(slot);
        held.blocks.entry(slot).or_default();
        batches.into_iter().for_each(|batch| held.push(slot, batch));
    }

    /// One more batch of a block that this node makes.
    pub(super) fn add(&self, batch: &[u8]) {
        self.held().push(Batch::read(batch).slot, batch.to_vec());
    }

    /// The batches of a block, once they are of so many transactions, and whether some were lost; what is kept of
    /// blocks before it is dropped.
    pub(super) fn take(&self, slot: u64, transactions: u64) -> Option<(Vec<Vec<u8>>, bool)> {
        let mut held = self.held();
        while let Some(older) = held.blocks.first_key_value().map(|(slot, _)| *slot).filter(|older| *older < slot) {
            held.remove(older);
        }
        let is_whole = held.blocks.get(&slot).map_or(0, |block| block.transactions) >= transactions;
        if !is_whole {
            return None;
        }
        let block = held.remove(slot).unwrap_or_default();
        Some((block.batches, block.is_lost))
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
    fn a_block_is_taken_once_it_is_whole() {
        let agreed = Agreed::default();
        agreed.add(&batch(5, 2, 10));
        assert_eq!(agreed.take(5, 3), None);
        agreed.add(&batch(5, 1, 0));
        agreed.record(4, vec![batch(4, 1, 0)]);
        assert_eq!(agreed.take(5, 3), Some((vec![batch(5, 2, 10), batch(5, 1, 0)], false)));
        assert_eq!((agreed.take(4, 0), agreed.held().bytes), (Some((vec![], false)), 0), "it was before 5");
    }

    #[test]
    fn another_block_in_its_place_has_its_own() {
        let agreed = Agreed::default();
        agreed.record(5, vec![batch(5, 9, 3), batch(5, 1, 3)]);
        agreed.record(5, vec![batch(5, 2, 1)]);
        assert_eq!(agreed.take(5, 2), Some((vec![batch(5, 2, 1)], false)));
    }

    #[test]
    fn what_does_not_fit_is_lost_and_said() {
        let agreed = Agreed::default();
        agreed.record(5, vec![batch(5, 1, BYTES_MAX - 100), batch(5, 2, 200)]);
        let (kept, is_lost) = agreed.take(5, 3).unwrap();
        assert_eq!((kept.len(), is_lost, agreed.held().bytes), (1, true, 0));
        agreed.record(6, vec![batch(6, 1, 200)]);
        assert_eq!(agreed.take(6, 1), Some((vec![batch(6, 1, 200)], false)));
    }
}

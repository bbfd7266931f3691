//! The transaction history as the RPC reads it: statuses from the history, transaction bytes from the block store.
//!
//! reads   the history, the block store
//! memory  a cache of recently read blocks, [`CACHE_BYTES`] in total
//! drops   blocks that the block store has pruned

use std::collections::VecDeque;
use std::sync::Arc;

use hearth_ledger::blockstore::{Block, Reader};
use hearth_ledger::history::HistoryReader;
use hearth_wire::Txn;
use parking_lot::Mutex;

use crate::jsonrpc::Failure;

/// Size of the block cache: eight of the largest blocks.
const CACHE_BYTES: usize = 64 << 20;

/// The history joined with the block store.
pub struct HistoryView {
    /// Statuses and metadata of transactions.
    pub log: HistoryReader,
    blocks: Reader,
    cache: Mutex<VecDeque<Arc<StoredBlock>>>,
}

/// A block's transactions, in order.
pub struct StoredBlock {
    slot: u64,
    data: Vec<u8>,
    /// Byte range of each transaction.
    transactions: Vec<(u32, u32)>,
}

impl StoredBlock {
    /// The wire bytes of transaction `index`.
    pub fn transaction(&self, index: usize) -> Option<&[u8]> {
        let (start, end) = *self.transactions.get(index)?;
        Some(&self.data[start as usize..end as usize])
    }

    /// The number of transactions.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    fn size(&self) -> usize {
        self.data.len() + self.transactions.len() * size_of::<(u32, u32)>()
    }
}

impl HistoryView {
    /// Joins a history with a block store.
    pub fn new(log: HistoryReader, blocks: Reader) -> Self {
        Self { log, blocks, cache: Mutex::default() }
    }

    /// The transactions of a block; `None` if the block is missing or pruned.
    pub fn block(&self, slot: u64) -> Result<Option<Arc<StoredBlock>>, Failure> {
        let block = self.block_unkept(slot)?;
        if let Some(block) = &block {
            self.keep(Arc::clone(block));
        }
        Ok(block)
    }

    /// [`HistoryView::block`] without the cache, for scans that read each block once.
    pub fn block_unkept(&self, slot: u64) -> Result<Option<Arc<StoredBlock>>, Failure> {
        if let Some(block) = self.cached(slot) {
            return Ok(Some(block));
        }
        let read = self.blocks.block(slot).map_err(|error| Failure::stored("a block cannot be read", error))?;
        let Some(block) = read.filter(|block| block.info.whole) else { return Ok(None) };
        let transactions =
            transactions(&block).ok_or_else(|| Failure::internal(format!("block {slot} does not decode")))?;
        Ok(Some(Arc::new(StoredBlock { slot, data: block.data, transactions })))
    }

    fn cached(&self, slot: u64) -> Option<Arc<StoredBlock>> {
        let mut cache = self.cache.lock();
        let at = cache.iter().position(|block| block.slot == slot)?;
        let block = cache.remove(at)?;
        cache.push_front(block.clone());
        Some(block)
    }

    fn keep(&self, block: Arc<StoredBlock>) {
        let mut cache = self.cache.lock();
        cache.retain(|other| other.slot != block.slot);
        cache.push_front(block);
        while cache.len() > 1 && cache.iter().map(|block| block.size()).sum::<usize>() > CACHE_BYTES {
            cache.pop_back();
        }
    }
}

/// The byte range of each transaction in a block's data.
fn transactions(block: &Block) -> Option<Vec<(u32, u32)>> {
    let mut found = vec![];
    for entry in block.entries().ok()? {
        let mut left = entry.transaction_bytes();
        let mut at = left.as_ptr() as usize - block.data.as_ptr() as usize;
        while !left.is_empty() {
            let length = Txn::parse_prefix(left).ok()?.bytes().len();
            found.push((at as u32, (at + length) as u32));
            (at, left) = (at + length, &left[length..]);
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_ledger::blockstore::{self, BlockStore, FecSetRecord, SlotInfo};
    use hearth_ledger::history::{self, History};
    use hearth_wire::TransferTemplate;
    use hearth_wire::entry::{write_batch_header, write_entry};

    #[test]
    fn a_damaged_store_names_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let (blocks, log) = (folder.path().join("blocks"), folder.path().join("history"));
        let (mut store, _) = BlockStore::open(&blocks, blockstore::Config::new(64 << 20, [1; 32])).unwrap();
        let history = History::open(&log, history::Config::new(64 << 20, [1; 32]), 0).unwrap();
        let data = [0xc7; 1_000];
        let set = FecSetRecord {
            slot: 1,
            parent_slot: 0,
            fec_set_index: 0,
            reference_tick: 0,
            last_in_slot: true,
            ends_batch: None,
            merkle_root: [2; 32],
            chained_root: [3; 32],
            signature: [4; 64],
            data: &data,
        };
        store.append_set(&set).unwrap();
        let view = HistoryView::new(history.reader(), store.reader());
        let mut damaged = 0;
        for entry in std::fs::read_dir(&blocks).unwrap() {
            let path = entry.unwrap().path();
            let Ok(mut bytes) = std::fs::read(&path) else { continue };
            if let Some(at) = bytes.windows(100).position(|window| window == &data[..100]) {
                bytes[at] ^= 1;
                std::fs::write(&path, bytes).unwrap();
                damaged += 1;
            }
        }
        assert_eq!(damaged, 1);
        let failure = view.block(1).err().expect("the block is damaged");
        assert_eq!(failure.code(), -32603);
        let (message, name) = (failure.message(), folder.path().file_name().unwrap().to_str().unwrap());
        assert!(message.starts_with("Internal error: a block cannot be read (fault "), "{message}");
        assert!(!message.contains('/') && !message.contains(name) && !message.contains("blocks"), "{message}");
    }

    #[test]
    fn finds_the_transactions_of_every_batch() {
        let mut template = TransferTemplate::new();
        let mut transfer = |lamports| {
            template.set_lamports(lamports);
            template.bytes().to_vec()
        };
        let (first, second, third) = (transfer(1), transfer(2), transfer(3));
        let mut data = vec![];
        write_batch_header(2, &mut data);
        write_entry(1, &[1; 32], 2, &[first.clone(), second.clone()].concat(), &mut data);
        write_entry(1, &[2; 32], 0, &[], &mut data);
        let first_end = data.len();
        write_batch_header(1, &mut data);
        write_entry(1, &[3; 32], 1, &third, &mut data);
        let with_more = [&data[..first_end], b"ignored", &data[first_end..]].concat();
        let ends = vec![first_end as u32 + 7, with_more.len() as u32];
        // Blocks of an older store do not say where their batches end.
        for (data, batch_ends) in [(data, None), (with_more, Some(ends))] {
            let info = SlotInfo { slot: 1, parent_slot: 0, set_count: 1, whole: true, place: 0 };
            let block = Block { info, block_id: [0; 32], data, batch_ends };
            let transactions = transactions(&block).unwrap();
            let block = StoredBlock { slot: 1, transactions, data: block.data };
            assert_eq!(block.len(), 3);
            let found: Vec<_> = (0..3).map(|index| block.transaction(index).unwrap()).collect();
            assert_eq!(found, [&first[..], &second, &third]);
            assert_eq!(block.transaction(3), None);
        }
    }
}

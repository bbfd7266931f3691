//! What readers see: the newest block with its state, and the blocks before it that are in memory.
//!
//! memory  the blocks it holds, and 40 B for each of their transactions

use std::collections::VecDeque;
use std::sync::Arc;

use alloy_primitives::B256;
use alloy_primitives::map::B256Map;

use crate::block::Block;
use crate::state::StateView;

/// Blocks in memory, numbers without a gap, and the state after the newest.
pub(super) struct ReadView {
    view: StateView,
    blocks: VecDeque<Arc<Block>>,
    by_hash: B256Map<u64>,
    by_tx: B256Map<(u64, u32)>,
}

impl ReadView {
    pub(super) fn new(block: Arc<Block>, view: StateView) -> Self {
        assert_eq!(block.number(), view.number(), "the state after a block goes with it");
        let (by_hash, by_tx) = (B256Map::default(), B256Map::default());
        let mut published = Self { view, blocks: VecDeque::new(), by_hash, by_tx };
        published.insert(block);
        published
    }

    pub(super) fn head(&self) -> &Arc<Block> {
        self.blocks.back().expect("there is always a head")
    }

    pub(super) fn view(&self) -> &StateView {
        &self.view
    }

    /// The number of the oldest block here.
    pub(super) fn oldest(&self) -> u64 {
        self.blocks.front().expect("there is always a head").number()
    }

    pub(super) fn block(&self, number: u64) -> Option<Arc<Block>> {
        let oldest = self.blocks.front()?.number();
        self.blocks.get(usize::try_from(number.checked_sub(oldest)?).ok()?).cloned()
    }

    pub(super) fn block_by_hash(&self, hash: &B256) -> Option<Arc<Block>> {
        self.block(*self.by_hash.get(hash)?)
    }

    pub(super) fn tx(&self, hash: &B256) -> Option<(Arc<Block>, usize)> {
        let (number, index) = *self.by_tx.get(hash)?;
        Some((self.block(number)?, index as usize))
    }

    /// `block` is the head now.
    pub(super) fn push(&mut self, block: Arc<Block>, view: StateView) {
        assert_eq!(block.header.parent_hash, self.head().hash, "a block follows its parent");
        assert_eq!(block.number(), view.number(), "the state after a block goes with it");
        self.view = view;
        self.insert(block);
    }

    fn insert(&mut self, block: Arc<Block>) {
        self.by_hash.insert(block.hash, block.number());
        self.by_tx.extend((0..).zip(&block.txs).map(|(index, tx)| (tx.hash, (block.number(), index))));
        self.blocks.push_back(block);
    }

    /// Drops the oldest blocks beyond `blocks_max` blocks or `txs_max` transactions; the head stays.
    pub(super) fn shrink(&mut self, blocks_max: usize, txs_max: usize) -> Vec<Arc<Block>> {
        let mut gone = Vec::new();
        while self.blocks.len() > 1 && (self.blocks.len() > blocks_max || self.by_tx.len() > txs_max) {
            let block = self.blocks.pop_front().expect("there are two");
            self.forget(&block);
            gone.push(block);
        }
        gone
    }

    /// Goes back to `head`; returns the blocks in memory that are removed, newest first.
    pub(super) fn rewind(&mut self, head: Arc<Block>, view: StateView) -> Vec<Arc<Block>> {
        assert_eq!(head.number(), view.number(), "the state after a block goes with it");
        let mut gone = Vec::new();
        while let Some(block) = self.blocks.pop_back_if(|block| block.number() > head.number()) {
            self.forget(&block);
            gone.push(block);
        }
        if self.blocks.is_empty() {
            self.insert(head);
        }
        self.view = view;
        gone
    }

    fn forget(&mut self, block: &Block) {
        self.by_hash.remove(&block.hash);
        for tx in &block.txs {
            self.by_tx.remove(&tx.hash);
        }
    }
}

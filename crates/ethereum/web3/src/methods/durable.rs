//! Receipts that wait until their block is on disk (`--durable`).
//!
//! reads   up to which block the chain is on disk
//! memory  a few words for each request that waits
//!
//! Answering null instead would be easier, but common clients ask for a receipt once for each new block: a client that
//! gets null for the newest block waits for another block, which a chain without traffic does not make.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use hearth_evm::chain::SyncWatch;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Api;
use crate::params::BlockId;

/// How long a receipt waits for the disk; after that the answer is null.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a waiting request checks the chain: a reorganization or a failure wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Api {
    /// Returns whether the contents of block `number` may be acknowledged.
    pub(super) fn is_acknowledged(&self, number: u64) -> bool {
        !self.config.durable || number <= self.chain.synced()
    }

    /// Notifies `news` after each sync, if acknowledgements wait for one.
    pub(super) fn watch_disk(&self, news: &Arc<Notify>) -> Option<SyncWatch> {
        let wake = Arc::clone(news);
        self.config.durable.then(|| self.chain.watch_synced(move || wake.notify_one()))
    }

    /// Waits until the transaction's block is on disk; returns whether it is, or there is no such block.
    pub(super) async fn tx_on_disk(&self, hash: &B256) -> bool {
        self.on_disk(|| self.chain.number_of_tx(hash)).await
    }

    /// Waits until a block is on disk, and returns its number if the id may name another block at the next lookup.
    pub(super) async fn block_on_disk(&self, id: BlockId) -> Option<BlockId> {
        if !self.config.durable {
            return Some(id);
        }
        match id {
            BlockId::Hash(hash) => self.on_disk(|| self.chain.number_of_block(&hash)).await.then_some(id),
            BlockId::Number(number) => {
                let made = || Some(number).filter(|number| *number <= self.chain.head().number());
                self.on_disk(made).await.then_some(id)
            }
            BlockId::Latest => {
                let number = self.chain.head().number();
                self.on_disk(|| Some(number)).await.then_some(BlockId::Number(number))
            }
            BlockId::Pending | BlockId::Earliest | BlockId::Safe | BlockId::Finalized => Some(id),
        }
    }

    async fn on_disk(&self, number: impl Fn() -> Option<u64>) -> bool {
        let is_there = || number().is_none_or(|number| self.is_acknowledged(number));
        if is_there() {
            return true;
        }
        let (news, end) = (Arc::new(Notify::new()), Instant::now() + PATIENCE);
        let _watch = self.watch_disk(&news);
        while !is_there() {
            let now = Instant::now();
            if now >= end || self.chain.failure().is_some() {
                return false;
            }
            let _ = timeout_at(end.min(now + LOOK_AGAIN), news.notified()).await;
        }
        true
    }
}

//! Receipts that wait until their block is on disk (`--durable`).
//!
//! reads   up to which block the chain is on disk
//! memory  a few words for each request that waits
//!
//! An answer of null would be easier, but common clients ask for a receipt once for each new block: one that gets null
//! for the newest block waits for another block, which a chain without traffic does not make.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::B256;
use hearth_evm::chain::SyncWatch;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Api;
use crate::params::BlockId;

/// How long a receipt waits for the disk. A slower disk makes the answer null.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a request waits without a look at the chain: a chain that goes back or fails wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Api {
    /// Whether what is in block `number` may be acknowledged.
    pub(super) fn is_acknowledged(&self, number: u64) -> bool {
        !self.config.durable || number <= self.chain.synced()
    }

    /// Has `news` notified after each sync, where acknowledgements wait for one.
    pub(super) fn watch_disk(&self, news: &Arc<Notify>) -> Option<SyncWatch> {
        let wake = Arc::clone(news);
        self.config.durable.then(|| self.chain.watch_synced(move || wake.notify_one()))
    }

    /// Waits until the transaction's block is on disk; says whether it is, or is none.
    pub(super) async fn tx_on_disk(&self, hash: &B256) -> bool {
        self.on_disk(|| self.chain.number_of_tx(hash)).await
    }

    /// The block as its number where the block may change with the next look, once it is on disk.
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

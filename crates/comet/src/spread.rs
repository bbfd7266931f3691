//! Handing this node's transactions to the other nodes, in envelopes through CometBFT's mempool.
//!
//! What comes over our own RPC is in this node's pool alone. A thread collects what has become executable for
//! [`GATHER`], or until an envelope is full, and hands envelopes to the RPC of this node's CometBFT, which carries them
//! to every mempool and so, through CheckTx, to every pool: whoever proposes next has them. A validator that is alone
//! proposes from its own pool, and nothing is handed over. What still waits after [`AGAIN`] blocks is handed over once
//! more.
//!
//! reads   the pool's news
//! writes  `broadcast_tx_async`, on a connection that is kept
//! memory  the hashes of this node's transactions that wait, bounded by the pool
//! drops   nothing: what CometBFT does not take now is handed over again

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use alloy_primitives::B256;
use hearth_evm::chain::Chain;
use hearth_evm::pool::Feed;

use crate::check::Came;
use crate::envelope::Sealer;
use crate::rpc::Rpc;

/// How long an envelope is left open for more.
const GATHER: Duration = Duration::from_millis(20);
/// How long the thread waits for news before it looks for what to hand over again.
const PATIENCE: Duration = Duration::from_millis(500);
/// Blocks after which what still waits is handed over again.
const AGAIN: u64 = 20;

/// What the thread and the application share.
#[derive(Debug, Default)]
pub struct Shared {
    /// Hashes that came through CometBFT.
    pub came: Came,
    /// Whether this node is the only validator.
    pub alone: AtomicBool,
    /// Envelopes handed over.
    pub envelopes: AtomicU64,
    /// Envelopes that CometBFT's RPC did not take.
    pub failed: AtomicU64,
    stopping: AtomicBool,
}

/// The thread; ends when dropped.
pub struct Spreader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Spreader {
    /// Begins.
    pub fn start(chain: Chain, rpc: Rpc, shared: Arc<Shared>) -> std::io::Result<Self> {
        let feed = chain.pool().subscribe();
        let mut work = Work { chain, rpc, shared: shared.clone(), waiting: HashMap::new(), told: false };
        let thread = thread::Builder::new().name("spread".into()).spawn(move || work.run(feed))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Spreader {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Work {
    chain: Chain,
    rpc: Rpc,
    shared: Arc<Shared>,
    /// This node's own, and after which block each was handed over last.
    waiting: HashMap<B256, u64>,
    /// Whether it was said that CometBFT does not answer.
    told: bool,
}

impl Work {
    fn run(&mut self, mut feed: Feed) {
        let mut looked = 0;
        while !self.shared.stopping.load(Ordering::Relaxed) {
            if feed.wait(PATIENCE) {
                // More will have come; a full envelope costs CometBFT as much as one of a single transaction.
                thread::sleep(GATHER);
            }
            let news = feed.take();
            let head = self.chain.head().number();
            let mut hashes = news.hashes;
            if news.missed > 0 {
                hashes = self.chain.pool().content().into_iter().flat_map(|of| of.pending).map(|tx| tx.hash).collect();
            }
            hashes.retain(|hash| !self.shared.came.has(hash));
            if head >= looked + AGAIN {
                looked = head;
                hashes.extend(self.overdue(head));
            }
            if !self.shared.alone.load(Ordering::Relaxed) {
                self.hand_over(&hashes, head);
            } else {
                // Should others join, they are told.
                self.waiting.extend(hashes.iter().map(|hash| (*hash, head)));
            }
        }
    }

    /// What waits too long; what waits no more is forgotten.
    fn overdue(&mut self, head: u64) -> Vec<B256> {
        let pool = self.chain.pool();
        self.waiting.retain(|hash, _| pool.get(hash).is_some());
        self.waiting.iter().filter(|(_, since)| head >= **since + AGAIN).map(|(hash, _)| *hash).collect()
    }

    fn hand_over(&mut self, hashes: &[B256], head: u64) {
        let pool = self.chain.pool();
        let mut sealer = Sealer::default();
        let mut envelopes = Vec::new();
        for hash in hashes {
            // A block may have it already.
            let Some(tx) = pool.get(hash) else { continue };
            envelopes.extend(sealer.push(&tx.raw));
            self.waiting.insert(*hash, head);
        }
        envelopes.extend(sealer.close());
        for envelope in envelopes {
            match self.rpc.broadcast_async(&envelope) {
                Ok(()) => {
                    self.shared.envelopes.fetch_add(1, Ordering::Relaxed);
                    self.told = false;
                }
                Err(error) => {
                    self.shared.failed.fetch_add(1, Ordering::Relaxed);
                    if !std::mem::replace(&mut self.told, true) {
                        tracing::warn!(%error, "transactions wait until CometBFT takes them");
                    }
                }
            }
        }
    }
}

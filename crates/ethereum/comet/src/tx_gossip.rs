//! Sends this node's transactions to the other nodes, in envelopes through CometBFT's mempool.
//!
//! A transaction received over our own RPC is only in this node's pools. A thread collects those that have become
//! executable for [`GATHER`], or until an envelope is full, and submits envelopes to the RPC of this node's CometBFT,
//! which carries them to every mempool and so, through CheckTx, to every pool: the next proposer has them. The UTXO
//! ledger's transactions take the same way. A lone validator proposes from its own pools, and submits nothing.
//! Transactions that still wait after [`AGAIN`] blocks are submitted once more, and so are, at a start, those that
//! waited before.
//!
//! reads   the pools' news
//! writes  `broadcast_tx_async`, on a persistent connection
//! memory  the hashes of this node's waiting transactions, bounded by the pools
//! drops   nothing: envelopes that CometBFT rejects are submitted again

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use alloy_consensus::Transaction;
use alloy_primitives::B256;
use bytes::Bytes;
use hearth_evm::chain::Chain;
use hearth_evm::pool::{Feed, Pool};
use hearth_evm::tx::SharedTx;
use hearth_evm_utxo::UtxoChain;
use hearth_utxo::Pool as OutputPool;
use parking_lot::{Condvar, Mutex};

use crate::check::{MempoolArrivals, hashes};
use crate::envelope::Sealer;
use crate::rpc::Rpc;

/// How long an envelope is left open for more.
const GATHER: Duration = Duration::from_millis(20);
/// How long the thread waits for news before it looks for overdue transactions.
const PATIENCE: Duration = Duration::from_millis(500);
/// Blocks after which a waiting transaction is submitted again.
const AGAIN: u64 = 20;

/// State shared by the thread and the application.
#[derive(Debug, Default)]
pub struct Shared {
    /// Hashes that came through CometBFT.
    pub came: MempoolArrivals,
    /// Whether this node is the only validator.
    pub alone: AtomicBool,
    /// Envelopes submitted to CometBFT.
    pub envelopes: AtomicU64,
    /// Envelopes that CometBFT's RPC did not take.
    pub failed: AtomicU64,
    stopping: AtomicBool,
    bell: Arc<WakeSignal>,
}

#[derive(Debug, Default)]
struct WakeSignal {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl WakeSignal {
    fn ring(&self) {
        *self.rung.lock() = true;
        self.heard.notify_all();
    }

    /// Waits for the bell; returns whether it rang within `patience`.
    fn wait(&self, patience: Duration) -> bool {
        let mut rung = self.rung.lock();
        self.heard.wait_while_for(&mut rung, |rung| !*rung, patience);
        std::mem::take(&mut *rung)
    }
}

/// The thread; ends when dropped.
pub struct Spreader {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Spreader {
    /// Starts the thread `spread`, which submits this node's transactions to CometBFT.
    pub fn start(chain: Chain, rpc: Rpc, shared: Arc<Shared>) -> std::io::Result<Self> {
        let bell = || {
            let bell = shared.bell.clone();
            move || bell.ring()
        };
        let feed = chain.pool().subscribe_with(bell());
        chain.outputs_pool().on_transaction_arrival(bell());
        let (waiting, waiting_outputs) = Default::default();
        let mut work = Work { chain, rpc, shared: shared.clone(), waiting, waiting_outputs, is_warned: false };
        let thread = thread::Builder::new().name("spread".into()).spawn(move || work.run(feed))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl Drop for Spreader {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.shared.bell.ring();
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
    /// The same of the ledger of outputs.
    waiting_outputs: HashMap<B256, u64>,
    /// Whether the unreachable CometBFT has been logged.
    is_warned: bool,
}

impl Work {
    fn run(&mut self, mut feed: Feed) {
        let (mut looked, mut seen) = (0, 0);
        // Transactions that waited when the program ended are in the pool, and perhaps in no other node's.
        let mut missed = true;
        while !self.shared.stopping.load(Ordering::Relaxed) {
            if !missed && self.shared.bell.wait(PATIENCE) {
                // More will have come; a full envelope costs CometBFT as much as one of a single transaction.
                thread::sleep(GATHER);
            }
            let news = feed.take();
            let head = self.chain.head().number();
            let mut txs = news.hashes;
            if std::mem::take(&mut missed) || news.missed > 0 {
                txs = self.chain.pool().content().into_iter().flat_map(|of| of.pending).map(|tx| tx.hash).collect();
            }
            txs.retain(|hash| !self.shared.came.has(hash));
            let (came, end) = self.chain.outputs_pool().arrived_since(seen);
            seen = end;
            let raws: Vec<Bytes> = came.iter().map(|tx| tx.raw.0.clone()).collect();
            let came = came.iter().zip(hashes(&raws)).filter(|(_, hash)| !self.shared.came.has(hash));
            let mut outputs: Vec<B256> = came.map(|(tx, _)| tx.id).collect();
            if head >= looked + AGAIN {
                looked = head;
                self.forget();
                // Before later transactions, which may depend on them.
                txs.splice(0..0, txs_in_order(self.chain.pool(), overdue(&self.waiting, head)));
                let overdue = overdue(&self.waiting_outputs, head);
                outputs.splice(0..0, outputs_in_order(self.chain.outputs_pool(), &overdue));
            }
            self.waiting.extend(txs.iter().map(|hash| (*hash, head)));
            self.waiting_outputs.extend(outputs.iter().map(|id| (*id, head)));
            // Should others join a lone validator, they receive it all.
            if !self.shared.alone.load(Ordering::Relaxed) {
                self.hand_over(&txs, &outputs);
            }
        }
    }

    /// Forgets transactions that no longer wait.
    fn forget(&mut self) {
        let (pool, outputs) = (self.chain.pool(), self.chain.outputs_pool());
        self.waiting.retain(|hash, _| pool.get(hash).is_some());
        self.waiting_outputs.retain(|id, _| outputs.get(id).is_some());
    }

    fn hand_over(&mut self, txs: &[B256], outputs: &[B256]) {
        let (pool, outputs_pool) = (self.chain.pool(), self.chain.outputs_pool());
        let mut sealer = Sealer::default();
        // A block may include some already. In order of arrival: one may spend another's output.
        let outputs = outputs.iter().filter_map(|id| outputs_pool.get(id)).map(|tx| tx.raw.clone());
        let txs = txs.iter().filter_map(|hash| pool.get(hash)).map(|tx| tx.raw.clone());
        let mut envelopes: Vec<Bytes> = outputs.chain(txs).filter_map(|raw| sealer.push(&raw)).collect();
        envelopes.extend(sealer.close());
        for envelope in envelopes {
            match self.rpc.broadcast_async(&envelope) {
                Ok(()) => {
                    self.shared.envelopes.fetch_add(1, Ordering::Relaxed);
                    self.is_warned = false;
                }
                Err(error) => {
                    self.shared.failed.fetch_add(1, Ordering::Relaxed);
                    if !std::mem::replace(&mut self.is_warned, true) {
                        tracing::warn!(%error, "transactions wait until CometBFT takes them");
                    }
                }
            }
        }
    }
}

/// Returns the transactions that have waited too long.
fn overdue(waiting: &HashMap<B256, u64>, head: u64) -> HashSet<B256> {
    waiting.iter().filter(|(_, since)| head >= **since + AGAIN).map(|(hash, _)| *hash).collect()
}

/// Returns those that still wait, each after its sender's lower nonces.
fn txs_in_order(pool: &Pool, hashes: HashSet<B256>) -> Vec<B256> {
    let mut txs: Vec<SharedTx> = hashes.iter().filter_map(|hash| pool.get(hash)).collect();
    txs.sort_unstable_by_key(|tx| (tx.sender, tx.envelope.nonce()));
    txs.iter().map(|tx| tx.hash).collect()
}

/// Returns those that still wait, in order of arrival: one may spend another's output.
fn outputs_in_order(pool: &OutputPool, ids: &HashSet<B256>) -> Vec<B256> {
    if ids.is_empty() {
        return Vec::new();
    }
    pool.arrived_since(0).0.iter().map(|tx| tx.id).filter(|id| ids.contains(id)).collect()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};
    use hearth_crypto::ed25519::SigningKey;
    use hearth_crypto::secp256k1::Signer;
    use hearth_evm::chain::{BlockTime, ChainConfig};
    use hearth_evm_utxo::genesis;
    use hearth_evm_utxo::prism::call;
    use hearth_utxo::tx::{Action, Builder};
    use hearth_utxo::{AssetId, Output, OwnerKey};

    use super::*;

    const CHAIN: u64 = 777;

    #[test]
    fn resent_transactions_keep_their_order() {
        let (signer, key) = (Signer::new(&[1; 32]).unwrap(), SigningKey::from_seed(&[5; 32]));
        let owner = OwnerKey(key.public_key());
        let accounts = [(Address::from(signer.address()), U256::from(10_u128.pow(22)))];
        let genesis = genesis::dev(CHAIN, &accounts, 500_000_000);
        let config = ChainConfig { block_time: BlockTime::Manual, ..ChainConfig::new(genesis) };
        let chain = Chain::open(config).unwrap();
        let transfer = |nonce| call(CHAIN, nonce, 100_000_000_000, &owner, 1_000_000, &signer).raw;
        assert!(chain.submit((0..20).map(transfer).collect()).iter().all(Result::is_ok));
        chain.mine().unwrap();
        let submit = |raw: alloy_primitives::Bytes| chain.submit(vec![raw]).remove(0).unwrap();
        let txs: Vec<B256> = (20..40).map(|nonce| submit(transfer(nonce))).collect();
        let of = chain.outputs().outputs_of(&owner, None, 20);
        let outputs: Vec<B256> = (0..20)
            .map(|n| {
                let outputs = vec![Output { asset: AssetId::NATIVE, amount: 1, owner, memo: Default::default() }];
                let (available, action) = (&of[n..=n], Action::Transfer);
                let raw = Builder { chain_id: CHAIN, key: &key, available, outputs, action }.build().unwrap();
                submit(raw.into())
            })
            .collect();
        let since = |all: &[B256]| all.iter().map(|hash| (*hash, 1)).collect::<HashMap<_, _>>();
        let (of_txs, of_outputs) = (since(&txs[3..]), since(&outputs[5..]));
        assert!(overdue(&of_txs, AGAIN).is_empty());
        assert_eq!(txs_in_order(chain.pool(), overdue(&of_txs, AGAIN + 1)), txs[3..]);
        assert_eq!(outputs_in_order(chain.outputs_pool(), &overdue(&of_outputs, AGAIN + 1)), outputs[5..]);
    }
}

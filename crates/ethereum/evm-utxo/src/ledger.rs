//! The UTXO ledger ([`hearth_utxo`]) as the side ledger of a chain.
//!
//! reads   its transactions from clients and from the consensus engine
//! writes  its log, and the file of waiting transactions
//! memory  its set and its pool
//! drops   rejected transactions, with the error; transactions dropped later, with a reason that its pool remembers

mod block;
mod set;

use std::sync::Arc;

use alloy_primitives::{B256, Bytes};
use hearth_evm::exec::SpecId;
use hearth_evm::side::{
    BLOCK_BYTES_MAX, SideBlock, SideError, SideItems, SideLedger, SideRefusal, SideSet, SideStart, SideTx,
};
use hearth_utxo::ledger::{BLOCK_BYTES, Head, Item, LedgerError};
use hearth_utxo::pool::PoolConfig;
use hearth_utxo::pool_journal::PoolJournal;
use hearth_utxo::tx::{self, Checker, TxError, UnverifiedTx};
use hearth_utxo::{Ledger, Pool, SharedTx};

use crate::prism;
use block::UtxoBlock;
pub(crate) use set::commitment_of;
use set::{UtxoSet, loading_of};

const _: () = assert!(BLOCK_BYTES <= BLOCK_BYTES_MAX);

/// The ledger with its pool. Clones share both.
#[derive(Clone)]
pub(crate) struct Utxo(Arc<Inner>);

struct Inner {
    ledger: Ledger,
    pool: Pool,
    checker: Checker,
    waiting: Option<PoolJournal>,
    /// Number of recent blocks whose records are kept; 0: all.
    retain_blocks: u64,
}

impl Utxo {
    /// The ledger as it is after the chain's newest block.
    pub fn open(start: &SideStart<'_>) -> Result<Self, LedgerError> {
        let (number, hash) = (start.head.number(), start.head.hash);
        let incoming = prism::incoming(&start.head.txs, &start.head.receipts);
        // That of the genesis is zero on every chain of Ethereum's.
        let commitment = start.head.header.parent_beacon_block_root.filter(|_| number > 0);
        let head = Head { number, hash_of: start.hash_of, commitment };
        let ledger = Ledger::open_synced(start.dir, start.chain_id, &head, start.synced)?;
        if number == 0 && !start.items.is_empty() && start.items_commitment != ledger.commitment() {
            let loading = loading_of(start.items).expect("the genesis was made of them");
            ledger.restore(loading, 0, hash, Some(start.items_commitment), &[])?;
        }
        if !incoming.is_empty() {
            ledger.require(number)?;
        }
        let (waiting, before) = start.dir.map(PoolJournal::open).transpose()?.unzip();
        let (pool, checker) = (Pool::new(PoolConfig::default()), Checker::default());
        let inner = Inner { ledger, pool, checker, waiting, retain_blocks: start.retain_blocks };
        // Transactions that waited when the program ended wait again; those already in a block are rejected.
        let before = before.unwrap_or_default();
        let verified = inner.verify(&before.iter().collect::<Vec<_>>());
        inner.pool.add(&inner.ledger, verified.into_iter().flatten().collect());
        Ok(Self(Arc::new(inner)))
    }

    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    pub fn pool(&self) -> &Pool {
        &self.0.pool
    }
}

impl Inner {
    /// The transactions of these bytes, their signatures verified in one burst.
    fn verify(&self, raw: &[&Bytes]) -> Vec<Result<SharedTx, SideRefusal>> {
        let decoded: Vec<_> = raw.iter().map(|raw| tx::decode(raw, self.ledger.chain_id())).collect();
        let burst: Vec<UnverifiedTx> = decoded.iter().filter_map(|one| one.as_ref().ok().cloned()).collect();
        let mut verified = self.checker.verify(burst).into_iter();
        let judge = |one: Result<UnverifiedTx, TxError>| {
            let tx = one.and_then(|_| verified.next().expect("one for each that decodes"));
            tx.map_err(|error| SideRefusal::Malformed(error.to_string()))
        };
        decoded.into_iter().map(judge).collect()
    }

    /// Admits transactions to the pool, and persists the accepted ones.
    fn submit(&self, raw: &[&Bytes]) -> Vec<Result<B256, SideRefusal>> {
        let (mut good, mut at) = (Vec::new(), Vec::new());
        let mut results: Vec<Result<B256, SideRefusal>> = Vec::with_capacity(raw.len());
        for (index, verified) in self.verify(raw).into_iter().enumerate() {
            results.push(verified.as_ref().map(|tx| tx.id).map_err(Clone::clone));
            if let Ok(tx) = verified {
                good.push(tx);
                at.push(index);
            }
        }
        let (mut taken, mut places) = (Vec::new(), Vec::new());
        for ((index, tx), result) in at.into_iter().zip(&good).zip(self.pool.add(&self.ledger, good.clone())) {
            match result {
                Ok(()) => {
                    taken.push(tx.clone());
                    places.push(index);
                }
                Err(error) => results[index] = Err(SideRefusal::Pool(error.to_string())),
            }
        }
        if let Some(waiting) = &self.waiting
            && let Err((error, gone)) = waiting.keep(&self.pool, &taken)
        {
            tracing::error!(%error, "what comes is refused: it would not outlive this program");
            // A transaction that a block included meanwhile is safe: that block holds it.
            for index in places.into_iter().zip(gone).filter_map(|(index, gone)| gone.then_some(index)) {
                results[index] = Err(SideRefusal::NotKept(error.to_string()));
            }
        }
        results
    }
}

impl SideLedger for Utxo {
    fn is_own(&self, raw: &[u8]) -> bool {
        tx::is_ours(raw)
    }

    fn verify(&self, raw: &[&Bytes]) -> Vec<Result<SideTx, SideRefusal>> {
        self.0.verify(raw).into_iter().map(|verified| verified.map(opaque)).collect()
    }

    fn submit(&self, raw: &[&Bytes]) -> Vec<Result<B256, SideRefusal>> {
        self.0.submit(raw)
    }

    fn waits(&self, id: &B256) -> bool {
        self.0.pool.get(id).is_some()
    }

    fn best(&self, bytes_max: usize) -> Vec<SideTx> {
        self.0.pool.best(bytes_max.min(BLOCK_BYTES)).into_iter().map(opaque).collect()
    }

    fn begin(&self, spec: SpecId, txs: &[SideTx]) -> Box<dyn SideBlock> {
        Box::new(UtxoBlock::executed(self.clone(), spec, txs))
    }

    fn begin_with(&self, items: &[Bytes]) -> Result<Box<dyn SideBlock>, SideError> {
        Ok(Box::new(UtxoBlock::loaded(self.clone(), loading_of(items)?)))
    }

    fn commitment(&self) -> B256 {
        self.0.ledger.commitment()
    }

    fn rewind(&self, number: u64) -> Result<(), SideError> {
        self.0.ledger.rewind(number)?;
        self.reset_pool();
        Ok(())
    }

    fn items(&self, number: u64, hash: B256) -> Result<SideItems, SideError> {
        Ok(Box::new(self.0.ledger.capture(number, hash)?.items().map(encoded)))
    }

    fn items_of_header(&self, number: u64, hash: B256) -> Result<SideItems, SideError> {
        Ok(Box::new(self.0.ledger.capture(number, hash)?.items_of_header().map(encoded)))
    }

    fn set(&self) -> Box<dyn SideSet> {
        Box::new(UtxoSet::empty(self.clone()))
    }

    fn reset_pool(&self) {
        self.0.pool.reset(&self.0.ledger);
    }

    fn keep_pool(&self) -> Result<(), SideError> {
        Ok(self.0.waiting.as_ref().map_or(Ok(()), |waiting| waiting.rewrite(&self.0.pool))?)
    }

    fn syncer(&self) -> Box<dyn Fn() -> Result<(), String> + Send + Sync> {
        let ledger = self.0.ledger.clone();
        Box::new(move || ledger.sync().map_err(|error| error.to_string()))
    }
}

fn encoded(item: Result<Item, LedgerError>) -> Result<Bytes, SideError> {
    Ok(item?.encode().into())
}

/// A transaction as the chain carries it.
fn opaque(tx: SharedTx) -> SideTx {
    SideTx { id: tx.id, raw: tx.raw.clone(), decoded: tx }
}

/// A transaction that the chain has carried.
fn opened(tx: &SideTx) -> SharedTx {
    tx.decoded.clone().downcast().expect("this ledger has verified it")
}

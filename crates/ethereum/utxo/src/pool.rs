//! Transactions that wait for a block, in order of arrival.
//!
//! reads   transactions with verified signatures
//! memory  [`PoolConfig::capacity`] transactions, and [`PoolConfig::bytes`]; the last [`DROPPED`] reasons
//! drops   transactions that a block has invalidated, with the reason, which `Pool::fate` returns
//!
//! A transaction may spend an output of another one here, so wallets need not wait for a block between two payments. It
//! may not spend an output that another one here spends, so no two conflict, and a block takes them all, up to its
//! size. Order of arrival keeps creators before spenders; there is no auction, since the fee is per byte.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use alloy_primitives::B256;
use parking_lot::{Mutex, MutexGuard};

use crate::ledger::Ledger;
use crate::ledger::set::{OverlaidSet, Overlay};
use crate::output::OutPoint;
use crate::rules::{self, Refusal};
use crate::tx::SharedTx;

/// Reasons that are kept.
pub const DROPPED: usize = 4096;

/// Limits of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Maximum number of transactions.
    pub capacity: usize,
    /// The most bytes of theirs.
    pub bytes: usize,
}

impl Default for PoolConfig {
    /// Enough for two blocks.
    fn default() -> Self {
        Self { capacity: 32_768, bytes: 2 * crate::ledger::BLOCK_BYTES }
    }
}

/// Why a transaction may not enter the pool.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum PoolError {
    /// It waits in the pool already.
    #[error("already known")]
    Known,
    /// It is in a block.
    #[error("already known: it is in block {0}")]
    Landed(u64),
    /// The pool is full.
    #[error("txpool is full")]
    Full,
    /// Another one that waits spends the same.
    #[error("output {0} is spent by transaction {1:?}, which waits already")]
    Conflict(OutPoint, B256),
    /// It is not right.
    #[error("{0}")]
    Refused(#[from] Refusal),
}

#[derive(Default)]
struct Inner {
    order: BTreeMap<u64, SharedTx>,
    places: HashMap<B256, u64>,
    /// The waiting transaction that spends each output.
    spenders: HashMap<OutPoint, B256>,
    /// Outputs that waiting transactions create and spend, over the set.
    overlay: Overlay,
    bytes: usize,
    next: u64,
    dropped: VecDeque<(B256, Refusal)>,
}

/// Called when something has come.
type Wake = dyn Fn() + Send + Sync;

/// Transactions that wait for a block. Shared by threads.
pub struct Pool {
    config: PoolConfig,
    inner: Mutex<Inner>,
    wake: Mutex<Option<Arc<Wake>>>,
}

impl Pool {
    /// Creates an empty pool.
    pub fn new(config: PoolConfig) -> Self {
        Self { config, inner: Mutex::default(), wake: Mutex::default() }
    }

    /// Sets the function to call when a transaction arrives, replacing the previous one. It must not block.
    pub fn on_transaction_arrival(&self, wake: impl Fn() + Send + Sync + 'static) {
        *self.wake.lock() = Some(Arc::new(wake));
    }

    /// Returns the waiting transactions among all arrivals but the first `seen`, in order, and the number of arrivals.
    pub fn arrived_since(&self, seen: u64) -> (Vec<SharedTx>, u64) {
        let inner = self.inner();
        (inner.order.range(seen..).map(|(_, tx)| tx.clone()).collect(), inner.next)
    }

    /// Admits transactions that are valid on top of the waiting ones.
    pub fn add(&self, ledger: &Ledger, burst: Vec<SharedTx>) -> Vec<Result<(), PoolError>> {
        let mut inner = self.inner();
        let taken: Vec<_> = burst.into_iter().map(|tx| self.add_one(&mut inner, ledger, tx)).collect();
        drop(inner);
        if taken.iter().any(Result::is_ok) {
            let wake = self.wake.lock().clone();
            wake.into_iter().for_each(|wake| wake());
        }
        taken
    }

    fn add_one(&self, inner: &mut Inner, ledger: &Ledger, tx: SharedTx) -> Result<(), PoolError> {
        if inner.places.contains_key(&tx.id) {
            return Err(PoolError::Known);
        }
        let conflict = tx.payload.inputs.iter().find_map(|at| Some((*at, *inner.spenders.get(at)?)));
        if let Some((at, id)) = conflict {
            return Err(PoolError::Conflict(at, id));
        }
        if inner.order.len() >= self.config.capacity || inner.bytes + tx.raw.len() > self.config.bytes {
            return Err(PoolError::Full);
        }
        let landed = ledger.landed_in(&tx.id);
        let state = ledger.read();
        let effects = rules::check(&tx, &OverlaidSet { set: &state.set, overlay: &inner.overlay });
        let effects = effects.map_err(|refusal| landed.map_or(PoolError::Refused(refusal), PoolError::Landed))?;
        drop(state);
        inner.insert(tx, effects);
        Ok(())
    }

    /// Returns the transactions for a block of `bytes`, in order.
    pub fn best(&self, bytes: usize) -> Vec<SharedTx> {
        let mut room = bytes;
        let fits = |tx: &&SharedTx| match room.checked_sub(tx.raw.len()) {
            Some(rest) => {
                room = rest;
                true
            }
            None => false,
        };
        self.inner().order.values().take_while(fits).cloned().collect()
    }

    /// Removes a block's transactions, and those that it has invalidated. Call it after the ledger's commit.
    pub fn after_block(&self, included: &[SharedTx]) {
        let mut inner = self.inner();
        for tx in included {
            inner.remove(&tx.id);
            // Only a spent output can invalidate a waiting transaction; a block's other effects only add outputs.
            for at in &tx.payload.inputs {
                if let Some(other) = inner.spenders.get(at).copied() {
                    inner.evict(other, Refusal::Missing(*at));
                }
            }
        }
        if inner.order.is_empty() {
            inner.overlay = Overlay::default();
        }
    }

    /// Removes the transactions that a block's execution rejected and their descendants, and remembers why. Those that
    /// only lacked room keep waiting.
    pub fn refuse(&self, refused: &[(B256, Refusal)]) {
        let mut inner = self.inner();
        for (id, refusal) in refused.iter().filter(|(_, refusal)| *refusal != Refusal::Room) {
            inner.evict(*id, refusal.clone());
        }
    }

    /// Removes transactions that could not be persisted, and their descendants; returns for each whether it was still
    /// here.
    pub(crate) fn give_up(&self, ids: &[B256]) -> Vec<bool> {
        let mut inner = self.inner();
        let were_here = ids.iter().map(|id| inner.places.contains_key(id)).collect();
        for id in ids {
            inner.evict(*id, Refusal::NotKept);
        }
        were_here
    }

    /// Revalidates all waiting transactions, after the ledger has reverted.
    pub fn reset(&self, ledger: &Ledger) {
        let mut inner = self.inner();
        let waiting = std::mem::take(&mut inner.order);
        let dropped = std::mem::take(&mut inner.dropped);
        *inner = Inner { dropped, next: inner.next, ..Inner::default() };
        for tx in waiting.into_values() {
            let id = tx.id;
            if let Err(PoolError::Refused(refusal)) = self.add_one(&mut inner, ledger, tx) {
                inner.drop_one(id, refusal);
            }
        }
    }

    /// The transaction that waits under this id.
    pub fn get(&self, id: &B256) -> Option<SharedTx> {
        let inner = self.inner();
        inner.places.get(id).map(|place| inner.order[place].clone())
    }

    /// Returns why a transaction no longer waits, while that is remembered.
    pub fn fate(&self, id: &B256) -> Option<Refusal> {
        self.inner().dropped.iter().rev().find(|(dropped, _)| dropped == id).map(|(_, refusal)| refusal.clone())
    }

    /// Returns the waiting transaction that spends this output.
    pub fn spender(&self, at: &OutPoint) -> Option<B256> {
        self.inner().spenders.get(at).copied()
    }

    /// How many wait, and their bytes.
    pub fn status(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.order.len(), inner.bytes)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

impl Inner {
    fn insert(&mut self, tx: SharedTx, effects: rules::Effects) {
        for at in &tx.payload.inputs {
            self.spenders.insert(*at, tx.id);
            if let Some(output) = self.overlay.created.remove(at) {
                // No other may spend it, nor find it in the set once a block has created it.
                self.overlay.spent.insert(*at, output);
            }
        }
        for (index, output) in tx.payload.outputs.iter().enumerate() {
            self.overlay.created.insert(tx.out_point(index), output.clone());
        }
        self.overlay.assets.extend(effects.asset);
        self.bytes += tx.raw.len();
        self.places.insert(tx.id, self.next);
        self.order.insert(self.next, tx);
        self.next += 1;
    }

    /// Removes a transaction and the outputs that it would have created.
    fn remove(&mut self, id: &B256) -> Option<SharedTx> {
        let tx = self.order.remove(&self.places.remove(id)?).expect("both have the same transactions");
        self.bytes -= tx.raw.len();
        for at in &tx.payload.inputs {
            self.spenders.remove(at);
        }
        for index in 0..tx.payload.outputs.len() {
            let at = tx.out_point(index);
            if self.overlay.created.remove(&at).is_none() {
                self.overlay.spent.remove(&at);
            }
        }
        Some(tx)
    }

    /// Drops a transaction, and all that spend its outputs.
    fn evict(&mut self, id: B256, refusal: Refusal) {
        let mut waiting = vec![(id, refusal)];
        while let Some((id, refusal)) = waiting.pop() {
            let Some(tx) = self.remove(&id) else { continue };
            for index in 0..tx.payload.outputs.len() {
                let at = tx.out_point(index);
                waiting.extend(self.spenders.get(&at).map(|spender| (*spender, Refusal::Missing(at))));
            }
            self.drop_one(id, refusal);
        }
    }

    fn drop_one(&mut self, id: B256, refusal: Refusal) {
        if self.dropped.len() == DROPPED {
            self.dropped.pop_front();
        }
        self.dropped.push_back((id, refusal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all_of, funded, hash, pay};
    use crate::{AssetId, Output};

    fn commit(ledger: &Ledger, pool: &Pool, number: u64, txs: &[SharedTx]) {
        let mut session = ledger.begin();
        let verdicts = session.apply(txs);
        let refused: Vec<_> =
            txs.iter().zip(verdicts).filter_map(|(tx, verdict)| Some((tx.id, verdict.err()?))).collect();
        let included = session.transactions().to_vec();
        ledger.commit(number, hash(number), session).unwrap();
        pool.after_block(&included);
        pool.refuse(&refused);
    }

    fn made(tx: &SharedTx) -> Vec<(OutPoint, Output)> {
        vec![(tx.out_point(0), tx.payload.outputs[0].clone())]
    }

    #[test]
    fn a_chain_of_payments_waits_in_order_and_lands_in_one_block() {
        let (ledger, pool) = (funded(&[(1, 1_000_000)]), Pool::new(PoolConfig::default()));
        let first = pay(&all_of(&ledger, 1), 1, 2, AssetId::NATIVE, 500_000);
        let second = pay(&made(&first), 2, 3, AssetId::NATIVE, 100_000);
        let third = pay(&made(&second), 3, 4, AssetId::NATIVE, 10_000);
        let missing = PoolError::Refused(Refusal::Missing(second.out_point(0)));
        assert_eq!(pool.add(&ledger, vec![third.clone()]), [Err(missing)]);
        let burst = vec![first.clone(), second.clone(), third.clone(), first.clone()];
        assert_eq!(pool.add(&ledger, burst), [Ok(()), Ok(()), Ok(()), Err(PoolError::Known)]);
        let best = pool.best(usize::MAX);
        assert_eq!(best, [first.clone(), second, third.clone()]);
        commit(&ledger, &pool, 2, &best[..1]);
        assert_eq!(pool.status().0, 2);
        let best = pool.best(usize::MAX);
        commit(&ledger, &pool, 3, &best);
        assert_eq!(pool.status(), (0, 0));
        assert_eq!(ledger.landed_in(&third.id), Some(3));
        assert_eq!(pool.add(&ledger, vec![first]), [Err(PoolError::Landed(2))]);
    }

    #[test]
    fn follower_is_woken_and_sees_each_once() {
        let (ledger, pool) = (funded(&[(1, 1_000_000), (1, 1_000_000)]), Pool::new(PoolConfig::default()));
        let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = woken.clone();
        pool.on_transaction_arrival(move || {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        });
        let txs: Vec<_> = all_of(&ledger, 1).chunks(1).map(|one| pay(one, 1, 2, AssetId::NATIVE, 1)).collect();
        assert_eq!(pool.add(&ledger, vec![txs[0].clone()]), [Ok(())]);
        let (came, seen) = pool.arrived_since(0);
        assert_eq!((came, seen), (vec![txs[0].clone()], 1));
        assert_eq!(pool.add(&ledger, vec![txs[0].clone()]), [Err(PoolError::Known)]);
        assert_eq!(pool.add(&ledger, vec![txs[1].clone()]), [Ok(())]);
        assert_eq!(pool.arrived_since(seen), (vec![txs[1].clone()], 2));
        assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 2);
    }

    #[test]
    fn two_never_wait_to_spend_the_same() {
        let (ledger, pool) = (funded(&[(1, 1_000_000)]), Pool::new(PoolConfig::default()));
        let available = all_of(&ledger, 1);
        let first = pay(&available, 1, 2, AssetId::NATIVE, 1);
        let second = pay(&available, 1, 2, AssetId::NATIVE, 2);
        let conflict = PoolError::Conflict(available[0].0, first.id);
        assert_eq!(pool.add(&ledger, vec![first.clone(), second]), [Ok(()), Err(conflict)]);
        assert_eq!(pool.spender(&available[0].0), Some(first.id));
    }

    #[test]
    fn invalidated_transactions_are_reported() {
        let (ledger, pool) = (funded(&[(1, 1_000_000)]), Pool::new(PoolConfig::default()));
        let available = all_of(&ledger, 1);
        let first = pay(&available, 1, 2, AssetId::NATIVE, 500_000);
        let second = pay(&made(&first), 2, 3, AssetId::NATIVE, 1);
        assert_eq!(pool.add(&ledger, vec![first.clone(), second.clone()]), [Ok(()), Ok(())]);
        commit(&ledger, &pool, 2, &[pay(&available, 1, 4, AssetId::NATIVE, 3)]);
        assert_eq!(pool.status(), (0, 0));
        assert_eq!(pool.fate(&first.id), Some(Refusal::Missing(available[0].0)));
        assert_eq!(pool.fate(&second.id), Some(Refusal::Missing(first.out_point(0))));
    }

    #[test]
    fn pool_holds_up_to_its_bounds() {
        let ledger = funded(&[(1, 1_000_000), (1, 1_000_000), (1, 1_000_000)]);
        let txs: Vec<_> = all_of(&ledger, 1).chunks(1).map(|one| pay(one, 1, 2, AssetId::NATIVE, 1)).collect();
        let few = Pool::new(PoolConfig { capacity: 2, ..PoolConfig::default() });
        assert_eq!(few.add(&ledger, txs.clone()), [Ok(()), Ok(()), Err(PoolError::Full)]);
        let small = Pool::new(PoolConfig { bytes: txs[0].raw.len() * 2, ..PoolConfig::default() });
        assert_eq!(small.add(&ledger, txs.clone()), [Ok(()), Ok(()), Err(PoolError::Full)]);
        assert_eq!(small.best(txs[0].raw.len()), txs[..1]);
    }
}

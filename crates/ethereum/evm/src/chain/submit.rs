//! Accepts transactions.
//!
//! reads   raw transactions, in bursts
//! writes  the pool; a signal to the sequencer
//! drops   refused transactions, with an error in geth's words
//!
//! Nothing is executed here: a burst is decoded, its senders are recovered together, and the pool checks nonce, funds
//! and fees. A blob transaction comes with its sidecar, which is verified while the burst is decoded; between the nodes
//! of one network it is sent without.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes};

use super::journal::AcceptedTxs;
use super::times::{self, Burst};
use super::{Chain, Inner, SubmitError};
use crate::blobs::SharedSidecar;
use crate::pool::{DropReason, PoolError};
use crate::tx::{self, SharedTx, Tx, TxEnvelope, TxError, TypedTransaction, UnrecoveredTx};

/// How often a thread that waits for a transaction checks whether the pool still has it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The form of blob transactions.
#[derive(Clone, Copy)]
enum Form {
    /// Network form, with sidecars.
    Network,
    /// Block form, without sidecars.
    Bare,
}

/// A transaction whose sender is not known yet, and its sidecar.
type DecodedTx = (UnrecoveredTx, Option<SharedSidecar>);

impl Chain {
    /// Accepts a burst of raw transactions: returns the hash of each that is acknowledged, or why it is not. An
    /// acknowledged transaction will be in a block, or have a [fate](crate::pool::Pool::fate). Blob transactions come
    /// in their network form.
    pub fn submit(&self, raw: Vec<Bytes>) -> Vec<Result<B256, SubmitError>> {
        self.submit_as_sent(&raw, Form::Network)
    }

    /// As [`Chain::submit`], of transactions that another node of the network has taken: blob transactions come without
    /// their sidecars, which that node keeps.
    pub fn submit_bare(&self, raw: Vec<Bytes>) -> Vec<Result<B256, SubmitError>> {
        self.submit_as_sent(&raw, Form::Bare)
    }

    fn decode(&self, raw: &[u8], form: Form) -> Result<DecodedTx, TxError> {
        match form {
            Form::Network => tx::decode_network(raw, self.chain_id(), self.pool().spec()),
            Form::Bare => Ok((tx::decode(raw, self.chain_id())?, None)),
        }
    }

    fn submit_as_sent(&self, raw: &[Bytes], form: Form) -> Vec<Result<B256, SubmitError>> {
        let begun = times::of_this_thread();
        let mut results: Vec<Result<B256, SubmitError>> = Vec::with_capacity(raw.len());
        let mut burst = Vec::with_capacity(raw.len());
        // Each with its transaction's place in `burst`.
        let mut sidecars = Vec::new();
        // Those of the side ledger travel in the same bursts; which of `raw` they are.
        let mut of_side = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            if self.is_side(raw) {
                of_side.push(index);
                // Overwritten at the end: until then it is none of the EVM's.
                results.push(Err(TxError::Type.into()));
                continue;
            }
            match self.decode(raw, form) {
                Ok((decoded, sidecar)) => {
                    sidecars.extend(sidecar.map(|sidecar| (burst.len(), sidecar)));
                    burst.push(decoded);
                    // Overwritten below.
                    results.push(Ok(B256::ZERO));
                }
                Err(error) => results.push(Err(error.into())),
            }
        }
        let mut good = Vec::with_capacity(burst.len());
        let recovered = tx::recover(burst);
        let sidecars = of_recovered(&recovered, sidecars);
        let without_room = self.inner.put_sidecars(&sidecars);
        let mut recovered = recovered.into_iter();
        for result in results.iter_mut().filter(|result| result.is_ok()) {
            match recovered.next().expect("one for each that decodes") {
                Ok(tx) if without_room.contains(&tx.hash) => *result = Err(PoolError::Full.into()),
                Ok(tx) => {
                    *result = Ok(tx.hash);
                    good.push(tx);
                }
                Err(error) => *result = Err(error.into()),
            }
        }
        let recovered_at = times::of_this_thread();
        let (submitted, to_outputs) = (results.len(), of_side.len());
        let undecodable = submitted - to_outputs - good.len();
        let mut taken = self.inner.take(good).into_iter();
        self.inner.settle_sidecars(&sidecars);
        for result in results.iter_mut().filter(|result| result.is_ok()) {
            if let Err(error) = taken.next().expect("one for each with a sender") {
                *result = Err(error);
            }
        }
        let to_side: Vec<&Bytes> = of_side.iter().map(|index| &raw[*index]).collect();
        for (index, result) in of_side.into_iter().zip(self.submit_side(&to_side)) {
            results[index] = result;
        }
        let refused = results.iter().filter(|result| result.is_err()).count();
        let burst = Burst { submitted, to_outputs, undecodable, refused };
        let (recover, pool) = (recovered_at - begun, times::of_this_thread() - recovered_at);
        self.inner.times.checked(recover, pool, burst);
        results
    }

    /// Accepts transactions whose senders are known.
    pub fn submit_recovered(&self, txs: Vec<SharedTx>) -> Vec<Result<B256, SubmitError>> {
        let begun = times::of_this_thread();
        let hashes: Vec<B256> = txs.iter().map(|tx| tx.hash).collect();
        let taken = self.inner.take(txs).into_iter().zip(hashes);
        let results: Vec<Result<B256, SubmitError>> = taken.map(|(taken, hash)| taken.map(|()| hash)).collect();
        let refused = results.iter().filter(|result| result.is_err()).count();
        let burst = Burst { submitted: results.len(), refused, ..Burst::default() };
        let pool = times::of_this_thread() - begun;
        self.inner.times.checked(Duration::ZERO, pool, burst);
        results
    }

    /// Takes a transaction of an account that need not have signed it: for accounts that are impersonated.
    pub fn submit_as(&self, sender: Address, transaction: TypedTransaction) -> Result<B256, SubmitError> {
        let envelope = TxEnvelope::new_unhashed(transaction, Tx::impersonated_signature(&sender));
        let tx = Arc::new(Tx::with_sender(envelope, sender));
        self.submit_recovered(vec![tx]).pop().expect("one for one")
    }

    /// Keeps of `hashes` those that may yet come into a block without anybody asking for one: where blocks are made as
    /// transactions come, and the sequencer has not looked since. The others are in a block that can be read, or have a
    /// [fate](crate::pool::Pool::fate), or wait for more than time.
    pub fn retain_under_way(&self, hashes: &mut Vec<B256>) {
        // Before the pools: whatever the sequencer had to do when a hash was taken is done then.
        if !self.is_catching_up() {
            return hashes.clear();
        }
        let mut next = self.inner.pool.are_next(hashes.iter()).into_iter();
        let waits_beside = |hash: &B256| self.side().is_some_and(|side| side.waits(hash));
        hashes.retain(|hash| next.next() == Some(true) || waits_beside(hash));
    }

    /// Returns whether blocks are made as transactions come, and the sequencer has yet to handle some.
    pub fn is_catching_up(&self) -> bool {
        self.inner.signal.is_catching_up() && self.inner.failure.get().is_none()
    }

    /// Returns how often a block was published, or the sequencer became idle.
    pub fn moves(&self) -> u64 {
        self.inner.signal.moves()
    }

    /// Waits until [`Chain::moves`] exceeds `seen`, at most `patience`.
    pub fn wait_for_move(&self, seen: u64, patience: Duration) {
        self.inner.signal.wait_for_move(seen, patience);
    }

    /// Waits at most `patience` until all accepted transactions that can be in a block are in one, if blocks are made
    /// as transactions come. Returns whether that happened.
    pub fn caught_up(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        while self.is_catching_up() {
            let seen = self.moves();
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            if self.is_catching_up() {
                self.wait_for_move(seen, left);
            }
        }
        true
    }

    /// Waits at most `patience` until each of `hashes` is in a block, has left the pool, or waits behind a nonce gap.
    /// Returns whether that happened.
    pub fn settled(&self, hashes: &[B256], patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let events = self.subscribe();
        while hashes.iter().any(|hash| self.is_next(hash)) {
            let Some(left) = end.checked_duration_since(Instant::now()) else { return false };
            // A drop is no event of the chain.
            events.next_within(left.min(LOOK_AGAIN));
        }
        true
    }

    /// Returns whether a transaction is in the pool without a nonce gap before it.
    fn is_next(&self, hash: &B256) -> bool {
        let Some(tx) = self.inner.pool.get(hash) else { return false };
        if self.tx(hash).is_some() {
            return false;
        }
        let state_nonce = self.view().account(&tx.sender).map_or(0, |account| account.nonce);
        alloy_consensus::Transaction::nonce(&tx.envelope) < self.inner.pool.next_nonce(&tx.sender, state_nonce)
    }
}

/// Returns the sidecars of transactions that have a sender, each with the transaction's hash.
fn of_recovered(
    recovered: &[Result<SharedTx, TxError>],
    sidecars: Vec<(usize, SharedSidecar)>,
) -> Vec<(B256, SharedSidecar)> {
    let with_hash = |(at, sidecar): (usize, SharedSidecar)| Some((recovered[at].as_ref().ok()?.hash, sidecar));
    sidecars.into_iter().filter_map(with_hash).collect()
}

impl Inner {
    /// Stores sidecars before the pool has their transactions, which a block may take a moment later; returns the
    /// transactions for whose sidecars there is no room.
    fn put_sidecars(&self, sidecars: &[(B256, SharedSidecar)]) -> Vec<B256> {
        let kept = self.pool.sidecars();
        let without_room = sidecars.iter().filter(|(hash, sidecar)| !kept.put(*hash, Arc::clone(sidecar)));
        without_room.map(|(hash, _)| *hash).collect()
    }

    /// After the pool's decision: drops the sidecars of refused transactions.
    fn settle_sidecars(&self, sidecars: &[(B256, SharedSidecar)]) {
        for (hash, sidecar) in sidecars {
            if self.pool.get(hash).is_some() {
                // Meanwhile the pool may have dropped the same transaction, and accepted it again.
                self.pool.sidecars().put(*hash, Arc::clone(sidecar));
            } else {
                self.pool.sidecars().forget(hash);
            }
        }
        if !sidecars.is_empty() {
            self.pool.sidecars().make_room();
        }
    }

    /// Gives transactions to the pool, and keeps the accepted ones before any subscriber is notified.
    fn take(&self, txs: Vec<SharedTx>) -> Vec<Result<(), SubmitError>> {
        let journaled = self.journal.as_ref().map(|journal| (journal, txs.clone()));
        let mut results: Vec<Result<(), SubmitError>> =
            self.add(txs).into_iter().map(|result| result.map_err(SubmitError::from)).collect();
        let Some((journal, txs)) = journaled else { return results };
        let taken: Vec<SharedTx> =
            txs.iter().zip(&results).filter(|(_, result)| result.is_ok()).map(|(tx, _)| tx.clone()).collect();
        let Err(error) = journal.append(&taken, &self.pool) else { return results };
        tracing::error!(%error, "what comes is refused: it would not outlive this program");
        for (tx, result) in txs.iter().zip(&mut results).filter(|(_, result)| result.is_ok()) {
            // Transactions that are in a block meanwhile are stored with it.
            if self.pool.remove(&tx.hash, DropReason::Refused(error.to_string())) {
                *result = Err(SubmitError::NotKept(error.to_string()));
            }
        }
        results
    }

    /// Makes the pending transactions of an earlier run pending again. One that cannot be gets a fate, unless it is in
    /// a block.
    pub(super) fn add_again(&self, waiting: AcceptedTxs) {
        let AcceptedTxs { txs, sidecars } = waiting;
        let kept = self.pool.sidecars();
        for (hash, sidecar) in sidecars {
            kept.put(hash, sidecar);
            // Removed at once, so that it takes no room from the pending ones.
            if let Some((block, _)) = self.tx(&hash) {
                kept.include(block.number(), [&hash]);
            }
        }
        let refused = self.add(txs.clone()).into_iter().zip(txs);
        for (error, tx) in refused.filter_map(|(result, tx)| Some((result.err()?, tx))) {
            if error != PoolError::AlreadyKnown && self.tx(&tx.hash).is_none() {
                self.pool.note(tx, DropReason::Invalid(error));
            }
        }
        kept.make_room();
    }

    /// Gives transactions to the pool.
    pub(super) fn add(&self, txs: Vec<SharedTx>) -> Vec<Result<(), PoolError>> {
        if txs.is_empty() {
            return Vec::new();
        }
        // Read before the view: the pool rejects a view from before a reorganization that happens meanwhile.
        let resets = self.pool.resets();
        let (head, view) = self.head_and_view();
        let base_fee = self.base_fee_after(&(&*head).into());
        // The next block's limit: a transaction that exceeds it is refused now.
        let gas_limit = self.dev.lock().clock.gas_limit.unwrap_or(head.header.gas_limit);
        let results = self.pool.add_seen(txs, &view, base_fee, gas_limit, resets);
        if results.iter().any(Result::is_ok) {
            self.signal.transactions();
        }
        results
    }
}

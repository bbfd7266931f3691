//! A block's effect on the UTXO ledger, from its execution until it is published.
//!
//! reads   the block's transactions of this ledger; the logs of the EVM's transactions
//! writes  the ledger's log; the pool, when the block is published
//! memory  the block's changes
//! drops   transactions that the set rejects: the pool remembers why

use std::fmt;

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::B256;
use hearth_evm::block::Receipt;
use hearth_evm::exec::SpecId;
use hearth_evm::side::{SideBlock, SideError, SideTx};
use hearth_evm::tx::SharedTx as EvmTx;
use hearth_utxo::ledger::SetBuilder;
use hearth_utxo::rules::Refusal;
use hearth_utxo::{Session, SharedTx};

use super::{Utxo, opened};
use crate::prism;

/// A block of the UTXO ledger that is executed and perhaps committed.
pub(super) struct UtxoBlock {
    utxo: Utxo,
    /// The block's changes; `None` once it is committed.
    session: Option<Session>,
    /// Commitment in the block's header.
    commitment: B256,
    withdrawals: Vec<Withdrawal>,
    included: Vec<SideTx>,
    refused: Vec<(B256, Refusal)>,
    /// The whole set, where the block brings it.
    loading: Option<SetBuilder>,
    /// Number and hash, once it is committed.
    committed: Option<(u64, B256)>,
}

impl UtxoBlock {
    /// A block that begins with these transactions.
    pub fn executed(utxo: Utxo, spec: SpecId, txs: &[SideTx]) -> Self {
        let mut session = utxo.ledger().begin();
        let verdicts = match spec.is_enabled_in(SpecId::CANCUN) {
            true => session.apply(&txs.iter().map(opened).collect::<Vec<_>>()),
            // There would be no withdrawals to credit, nor a place for the commitment.
            false => vec![Err(Refusal::Fork); txs.len()],
        };
        let (mut included, mut refused) = (Vec::new(), Vec::new());
        for (tx, verdict) in txs.iter().zip(verdicts) {
            match verdict {
                Ok(()) => included.push(tx.clone()),
                Err(refusal) => refused.push((tx.id, refusal)),
            }
        }
        let (commitment, withdrawals) = (session.commitment(), prism::withdrawals(session.withdrawals()));
        let (loading, committed) = (None, None);
        Self { utxo, session: Some(session), commitment, withdrawals, included, refused, loading, committed }
    }

    /// Returns a block that loads the whole set and has no other effect on this ledger.
    pub fn loaded(utxo: Utxo, loading: SetBuilder) -> Self {
        let empty = Self::executed(utxo, SpecId::CANCUN, &[]);
        Self { commitment: loading.commitment(), loading: Some(loading), ..empty }
    }
}

impl SideBlock for UtxoBlock {
    fn commitment(&self) -> B256 {
        self.commitment
    }

    fn withdrawals(&self) -> &[Withdrawal] {
        &self.withdrawals
    }

    fn receive(&mut self, number: u64, txs: &[EvmTx], receipts: &[Receipt]) {
        let session = self.session.as_mut().expect("a block receives before it is committed");
        session.receive(number, &prism::incoming(txs, receipts));
    }

    fn transactions(&self) -> &[SideTx] {
        &self.included
    }

    fn refused(&self) -> Vec<(B256, String)> {
        self.refused.iter().map(|(id, refusal)| (*id, refusal.to_string())).collect()
    }

    fn is_untouched(&self) -> bool {
        self.included.is_empty() && self.refused.is_empty()
    }

    fn give_up(&self) {
        self.utxo.pool().refuse(&self.refused);
    }

    fn commit(&mut self, number: u64, hash: B256) -> Result<(), SideError> {
        let session = self.session.take().expect("a block is committed once");
        match self.loading.take() {
            Some(loading) => self.utxo.ledger().begin_with(loading, number, hash)?,
            None => self.utxo.ledger().commit(number, hash, session)?,
        }
        self.committed = Some((number, hash));
        Ok(())
    }

    fn shown(&self) -> Vec<SideError> {
        let (ledger, pool) = (self.utxo.ledger(), self.utxo.pool());
        pool.after_block(&self.included.iter().map(opened).collect::<Vec<SharedTx>>());
        pool.refuse(&self.refused);
        let shortened = match (self.utxo.0.retain_blocks, self.committed) {
            (0, _) | (_, None) => Ok(()),
            (retain, Some((number, hash))) => ledger.shorten(number, hash, retain),
        };
        let shrunk = self.utxo.0.waiting.as_ref().map_or(Ok(()), |waiting| waiting.shrink(pool));
        [shortened, shrunk].into_iter().filter_map(Result::err).map(SideError::from).collect()
    }
}

impl fmt::Debug for UtxoBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (included, refused) = (self.included.len(), self.refused.len());
        f.debug_struct("UtxoBlock").field("included", &included).field("refused", &refused).finish_non_exhaustive()
    }
}

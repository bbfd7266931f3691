//! The chain's calls to its [side ledger](crate::side), if it has one.
//!
//! reads   the side ledger's transactions, from clients and from the consensus engine
//! writes  a block's withdrawals, and the root that its contracts can read
//! memory  the side ledger's own
//! drops   refused transactions, with the error

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes, Log};
use revm::primitives::hardfork::SpecId;

use super::{Chain, ChainError, Inner, SubmitError};
use crate::block::Body;
use crate::exec::BlockEnv;
use crate::side::{SideBlock, SideError, SideLedger, SideTx};
use crate::tx::TxError;

/// A block's part in the side ledger; `None` if the chain has none.
#[derive(Debug)]
pub(super) struct Part(Option<Box<dyn SideBlock>>);

impl Part {
    /// Returns the amounts credited in the EVM after its transactions.
    pub fn withdrawals(&self) -> &[Withdrawal] {
        self.0.as_ref().map(|part| part.withdrawals()).unwrap_or_default()
    }

    /// Moves what the EVM's transactions have deposited with the contract into the side ledger.
    pub fn receive(&mut self, number: u64, body: &Body) {
        if let Some(part) = &mut self.0 {
            part.receive(number, &body.txs, &body.receipts);
        }
    }

    /// Returns the transactions of the block, in order.
    pub fn transactions(&self) -> &[SideTx] {
        self.0.as_ref().map(|part| part.transactions()).unwrap_or_default()
    }

    /// The ids of those given that are not in it, and why.
    pub fn refused(&self) -> Vec<(B256, String)> {
        self.0.as_ref().map(|part| part.refused()).unwrap_or_default()
    }

    /// Whether no transaction of the side ledger was given.
    pub fn is_untouched(&self) -> bool {
        self.0.as_ref().is_none_or(|part| part.is_untouched())
    }

    /// Abandons the block: the side ledger stays as it was.
    pub fn give_up(&self) {
        if let Some(part) = &self.0 {
            part.give_up();
        }
    }

    /// Stores the block's changes, before the chain stores the block.
    pub fn commit(&mut self, number: u64, hash: B256) -> Result<(), ChainError> {
        self.0.as_mut().map_or(Ok(()), |part| Ok(part.commit(number, hash)?))
    }

    /// Called when readers can see the committed block. Returns what could not be cleaned up.
    pub fn shown(&self) -> Vec<SideError> {
        self.0.as_ref().map(|part| part.shown()).unwrap_or_default()
    }
}

impl Inner {
    /// Returns the side ledger.
    pub(super) fn side(&self) -> Option<&(dyn SideLedger + 'static)> {
        self.side.as_deref()
    }

    /// Returns the commitment to the side ledger's current state; zeros without one, as on every Ethereum chain without
    /// a beacon chain.
    pub(super) fn side_commitment(&self) -> B256 {
        self.side().map_or(B256::ZERO, |side| side.commitment())
    }

    /// Returns the side ledger's transactions that wait for a block.
    pub(super) fn side_best(&self) -> Vec<SideTx> {
        self.side().map(|side| side.best(usize::MAX)).unwrap_or_default()
    }

    /// Executes the side ledger's transactions of a block, and puts their commitment into the header's environment.
    pub(super) fn begin_side(&self, env: &mut BlockEnv, txs: &[SideTx]) -> Part {
        let part = self.side().map(|side| side.begin(env.spec, txs));
        if let Some(part) = part.as_ref().filter(|_| env.spec.is_enabled_in(SpecId::CANCUN)) {
            env.parent_beacon_block_root = Some(part.commitment());
        }
        Part(part)
    }

    /// As [`Inner::begin_side`], of a block that brings the whole set of these items.
    pub(super) fn load_side(&self, env: &mut BlockEnv, items: &[Bytes]) -> Result<Part, ChainError> {
        let side = self.side().filter(|_| env.spec.is_enabled_in(SpecId::CANCUN)).ok_or(ChainError::SideInUse)?;
        let part = side.begin_with(items)?;
        env.parent_beacon_block_root = Some(part.commitment());
        Ok(Part(Some(part)))
    }

    /// Returns a function that says whether a log takes something to the side ledger.
    pub(super) fn is_crossing(&self) -> impl Fn(&Log) -> bool {
        let contract = self.config.genesis.side.as_ref().map(|side| side.kind().address());
        move |log: &Log| Some(log.address) == contract
    }

    /// Takes back all of the side ledger's blocks after `number`.
    pub(super) fn rewind_side(&self, number: u64) -> Result<(), ChainError> {
        self.side().map_or(Ok(()), |side| Ok(side.rewind(number)?))
    }
}

impl Chain {
    /// Returns the side ledger as it is after [`Chain::head`] or, for a moment, the block after it.
    pub fn side(&self) -> Option<&(dyn SideLedger + 'static)> {
        self.inner.side()
    }

    /// Whether bytes are meant for the side ledger and not for the EVM's.
    pub fn is_side(&self, raw: &[u8]) -> bool {
        self.side().is_some_and(|side| side.is_own(raw))
    }

    /// Takes raw transactions of the side ledger: the id of each, or why it is not taken.
    pub fn submit_side(&self, raw: &[&Bytes]) -> Vec<Result<B256, SubmitError>> {
        if raw.is_empty() {
            return Vec::new();
        }
        let Some(side) = self.side() else { return vec![Err(TxError::Type.into()); raw.len()] };
        let results = side.submit(raw);
        if results.iter().any(Result::is_ok) {
            self.inner.signal.transactions();
        }
        results.into_iter().map(|result| result.map_err(SubmitError::from)).collect()
    }

    /// Decodes transactions of the side ledger and verifies their signatures: for blocks of a consensus engine.
    pub fn verify_side(&self, raw: &[&Bytes]) -> Vec<Result<SideTx, SubmitError>> {
        let Some(side) = self.side() else { return vec![Err(TxError::Type.into()); raw.len()] };
        side.verify(raw).into_iter().map(|result| result.map_err(SubmitError::from)).collect()
    }

    /// Transactions of the side ledger for the next block, of at most `bytes_max` bytes. They stay in the pool.
    pub fn propose_side(&self, bytes_max: usize) -> Vec<SideTx> {
        self.side().map(|side| side.best(bytes_max)).unwrap_or_default()
    }
}

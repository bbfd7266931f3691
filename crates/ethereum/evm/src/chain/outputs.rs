//! The ledger of outputs ([`hearth_utxo`]), whose transactions are in the same blocks.
//!
//! reads   its transactions from clients and from the consensus engine; the logs of the prism contract
//! writes  a block's withdrawals and the root that its contracts can read; the other ledger's log
//! memory  that ledger's set and pool
//! drops   what is not taken, with the error; what is given up later, with a reason that its pool remembers
//!
//! Of a block, that ledger's transactions come first and the EVM's after them: what goes to the EVM is credited at the
//! end as withdrawals, and what comes from there is known once its transactions have run. The header holds what stands
//! for the set in between; the rest of what the block does there follows from its receipts. So the block's hash is of
//! both ledgers. On disk that ledger is written first, and counts only if the chain's own commit follows.
//!
//! The other modules of the chain ask this one and know nothing of that ledger's crate.

use std::path::Path;

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{B256, Bytes};
use hearth_utxo::ledger::{BLOCK_BYTES, Head, LedgerError};
use hearth_utxo::pool::PoolConfig;
use hearth_utxo::prism::Incoming;
use hearth_utxo::rules::Refusal;
use hearth_utxo::tx::{Checker, Unverified};
use hearth_utxo::waiting::Waiting;
use hearth_utxo::{Ledger, Pool, Session, SharedTx, tx};
use revm::primitives::hardfork::SpecId;

use super::produce::Ready;
use super::{Chain, ChainConfig, ChainError, SubmitError};
use crate::block::{Block, Body, Receipt};
use crate::exec::BlockEnv;
use crate::{prism, tx as evm_tx};

pub(super) use hearth_utxo::SharedTx as OutputTx;
pub(super) use hearth_utxo::ledger::{Capture, Loading};

/// The other ledger, and what waits for it.
pub(super) struct Outputs {
    pub ledger: Ledger,
    pub pool: Pool,
    checker: Checker,
    waiting: Option<Waiting>,
    /// Of how many of the last blocks records are kept; 0: of all.
    retain_blocks: u64,
}

/// What goes to that ledger with a block that loads it.
pub(super) struct Load {
    pub set: Loading,
    pub commitment: B256,
}

/// What a block does there.
pub(super) struct Part {
    session: Session,
    refused: Vec<(B256, Refusal)>,
    /// The set that it begins with, where it was empty.
    load: Option<Loading>,
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (taken, refused) = (self.session.transactions().len(), self.refused.len());
        write!(f, "Part {{ taken: {taken}, refused: {refused} }}")
    }
}

impl Outputs {
    /// The ledger as it is after the chain's newest block; of blocks up to `synced` everything was on disk.
    pub fn open(
        config: &ChainConfig,
        head: &Block,
        hash_of: &dyn Fn(u64) -> Option<B256>,
        synced: u64,
    ) -> Result<Self, ChainError> {
        let (dir, chain_id, retain_blocks) = (config.dir.as_deref(), config.genesis.chain_id, config.retain_blocks);
        let (number, hash) = (head.number(), head.hash);
        let incoming = incoming(&head.txs, &head.receipts);
        let head = Head {
            number,
            hash_of,
            // That of the genesis is zero on every chain of Ethereum's.
            commitment: head.header.parent_beacon_block_root.filter(|_| number > 0),
        };
        let ledger = Ledger::open_synced(dir, chain_id, &head, synced)?;
        let at_begin = config.genesis.outputs.as_ref().filter(|_| number == 0);
        if let Some(begin) = at_begin.filter(|begin| begin.commitment() != ledger.commitment()) {
            ledger.restore(begin.loading(), 0, hash, Some(begin.commitment()), &[])?;
        }
        if !incoming.is_empty() {
            ledger.require(number)?;
        }
        let (waiting, before) = dir.map(Waiting::open).transpose()?.unzip();
        let (pool, checker) = (Pool::new(PoolConfig::default()), Checker::default());
        let outputs = Self { ledger, pool, checker, waiting, retain_blocks };
        // What waited when the program ended waits again; what is in a block is refused as such.
        let before = before.unwrap_or_default();
        let verified = outputs.verify(&before.iter().collect::<Vec<_>>());
        outputs.pool.add(&outputs.ledger, verified.into_iter().flatten().collect());
        Ok(outputs)
    }

    /// Whether a chain of these blocks cannot be opened for want of that ledger's newest records.
    pub fn is_behind(error: &ChainError) -> bool {
        matches!(error, ChainError::Outputs(LedgerError::Behind { .. }))
    }

    /// What stands for a set without outputs.
    pub fn empty_commitment(chain_id: u64) -> Result<B256, ChainError> {
        let head = Head { number: 0, hash_of: &|_| None, commitment: None };
        Ok(Ledger::open(None, chain_id, &head)?.commitment())
    }

    /// Takes away what is of that ledger in the folder of a chain that is not open.
    pub fn clear(dir: &Path) -> Result<(), ChainError> {
        Ok(hearth_utxo::ledger::clear(dir)?)
    }

    /// Whether bytes are meant for that ledger and not for the EVM's.
    pub fn is_own(raw: &[u8]) -> bool {
        tx::is_ours(raw)
    }

    /// Whether a transaction waits for a block.
    pub fn waits(&self, id: &B256) -> bool {
        self.pool.get(id).is_some()
    }

    /// Lets transactions into the pool.
    fn submit(&self, raw: &[&Bytes]) -> Vec<Result<B256, SubmitError>> {
        if raw.is_empty() {
            return Vec::new();
        }
        let (mut good, mut at) = (Vec::new(), Vec::new());
        let mut results: Vec<Result<B256, SubmitError>> = Vec::with_capacity(raw.len());
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
                Err(error) => results[index] = Err(error.into()),
            }
        }
        if let Some(waiting) = &self.waiting
            && let Err((error, gone)) = waiting.keep(&self.pool, &taken)
        {
            tracing::error!(%error, "what comes is refused: it would not outlive this program");
            // What is in a block meanwhile is kept there.
            for index in places.into_iter().zip(gone).filter_map(|(index, gone)| gone.then_some(index)) {
                results[index] = Err(SubmitError::NotKept(error.to_string()));
            }
        }
        results
    }

    /// The transactions of these bytes, their signatures verified in one burst.
    fn verify(&self, raw: &[&Bytes]) -> Vec<Result<SharedTx, SubmitError>> {
        let decoded: Vec<_> = raw.iter().map(|raw| tx::decode(raw, self.ledger.chain_id())).collect();
        let burst: Vec<Unverified> = decoded.iter().filter_map(|one| one.as_ref().ok().cloned()).collect();
        let mut verified = self.checker.verify(burst).into_iter();
        let judge = |one: Result<Unverified, tx::TxError>| {
            one.and_then(|_| verified.next().expect("one for each that decodes")).map_err(SubmitError::from)
        };
        decoded.into_iter().map(judge).collect()
    }

    /// What waits for a block, as much as one may hold.
    pub fn best(&self) -> Vec<SharedTx> {
        self.pool.best(BLOCK_BYTES)
    }

    /// Executes that ledger's transactions of a block, and sets what the block's header says of it.
    pub fn begin(&self, env: &mut BlockEnv, txs: &[SharedTx]) -> Part {
        let mut session = self.ledger.begin();
        let verdicts = match env.spec.is_enabled_in(SpecId::CANCUN) {
            true => session.apply(txs),
            // There would be no withdrawals to credit, nor a place for the commitment.
            false => vec![Err(Refusal::Fork); txs.len()],
        };
        let refused = txs.iter().zip(verdicts).filter_map(|(tx, verdict)| Some((tx.id, verdict.err()?))).collect();
        env.parent_beacon_block_root = env.spec.is_enabled_in(SpecId::CANCUN).then(|| session.commitment());
        Part { session, refused, load: None }
    }

    /// Keeps what a block does, before the chain keeps the block.
    pub fn commit(&self, block: &Block, part: Part) -> Result<Kept, ChainError> {
        let (number, hash) = (block.number(), block.hash);
        let kept = Kept { number, hash, included: part.session.transactions().to_vec(), refused: part.refused };
        match part.load {
            Some(set) => self.ledger.begin_with(set, block.number(), block.hash)?,
            None => self.ledger.commit(block.number(), block.hash, part.session)?,
        }
        Ok(kept)
    }

    /// Tells the pool what a block did, once everybody can see it; and lets go of what its two files need no more. Each
    /// of them does what it can: gives why one could not.
    pub fn after_block(&self, kept: &Kept) -> [Result<(), ChainError>; 2] {
        self.pool.after_block(&kept.included);
        self.pool.refuse(&kept.refused);
        let shortened = match self.retain_blocks {
            0 => Ok(()),
            retain => self.ledger.shorten(kept.number, kept.hash, retain),
        };
        let shrunk = self.waiting.as_ref().map_or(Ok(()), |waiting| waiting.shrink(&self.pool));
        [shortened.map_err(ChainError::from), shrunk.map_err(ChainError::from)]
    }

    /// Takes back all blocks after `number`.
    pub fn rewind(&self, number: u64) -> Result<(), ChainError> {
        self.ledger.rewind(number)?;
        self.reset_pool();
        Ok(())
    }

    /// Begins with the set after `block`, which its header commits to.
    pub fn restore(&self, set: Loading, block: &Block) -> Result<(), ChainError> {
        let incoming = incoming(&block.txs, &block.receipts);
        let header = block.header.parent_beacon_block_root;
        Ok(self.ledger.restore(set, block.number(), block.hash, header, &incoming)?)
    }

    /// Tells the pool that the set is another one.
    pub fn reset_pool(&self) {
        self.pool.reset(&self.ledger);
    }

    /// What brings all that is kept to disk, from any thread.
    pub fn syncer(&self) -> impl Fn() -> Result<(), String> + Send + Sync + use<> {
        let ledger = self.ledger.clone();
        move || ledger.sync().map_err(|error| error.to_string())
    }

    /// From now on what waited and is in a block does not wait again at a start.
    pub fn keep_pool(&self) -> Result<(), ChainError> {
        Ok(self.waiting.as_ref().map_or(Ok(()), |waiting| waiting.rewrite(&self.pool))?)
    }

    /// What stands for the set now.
    pub fn commitment(&self) -> B256 {
        self.ledger.commitment()
    }
}

/// What a block did, for the pool.
pub(super) struct Kept {
    number: u64,
    hash: B256,
    included: Vec<SharedTx>,
    refused: Vec<(B256, Refusal)>,
}

impl Part {
    /// The block, in which nothing else happens there, brings the whole set.
    pub fn load(&mut self, env: &mut BlockEnv, load: Load) -> Result<(), ChainError> {
        if !env.spec.is_enabled_in(SpecId::CANCUN) {
            return Err(ChainError::OutputsInUse);
        }
        env.parent_beacon_block_root = Some(load.commitment);
        self.load = Some(load.set);
        Ok(())
    }

    /// What is credited in the EVM after its transactions.
    pub fn withdrawals(&self) -> Vec<Withdrawal> {
        prism::withdrawals(self.session.withdrawals())
    }

    /// Makes outputs of what the EVM's transactions have left with the contract.
    pub fn receive(&mut self, number: u64, body: &Body) {
        self.session.receive(number, &incoming(&body.txs, &body.receipts));
    }

    /// What is in the block, in order.
    pub fn transactions(&self) -> &[SharedTx] {
        self.session.transactions()
    }

    /// What cannot be, and why.
    pub fn refused(&self) -> &[(B256, Refusal)] {
        &self.refused
    }

    /// Whether no transaction of that ledger was given.
    pub fn is_untouched(&self) -> bool {
        self.session.transactions().is_empty() && self.refused.is_empty()
    }

    /// Gives up on the block: what it refused leaves the pool all the same.
    pub fn give_up(self, outputs: &Outputs) {
        outputs.pool.refuse(&self.refused);
    }
}

/// What a block's transactions take to that ledger.
fn incoming(txs: &[evm_tx::SharedTx], receipts: &[Receipt]) -> Vec<Incoming> {
    prism::incoming(txs.iter().zip(receipts).map(|(tx, receipt)| (tx.hash, &receipt.logs[..])))
}

impl Ready {
    /// Transactions of the ledger of outputs that are in it, in order.
    pub fn outputs(&self) -> &[SharedTx] {
        self.part.transactions()
    }

    /// The ids of those given that are not in it, and why.
    pub fn outputs_refused(&self) -> &[(B256, Refusal)] {
        self.part.refused()
    }
}

impl Chain {
    /// The ledger of outputs, as it is after [`Chain::head`] or, for a moment, the block after it.
    pub fn outputs(&self) -> &Ledger {
        &self.inner.outputs.ledger
    }

    /// Transactions of the ledger of outputs that wait.
    pub fn outputs_pool(&self) -> &Pool {
        &self.inner.outputs.pool
    }

    /// Takes raw transactions of the ledger of outputs: the id of each, or why it is not taken.
    pub fn submit_outputs(&self, raw: &[&Bytes]) -> Vec<Result<B256, SubmitError>> {
        let results = self.inner.outputs.submit(raw);
        if results.iter().any(Result::is_ok) {
            self.inner.signal.transactions();
        }
        results
    }

    /// Decodes transactions of the ledger of outputs and verifies their signatures: for blocks of a consensus engine.
    pub fn verify_outputs(&self, raw: &[&Bytes]) -> Vec<Result<SharedTx, SubmitError>> {
        self.inner.outputs.verify(raw)
    }

    /// Transactions of the ledger of outputs for the next block, of at most `bytes_max` bytes. They stay in the pool.
    pub fn propose_outputs(&self, bytes_max: usize) -> Vec<SharedTx> {
        self.inner.outputs.pool.best(bytes_max.min(BLOCK_BYTES))
    }
}

#[cfg(test)]
mod tests;

//! Imported blocks: each is verified by every rule and executed before it is appended.
//!
//! reads   an imported block; the newest block and the state after it
//! writes  a block of the chain; nothing if it breaks a rule
//! memory  the changes of one block, twice if both paths execute it
//! drops   a block that breaks a rule: an error that names it and the rule
//!
//! The rules themselves are in [`crate::import`]. A block in Ethereum's form has no part for the side ledger: a chain
//! with such a ledger imports only blocks in which nothing happens there.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::B256;

use super::produce::SealedBlock;
use super::side::Part;
use super::times::{BlockTimes, Lap};
use super::work::{Credits, execute_in_order};
use super::{Chain, ChainError, Inner};
use crate::block::{Block, Body};
use crate::exec::{BlockEnv, BlockExecution, SpecId};
use crate::import::{
    BlockOutcome, GENERATIONS, GivenBlock, InvalidBlock, check_body, check_header, check_ommers, check_outcome, env_of,
    expect_result, senders,
};
use crate::parallel::{execute_on, execute_parallel};
use crate::state::{Changes, State, StateError, StateView};
use crate::tx::SharedTx;

/// By which path a given block is executed. One from before Byzantium is executed in order, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paths {
    /// One transaction after the other.
    Serial,
    /// On up to this many threads, as for the chain's own blocks.
    Threads(usize),
    /// On both paths: in order, and again on exactly this many threads. A difference is an error.
    Both(usize),
}

/// Why a given block is not appended.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It breaks a rule. Nothing has changed.
    #[error("block {number} ({hash}) is invalid: {why}")]
    Invalid {
        /// The height it says it has.
        number: u64,
        /// Keccak-256 of the block's header.
        hash: B256,
        /// The rule that it breaks.
        why: InvalidBlock,
    },
    /// The block cannot be stored.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// A given block that is the newest now.
#[derive(Clone, Debug)]
pub struct ImportedBlock {
    /// The block with its receipts.
    pub block: Arc<Block>,
    /// The changes of the state.
    pub changes: Arc<Changes>,
}

/// Why a block is given up on half way.
enum Stop {
    Invalid(InvalidBlock),
    Chain(ChainError),
}

impl From<InvalidBlock> for Stop {
    fn from(why: InvalidBlock) -> Self {
        Self::Invalid(why)
    }
}

impl From<StateError> for Stop {
    fn from(why: StateError) -> Self {
        Self::Chain(why.into())
    }
}

impl Chain {
    /// Verifies a block made elsewhere, executes it, and makes it the newest. It must follow the newest one. If it
    /// breaks a rule, nothing has changed.
    pub fn import(&self, given: GivenBlock, paths: Paths) -> Result<ImportedBlock, ImportError> {
        let (number, hash) = (given.header.number, given.hash);
        let mut state = self.inner.writer()?;
        let ready = self.inner.verified(&state, given, paths).map_err(|stop| match stop {
            Stop::Invalid(why) => ImportError::Invalid { number, hash, why },
            Stop::Chain(error) => error.into(),
        })?;
        let changes = ready.changes.clone();
        let block = self.inner.append(&mut state, ready)?;
        Ok(ImportedBlock { block, changes })
    }
}

impl Inner {
    /// The block, executed on the newest state, with every rule kept.
    fn verified(&self, state: &State, given: GivenBlock, paths: Paths) -> Result<SealedBlock, Stop> {
        let mut lap = Lap::new();
        let (parent, view) = self.head_and_view();
        let genesis = &self.config.genesis;
        let GivenBlock { header, hash, txs, ommers, withdrawals, size } = given;
        check_header(&header, &parent.header, parent.hash, genesis)?;
        self.check_ommers(&header, &ommers)?;
        let mut env = env_of(&header, genesis);
        let txs = senders(txs)?;
        check_body(&header, env.spec, &txs, withdrawals.as_deref(), size)?;
        let withdrawals = withdrawals.unwrap_or_default();
        let mut part = self.begin_side(&mut env, &[]);
        self.check_side(&env, header.parent_beacon_block_root, &part, &withdrawals)?;
        let begin_us = lap.us();
        let credits = Credits::of(&header, &ommers, &withdrawals, genesis);
        let (mut executed, roots) = execute_given(&view, &env, &txs, paths)?;
        credits.add(&view, &mut executed.changes)?;
        let times = BlockTimes { begin_us, deliver_us: lap.us(), ..Default::default() };
        if let Paths::Both(threads) = paths
            && env.spec.is_enabled_in(SpecId::BYZANTIUM)
        {
            let mut again = execute_on(&view, &env, &txs, threads);
            credits.add(&view, &mut again.changes)?;
            compare(state, &executed, &again, threads)?;
        }
        let outcome = BlockOutcome {
            verdicts: &executed.verdicts,
            roots: &roots,
            gas_used: executed.gas_used,
            requests: &executed.requests,
            fault: executed.fault.as_ref(),
        };
        let body = check_outcome(&header, &txs, withdrawals, outcome)?;
        expect_result("stateRoot", "merkle root", header.state_root, state.root_after(&executed.changes))?;
        part.receive(env.number, &body);
        let Body { txs, receipts, withdrawals } = body;
        let block = Block { header, hash, txs, receipts, ommers, withdrawals };
        Ok(SealedBlock::given(block, executed.changes, part, times))
    }

    /// Refuses ommers that a block after the newest cannot have.
    fn check_ommers(&self, header: &Header, ommers: &[Header]) -> Result<(), InvalidBlock> {
        let before = (0..header.number).rev().take(if ommers.is_empty() { 0 } else { GENERATIONS });
        let ancestors: Vec<Arc<Block>> = before.map_while(|number| self.block(number)).collect();
        check_ommers(header, ommers, &ancestors, &self.config.genesis)
    }

    /// Refuses a block that would need an operation in the side ledger, if the chain has one.
    fn check_side(
        &self,
        env: &BlockEnv,
        beacon_root: Option<B256>,
        part: &Part,
        withdrawals: &[Withdrawal],
    ) -> Result<(), InvalidBlock> {
        if self.side().is_none() {
            return Ok(());
        }
        let (found, wanted) = (beacon_root.unwrap_or_default(), env.parent_beacon_block_root.unwrap_or_default());
        if found != wanted {
            let words = format!("invalid parentBeaconRoot: have {found}, want {wanted}: the ledger of outputs");
            return Err(InvalidBlock::field("parentBeaconBlockRoot", words));
        }
        if part.withdrawals() == withdrawals {
            return Ok(());
        }
        let (found, wanted) = (withdrawals.len(), part.withdrawals().len());
        let words = format!("{found} withdrawals, not the {wanted} of this chain's ledger of outputs");
        Err(InvalidBlock::field("withdrawals", words))
    }
}

/// Executes the block by the first of the paths. Before Byzantium that is in order, since a receipt has the root of the
/// state after its transaction; it is given besides.
fn execute_given(
    view: &StateView,
    env: &BlockEnv,
    txs: &[SharedTx],
    paths: Paths,
) -> Result<(BlockExecution, Vec<B256>), StateError> {
    match paths {
        Paths::Threads(threads) if env.spec.is_enabled_in(SpecId::BYZANTIUM) => {
            Ok((execute_parallel(view, env, txs, threads), Vec::new()))
        }
        _ => execute_in_order(view, env, txs),
    }
}

/// Refuses two executions of one block that differ.
fn compare(
    state: &State,
    serial: &BlockExecution,
    parallel: &BlockExecution,
    threads: usize,
) -> Result<(), InvalidBlock> {
    let differs = |what: &'static str| InvalidBlock::Paths { threads, what };
    if serial.verdicts != parallel.verdicts || serial.gas_used != parallel.gas_used {
        return Err(differs("receipts"));
    }
    if serial.requests != parallel.requests || serial.fault != parallel.fault {
        return Err(differs("requests"));
    }
    if state.root_after(&parallel.changes) != state.root_after(&serial.changes) {
        return Err(differs("state"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;

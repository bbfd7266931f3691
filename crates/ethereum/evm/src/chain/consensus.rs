//! The chain under a consensus engine: proposing, executing and committing are separate steps.
//!
//! reads   what the engine has decided
//! writes  the same block on every node: everything in it follows from the input and the parent

use std::sync::Arc;

use alloy_primitives::{Address, B256};

use super::produce::{SealedBlock, UnsealedBlock, refuse_work};
use super::times::{BlockTimes, Lap};
use super::{Chain, ChainError};
use crate::block::Block;
use crate::side::SideTx;
use crate::tx::SharedTx;

/// A consensus engine's decision about a block.
#[derive(Clone, Debug, Default)]
pub struct BlockInput {
    /// Height: one above the newest block's.
    pub number: u64,
    /// Seconds since 1970. One that is not above the parent's is taken as the parent's.
    pub timestamp: u64,
    /// The account that receives the block's tips.
    pub beneficiary: Address,
    /// The value of `PREVRANDAO`; by default it is derived from the parent and the block before it.
    pub prevrandao: Option<B256>,
    /// The transactions, in order; those that cannot be in the block are left out of it.
    pub txs: Vec<SharedTx>,
    /// Transactions of the side ledger, in order; they come before the EVM's, and those that cannot be in the block are
    /// left out of it.
    pub side: Vec<SideTx>,
}

impl Chain {
    /// Transactions for the next block, best first, of at most `bytes_max` bytes together. They stay in the pool.
    pub fn propose(&self, bytes_max: usize) -> Vec<SharedTx> {
        let env = self.pending_env();
        let mut bytes = 0;
        let mut txs = self.inner.pool.best(env.base_fee, env.gas_limit);
        let fitting = txs.iter().take_while(|tx| {
            bytes += tx.raw.len();
            bytes <= bytes_max
        });
        let count = fitting.count();
        txs.truncate(count);
        txs
    }

    /// Executes a block on the newest one. Readers do not see it before [`Chain::commit`].
    pub fn execute_block(&self, input: BlockInput) -> Result<SealedBlock, ChainError> {
        let state = self.inner.writer()?;
        let mut lap = Lap::new();
        let (parent, view) = self.head_and_view();
        if input.number != parent.number() + 1 {
            return Err(ChainError::NotNext { number: input.number, head: parent.number() });
        }
        let timestamp = input.timestamp.max(parent.header.timestamp);
        let mut clock = self.inner.dev.lock().clock.clone();
        clock.beneficiary = input.beneficiary;
        clock.prevrandao = input.prevrandao;
        let mut env = self.inner.env_at(&(&*parent).into(), input.number, timestamp, &clock);
        refuse_work(&env)?;
        let begin_us = lap.us();
        let part = self.inner.begin_side(&mut env, &input.side);
        let executed = self.inner.execute(&view, &env, &input.txs, part.withdrawals())?;
        let times = BlockTimes { begin_us, deliver_us: lap.us(), ..Default::default() };
        Ok(self.inner.seal(&state, UnsealedBlock::new(env, input.txs, executed, part, times)))
    }

    /// Makes an executed block the newest, visible to all readers.
    pub fn commit(&self, ready: SealedBlock) -> Result<Arc<Block>, ChainError> {
        let mut state = self.inner.writer()?;
        self.inner.append(&mut state, ready)
    }
}

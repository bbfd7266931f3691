//! Making a block: what it is made of, its execution, its roots, and handing it to everybody.
//!
//! reads   the pool's best; the newest block and the state after it
//! writes  the state, the published blocks, the pool, subscribers
//! memory  what one block changes
//! drops   transactions that execution refuses and that no later block could hold: with the reason, to the pool's fates
//!
//! The root of the transactions is made on another thread while those of state and receipts are made here.

use std::sync::{Arc, PoisonError};
use std::thread::ScopedJoinHandle;

use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, keccak256};
use revm::primitives::hardfork::SpecId;

use super::dev::Clock;
use super::outputs::{Kept, Part};
use super::times::{BlockTimes, Lap};
use super::{ChainError, ChainEvent, Inner, now_s};
use crate::block::{Block, Body, Roots, next_base_fee};
use crate::exec::{BlockEnv, Executed, Refusal, RefusalKind, Verdict};
use crate::pool::DropReason;
use crate::state::{Changes, State, StateView};
use crate::tx::SharedTx;

/// The base fee of the first block that has one, in wei.
const FIRST_BASE_FEE: u64 = 1_000_000_000;
/// From how many transactions on another thread makes their root.
const ROOTS_APART: usize = 64;

/// Blocks, and transactions in them, that stay in memory where there is a folder to read the others from.
const RECENT_BLOCKS: usize = 256;
const RECENT_TXS: usize = 100_000;

/// A block that is executed and sealed and that nobody has seen yet.
#[derive(Debug)]
pub struct Ready {
    /// The block.
    pub block: Arc<Block>,
    /// What it changes.
    pub changes: Changes,
    /// What of the transactions given is not in it: their places there, and why.
    pub refused: Vec<(usize, SharedTx, Refusal)>,
    pub(super) part: Part,
    /// What of the changes is no transaction's: it is kept with the block.
    pub(super) altered: Changes,
    pub(super) times: BlockTimes,
}

impl Ready {
    /// Transactions of the ledger of outputs that are in it, in order.
    pub fn outputs(&self) -> &[hearth_utxo::SharedTx] {
        self.part.transactions()
    }

    /// The ids of those given that are not in it, and why.
    pub fn outputs_refused(&self) -> &[(B256, hearth_utxo::rules::Refusal)] {
        self.part.refused()
    }
}

/// A block is being kept: a panic meanwhile is the last that is made.
struct Underway<'a>(&'a Inner);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a panic while a block was being kept".into());
        }
    }
}

/// Whether a block without transactions is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Empty {
    Made,
    Skipped,
}

impl Inner {
    /// The next block's environment, if it is made now.
    pub(super) fn next_env(&self, parent: &Block, clock: &Clock) -> BlockEnv {
        let number = parent.number() + 1;
        let timestamp = clock.timestamp(parent.header.timestamp, now_s());
        self.env_at(parent, number, timestamp, clock)
    }

    pub(super) fn env_at(&self, parent: &Block, number: u64, timestamp: u64, clock: &Clock) -> BlockEnv {
        let spec = self.config.genesis.spec(number, timestamp);
        let drawn = || keccak256([parent.hash.as_slice(), &number.to_be_bytes()].concat());
        BlockEnv {
            number,
            timestamp,
            beneficiary: clock.beneficiary,
            gas_limit: clock.gas_limit.unwrap_or(parent.header.gas_limit),
            base_fee: clock.base_fee.unwrap_or_else(|| self.base_fee_after(parent)),
            prevrandao: clock.prevrandao.unwrap_or_else(drawn),
            parent_hash: parent.hash,
            parent_beacon_block_root: spec.is_enabled_in(SpecId::CANCUN).then(|| self.outputs.commitment()),
            chain_id: self.config.genesis.chain_id,
            spec,
        }
    }

    /// By EIP-1559; nothing before London.
    pub(super) fn base_fee_after(&self, parent: &Block) -> u64 {
        let header = &parent.header;
        let next = self.config.genesis.spec(header.number + 1, header.timestamp);
        match header.base_fee_per_gas {
            Some(base_fee) => next_base_fee(header.gas_used, header.gas_limit, base_fee),
            None if next.is_enabled_in(SpecId::LONDON) => FIRST_BASE_FEE,
            None => 0,
        }
    }

    /// Makes a block of what the pool has. Nothing where there would be nothing in it and such are skipped.
    pub(super) fn make(&self, state: &mut State, empty: Empty) -> Result<Option<Arc<Block>>, ChainError> {
        let mut lap = Lap::new();
        let (parent, view) = self.head_and_view();
        let mut env = self.next_env(&parent, &super::lock(&self.dev).clock);
        let txs = self.pool.best(env.base_fee, env.gas_limit);
        let outputs = self.outputs.best();
        if txs.is_empty() && outputs.is_empty() && empty == Empty::Skipped {
            return Ok(None);
        }
        let part = self.outputs.begin(&mut env, &outputs);
        let begin_us = lap.us();
        let executed = self.execute(&view, &env, &txs, &part.withdrawals())?;
        let times = BlockTimes { begin_us, deliver_us: lap.us(), ..Default::default() };
        let ready = self.seal(state, &env, &txs, executed, part, times);
        if ready.block.txs.is_empty() && ready.part.is_empty() && empty == Empty::Skipped {
            self.give_up(&ready.refused);
            ready.part.give_up(&self.outputs);
            return Ok(None);
        }
        super::lock(&self.dev).clock.block_made(&ready.block);
        self.append(state, ready).map(Some)
    }

    /// The block of what was executed on the newest state, which is that of the block's parent.
    pub(super) fn seal(
        &self,
        state: &State,
        env: &BlockEnv,
        txs: &[SharedTx],
        executed: Executed,
        mut part: Part,
        mut times: BlockTimes,
    ) -> Ready {
        assert_eq!(state.head().block_hash(), env.parent_hash, "a block changes the state of its parent");
        let mut lap = Lap::new();
        let Executed { verdicts, changes, requests, .. } = executed;
        let refused = verdicts.iter().enumerate().filter_map(|(index, verdict)| match verdict {
            Verdict::Refused(refusal) => Some((index, txs[index].clone(), refusal.clone())),
            Verdict::Included(_) => None,
        });
        let refused = refused.collect();
        let body = Body { withdrawals: part.withdrawals(), ..Body::new(txs, verdicts, env.base_fee) };
        part.receive(env.number, &body);
        let extra_data = self.config.extra_data.clone();
        times.end_us = lap.us();
        let apart = body.txs.len() >= ROOTS_APART;
        let (state_root, roots) = std::thread::scope(|scope| {
            let transactions = apart.then(|| scope.spawn(|| body.transactions_root()));
            let state_root = state.root_after(&changes);
            times.evm_commit_us = lap.us();
            let (receipts, bloom) = (body.receipts_root(), body.bloom());
            let transactions = match transactions.map(ScopedJoinHandle::join) {
                Some(root) => root.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                None => body.transactions_root(),
            };
            (state_root, Roots { transactions, receipts, bloom })
        });
        times.end_us += lap.us();
        let block = Block::seal(env, body, roots, requests, state_root, extra_data);
        Ready { block, changes, refused, part, altered: Changes::default(), times }
    }

    /// Makes a sealed block the newest: keeps it, then shows it.
    pub(super) fn append(&self, state: &mut State, ready: Ready) -> Result<Arc<Block>, ChainError> {
        let Ready { block, changes, refused, part, altered, mut times } = ready;
        let head = self.published().head().clone();
        if block.number() != head.number() + 1 {
            return Err(ChainError::NotNext { number: block.number(), head: head.number() });
        }
        if block.header.parent_hash != head.hash {
            return Err(ChainError::OtherParent { number: block.number(), parent: block.header.parent_hash });
        }
        let touched: Vec<Address> = changes.accounts.keys().copied().collect();
        let outputs = self.keep(state, &block, part, &altered, changes, &mut times)?;
        let mut lap = Lap::new();
        let view = state.head();
        let gone = {
            let mut published = self.published.write().unwrap_or_else(PoisonError::into_inner);
            published.push(block.clone(), view.clone());
            self.store.as_ref().map(|_| published.shrink(RECENT_BLOCKS, RECENT_TXS))
        };
        self.hub.tell(&ChainEvent::Block(block.clone()));
        let next_spec = self.config.genesis.spec(block.number() + 1, block.header.timestamp);
        self.pool.set_spec(next_spec);
        self.pool.after_block(&block.txs, &touched, &view, self.base_fee_after(&block));
        self.give_up(&refused);
        // Everybody sees the block: what fails now is the files of what waits, which have more than they need.
        let shrunk = self.outputs.after_block(&outputs);
        let shrunk = shrunk.and_then(|()| self.journal.as_ref().map_or(Ok(()), |journal| journal.shrink(&self.pool)));
        if let Err(error) = shrunk {
            tracing::error!(%error, "what is in a block is still kept as waiting");
        }
        // Freed where no reader waits for it.
        drop(gone);
        times.commit_us += lap.us();
        self.times.made(&block, times);
        Ok(block)
    }

    /// Writes what a block does into every store, or into none.
    fn keep(
        &self,
        state: &mut State,
        block: &Block,
        part: Part,
        altered: &Changes,
        changes: Changes,
        times: &mut BlockTimes,
    ) -> Result<Kept, ChainError> {
        // Who panics here leaves it open how far it came.
        let underway = Underway(self);
        let mut lap = Lap::new();
        let outputs = self.outputs.commit(block, part)?;
        let stored = self.store.as_ref().map_or(Ok(()), |store| store.append(block, altered));
        times.commit_us = lap.us();
        let kept = stored.map_err(ChainError::from);
        let kept = kept.and_then(|()| Ok(state.commit(block.number(), block.hash, changes)?));
        times.evm_commit_us += lap.us();
        match kept {
            Ok(root) => assert_eq!(root, block.header.state_root, "the state's root is that of the header"),
            Err(error) => {
                self.take_back(block.number() - 1);
                return Err(error);
            }
        }
        drop(underway);
        Ok(outputs)
    }

    /// Takes back what was kept of the block after `number`, which nobody has seen. Where not even that can be
    /// written, the stores are of different blocks until the folder is opened again.
    fn take_back(&self, number: u64) {
        let stored = self.store.as_ref().map_or(Ok(()), |store| store.truncate(number));
        let taken = stored.map_err(ChainError::from).and_then(|()| self.outputs.rewind(number));
        if let Err(error) = taken {
            self.fail(format!("block {} is kept in part, and cannot be taken back: {error}", number + 1));
        }
    }

    /// Drops from the pool what no later block could hold; the rest stays for its time.
    fn give_up(&self, refused: &[(usize, SharedTx, Refusal)]) {
        use RefusalKind::{BaseFee, BlockGas, Funds, Invalid, NonceTooHigh, NonceTooLow};
        for (_, tx, refusal) in refused {
            match refusal.kind {
                NonceTooLow | Funds | Invalid => {
                    self.pool.remove(&tx.hash, DropReason::Refused(refusal.reason.clone()));
                }
                NonceTooHigh | BlockGas | BaseFee => {}
            }
        }
    }

    /// Executes a block and credits its withdrawals.
    pub(super) fn execute(
        &self,
        view: &StateView,
        env: &BlockEnv,
        txs: &[SharedTx],
        withdrawals: &[Withdrawal],
    ) -> Result<Executed, ChainError> {
        let mut executed = crate::parallel::execute_parallel(view, env, txs, self.config.threads);
        crate::prism::credit(view, &mut executed.changes, withdrawals)?;
        Ok(executed)
    }
}

//! The pending block: the block that would be made of the pool now, executed for readers and then forgotten.
//!
//! reads   the pool's best; the newest block and the state after it
//! writes  nothing that outlives the readers
//! memory  the last pending block: its transactions, receipts and changes
//! drops   transactions that execution refuses, and those for which there is no time
//! source  geth's `miner` package, whose pending block ends early too when its time is up
//!
//! Readers of one head, pool and clock share one execution. A reader that waited for another reader's execution also
//! accepts a block whose transactions were chosen after its request arrived, whatever has reached the pool meanwhile.
//! Under load any number of concurrent readers therefore costs two executions.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use alloy_primitives::{Address, B256, Bytes, U256};
use revm::DatabaseRef;
use revm::bytecode::Bytecode;
use revm::state::AccountInfo;

use super::overlay::Overlay;
use super::produce::refuse_work;
use super::side::Part;
use super::{Chain, ChainError, Inner};
use crate::block::{Block, Body, Roots};
use crate::exec::{BlockEnv, BlockExecution, BlockExecutor, credit};
use crate::state::{Account, State, StateError, StateView};
use crate::tx::SharedTx;

/// How long transactions are executed for a pending block. Those that are left wait for a real one.
const TIME_MAX: Duration = Duration::from_secs(1);
/// The same limit while the state is held and no other block can be made.
const TIME_MAX_ALONE: Duration = Duration::from_millis(50);
/// How often a block is executed while others are being made, before it is executed with block production paused.
const TRIES: usize = 3;

/// The inputs of a pending block: equal inputs make the same block.
struct Plan {
    /// When the pool was read.
    made_at: Instant,
    env: BlockEnv,
    txs: Vec<SharedTx>,
    /// Transactions of the side ledger.
    side: Vec<B256>,
}

impl Plan {
    fn is_same(&self, other: &Self) -> bool {
        self.env == other.env
            && self.side == other.side
            && self.txs.len() == other.txs.len()
            && self.txs.iter().zip(&other.txs).all(|(tx, other)| Arc::ptr_eq(tx, other))
    }
}

/// An executed pending block. Its state reads like that of any other block.
pub struct PendingBlock {
    plan: Plan,
    state: Overlay,
    body: Body,
    requests: Vec<Bytes>,
    sealed: OnceLock<Arc<Block>>,
}

impl std::fmt::Debug for PendingBlock {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (number, txs) = (self.plan.env.number, self.body.txs.len());
        out.debug_struct("Pending").field("number", &number).field("txs", &txs).finish_non_exhaustive()
    }
}

impl PendingBlock {
    /// Returns the environment that its transactions see.
    pub fn env(&self) -> &BlockEnv {
        &self.plan.env
    }

    /// Returns its transactions, in order.
    pub fn txs(&self) -> &[SharedTx] {
        &self.body.txs
    }

    fn execute(plan: Plan, base: StateView, part: &Part, time: Duration) -> Result<Self, StateError> {
        let begun = Instant::now();
        let mut executor = BlockExecutor::new(&base, &plan.env);
        executor.begin();
        let in_time = plan.txs.iter().take_while(|_| begun.elapsed() < time);
        let verdicts: Vec<_> = in_time.map(|tx| executor.run(tx)).collect();
        let BlockExecution { verdicts, mut changes, requests, .. } = executor.finish(verdicts);
        let withdrawals = part.withdrawals().to_vec();
        credit(&base, &mut changes, &withdrawals)?;
        let body = Body { withdrawals, ..Body::new(&plan.txs[..verdicts.len()], verdicts, plan.env.base_fee) };
        Ok(Self { plan, state: Overlay::new(base, Arc::new(changes)), body, requests, sealed: OnceLock::new() })
    }

    /// The block with its roots, where `state` is still that of its parent.
    fn seal(&self, state: &State, extra_data: &Bytes) -> Option<Arc<Block>> {
        if Some(state.head().block_hash()) != self.plan.env.parent_hash {
            return None;
        }
        let seal = || {
            let root = state.root_after(&self.state.changes);
            let roots = Roots::of(&self.body);
            Block::seal(&self.plan.env, self.body.clone(), roots, self.requests.clone(), root, extra_data.clone())
        };
        Some(self.sealed.get_or_init(seal).clone())
    }
}

/// The state after a block of the chain, or after the pending one.
#[derive(Clone, Debug)]
pub enum StateAt {
    /// After a block of the chain.
    Block(StateView),
    /// The state after the pending block.
    Pending(Arc<PendingBlock>),
}

impl StateAt {
    /// Returns the account, if it exists.
    pub fn account(&self, address: &Address) -> Option<Account> {
        match self {
            Self::Block(view) => view.account(address),
            Self::Pending(pending) => match pending.state.changes.accounts.get(address) {
                Some(change) => change.info.as_ref().map(|info| Account {
                    nonce: info.nonce,
                    balance: info.balance,
                    code_hash: info.code_hash,
                }),
                None => pending.state.base.account(address),
            },
        }
    }

    /// Returns the value of an account's slot; zero if nothing was written.
    pub fn storage(&self, address: &Address, slot: &U256) -> U256 {
        match self {
            Self::Block(view) => view.storage(address, slot),
            Self::Pending(pending) => pending.state.storage_ref(*address, *slot).unwrap_or_default(),
        }
    }

    /// The code with this hash.
    pub fn code(&self, hash: &B256) -> Option<Bytes> {
        match self {
            Self::Block(view) => view.code(hash),
            Self::Pending(pending) => {
                let deployed = pending.state.codes.get(hash).map(Bytecode::original_bytes);
                deployed.or_else(|| pending.state.base.code(hash))
            }
        }
    }
}

impl DatabaseRef for StateAt {
    type Error = StateError;

    fn basic_ref(&self, address: Address) -> Result<Option<AccountInfo>, StateError> {
        match self {
            Self::Block(view) => view.basic_ref(address),
            Self::Pending(pending) => pending.state.basic_ref(address),
        }
    }

    fn code_by_hash_ref(&self, hash: B256) -> Result<Bytecode, StateError> {
        match self {
            Self::Block(view) => view.code_by_hash_ref(hash),
            Self::Pending(pending) => pending.state.code_by_hash_ref(hash),
        }
    }

    fn storage_ref(&self, address: Address, slot: U256) -> Result<U256, StateError> {
        match self {
            Self::Block(view) => view.storage_ref(address, slot),
            Self::Pending(pending) => pending.state.storage_ref(address, slot),
        }
    }

    fn block_hash_ref(&self, number: u64) -> Result<B256, StateError> {
        match self {
            Self::Block(view) => view.block_hash_ref(number),
            Self::Pending(pending) => pending.state.block_hash_ref(number),
        }
    }
}

impl Chain {
    /// The block that would be made now, executed. It waits for the block that is being made, and for other readers'
    /// pending blocks.
    pub fn pending(&self) -> Result<Arc<PendingBlock>, ChainError> {
        let arrived = Instant::now();
        let mut last = self.inner.pending.lock();
        let is_recent = |pending: &&Arc<PendingBlock>| {
            pending.plan.made_at >= arrived && pending.plan.env.parent_hash == Some(self.head().hash)
        };
        if let Some(pending) = last.as_ref().filter(is_recent) {
            return Ok(pending.clone());
        }
        let (plan, base, part) = self.inner.plan(&self.inner.between_blocks());
        refuse_work(&plan.env)?;
        if let Some(pending) = last.as_ref().filter(|pending| pending.plan.is_same(&plan)) {
            return Ok(pending.clone());
        }
        let pending = Arc::new(PendingBlock::execute(plan, base, &part, TIME_MAX)?);
        *last = Some(pending.clone());
        Ok(pending)
    }

    /// The same as a block, with its roots and the hash that it would have.
    pub fn pending_block(&self) -> Result<Arc<Block>, ChainError> {
        let extra_data = &self.inner.config.extra_data;
        for _ in 0..TRIES {
            let pending = self.pending()?;
            if let Some(block) = pending.sealed.get() {
                return Ok(block.clone());
            }
            if let Some(block) = pending.seal(&self.inner.between_blocks(), extra_data) {
                return Ok(block);
            }
        }
        // Blocks are made faster than pending ones are executed, so hold the state for one short execution.
        let state = self.inner.between_blocks();
        let (plan, base, part) = self.inner.plan(&state);
        let pending = PendingBlock::execute(plan, base, &part, TIME_MAX_ALONE)?;
        Ok(pending.seal(&state, extra_data).expect("no block is made while the state is held"))
    }
}

impl Inner {
    /// Drops a pending block whose parent is no longer the newest: it would keep old state in memory.
    pub(super) fn forget_pending(&self) {
        // If one is being executed, the next block drops it.
        let gone = self.pending.try_lock().and_then(|mut last| {
            let head = self.published().head().hash;
            last.take_if(|pending| pending.plan.env.parent_hash != Some(head))
        });
        drop(gone);
    }

    /// Chooses the inputs of a block. `_between` proves that no block is being made.
    fn plan(&self, _between: &State) -> (Plan, StateView, Part) {
        let made_at = Instant::now();
        let (parent, base) = self.head_and_view();
        let clock = self.dev.lock().clock.clone();
        let mut env = self.next_env(&(&*parent).into(), &clock);
        let txs = self.pool.best(env.base_fee, self.packing.allowance(env.gas_limit));
        let side = self.side_best();
        let part = self.begin_side(&mut env, &side);
        let side = side.iter().map(|tx| tx.id).collect();
        (Plan { made_at, env, txs, side }, base, part)
    }
}

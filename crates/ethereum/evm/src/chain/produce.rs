//! Makes a block: chooses its transactions, executes them, computes the roots, and publishes the block.
//!
//! reads   the pool's best; the newest block and the state after it
//! writes  the state, the published blocks, the pool, subscribers
//! memory  what one block changes
//! drops   transactions that execution refuses and that no later block could hold: with the reason, to the pool's drop
//!         log
//!
//! Another thread computes the root of the transactions while this one computes those of state and receipts.

use std::sync::Arc;
use std::thread::ScopedJoinHandle;

use alloy_consensus::Transaction;
use alloy_eips::eip4895::Withdrawal;
use alloy_primitives::{Address, B256, Bytes};
use revm::primitives::hardfork::SpecId;

use super::clock::Clock;
use super::parent::Parent;
use super::side::Part;
use super::times::{BlockTimes, Lap};
use super::{ChainError, ChainEvent, Inner, now_s};
use crate::blobs::{self, BlobEnv};
use crate::block::{Block, Body, Roots, next_base_fee};
use crate::exec::{BlockEnv, BlockExecution, ConsoleProbe, Refusal, RefusalKind, Verdict, credit};
use crate::genesis::FIRST_BASE_FEE;
use crate::pool::{DropReason, NextNonces};
use crate::side::{SideError, SideTx};
use crate::state::{Accounts, Changes, State, StateError};
use crate::tx::SharedTx;

/// From how many transactions on another thread makes their root.
const ROOTS_APART: usize = 64;

/// Blocks, and their transactions, that stay in memory if the others can be read from a folder.
const RECENT_BLOCKS: usize = 256;
const RECENT_TXS: usize = 100_000;

/// A block that is executed and sealed, but not published.
#[derive(Debug)]
pub struct SealedBlock {
    /// The block with its final header and hash.
    pub block: Arc<Block>,
    /// The changes of the state.
    pub changes: Arc<Changes>,
    /// The given transactions that are not in it: their places among those given, and why.
    pub refused: Vec<(usize, SharedTx, Refusal)>,
    pub(super) part: Part,
    /// The changes that are no transaction's: they are kept with the block.
    pub(super) altered: Changes,
    /// Whether its contracts called the console.
    console: bool,
    pub(super) times: BlockTimes,
}

impl SealedBlock {
    /// A block that another has made, and what executing it changed.
    pub(super) fn given(block: Block, changes: Changes, part: Part, times: BlockTimes) -> Self {
        let (block, changes) = (Arc::new(block), Arc::new(changes));
        Self { block, changes, refused: Vec::new(), part, altered: Changes::default(), console: false, times }
    }

    /// Transactions of the side ledger that are in it, in order.
    pub fn side(&self) -> &[SideTx] {
        self.part.transactions()
    }

    /// The ids of those given that are not in it, and why.
    pub fn side_refused(&self) -> Vec<(B256, String)> {
        self.part.refused()
    }
}

/// A block is being kept: a panic meanwhile is the last that is made.
struct PanicGuard<'a>(&'a Inner);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("a panic while a block was being kept".into());
        }
    }
}

/// Whether a block without transactions is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyBlocks {
    Made,
    Skipped,
}

/// The inputs of the next block.
pub(super) struct BlockInputs {
    pub env: BlockEnv,
    txs: Vec<SharedTx>,
    part: Part,
    begin_us: u64,
}

/// A block that is executed: its roots are not known, nor its hash.
pub(super) struct UnsealedBlock {
    pub env: BlockEnv,
    /// The chosen transactions; after execution, those with their outcome.
    pub txs: Vec<SharedTx>,
    pub verdicts: Vec<Verdict>,
    pub gas_used: u64,
    pub changes: Arc<Changes>,
    pub part: Part,
    requests: Vec<Bytes>,
    /// The changes that are no transaction's.
    altered: Changes,
    console: bool,
    times: BlockTimes,
}

impl UnsealedBlock {
    pub(super) fn new(
        env: BlockEnv,
        txs: Vec<SharedTx>,
        executed: BlockExecution,
        part: Part,
        times: BlockTimes,
    ) -> Self {
        let BlockExecution { verdicts, changes, gas_used, requests, console, .. } = executed;
        let (changes, altered) = (Arc::new(changes), Changes::default());
        Self { env, txs, verdicts, gas_used, changes, part, requests, altered, console, times }
    }

    /// `changes` were made besides, and by no transaction.
    pub(super) fn alter(&mut self, changes: Changes) {
        Arc::make_mut(&mut self.changes).append(changes.clone());
        self.altered = changes;
    }

    /// Returns the blob gas of its transactions.
    pub(super) fn blob_gas_used(&self) -> u64 {
        let included =
            self.txs.iter().zip(&self.verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Included(_)));
        included.map(|(tx, _)| blobs::gas_of(&tx.envelope)).sum()
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        let included = |verdict: &Verdict| matches!(verdict, Verdict::Included(_));
        self.part.transactions().is_empty() && !self.verdicts.iter().any(included)
    }

    /// Returns the next nonces of the senders, by which the pool drops transactions when it learns of the block.
    pub(super) fn taken(&self) -> NextNonces {
        let mut taken = NextNonces::default();
        for (tx, verdict) in self.txs.iter().zip(&self.verdicts) {
            match verdict {
                Verdict::Included(_) => taken.include(tx),
                Verdict::Refused(refusal) if is_final(refusal) => taken.refuse(tx),
                Verdict::Refused(_) => {}
            }
        }
        taken
    }

    /// Returns the refused transactions: their places, and why.
    fn refused(&self) -> Vec<(usize, SharedTx, Refusal)> {
        let refused = self.verdicts.iter().enumerate().filter_map(|(index, verdict)| match verdict {
            Verdict::Refused(refusal) => Some((index, self.txs[index].clone(), refusal.clone())),
            Verdict::Included(_) => None,
        });
        refused.collect()
    }
}

/// Whether no later block can hold it either.
fn is_final(refusal: &Refusal) -> bool {
    use RefusalKind::{BaseFee, BlockGas, Funds, Invalid, NonceTooHigh, NonceTooLow};
    match refusal.kind {
        NonceTooLow | Funds | Invalid => true,
        NonceTooHigh | BlockGas | BaseFee => false,
    }
}

/// Returns the sum of the included transactions' gas limits.
fn gas_named(txs: &[SharedTx], verdicts: &[Verdict]) -> u64 {
    let included = txs.iter().zip(verdicts).filter(|(_, verdict)| matches!(verdict, Verdict::Included(_)));
    included.map(|(tx, _)| tx.envelope.gas_limit()).fold(0, u64::saturating_add)
}

/// Refuses to make a block before the merge: this node does no proof of work.
pub(super) fn refuse_work(env: &BlockEnv) -> Result<(), ChainError> {
    if env.spec.is_enabled_in(SpecId::MERGE) { Ok(()) } else { Err(ChainError::BeforeMerge(env.spec)) }
}

impl Inner {
    /// The next block's environment, if it is made now.
    pub(super) fn next_env(&self, parent: &Parent, clock: &Clock) -> BlockEnv {
        let timestamp = clock.timestamp(parent.timestamp, now_s());
        self.env_at(parent, parent.number + 1, timestamp, clock)
    }

    pub(super) fn env_at(&self, parent: &Parent, number: u64, timestamp: u64, clock: &Clock) -> BlockEnv {
        let spec = self.config.genesis.spec(number, timestamp);
        BlockEnv {
            number,
            timestamp,
            beneficiary: clock.beneficiary,
            gas_limit: clock.gas_limit.unwrap_or(parent.gas_limit),
            base_fee: clock.base_fee.unwrap_or_else(|| self.base_fee_after(parent)),
            prevrandao: clock.prevrandao.unwrap_or_else(|| parent.draw()),
            parent_hash: parent.hash,
            parent_beacon_block_root: spec.is_enabled_in(SpecId::CANCUN).then(|| self.side_commitment()),
            blobs: self.blobs_after(parent, number, timestamp),
            chain_id: self.config.genesis.chain_id,
            spec,
            limits: self.config.genesis.limits,
            deposit_contract: self.config.genesis.deposit_contract,
        }
    }

    /// Returns the price of blobs in the block of that height and time after `parent`.
    pub(super) fn blobs_after(&self, parent: &Parent, number: u64, timestamp: u64) -> BlobEnv {
        let params = self.config.genesis.blob_params(number, timestamp);
        BlobEnv::after(params, parent.excess_blob_gas, parent.blob_gas_used, parent.base_fee.unwrap_or_default())
    }

    /// Tells the pool the price of blobs in the next block, if that comes right after `parent`.
    pub(super) fn tell_blobs(&self, parent: &Parent) {
        self.pool.set_blobs(self.blobs_after(parent, parent.number + 1, parent.timestamp));
    }

    /// By EIP-1559; nothing before London.
    pub(super) fn base_fee_after(&self, parent: &Parent) -> u64 {
        let next = self.config.genesis.spec(parent.number + 1, parent.timestamp);
        match parent.base_fee {
            Some(base_fee) => next_base_fee(parent.gas_used, parent.gas_limit, base_fee),
            None if next.is_enabled_in(SpecId::LONDON) => FIRST_BASE_FEE,
            None => 0,
        }
    }

    /// Makes a block of the pool's transactions, on the newest.
    pub(super) fn make(&self, state: &mut State) -> Result<Arc<Block>, ChainError> {
        let block = self.execute_next(EmptyBlocks::Made)?.expect("such are made even if they are empty");
        self.finish(state, block)
    }

    /// Executes a block of the pool's transactions on the newest. Returns `None` if it would be empty and empty ones
    /// are skipped.
    pub(super) fn execute_next(&self, empty: EmptyBlocks) -> Result<Option<UnsealedBlock>, ChainError> {
        let (parent, view) = self.head_and_view();
        let clock = self.dev.lock().clock.clone();
        let Some(begun) = self.begin(&(&*parent).into(), &clock, empty, &NextNonces::default()) else {
            return Ok(None);
        };
        refuse_work(&begun.env)?;
        let block = self.run(&view, begun)?;
        if block.is_empty() && empty == EmptyBlocks::Skipped {
            self.give_up(&block.refused());
            block.part.give_up();
            return Ok(None);
        }
        self.dev.lock().clock.block_made(block.env.timestamp);
        Ok(Some(block))
    }

    /// Chooses the block after `parent`, whose transactions the pool may not have seen yet.
    pub(super) fn begin(
        &self,
        parent: &Parent,
        clock: &Clock,
        empty: EmptyBlocks,
        taken: &NextNonces,
    ) -> Option<BlockInputs> {
        let mut lap = Lap::new();
        let mut env = self.next_env(parent, clock);
        let txs = self.pool.best_after(env.base_fee, self.packing.allowance(env.gas_limit), taken);
        let side = self.side_best();
        if txs.is_empty() && side.is_empty() && empty == EmptyBlocks::Skipped {
            return None;
        }
        let part = self.begin_side(&mut env, &side);
        Some(BlockInputs { env, txs, part, begin_us: lap.us() })
    }

    /// Executes it on the state that its parent left.
    pub(super) fn run<D>(&self, view: &D, begun: BlockInputs) -> Result<UnsealedBlock, ChainError>
    where
        D: Accounts<Error = StateError> + Sync,
    {
        let BlockInputs { env, txs, part, begin_us } = begun;
        let mut lap = Lap::new();
        let executed = self.execute(view, &env, &txs, part.withdrawals())?;
        let times = BlockTimes { begin_us, deliver_us: lap.us(), ..Default::default() };
        self.packing.learn(env.gas_limit, gas_named(&txs, &executed.verdicts), executed.gas_used);
        Ok(UnsealedBlock::new(env, txs, executed, part, times))
    }

    /// Seals a block that was executed on the newest state, and appends it.
    pub(super) fn finish(&self, state: &mut State, block: UnsealedBlock) -> Result<Arc<Block>, ChainError> {
        refuse_work(&block.env)?;
        let ready = self.seal(state, block);
        self.append(state, ready)
    }

    /// Seals what was executed on the newest state, which is that of the block's parent.
    pub(super) fn seal(&self, state: &State, block: UnsealedBlock) -> SealedBlock {
        assert_eq!(Some(state.head().block_hash()), block.env.parent_hash, "a block changes the state of its parent");
        let mut lap = Lap::new();
        let refused = block.refused();
        let UnsealedBlock { env, txs, verdicts, changes, mut part, requests, altered, console, mut times, .. } = block;
        let body = Body { withdrawals: part.withdrawals().to_vec(), ..Body::new(&txs, verdicts, env.base_fee) };
        part.receive(env.number, &body);
        let extra_data = self.config.extra_data.clone();
        times.end_us = lap.us();
        let apart = body.txs.len() >= ROOTS_APART;
        let (state_root, roots) = std::thread::scope(|scope| {
            let transactions = apart.then(|| scope.spawn(|| body.transactions_root()));
            let state_root = state.root_after_shared(&changes);
            times.evm_commit_us = lap.us();
            let (receipts, bloom) = (body.receipts_root(), body.bloom());
            let transactions = match transactions.map(ScopedJoinHandle::join) {
                Some(root) => root.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                None => body.transactions_root(),
            };
            (state_root, Roots { transactions, receipts, bloom })
        });
        times.end_us += lap.us();
        let block = Block::seal(&env, body, roots, requests, state_root, extra_data);
        SealedBlock { block, changes, refused, part, altered, console, times }
    }

    /// Makes a sealed block the newest: keeps it, then shows it.
    pub(super) fn append(&self, state: &mut State, ready: SealedBlock) -> Result<Arc<Block>, ChainError> {
        let SealedBlock { block, changes, refused, mut part, altered, console, mut times } = ready;
        let head = self.published().head().clone();
        if block.number() != head.number() + 1 {
            return Err(ChainError::NotNext { number: block.number(), head: head.number() });
        }
        if block.header.parent_hash != head.hash {
            return Err(ChainError::OtherParent { number: block.number(), parent: block.header.parent_hash });
        }
        let touched: Vec<Address> = changes.accounts.keys().copied().collect();
        self.keep(state, &block, &mut part, &altered, &changes, &mut times)?;
        let mut lap = Lap::new();
        let view = state.head();
        let (gone, unaware) = {
            let mut published = self.published.write();
            published.push(block.clone(), view.clone());
            let gone = match (&self.store, self.config.retain_blocks) {
                (Some(_), _) => published.shrink(RECENT_BLOCKS, RECENT_TXS),
                (None, 0) => Vec::new(),
                (None, retain) => published.shrink(usize::try_from(retain).unwrap_or(usize::MAX), usize::MAX),
            };
            // At this moment, so that a client that sees the block and then subscribes gets no notification of it.
            (gone, self.hub.tell(&ChainEvent::Block(block.clone())))
        };
        unaware.wake();
        if let Some(listener) = self.console.get().filter(|_| console) {
            // A listener that does not keep up misses output, and delays nothing.
            let _ = listener.try_send(block.clone());
        }
        let next_spec = self.config.genesis.spec(block.number() + 1, block.header.timestamp);
        self.pool.set_spec(next_spec);
        self.tell_blobs(&(&*block).into());
        self.pool.after_block(&block.txs, &touched, &view, self.base_fee_after(&(&*block).into()));
        self.give_up(&refused);
        // The block is published. From here on only the files that may keep too much can fail, each by itself.
        let journal = self.journal.as_ref().and_then(|journal| journal.shrink(&self.pool).err());
        for error in part.shown().into_iter().chain(journal.map(SideError::from)) {
            tracing::error!(%error, "a file keeps what nobody needs any more");
        }
        // Freed where no reader waits for it.
        drop(gone);
        self.forget_snapshots(&view);
        self.forget_pending();
        self.dev.lock().keep_clock();
        times.commit_us += lap.us();
        self.times.made(&block, times);
        self.signal.made();
        Ok(block)
    }

    /// Writes a block's changes into every store, or into none.
    fn keep(
        &self,
        state: &mut State,
        block: &Block,
        part: &mut Part,
        altered: &Changes,
        changes: &Arc<Changes>,
        times: &mut BlockTimes,
    ) -> Result<(), ChainError> {
        // A panic here leaves it open how far the stores came.
        let underway = PanicGuard(self);
        let mut lap = Lap::new();
        part.commit(block.number(), block.hash)?;
        let stored = self.store.as_ref().map_or(Ok(()), |store| store.append(block, altered));
        times.commit_us = lap.us();
        let kept = stored.map_err(ChainError::from);
        let kept = kept.and_then(|()| Ok(state.commit_shared(block.number(), block.hash, changes)?));
        times.evm_commit_us += lap.us();
        match kept {
            Ok(root) => assert_eq!(root, block.header.state_root, "the state's root is that of the header"),
            Err(error) => {
                self.take_back(block.number() - 1);
                return Err(error);
            }
        }
        drop(underway);
        Ok(())
    }

    /// Takes back what was stored of the block after `number`, which is not published. If that fails, too, the stores
    /// are of different blocks until the folder is opened again.
    fn take_back(&self, number: u64) {
        let stored = self.store.as_ref().map_or(Ok(()), |store| store.truncate(number));
        let taken = stored.map_err(ChainError::from).and_then(|()| self.rewind_side(number));
        if let Err(error) = taken {
            self.fail(format!("block {} is kept in part, and cannot be taken back: {error}", number + 1));
        }
    }

    /// Drops from the pool what no later block could hold; the rest stays for its time.
    fn give_up(&self, refused: &[(usize, SharedTx, Refusal)]) {
        for (_, tx, refusal) in refused.iter().filter(|(.., refusal)| is_final(refusal)) {
            self.pool.remove(&tx.hash, DropReason::Refused(refusal.reason.clone()));
        }
    }

    /// Executes a block and credits its withdrawals.
    pub(super) fn execute<D>(
        &self,
        view: &D,
        env: &BlockEnv,
        txs: &[SharedTx],
        withdrawals: &[Withdrawal],
    ) -> Result<BlockExecution, ChainError>
    where
        D: Accounts<Error = StateError> + Sync,
    {
        let listening = ConsoleProbe::new(view);
        let mut executed = crate::parallel::execute_parallel(&listening, env, txs, self.config.threads);
        executed.console = listening.heard();
        if let Some(why) = executed.fault.take() {
            return Err(ChainError::NoBlock { number: env.number, why });
        }
        credit(view, &mut executed.changes, withdrawals)?;
        Ok(executed)
    }
}

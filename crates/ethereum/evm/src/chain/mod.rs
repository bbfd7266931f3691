//! The chain: the pool, the state, the blocks and their producer, as one shared object.
//!
//! reads   raw transactions from clients; the folder of an earlier run
//! writes  blocks, one after the other, to readers, subscribers and the folder
//! memory  the state; the pool; the newest blocks, or all of them without a folder
//! drops   refused submissions, with the error; accepted transactions that are dropped later, with a reason that
//!         [`Pool::fate`] remembers
//!
//! There is one writer at a time. Readers see a block, its receipts and its state at one moment, when all are there;
//! under a lock they copy only a pointer.

mod block_import;
mod clock;
mod consensus;
mod dev;
mod dump;
mod durability;
mod error;
mod event_subscribers;
mod journal;
mod overlay;
mod packing;
mod parent;
mod pending;
mod pipeline;
mod produce;
mod read_view;
mod recover;
mod restore;
mod schedule;
mod sequencer;
mod side;
mod speculative;
mod submit;
mod testing;
mod times;
mod work;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bloom, Bytes};
use parking_lot::{FairMutex, FairMutexGuard, Mutex, RwLock, RwLockReadGuard};
use revm::primitives::hardfork::SpecId;

pub use block_import::{ImportError, ImportedBlock, Paths};
pub use consensus::BlockInput;
pub use durability::{Recovery, SyncWatch};
pub use error::{ChainError, SubmitError};
pub use event_subscribers::{ChainEvent, Events};
pub use pending::{PendingBlock, StateAt};
pub use produce::SealedBlock;
pub use restore::{ChainSnapshot, RestoreError};
pub use schedule::limits_in_folder;
pub use times::{BlockTimes, Metrics};

use crate::blobs::BlobEnv;
use crate::block::Block;
use crate::blocks::BlockStore;
use crate::exec::BlockEnv;
use crate::genesis::Genesis;
use crate::import::env_of;
use crate::pool::{Pool, PoolConfig};
use crate::side::SideLedger;
use crate::state::{FinalCheckpoint, History, RetentionWindow, State, StateHandle, StateView, Syncer};
use dev::DevState;
use durability::SyncWaiters;
use event_subscribers::EventSubscribers;
use journal::Journal;
use packing::Packing;
use read_view::ReadView;
use sequencer::Signal;
use times::Times;

/// Blocks whose console output waits for the printer.
const CONSOLE_BLOCKS: usize = 64;

/// When blocks are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockTime {
    /// As soon as there is something to put into one.
    Instant,
    /// One block after each interval, with or without transactions.
    Every(Duration),
    /// On demand alone: by [`Chain::mine`], or by a consensus engine.
    Manual,
}

/// Longer than any client waits for a block, and short enough to add to the current time.
const INTERVAL_MAX: Duration = Duration::from_secs(10_000 * 86_400);

/// The configuration of a chain.
#[derive(Clone, Debug)]
pub struct ChainConfig {
    /// The folder of blocks and state; without one, the chain is in memory only.
    pub dir: Option<PathBuf>,
    /// The genesis: block zero, its accounts, and when each fork begins.
    pub genesis: Genesis,
    /// The limits of the pool.
    pub pool: PoolConfig,
    /// Minimum number of newest blocks to keep; older ones are pruned. 0 keeps all.
    pub retain_blocks: u64,
    /// How many states are kept in memory; nothing: those of the last [`WINDOW`](crate::state::WINDOW) blocks.
    pub history: Option<History>,
    /// When blocks are made.
    pub block_time: BlockTime,
    /// Threads that execute a block; one: serially.
    pub threads: usize,
    /// Whether a block is executed while the one before is sealed and appended, where blocks follow each other closely.
    pub overlap: bool,
    /// Whether a background thread syncs blocks to disk. Otherwise only `Chain::sync_stores` and the end sync, so that
    /// the disk's operations follow from the chain's.
    pub background_sync: bool,
    /// The account that receives the tips of blocks made here, unless consensus names another.
    pub beneficiary: Address,
    /// The headers' extra data; at most 32 bytes.
    pub extra_data: Bytes,
}

impl ChainConfig {
    /// Blocks at once, in memory, by one thread.
    pub fn new(genesis: Genesis) -> Self {
        Self {
            dir: None,
            genesis,
            pool: PoolConfig::default(),
            retain_blocks: 0,
            history: None,
            block_time: BlockTime::Instant,
            threads: 1,
            overlap: true,
            background_sync: true,
            beneficiary: Address::ZERO,
            extra_data: Bytes::new(),
        }
    }

    /// Refuses a chain that makes blocks by itself if the block after this one would be of proof of work.
    fn refuse_work_after(&self, number: u64, timestamp: u64) -> Result<(), ChainError> {
        let next = self.genesis.spec(number + 1, timestamp);
        let is_work = self.block_time != BlockTime::Manual && !next.is_enabled_in(SpecId::MERGE);
        if is_work { Err(ChainError::BeforeMerge(next)) } else { Ok(()) }
    }
}

/// The chain; a clone is another handle of the same.
#[derive(Clone)]
pub struct Chain {
    inner: Arc<Inner>,
}

struct Inner {
    config: ChainConfig,
    zero: Arc<Block>,
    pool: Pool,
    journal: Option<Journal>,
    store: Option<BlockStore>,
    /// Brings the state to the disk after the blocks.
    syncer: Arc<Mutex<Syncer>>,
    sync_waiters: SyncWaiters,
    recovery: Option<Recovery>,
    states: StateHandle,
    published: RwLock<ReadView>,
    /// Held while a block is made. The lock is fair: the sequencer, which releases it only to ask for it again, would
    /// otherwise get it every time.
    writer: FairMutex<State>,
    /// How many threads besides the sequencer wait for it.
    wanted: AtomicUsize,
    /// The side ledger; its writer is the holder of `writer`.
    side: Option<Box<dyn SideLedger>>,
    dev: Mutex<DevState>,
    packing: Packing,
    /// The last block that was executed for readers alone; locked while one is.
    pending: Mutex<Option<Arc<PendingBlock>>>,
    hub: EventSubscribers,
    signal: Arc<Signal>,
    times: Times,
    sequencer: Mutex<Option<JoinHandle<()>>>,
    /// Receives the blocks whose contracts called the console.
    console: OnceLock<mpsc::SyncSender<Arc<Block>>>,
    /// Why nothing more is made.
    failure: Arc<OnceLock<String>>,
    /// Whether the block after the one that is being sealed has been looked for.
    #[cfg(test)]
    looked: std::sync::atomic::AtomicBool,
}

impl Chain {
    /// Opens the chain and begins to make blocks.
    pub fn open(config: ChainConfig) -> Result<Self, ChainError> {
        let failed = |source| {
            let (what, path) = ("make the folder", config.dir.clone().unwrap_or_default());
            ChainError::Folder { what, path, source }
        };
        sequencer::check(config.block_time)?;
        config.genesis.check_system_contracts()?;
        if config.dir.as_ref().is_none_or(|dir| !dir.join("state").exists()) {
            // Before the folder is made: a chain that cannot begin leaves nothing.
            config.refuse_work_after(0, config.genesis.timestamp)?;
        }
        config.dir.as_ref().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
        config.dir.as_deref().map_or(Ok(()), |dir| restore::clean(dir, &config.genesis))?;
        let mut state = State::open(config.dir.as_ref().map(|dir| dir.join("state")).as_deref(), &config.genesis)?;
        let zero_root = match state.head().number() {
            0 => state.head().state_root(),
            _ => State::open(None, &config.genesis)?.head().state_root(),
        };
        let zero = Arc::new(Block::zero(config.genesis.block_zero(zero_root)));
        let failure = Arc::new(OnceLock::new());
        let of_state = state.head().number();
        let (mut store, head) = recover::recover(&config, &mut state, &zero)?;
        let (side, head) = recover::recover_side(&config, &mut state, store.as_ref(), &zero, head)?;
        let seen = |store: &BlockStore| store.seen().max(of_state);
        config.refuse_work_after(head.number(), head.header.timestamp)?;
        let recovery = store.as_ref().and_then(|store| Recovery::of(store, seen(store), head.number()));
        let (syncer, sync_waiters) = (Arc::new(Mutex::new(state.syncer())), SyncWaiters::default());
        if let Some(store) = &mut store {
            recover::keep_synced(store, side.as_deref(), syncer.clone(), sync_waiters.clone(), failure.clone())?;
        }
        config.history.into_iter().for_each(|history| state.keep_history(history));
        let view = state.head();
        let spec = config.genesis.spec(view.number() + 1, now_s());
        let pool = Pool::new(PoolConfig { limits: config.genesis.limits, ..config.pool.clone() }, spec);
        let (journal, waiting) = config.dir.as_deref().map(Journal::open).transpose()?.unzip();
        config.dir.as_deref().map_or(Ok(()), recover::sync_names)?;
        let inner = Arc::new(Inner {
            side,
            zero,
            pool,
            journal,
            store,
            syncer,
            sync_waiters,
            recovery,
            states: state.handle(),
            published: RwLock::new(ReadView::new(head, view)),
            writer: FairMutex::new(state),
            wanted: AtomicUsize::new(0),
            dev: Mutex::new(DevState::new(&config)),
            packing: Packing::default(),
            pending: Mutex::default(),
            hub: EventSubscribers::default(),
            signal: Arc::new(Signal::new(config.block_time)),
            times: Times::default(),
            sequencer: Mutex::new(None),
            console: OnceLock::new(),
            failure,
            config,
            #[cfg(test)]
            looked: Default::default(),
        });
        let head = inner.published().head().clone();
        inner.tell_blobs(&(&*head).into());
        inner.add_again(waiting.unwrap_or_default());
        inner.keep_pool()?;
        let thread = sequencer::start(&inner)?;
        *inner.sequencer.lock() = Some(thread);
        Ok(Self { inner })
    }

    /// Stops block production. Acknowledged transactions that are in no block stay in the pool.
    pub fn stop(&self) {
        self.inner.signal.stop();
        let thread = self.inner.sequencer.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic there has already been reported.
            let _ = thread.join();
        }
    }

    /// After [`Chain::stop`]: makes the next start from the folder quicker where that takes no longer than it spares,
    /// within about `patience`.
    pub fn shorten(&self, patience: Duration) -> Result<FinalCheckpoint, ChainError> {
        let mut state = self.inner.writer()?;
        if let Some(store) = &self.inner.store {
            // A state on disk has its blocks there.
            store.sync()?;
        }
        Ok(state.shorten(patience)?)
    }

    /// Why no more blocks can be made, if that is so.
    pub fn failure(&self) -> Option<String> {
        let panicked = || self.inner.sequencer.lock().as_ref().is_some_and(JoinHandle::is_finished);
        let ended =
            || (!self.inner.signal.stopped() && panicked()).then(|| "the sequencer's thread has panicked".into());
        self.inner.failure.get().cloned().or_else(ended)
    }

    /// Returns the genesis with which the chain was opened.
    pub fn genesis(&self) -> &Genesis {
        &self.inner.config.genesis
    }

    /// Returns the chain id (EIP-155).
    pub fn chain_id(&self) -> u64 {
        self.inner.config.genesis.chain_id
    }

    /// Returns the hash of block zero.
    pub fn zero_hash(&self) -> B256 {
        self.inner.zero.hash
    }

    /// Returns the pool of pending transactions.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// Returns the newest block.
    pub fn head(&self) -> Arc<Block> {
        self.inner.published().head().clone()
    }

    /// The newest block and the state after it, of one moment.
    pub fn head_and_view(&self) -> (Arc<Block>, StateView) {
        self.inner.head_and_view()
    }

    /// Returns the state after [`Chain::head`].
    pub fn view(&self) -> StateView {
        self.inner.published().view().clone()
    }

    /// Returns which older states are kept. The writer may be ahead of [`Chain::head`] by a block.
    pub fn kept_states(&self) -> RetentionWindow {
        self.inner.states.kept()
    }

    /// The state after block `number`, if it is kept: see [`Chain::kept_states`].
    pub fn view_at(&self, number: u64) -> Option<StateView> {
        let (head, view) = self.head_and_view();
        // For a moment the writer is ahead of the published head.
        match number.cmp(&head.number()) {
            std::cmp::Ordering::Less => self.inner.states.at(number),
            std::cmp::Ordering::Equal => Some(view),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// The block of that height.
    pub fn block(&self, number: u64) -> Option<Arc<Block>> {
        self.inner.block(number)
    }

    /// The block of that hash.
    pub fn block_by_hash(&self, hash: &B256) -> Option<Arc<Block>> {
        if let Some(block) = self.inner.published().block_by_hash(hash) {
            return Some(block);
        }
        let number = self.inner.store.as_ref().and_then(|store| store.number_of(hash)).unwrap_or(0);
        self.inner.block(number).filter(|block| block.hash == *hash)
    }

    /// The block that holds a transaction, and the transaction's place in it.
    pub fn tx(&self, hash: &B256) -> Option<(Arc<Block>, usize)> {
        self.inner.tx(hash)
    }

    /// Returns the first block from `from` to `to` whose logs may match, as `may` judges by blooms.
    pub fn next_with(&self, from: u64, to: u64, may: impl Fn(&Bloom) -> bool) -> Option<u64> {
        let to = to.min(self.head().number());
        let Some(store) = &self.inner.store else {
            return (from..=to).find(|number| self.inner.block(*number).is_some_and(|it| may(&it.header.logs_bloom)));
        };
        // The writer keeps a block before it shows it.
        store.next_with(from, to, may).unwrap_or_else(|error| {
            tracing::error!(%error, "a block cannot be read");
            None
        })
    }

    /// Whether [`Chain::block`] answers without reading from disk, if only that there is none.
    pub fn is_at_hand(&self, number: u64) -> bool {
        let published = self.inner.published();
        number == 0 || number > published.head().number() || published.block(number).is_some()
    }

    /// As [`Chain::is_at_hand`] for [`Chain::block_by_hash`].
    pub fn is_hash_at_hand(&self, hash: &B256) -> bool {
        let number = self.inner.store.as_ref().and_then(|store| store.number_of(hash));
        self.inner.published().block_by_hash(hash).is_some() || number.is_none_or(|number| self.is_at_hand(number))
    }

    /// As [`Chain::is_at_hand`] for [`Chain::tx`].
    pub fn is_tx_at_hand(&self, hash: &B256) -> bool {
        let place = || self.inner.store.as_ref().and_then(|store| store.place_of(hash));
        self.inner.published().tx(hash).is_some() || place().is_none_or(|(number, _)| self.is_at_hand(number))
    }

    /// Returns how many events there have been: later ones have greater numbers.
    pub fn events(&self) -> u64 {
        self.inner.hub.events()
    }

    /// Subscribes to new blocks and reorganizations.
    pub fn subscribe(&self) -> Events {
        self.inner.hub.subscribe(None)
    }

    /// As [`Chain::subscribe`]; `wake` is called when there is something to take. It must not wait.
    pub fn subscribe_with(&self, wake: impl Fn() + Send + Sync + 'static) -> Events {
        self.inner.hub.subscribe(Some(Box::new(wake)))
    }

    /// Returns future blocks whose contracts call [Hardhat's console](crate::exec::CONSOLE), unless the reader falls
    /// behind; `None` if there is a reader already.
    pub fn console(&self) -> Option<mpsc::Receiver<Arc<Block>>> {
        let (sender, blocks) = mpsc::sync_channel(CONSOLE_BLOCKS);
        self.inner.console.set(sender).is_ok().then_some(blocks)
    }

    /// Returns the environment for executing `block` again.
    pub fn env_of(&self, block: &Block) -> BlockEnv {
        env_of(&block.header, self.genesis())
    }

    /// Returns the price of blobs in the block after `block`; after the newest, in the block that would be made now.
    pub fn blobs_after(&self, block: &Block) -> BlobEnv {
        match self.block(block.number() + 1) {
            Some(next) => self.env_of(&next).blobs,
            None => self.pending_env().blobs,
        }
    }

    /// The block that would be made now.
    pub fn pending_env(&self) -> BlockEnv {
        let clock = self.inner.dev.lock().clock.clone();
        self.inner.next_env(&(&*self.head()).into(), &clock)
    }

    /// Returns the times of blocks, and the counters.
    pub fn metrics(&self) -> Metrics {
        self.inner.times.read(self.inner.pool.stats(), self.inner.pool.status(), self.kept_states())
    }

    /// Returns how many blocks were made here, and number and times of those after the first `seen`, if they are kept.
    pub fn block_times(&self, seen: u64) -> (u64, Vec<(u64, BlockTimes)>) {
        self.inner.times.after(seen)
    }
}

impl Inner {
    /// Makes the journal follow the pool from now on.
    fn keep_pool(self: &Arc<Self>) -> Result<(), ChainError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.rewrite(&self.pool)?;
        let chain = Arc::downgrade(self);
        self.pool.on_drop(move |dropped| {
            let Some(chain) = chain.upgrade() else { return };
            let noted = chain.journal.as_ref().map_or(Ok(()), |journal| journal.forget(dropped, &chain.pool));
            if let Err(error) = noted {
                tracing::error!(%error, "what is given up would come back with the next start");
            }
        });
        Ok(())
    }

    fn tx(&self, hash: &B256) -> Option<(Arc<Block>, usize)> {
        if let Some(place) = self.published().tx(hash) {
            return Some(place);
        }
        let (number, index) = self.store.as_ref()?.place_of(hash)?;
        let block = self.block(number)?;
        block.txs.get(index).is_some_and(|tx| tx.hash == *hash).then_some((block, index))
    }

    /// The state, for the thread that makes a block; an error after a failure. The sequencer has finished what it had
    /// begun.
    fn writer(&self) -> Result<FairMutexGuard<'_, State>, ChainError> {
        let state = self.between_blocks();
        match self.failure.get() {
            Some(failure) => Err(ChainError::Ended(failure.clone())),
            None => Ok(state),
        }
    }

    /// A moment at which no block is being made, until it is dropped.
    fn between_blocks(&self) -> FairMutexGuard<'_, State> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let state = self.writer.lock();
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// How many wait for the state.
    fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Stops block production for good; the first reason is kept.
    fn fail(&self, why: String) {
        tracing::error!(%why, "no more blocks can be made");
        let _ = self.failure.set(why);
    }

    fn block(&self, number: u64) -> Option<Arc<Block>> {
        let (head, recent) = {
            let published = self.published();
            (published.head().number(), published.block(number))
        };
        match (recent, &self.store) {
            (Some(block), _) => Some(block),
            (None, _) if number == 0 => Some(self.zero.clone()),
            // The writer keeps a block before it shows it.
            (None, Some(store)) if number < head => store.block(number).unwrap_or_else(|error| {
                tracing::error!(%error, "a block cannot be read");
                None
            }),
            _ => None,
        }
    }

    fn published(&self) -> RwLockReadGuard<'_, ReadView> {
        self.published.read()
    }

    fn head_and_view(&self) -> (Arc<Block>, StateView) {
        let published = self.published();
        (published.head().clone(), published.view().clone())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.signal.stop();
    }
}

/// Seconds since 1970 by this machine's clock.
fn now_s() -> u64 {
    hearth_ring::unix_time().as_secs()
}

#[cfg(test)]
mod tests;

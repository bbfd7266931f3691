//! The pool of pending transactions.
//!
//! reads   transactions with their senders, in bursts; the state after each block
//! writes  the next transactions to execute, best payer first; hashes of newly executable ones; drops and their reasons
//! memory  [`PoolConfig::max_bytes`] for the transactions and their places, [`PoolConfig::sidecar_bytes`] for sidecars
//!         of blob transactions, and 200 B for each remembered drop
//! drops   replaced, outbid, expired or no longer executable transactions; each with a reason that its sender can read
//! source  geth's rules and words for replacement, funds, delegations; the order is ours
//!
//! A burst is checked, and its accounts are read, without a lock; one short lock then inserts it. After a block only
//! the accounts it touched are checked again. Nothing is ever sorted: each account's first transaction is in an index
//! that follows the base fee ([`rank`]), and taking N transactions costs N steps.

mod check;
mod drop_log;
mod error;
mod feed;
#[cfg(test)]
mod model;
mod next_nonces;
mod queue;
mod rank;
mod table;

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use alloy_consensus::Transaction;
use alloy_primitives::map::{AddressMap, B256Set};
use alloy_primitives::{Address, B256};
use parking_lot::{Mutex, MutexGuard};
use revm::primitives::hardfork::SpecId;

pub use check::{CheckedTx, Rules, check, least_gas};
pub use error::{DropReason, PoolError};
pub use feed::{Feed, FeedBatch, RING};
pub use next_nonces::NextNonces;
pub use queue::SenderState;
pub use table::{BLOCK_BYTES, DroppedTx, Obstacle, footprint};

use crate::blobs::{BlobEnv, SIDECAR_BLOCKS, SIDECAR_BYTES, Sidecars};
use crate::limits::TxLimits;
use crate::state::Account;
use crate::tx::{SharedTx, Tx};
use table::{Effects, Table};

/// Transactions inserted, and accounts looked up or rechecked, per acquisition of the lock.
const BURST: usize = 256;
/// Transactions whose age is checked with each burst; with each block [`SWEEP_BLOCK`].
const SWEEP_BURST: usize = 16;
const SWEEP_BLOCK: usize = 4096;

/// The limits of the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Number of transactions, at most.
    pub capacity: usize,
    /// Bytes that they hold, at most ([`footprint`]).
    pub max_bytes: usize,
    /// Transactions of one account, at most.
    pub per_sender: usize,
    /// Transactions of one account behind a gap in its nonces, at most.
    pub gap: usize,
    /// Maximum transactions of all accounts behind nonce gaps.
    pub gaps: usize,
    /// By how many percent both fee caps must rise for a replacement.
    pub price_bump_percent: u64,
    /// The least tip that is taken, in wei per gas.
    pub min_tip: u128,
    /// How long a transaction may wait.
    pub lifetime: Duration,
    /// Drops that are remembered with their reason.
    pub fates: usize,
    /// Bytes of sidecars, at most: of blob transactions that wait, and of those in the newest blocks.
    pub sidecar_bytes: usize,
    /// Blocks after which the sidecars of a block are forgotten.
    pub sidecar_blocks: u64,
    /// The chain's configured limits of code and gas, by which transactions are checked.
    pub limits: TxLimits,
}

impl Default for PoolConfig {
    /// For a sequencer of our own: four seconds of 10,000 transactions.
    fn default() -> Self {
        Self {
            capacity: 40_000,
            max_bytes: 128 << 20,
            per_sender: 4096,
            gap: 64,
            gaps: 4096,
            price_bump_percent: 10,
            min_tip: 0,
            lifetime: Duration::from_secs(3 * 3600),
            fates: 65_536,
            sidecar_bytes: SIDECAR_BYTES,
            sidecar_blocks: SIDECAR_BLOCKS,
            limits: TxLimits::default(),
        }
    }
}

impl PoolConfig {
    /// Returns the defaults under CometBFT.
    pub fn comet() -> Self {
        Self { capacity: 8000, gaps: 1024, ..Self::default() }
    }
}

/// The source of accounts for the pool: the state after one block.
pub trait Accounts: Send + Sync {
    /// The number of the block.
    fn number(&self) -> u64;
    /// An account as that block left it.
    fn sender(&self, address: &Address) -> SenderState;
}

impl Accounts for crate::state::StateView {
    fn number(&self) -> u64 {
        Self::number(self)
    }

    fn sender(&self, address: &Address) -> SenderState {
        let Some(account) = self.account(address) else { return SenderState::default() };
        let has_code = account.code_hash != revm::primitives::KECCAK_EMPTY;
        // Nearly no account that sends has any.
        let delegated = has_code
            && revm::DatabaseRef::code_by_hash_ref(self, account.code_hash).is_ok_and(|code| code.is_eip7702());
        let Account { nonce, balance, .. } = account;
        SenderState { nonce, balance, delegated, is_contract: has_code && !delegated }
    }
}

/// An account's transactions in the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The account that sent them.
    pub sender: Address,
    /// The executable transactions, by nonce: geth's "pending".
    pub pending: Vec<SharedTx>,
    /// The transactions behind a gap, by nonce: geth's "queued".
    pub queued: Vec<SharedTx>,
}

/// How full the pool is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Transactions that can be executed.
    pub pending: usize,
    /// Transactions behind a nonce gap.
    pub queued: usize,
    /// Bytes that they take ([`footprint`]).
    pub bytes: usize,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters since the pool was created.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        struct Counters {
            $($name: AtomicU64,)*
        }

        impl Counters {
            fn read(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Transactions that the pool accepted.
    added,
    /// Transactions refused because the pool had them already.
    known,
    /// Transactions refused because the pool was full and they paid too little.
    full,
    /// Transactions refused for any other error.
    refused,
    /// Dropped for one of the same nonce that pays more.
    replaced,
    /// Dropped for others that pay more, or because too many came behind a gap.
    evicted,
    /// Dropped because they had waited too long.
    expired,
    /// Dropped because a block made them invalid, or execution refused them.
    invalid,
    /// Transactions removed on demand.
    removed,
    /// Accounts that were looked at again after blocks.
    rechecked,
}

/// The part behind the lock.
struct LockedPool {
    table: Table,
    fates: drop_log::DropLog,
    /// The state after the last block that the pool has seen,
    latest: Option<Arc<dyn Accounts>>,
    /// how many blocks it has seen,
    epoch: u64,
    /// and how often blocks were taken back.
    resets: u64,
}

type OnDrop = dyn Fn(&[DroppedTx]) + Send + Sync;

/// A pool of pending transactions, shared by threads.
pub struct Pool {
    config: PoolConfig,
    spec: AtomicU8,
    began: Instant,
    locked: Mutex<LockedPool>,
    sidecars: Sidecars,
    source: Arc<feed::Source>,
    counters: Counters,
    on_drop: OnceLock<Box<OnDrop>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pool").field("config", &self.config).field("status", &self.status()).finish_non_exhaustive()
    }
}

impl Pool {
    /// An empty pool that judges by the rules of `spec`.
    pub fn new(config: PoolConfig, spec: SpecId) -> Self {
        let fates = drop_log::DropLog::new(config.fates);
        let table = Table::new(config.clone());
        Self {
            spec: AtomicU8::new(spec as u8),
            began: Instant::now(),
            locked: Mutex::new(LockedPool { table, fates, latest: None, epoch: 0, resets: 0 }),
            sidecars: Sidecars::new(config.sidecar_bytes, config.sidecar_blocks),
            source: Arc::default(),
            counters: Counters::default(),
            on_drop: OnceLock::new(),
            config,
        }
    }

    /// Returns the limits that the pool was created with.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Sets the fork of the next block.
    pub fn set_spec(&self, spec: SpecId) {
        self.spec.store(spec as u8, Ordering::Relaxed);
    }

    /// The fork of the next block.
    pub fn spec(&self) -> SpecId {
        SpecId::try_from_u8(self.spec.load(Ordering::Relaxed)).unwrap_or_default()
    }

    /// Sets the price of blobs in the next block, and how many it may hold.
    pub fn set_blobs(&self, blobs: BlobEnv) {
        self.lock().table.set_blobs(blobs);
    }

    /// The sidecars of blob transactions that wait here, and of those in the newest blocks.
    pub fn sidecars(&self) -> &Sidecars {
        &self.sidecars
    }

    /// Calls `report` for all drops, in addition to [`Pool::fate`]. Can be set once. No lock is held while it runs.
    pub fn on_drop(&self, report: impl Fn(&[DroppedTx]) + Send + Sync + 'static) -> bool {
        self.on_drop.set(Box::new(report)).is_ok()
    }

    /// Returns how often blocks were taken back; for [`Pool::add_seen`].
    pub fn resets(&self) -> u64 {
        self.lock().resets
    }

    /// Inserts a burst and returns a result for each. `view` is the state after the newest block, `base_fee` and
    /// `gas_limit` are the next block's. If blocks may be taken back meanwhile, use [`Pool::add_seen`].
    pub fn add(
        &self,
        burst: Vec<SharedTx>,
        view: &dyn Accounts,
        base_fee: u64,
        gas_limit: u64,
    ) -> Vec<Result<(), PoolError>> {
        self.add_seen(burst, view, base_fee, gas_limit, self.resets())
    }

    /// As [`Pool::add`]; `resets` was read before the view, so that a view from before a concurrent reorganization is
    /// not used.
    pub fn add_seen(
        &self,
        burst: Vec<SharedTx>,
        view: &dyn Accounts,
        base_fee: u64,
        gas_limit: u64,
        resets: u64,
    ) -> Vec<Result<(), PoolError>> {
        let (spec, blobs) = (self.spec(), self.lock().table.blobs().params);
        let rules = Rules { spec, gas_limit, min_tip: self.config.min_tip, limits: self.config.limits, blobs };
        let mut results = Vec::with_capacity(burst.len());
        let mut burst = burst.into_iter();
        while burst.len() > 0 {
            let checked: Vec<_> = burst.by_ref().take(BURST).map(|tx| check(tx, &rules)).collect();
            self.add_checked(checked, (view, resets), base_fee, &mut results);
        }
        let count = |what: fn(&Result<(), PoolError>) -> bool| results.iter().filter(|result| what(result)).count();
        let added = count(Result::is_ok);
        let known = count(|result| matches!(result, Err(PoolError::AlreadyKnown)));
        let full = count(|result| {
            use PoolError::{Full, FutureReplacePending, Underpriced};
            matches!(result, Err(Underpriced | Full | FutureReplacePending))
        });
        let refused = results.len() - added - known - full;
        let counters = &self.counters;
        for (counter, count) in
            [(&counters.added, added), (&counters.known, known), (&counters.full, full), (&counters.refused, refused)]
        {
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
        results
    }

    fn add_checked(
        &self,
        checked: Vec<Result<CheckedTx, PoolError>>,
        (view, seen): (&dyn Accounts, u64),
        base_fee: u64,
        results: &mut Vec<Result<(), PoolError>>,
    ) {
        let mut effects = Effects::default();
        loop {
            let (latest, epoch, resets) = {
                let locked = self.lock();
                (locked.latest.clone(), locked.epoch, locked.resets)
            };
            // The caller may know of a block that the pool will hear of in a moment, or may come with an old one, or
            // with one that is no more.
            let is_newer = |latest: &&dyn Accounts| resets != seen || latest.number() >= view.number();
            let newest = latest.as_deref().map(|latest| latest as &dyn Accounts).filter(is_newer).unwrap_or(view);
            let (states, block) = (read_senders(newest, &checked), newest.number());
            let mut locked = self.lock();
            if locked.epoch != epoch {
                continue;
            }
            if locked.latest.is_none() {
                locked.table.set_base_fee(base_fee);
            }
            let now_ms = self.now_ms();
            for (new, state) in checked.into_iter().zip(states) {
                results.push(new.and_then(|new| locked.table.insert(new, state, block, now_ms, &mut effects)));
            }
            locked.table.sweep(now_ms, SWEEP_BURST, &mut effects);
            return self.tell(locked, effects);
        }
    }

    /// Returns the transactions to execute next: by tip (as `base_fee` leaves it), then by arrival, each account's by
    /// nonce; together with gas limits of at most `gas_limit`. They stay here until a block has them.
    pub fn best(&self, base_fee: u64, gas_limit: u64) -> Vec<SharedTx> {
        self.best_after(base_fee, gas_limit, &NextNonces::default())
    }

    /// As [`Pool::best`], after a block that the pool has not seen yet.
    pub fn best_after(&self, base_fee: u64, gas_limit: u64, taken: &NextNonces) -> Vec<SharedTx> {
        self.lock().table.best(base_fee, gas_limit, taken)
    }

    /// A block is there: `included` are its transactions, `touched` the accounts it changed, `view` the state after
    /// it, `base_fee` that of the next. No account but these is looked at.
    pub fn after_block<'a, V: Accounts + Clone + 'static>(
        &self,
        included: &[SharedTx],
        touched: impl IntoIterator<Item = &'a Address>,
        view: &V,
        base_fee: u64,
    ) {
        self.move_to(view, base_fee, 0);
        let with_blobs = included.iter().filter(|tx| tx.envelope.is_eip4844());
        self.sidecars.include(Accounts::number(view), with_blobs.map(|tx| &tx.hash));
        let included: B256Set = included.iter().map(|tx| tx.hash).collect();
        let touched: Vec<&Address> = touched.into_iter().collect();
        for some in touched.chunks(4 * BURST) {
            let here: Vec<Address> = {
                let locked = self.lock();
                some.iter().filter(|address| locked.table.queue(address).is_some()).map(|address| **address).collect()
            };
            self.recheck(&here, view, &included, false);
        }
        let (mut effects, mut locked) = (Effects::default(), self.lock());
        locked.table.sweep(self.now_ms(), SWEEP_BLOCK, &mut effects);
        self.tell(locked, effects);
    }

    /// Continues from another block than the last, after a reorganization: all accounts are checked again.
    pub fn reset<V: Accounts + Clone + 'static>(&self, view: &V, base_fee: u64) {
        self.move_to(view, base_fee, 1);
        let (mut from, mut more) = (0, true);
        while more {
            let here: Vec<Address> = {
                let locked = self.lock();
                let (queues, further) = locked.table.queues(from, from + BURST);
                more = further;
                queues.map(|queue| queue.address).collect()
            };
            from += BURST;
            self.recheck(&here, view, &B256Set::default(), true);
        }
    }

    fn move_to<V: Accounts + Clone + 'static>(&self, view: &V, base_fee: u64, resets: u64) {
        let mut locked = self.lock();
        locked.resets += resets;
        locked.latest = Some(Arc::new(view.clone()));
        locked.epoch += 1;
        locked.table.set_base_fee(base_fee);
    }

    fn recheck(&self, addresses: &[Address], view: &dyn Accounts, included: &B256Set, always: bool) {
        let block = view.number();
        for some in addresses.chunks(BURST) {
            let states: Vec<SenderState> = some.iter().map(|address| view.sender(address)).collect();
            let mut effects = Effects::default();
            let mut locked = self.lock();
            for (address, state) in some.iter().zip(states) {
                locked.table.recheck(address, state, block, included, always, &mut effects);
            }
            self.tell(locked, effects);
        }
        self.counters.rechecked.fetch_add(addresses.len() as u64, Ordering::Relaxed);
    }

    /// Drops a transaction, for a reason that its sender can read; returns whether it was here. Later ones of its
    /// account get behind a nonce gap.
    pub fn remove(&self, hash: &B256, reason: DropReason) -> bool {
        let (mut effects, mut locked) = (Effects::default(), self.lock());
        let was_here = locked.table.remove(hash, reason, &mut effects);
        self.tell(locked, effects);
        was_here
    }

    /// Returns a pending transaction.
    pub fn get(&self, hash: &B256) -> Option<SharedTx> {
        self.lock().table.get(hash).cloned()
    }

    /// Returns why a transaction was dropped, while that is remembered and it has not come again.
    pub fn fate(&self, hash: &B256) -> Option<DropReason> {
        let locked = self.lock();
        locked.fates.get(hash).filter(|_| locked.table.get(hash).is_none()).cloned()
    }

    /// Notes why a transaction is given up that was taken by an earlier run and is not here.
    pub fn note(&self, tx: SharedTx, reason: DropReason) {
        let effects = Effects { dropped: vec![DroppedTx { tx, reason }], ..Effects::default() };
        self.tell(self.lock(), effects);
    }

    /// Returns whether each of these transactions waits here.
    pub fn holds<'a>(&self, hashes: impl IntoIterator<Item = &'a B256>) -> Vec<bool> {
        let locked = self.lock();
        hashes.into_iter().map(|hash| locked.table.get(hash).is_some()).collect()
    }

    /// Whether each is here and can be in the next block, as far as there is room: nothing of its account is missing
    /// before it, and it pays the base fee.
    pub fn are_next<'a>(&self, hashes: impl IntoIterator<Item = &'a B256>) -> Vec<bool> {
        let locked = self.lock();
        hashes.into_iter().map(|hash| locked.table.is_next(hash)).collect()
    }

    /// Returns the obstacle between a transaction that waits here and the next block; `None` where only room may lack.
    pub fn obstacle(&self, hash: &B256) -> Option<Obstacle> {
        self.lock().table.obstacle(hash)
    }

    /// The nonce an account should use next: after its executable transactions here, if it has some. `state_nonce` may
    /// be of a block before the last one that the pool has seen.
    pub fn next_nonce(&self, address: &Address, state_nonce: u64) -> u64 {
        let locked = self.lock();
        // Transactions that a block took since the caller looked are in the state that the pool last saw.
        let next = match (locked.table.queue(address), &locked.latest) {
            (Some(queue), _) => queue.next(),
            (None, Some(latest)) => latest.sender(address).nonce,
            (None, None) => 0,
        };
        next.max(state_nonce)
    }

    /// Returns how full the pool is.
    pub fn status(&self) -> Status {
        let (pending, queued, bytes) = self.lock().table.counts();
        Status { pending, queued, bytes }
    }

    /// Returns the counters since the pool was created.
    pub fn stats(&self) -> Stats {
        self.counters.read()
    }

    /// All that waits, by account. A pool that changes meanwhile may show an account's transactions of before or after.
    pub fn content(&self) -> Vec<Content> {
        let (mut all, mut from, mut more) = (vec![], 0, true);
        while more {
            let locked = self.lock();
            let (queues, further) = locked.table.queues(from, from + BURST);
            all.extend(queues.map(content_of));
            (from, more) = (from + BURST, further);
        }
        all
    }

    /// Returns the waiting transactions of one account.
    pub fn content_from(&self, address: &Address) -> Option<Content> {
        self.lock().table.queue(address).map(content_of)
    }

    /// How many hashes have been announced: later ones have higher numbers.
    pub fn announced(&self) -> u64 {
        self.source.hashes()
    }

    /// Subscribes to the hashes of transactions that become executable.
    pub fn subscribe(&self) -> Feed {
        self.source.subscribe(None)
    }

    /// As [`Pool::subscribe`]; `wake` is called when there is something to take. It must not wait.
    pub fn subscribe_with(&self, wake: impl Fn() + Send + Sync + 'static) -> Feed {
        self.source.subscribe(Some(Arc::new(wake)))
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn lock(&self) -> MutexGuard<'_, LockedPool> {
        self.locked.lock()
    }

    /// Records the effects of a change under the lock, then notifies readers.
    fn tell(&self, mut locked: MutexGuard<'_, LockedPool>, effects: Effects) {
        let Effects { dropped, ready } = effects;
        ready.iter().for_each(|hash| locked.fates.forget(hash));
        for DroppedTx { tx, reason } in &dropped {
            locked.fates.note(tx.hash, reason.clone());
            if tx.envelope.is_eip4844() && locked.table.get(&tx.hash).is_none() {
                self.sidecars.forget(&tx.hash);
            }
        }
        // At this moment, so that a client that sees one in the pool and then subscribes gets no notification of it.
        let is_heard = self.source.push(&ready);
        drop(locked);
        if is_heard {
            self.source.wake();
        }
        if dropped.is_empty() {
            return;
        }
        for DroppedTx { reason, .. } in &dropped {
            let counter = match reason {
                DropReason::Replaced(_) => &self.counters.replaced,
                DropReason::Evicted | DropReason::Gapped => &self.counters.evicted,
                DropReason::Expired(_) => &self.counters.expired,
                DropReason::Invalid(_) | DropReason::Refused(_) => &self.counters.invalid,
                DropReason::Demand => &self.counters.removed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(report) = self.on_drop.get() {
            report(&dropped);
        }
    }
}

/// A line of `txpool_inspect`, in geth's form.
pub fn inspect_line(tx: &Tx) -> String {
    let envelope = &tx.envelope;
    let (value, gas, price) = (envelope.value(), envelope.gas_limit(), envelope.max_fee_per_gas());
    match envelope.to() {
        Some(to) => format!("{to}: {value} wei + {gas} gas × {price} wei"),
        None => format!("contract creation: {value} wei + {gas} gas × {price} wei"),
    }
}

fn content_of(queue: &queue::Queue) -> Content {
    let mut pending: Vec<SharedTx> = queue.slots().iter().map(|slot| slot.tx.clone()).collect();
    let queued = pending.split_off(queue.ready());
    Content { sender: queue.address, pending, queued }
}

/// The state of each transaction's account; each account is read once.
fn read_senders(view: &dyn Accounts, checked: &[Result<CheckedTx, PoolError>]) -> Vec<SenderState> {
    let mut read: AddressMap<SenderState> = AddressMap::default();
    let state_of = |new: &Result<CheckedTx, PoolError>| match new {
        Ok(new) => *read.entry(new.tx.sender).or_insert_with(|| view.sender(&new.tx.sender)),
        Err(_) => SenderState::default(),
    };
    checked.iter().map(state_of).collect()
}

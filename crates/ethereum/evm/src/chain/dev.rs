//! Controls of a development chain: time, accounts, snapshots, blocks on demand.
//!
//! writes  blocks; the next block's environment
//! memory  20 B for each impersonated account; for each snapshot its block, and what each block after the oldest one
//!         replaced in the state, up to [`SNAPSHOT_BYTES_MAX`]
//! drops   the oldest snapshots beyond that
//! source  the `evm_`, `anvil_` and `hardhat_` methods of anvil and Hardhat

use std::sync::Arc;

use alloy_primitives::map::AddressSet;
use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use revm::DatabaseRef;

use super::clock::{Clock, ClockFile, TIME_MAX_S};
use super::produce::{UnsealedBlock, refuse_work};
use super::times::{BlockTimes, Lap};
use super::{BlockTime, Chain, ChainConfig, ChainError, ChainEvent, Inner, sequencer};
use crate::block::Block;
use crate::blocks::BlockStore;
use crate::pool::DropReason;
use crate::state::{AccountChange, Changes, State, StateView, bytecode};

/// Maximum bytes of state that snapshots keep in memory: beyond that the oldest are dropped.
const SNAPSHOT_BYTES_MAX: u64 = 256 << 20;

/// The settings that developers have made.
pub(super) struct DevState {
    pub clock: Clock,
    pub clock_file: ClockFile,
    impersonated: AddressSet,
    impersonate_all: bool,
    /// Snapshots, the oldest first.
    snapshots: Vec<Snapshot>,
    snapshots_taken: u64,
    pub snapshot_bytes_max: u64,
}

struct Snapshot {
    id: u64,
    head: Arc<Block>,
    /// Keeps what later blocks replace.
    view: StateView,
    clock: Clock,
}

impl DevState {
    pub(super) fn new(config: &ChainConfig) -> Self {
        let clock = Clock::new(config);
        let mut state = Self {
            clock_file: ClockFile::new(config, &clock),
            clock,
            impersonated: AddressSet::default(),
            impersonate_all: false,
            snapshots: Vec::new(),
            snapshots_taken: 0,
            snapshot_bytes_max: SNAPSHOT_BYTES_MAX,
        };
        state.keep_clock();
        state
    }

    /// Writes the offset of the chain's time, so that a restart keeps it.
    pub(super) fn keep_clock(&mut self) {
        self.clock_file.keep(&self.clock);
    }
}

impl Chain {
    /// Makes a block now, of the pool's transactions.
    pub fn mine(&self) -> Result<Arc<Block>, ChainError> {
        let mut state = self.inner.writer()?;
        self.inner.make(&mut state)
    }

    /// Makes `count` blocks, each `interval_s` seconds after the one before, if given.
    pub fn mine_many(&self, count: u64, interval_s: Option<u64>) -> Result<(), ChainError> {
        for made in 0..count {
            let mut state = self.inner.writer()?;
            if let Some(interval_s) = interval_s.filter(|_| made > 0) {
                let next = self.head().header.timestamp.saturating_add(interval_s);
                self.inner.dev.lock().clock.timestamp = Some(next);
            }
            self.inner.make(&mut state)?;
        }
        Ok(())
    }

    /// Returns when blocks are made.
    pub fn block_time(&self) -> BlockTime {
        self.inner.signal.block_time()
    }

    /// Refuses a chain whose next block is one of proof of work: such blocks are only imported.
    pub fn check_is_merged(&self) -> Result<(), ChainError> {
        refuse_work(&self.pending_env())
    }

    /// Sets when blocks are made. Blocks begun under the old setting are finished when this returns.
    pub fn set_block_time(&self, block_time: BlockTime) -> Result<(), ChainError> {
        sequencer::check(block_time)?;
        if block_time != BlockTime::Manual {
            self.check_is_merged()?;
        }
        self.inner.signal.set_block_time(block_time);
        drop(self.inner.between_blocks());
        Ok(())
    }

    /// Changes the clock's settings. Blocks that are being made, or executed ahead, are finished first: they neither
    /// use the settings nor use them up.
    fn set_clock<T>(&self, how: impl FnOnce(&mut Clock) -> T) -> T {
        let _between = self.inner.between_blocks();
        let mut dev = self.inner.dev.lock();
        let result = how(&mut dev.clock);
        dev.keep_clock();
        result
    }

    /// Moves the time of future blocks forward; returns by how many seconds in all it is ahead of this machine's.
    pub fn increase_time(&self, seconds: u64) -> i64 {
        self.set_clock(|clock| {
            clock.offset_s = clock.offset_s.saturating_add_unsigned(seconds);
            clock.offset_s
        })
    }

    /// Sets the time, from which future blocks continue. Returns by how many seconds it is ahead of this machine's.
    pub fn set_time(&self, timestamp: u64) -> i64 {
        self.set_clock(|clock| {
            clock.set_time(timestamp);
            clock.offset_s
        })
    }

    /// Sets the next block's time, in seconds since 1970; later blocks continue from there.
    pub fn set_next_timestamp(&self, timestamp: u64) -> Result<(), ChainError> {
        self.set_clock(|clock| {
            let head = self.head().header.timestamp;
            if timestamp <= head {
                return Err(ChainError::Timestamp { timestamp, head });
            }
            if timestamp > TIME_MAX_S {
                return Err(ChainError::TimestampTooLate(timestamp));
            }
            clock.timestamp = Some(timestamp);
            Ok(())
        })
    }

    /// Sets the seconds between each block and the next; with `None`, the clock decides again.
    pub fn set_timestamp_interval(&self, interval_s: Option<u64>) {
        self.set_clock(|clock| clock.interval_s = interval_s);
    }

    /// Sets the base fee of the next block that is begun.
    pub fn set_next_base_fee(&self, base_fee: u64) {
        self.set_clock(|clock| clock.base_fee = Some(base_fee));
    }

    /// Sets `PREVRANDAO` of the next block that is begun.
    pub fn set_prevrandao(&self, prevrandao: B256) {
        self.set_clock(|clock| clock.prevrandao = Some(prevrandao));
    }

    /// Sets the fee recipient of future blocks.
    pub fn set_beneficiary(&self, beneficiary: Address) {
        self.set_clock(|clock| clock.beneficiary = beneficiary);
    }

    /// Sets the gas limit of future blocks.
    pub fn set_gas_limit(&self, gas_limit: u64) {
        self.set_clock(|clock| clock.gas_limit = Some(gas_limit));
    }

    /// Impersonates an account: its transactions need no signature.
    pub fn impersonate(&self, account: Address) {
        self.inner.dev.lock().impersonated.insert(account);
    }

    /// Ends [`Chain::impersonate`]: the account's transactions need its signature again.
    pub fn stop_impersonating(&self, account: &Address) {
        self.inner.dev.lock().impersonated.remove(account);
    }

    /// Sets whether every account is impersonated.
    pub fn impersonate_all(&self, all: bool) {
        self.inner.dev.lock().impersonate_all = all;
    }

    /// Returns whether an account is impersonated.
    pub fn is_impersonated(&self, account: &Address) -> bool {
        let dev = self.inner.dev.lock();
        dev.impersonate_all || dev.impersonated.contains(account)
    }

    /// Drops a pending transaction; returns whether it was pending.
    pub fn drop_transaction(&self, hash: &B256) -> bool {
        self.inner.pool.remove(hash, DropReason::Demand)
    }

    /// Sets a balance, in wei.
    pub fn set_balance(&self, account: Address, balance: U256) -> Result<(), ChainError> {
        self.change(account, |change| change.info.get_or_insert_default().balance = balance)
    }

    /// Sets the number of transactions that an account has sent.
    pub fn set_nonce(&self, account: Address, nonce: u64) -> Result<(), ChainError> {
        self.change(account, |change| change.info.get_or_insert_default().nonce = nonce)
    }

    /// Puts a contract's code at an address.
    pub fn set_code(&self, account: Address, code: Bytes) -> Result<(), ChainError> {
        self.change(account, |change| {
            let info = change.info.get_or_insert_default();
            info.code_hash = keccak256(&code);
            info.code = Some(bytecode(code));
        })
    }

    /// Sets a slot of a contract's storage.
    pub fn set_storage(&self, account: Address, slot: U256, value: U256) -> Result<(), ChainError> {
        self.change(account, |change| {
            change.info.get_or_insert_default();
            change.storage.insert(slot, value);
        })
    }

    /// Makes a block without transactions that changes one account.
    fn change(&self, account: Address, how: impl FnOnce(&mut AccountChange)) -> Result<(), ChainError> {
        let mut state = self.inner.writer()?;
        let (lap, view) = (Lap::new(), self.view());
        let mut info = view.basic_ref(account)?;
        if let Some(info) = &mut info
            && info.code.is_none()
            && !info.is_empty_code_hash()
        {
            info.code = Some(view.code_by_hash_ref(info.code_hash)?);
        }
        let mut change = AccountChange { info, ..Default::default() };
        how(&mut change);
        let mut changes = Changes::default();
        changes.accounts.insert(account, change);
        self.inner.alter(&mut state, changes, None, lap)
    }

    /// Takes a snapshot of the chain; returns its id.
    pub fn snapshot(&self) -> u64 {
        let _between = self.inner.between_blocks();
        let (head, view) = self.head_and_view();
        let mut dev = self.inner.dev.lock();
        dev.snapshots_taken += 1;
        let id = dev.snapshots_taken;
        let clock = dev.clock.clone();
        dev.snapshots.push(Snapshot { id, head, view, clock });
        id
    }

    /// Returns the snapshots, the oldest first: id, and the number and hash of the block.
    pub fn snapshots(&self) -> Vec<(u64, u64, B256)> {
        let dev = self.inner.dev.lock();
        dev.snapshots.iter().map(|taken| (taken.id, taken.head.number(), taken.head.hash)).collect()
    }

    /// Reverts to a snapshot, however many blocks ago it was taken; removes it and all later ones. Returns whether it
    /// existed: a snapshot goes when blocks have replaced too much of its state, or when its block goes. If the state
    /// cannot be written, the snapshot stays.
    pub fn revert(&self, id: u64) -> Result<bool, ChainError> {
        let mut state = self.inner.writer()?;
        // Otherwise its block could be pruned during the revert.
        let _held = self.inner.store.as_ref().map(BlockStore::hold);
        let (head, view, clock) = {
            let dev = self.inner.dev.lock();
            let Some(snapshot) = dev.snapshots.iter().find(|snapshot| snapshot.id == id) else { return Ok(false) };
            (snapshot.head.clone(), snapshot.view.clone(), snapshot.clock.clone())
        };
        if !self.is_kept(head.number()) {
            let gone = {
                let mut dev = self.inner.dev.lock();
                let at = dev.snapshots.iter().position(|snapshot| snapshot.id == id);
                at.map(|at| dev.snapshots.remove(at))
            };
            drop(gone);
            return Ok(false);
        }
        self.inner.go_back(&mut state, &head, &view, |dev| {
            dev.snapshots.retain(|snapshot| snapshot.id < id);
            dev.clock = clock;
        })?;
        Ok(true)
    }

    /// Removes the newest `depth` blocks, and the snapshots taken after the block that is the newest then. Returns
    /// false, and changes nothing, where that would be beyond block zero or beyond the blocks and states that are kept.
    pub fn roll_back(&self, depth: u64) -> Result<bool, ChainError> {
        let mut state = self.inner.writer()?;
        let _held = self.inner.store.as_ref().map(BlockStore::hold);
        let Some(number) = self.head().number().checked_sub(depth) else { return Ok(false) };
        if depth == 0 {
            return Ok(true);
        }
        if !self.is_kept(number) {
            return Ok(false);
        }
        let (Some(head), Some(view)) = (self.block(number), self.view_at(number)) else { return Ok(false) };
        self.inner.go_back(&mut state, &head, &view, |dev| {
            dev.snapshots.retain(|snapshot| snapshot.head.number() <= number);
        })?;
        Ok(true)
    }
}

impl Chain {
    /// Returns whether the chain can end with the block of that number: without that block in it, the folder could not
    /// be opened again.
    fn is_kept(&self, number: u64) -> bool {
        let first = self.first_block();
        first <= number || (number, first) == (0, 1)
    }
}

impl Inner {
    /// Makes `head`, after which the state was `view`, the newest block; `set` handles the rest.
    fn go_back(
        &self,
        state: &mut State,
        head: &Arc<Block>,
        view: &StateView,
        set: impl FnOnce(&mut DevState),
    ) -> Result<(), ChainError> {
        // Transactions of removed blocks must not become pending again after a restart. Once these blocks are gone,
        // nothing else marks them in the pool's files.
        self.keep_waiting()?;
        self.rewind(state, head, view)?;
        let unaware = {
            let mut dev = self.dev.lock();
            set(&mut dev);
            dev.keep_clock();
            let mut published = self.published.write();
            let gone = published.rewind(head.clone(), state.head());
            self.hub.tell(&ChainEvent::Reorg(head.clone(), gone))
        };
        unaware.wake();
        self.tell_blobs(&(&**head).into());
        self.pool.sidecars().rewind(head.number());
        self.pool.reset(&state.head(), self.base_fee_after(&(&**head).into()));
        if let Err(error) = self.keep_waiting() {
            tracing::error!(%error, "what cannot wait any more is still kept as waiting");
        }
        Ok(())
    }

    /// Drops the oldest snapshots while they keep too much besides the newest state.
    pub(super) fn forget_snapshots(&self, newest: &StateView) {
        let gone: Vec<Snapshot> = {
            let mut dev = self.dev.lock();
            let is_small = |snapshot: &Snapshot| newest.bytes_since(&snapshot.view) <= dev.snapshot_bytes_max;
            let kept = dev.snapshots.iter().position(is_small).unwrap_or(dev.snapshots.len());
            dev.snapshots.drain(..kept).collect()
        };
        // Freed here, where only the next block waits for it.
        drop(gone);
    }

    /// Makes a block without transactions from changes that no execution makes. With items of the side ledger, the
    /// block sets that ledger's whole set to them.
    pub(super) fn alter(
        &self,
        state: &mut State,
        changes: Changes,
        load: Option<&[Bytes]>,
        mut lap: Lap,
    ) -> Result<(), ChainError> {
        let (parent, view) = self.head_and_view();
        let mut env = self.next_env(&(&*parent).into(), &self.dev.lock().clock);
        let part = match load {
            Some(items) => self.load_side(&mut env, items)?,
            None => self.begin_side(&mut env, &[]),
        };
        let executed = self.execute(&view, &env, &[], &[])?;
        let times = BlockTimes { deliver_us: lap.us(), ..Default::default() };
        let mut block = UnsealedBlock::new(env, Vec::new(), executed, part, times);
        block.alter(changes);
        self.dev.lock().clock.block_made(block.env.timestamp);
        self.finish(state, block).map(drop)
    }

    /// Rewrites the pool's files, so that they have exactly the pending transactions.
    fn keep_waiting(&self) -> Result<(), ChainError> {
        self.journal.as_ref().map_or(Ok(()), |journal| journal.rewrite(&self.pool))?;
        self.side().map_or(Ok(()), |side| Ok(side.keep_pool()?))
    }

    /// Removes all blocks after `head` from every store.
    fn rewind(&self, state: &mut State, head: &Block, view: &StateView) -> Result<(), ChainError> {
        // A state ahead of the blocks could not be opened again.
        state.rewind_to(view)?;
        // Synced, too: the machine may stop between the two, and the undo window may be shorter than the way back.
        state.sync()?;
        let stored = self.store.as_ref().map_or(Ok(()), |store| store.truncate(head.number()));
        // If the side ledger has more than the blocks, opening it truncates that.
        let taken = stored.map_err(ChainError::from).and_then(|()| self.rewind_side(head.number()));
        if let Err(error) = &taken {
            self.fail(format!("the blocks after {} are taken back in part: {error}", head.number()));
        }
        taken
    }
}

#[cfg(test)]
mod tests;

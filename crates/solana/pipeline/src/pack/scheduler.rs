//! scheduler: the order of transactions: which runs next, on which bank, and which waits for which.
//!
//! reads   [`Candidate`]s; banks' completions; the start and end of leader slots
//! writes  microblocks: transactions that conflict neither with each other nor with anything that executes
//! memory  [`Scheduler::bytes`], nearly all allocated in [`Scheduler::new`]; account queues grow and shrink with their
//!         waiting transactions, at most 96 B per pending transaction; 8 B per transaction that expires in the same
//!         call
//! drops   see [`Counts`]: every kind is counted, offered = scheduled + dropped + pending
//! source  the cluster's lock rules and block limits; the order is our own: reward per cost
//!
//! A transaction is in one place at a time. *Ready* transactions compete in one heap. One that meets an account closed
//! to it moves into that account's queue and is not examined again until the account opens. A thousand transactions
//! that write one account therefore cost as much each as independent ones; rescanning them would be quadratic. When an
//! account opens, the best of its queue becomes its *delegate* in the heap. The invariant is:
//!
//! > an account with a queue is locked, or capped, or has a delegate,
//!
//! so no transaction waits for nothing. A new transaction joins an account's queue at once if a better one waits there,
//! so a stream of readers cannot starve a writer.
//!
//! A delegate that leaves the heap without locking its account (say, because it met another closed one) hands over to
//! the next in the queue.

mod flights;
mod queues;

use std::collections::VecDeque;
use std::hint::black_box;

use super::accounts::Accounts;
use super::heap::{Entry, Heap};
use super::pool::{EXPIRY_SPAN, LockId, Pool, pay_class};
use super::types::{BlockLimit, Candidate, Counts, RejectReason, SchedulerConfig, TXN_BYTES, TXN_LOCKS};
pub use flights::ScheduledMicroblock;

/// Accounts of a transaction that are hashed ahead of use; most transactions have fewer.
const HASHED: usize = 8;
/// Maximum worse-paying transactions that one arrival may evict to free accounts.
const EVICTIONS: u32 = 16;

/// A microblock in flight.
#[derive(Debug, Default)]
struct Flight {
    slot: u64,
    id: u64,
    block: u32,
    /// Reserved cost and number of locks of each transaction.
    txns: Vec<(u32, u16)>,
    locks: Vec<LockId>,
}

/// The current leader slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    slot: u64,
    start_ns: u64,
    end_ns: u64,
    microblocks: u64,
    max_microblocks: u64,
    cost: u64,
    bytes: u64,
    growth: u64,
    misfits: u32,
    /// The limit that the last misfit would have exceeded.
    short_of: BlockLimit,
}

/// Pending and executing transactions.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    pool: Pool,
    accounts: Accounts,
    ready: Heap,
    /// Account queues, by number; those in `spare_queues` are empty.
    queues: Vec<Heap>,
    spare_queues: Vec<u32>,
    block_short: Vec<u32>,
    account_short: Vec<u32>,
    capped: Vec<u32>,
    in_flight: Vec<VecDeque<Flight>>,
    spare_flights: Vec<Flight>,
    /// Pool slots of the transactions in the latest microblock.
    outgoing: Vec<u32>,
    slot: Option<Slot>,
    seq: u64,
    time: u64,
    counts: Counts,
    /// Tags of the transactions that the last insertion or expiry removed.
    dropped: Vec<u64>,
}

impl Scheduler {
    /// Memory that a scheduler of this configuration takes, in bytes.
    pub fn bytes(config: &SchedulerConfig) -> u64 {
        let heaps = config.capacity as u64 * (size_of::<Entry>() as u64 + 96);
        let flights = config.banks as u64 * u64::from(config.flights_per_bank) * 4 * config.microblock_locks() as u64;
        Pool::bytes(config.capacity) + Accounts::bytes(config.accounts) + heaps + flights
    }

    /// Creates an empty scheduler. Panics if the configuration has no slot, account, bank or cost.
    pub fn new(config: SchedulerConfig) -> Self {
        assert!(config.banks > 0 && config.flights_per_bank > 0, "somebody has to execute");
        assert!(config.accounts >= TXN_LOCKS, "one transaction's accounts fit");
        assert!(
            config.limits.microblock_bytes >= TXN_BYTES + SchedulerConfig::TXN_HEADER + SchedulerConfig::LOADED_HEADER,
            "one transaction fits"
        );
        let flight = || Flight {
            txns: Vec::with_capacity(config.limits.microblock_txns),
            locks: Vec::with_capacity(config.microblock_locks()),
            ..Flight::default()
        };
        let flights = config.banks * config.flights_per_bank as usize;
        Self {
            pool: Pool::new(config.capacity),
            accounts: Accounts::new(config.accounts, config.secret),
            ready: Heap::with_capacity(config.capacity),
            queues: vec![],
            spare_queues: vec![],
            block_short: vec![],
            account_short: vec![],
            capped: vec![],
            in_flight: (0..config.banks).map(|_| VecDeque::with_capacity(config.flights_per_bank as usize)).collect(),
            spare_flights: (0..flights).map(|_| flight()).collect(),
            outgoing: Vec::with_capacity(config.limits.microblock_txns),
            slot: None,
            seq: 0,
            time: 0,
            counts: Counts::default(),
            dropped: vec![],
            config,
        }
    }

    /// The totals since the scheduler was made.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Tags of the pending transactions that the last [`Scheduler::insert`] evicted or the last [`Scheduler::expire`]
    /// dropped.
    pub fn dropped(&self) -> &[u64] {
        &self.dropped
    }

    /// How many transactions are pending.
    pub fn pending(&self) -> usize {
        self.pool.len()
    }

    /// How many transactions compete for the next microblock; the others wait for accounts or for the block.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many accounts are tracked.
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// Compute units and bytes in the block so far.
    pub fn block(&self) -> Option<(u64, u64)> {
        self.slot.map(|slot| (slot.cost, slot.bytes))
    }

    /// The resource that the current block has run out of, if that makes transactions wait for the next block.
    pub fn short_of(&self) -> Option<BlockLimit> {
        let slot = self.slot?;
        if slot.max_microblocks > 0 && slot.microblocks >= slot.max_microblocks && self.pending() > 0 {
            return Some(BlockLimit::Microblocks);
        }
        if !self.block_short.is_empty() {
            return Some(slot.short_of);
        }
        let is_account_short = !self.account_short.is_empty() || !self.capped.is_empty();
        is_account_short.then_some(BlockLimit::Account)
    }

    /// Admits a transaction, possibly by evicting one that pays worse.
    pub fn insert(&mut self, candidate: &Candidate<'_>) -> Result<(), RejectReason> {
        self.counts.offered += 1;
        self.dropped.clear();
        let result = self.admit(candidate);
        if let Err(why) = result {
            *self.counts.refused_mut(why) += 1;
        }
        result
    }

    fn admit(&mut self, candidate: &Candidate<'_>) -> Result<(), RejectReason> {
        // The tables are large: incur all cache misses at once instead of one after another.
        let mut hashes = [0; HASHED];
        let mut touched = self.pool.touch(candidate.tag);
        for (hash, key) in hashes.iter_mut().zip(candidate.keys) {
            *hash = self.accounts.hash(key);
            touched |= self.accounts.touch(*hash);
        }
        black_box(touched);
        self.check(candidate)?;
        let pay = pay_class(candidate.reward, candidate.cost);
        if self.pool.is_full() && !self.evict_below(pay) {
            return Err(RejectReason::PoolFull);
        }
        let mut locks = [LockId::new(0, false); TXN_LOCKS];
        let locks = self.refer(candidate, &hashes, pay, &mut locks)?;
        // The span exceeds a blockhash's lifetime.
        let expires_at = candidate.expires_at.min(self.time + EXPIRY_SPAN - 1);
        let entry = self.pool.put(candidate, locks, self.seq, expires_at);
        self.seq += 1;
        match self.queue_to_join(&entry) {
            Some(account) => self.wait(entry, account),
            None => self.ready.push(entry, &mut self.pool.places),
        }
        Ok(())
    }

    fn check(&self, candidate: &Candidate<'_>) -> Result<(), RejectReason> {
        let limits = &self.config.limits;
        if candidate.bytes.len() > TXN_BYTES {
            return Err(RejectReason::TooLong);
        }
        if candidate.keys.is_empty() || candidate.keys.len() > TXN_LOCKS {
            return Err(RejectReason::TooManyAccounts);
        }
        if candidate.cost > limits.account_cost || u64::from(candidate.cost) > limits.block_cost {
            return Err(RejectReason::TooCostly);
        }
        if candidate.expires_at < self.time {
            return Err(RejectReason::Expired);
        }
        if self.pool.contains(candidate.tag) {
            return Err(RejectReason::Duplicate);
        }
        Ok(())
    }

    /// Counts a reference to each account of the candidate.
    fn refer<'l>(
        &mut self,
        candidate: &Candidate<'_>,
        hashes: &[u64; HASHED],
        pay: usize,
        locks: &'l mut [LockId; TXN_LOCKS],
    ) -> Result<&'l [LockId], RejectReason> {
        let mut evictions = 0;
        let mut count = 0;
        let mut refused = None;
        for (index, key) in candidate.keys.iter().enumerate() {
            if candidate.unlocked.contains(index) {
                continue;
            }
            let hash = hashes.get(index).copied().unwrap_or_else(|| self.accounts.hash(key));
            let mut id = self.accounts.refer(key, hash);
            while id.is_none() && evictions < EVICTIONS && self.evict_below(pay) {
                evictions += 1;
                id = self.accounts.refer(key, hash);
            }
            let Some(id) = id else {
                refused = Some(RejectReason::AccountsFull);
                break;
            };
            if locks[..count].iter().any(|l| l.account() == id) {
                refused = Some(RejectReason::AccountTwice);
            }
            locks[count] = LockId::new(id, candidate.writes.contains(index));
            count += 1;
        }
        match refused {
            None => Ok(&locks[..count]),
            Some(why) => {
                locks[..count].iter().for_each(|lock| self.accounts.forgo(lock.account()));
                Err(why)
            }
        }
    }

    /// Evicts the transaction that pays worst, if its class is below `pay`.
    fn evict_below(&mut self, pay: usize) -> bool {
        match self.pool.worst() {
            Some((slot, class)) if class < pay => {
                self.dropped.push(self.pool.meta(slot).tag);
                self.take_out(slot);
                self.counts.evicted += 1;
                true
            }
            _ => false,
        }
    }

    /// Drops every transaction that expired before `time`, unless `renewed` returns a later expiry for its bytes.
    /// `time` never decreases.
    pub fn expire(&mut self, time: u64, renewed: impl Fn(&[u8]) -> Option<u64>) {
        self.dropped.clear();
        let first = self.time.max(time.saturating_sub(EXPIRY_SPAN));
        // Times whose list does not coincide with that of an elapsed time.
        let later = time..first + EXPIRY_SPAN;
        for passed in first..time {
            while let Some(slot) = self.pool.expiring_at(passed) {
                match renewed(self.pool.txn(slot)).filter(|at| later.contains(at)) {
                    Some(expires_at) => self.pool.renew(slot, expires_at),
                    None => {
                        self.dropped.push(self.pool.meta(slot).tag);
                        self.take_out(slot);
                        self.counts.expired += 1;
                    }
                }
            }
        }
        self.time = self.time.max(time);
    }

    /// Starts a leader slot; the previous one, if any, has ended. `max_microblocks` is how many poh can still mix in.
    pub fn begin_slot(&mut self, slot: u64, start_ns: u64, end_ns: u64, max_microblocks: u64) {
        self.accounts.begin_block();
        let (microblocks, cost, bytes, growth) = (0, 0, 0, 0);
        let (misfits, short_of) = (0, BlockLimit::Compute);
        let begun =
            Slot { slot, start_ns, end_ns, microblocks, max_microblocks, cost, bytes, growth, misfits, short_of };
        self.slot = Some(begun);
        self.resume_block_short();
        while let Some(slot) = self.account_short.pop() {
            self.make_ready(slot);
        }
        while let Some(account) = self.capped.pop() {
            if std::mem::take(&mut self.accounts.get_mut(account).capped) {
                self.open(account);
            }
        }
    }

    /// Stops scheduling in the current slot; returns the slot and its number of microblocks.
    pub fn end_slot(&mut self) -> Option<(u64, u64)> {
        self.slot.take().map(|slot| (slot.slot, slot.microblocks))
    }
}

#[cfg(test)]
mod tests;

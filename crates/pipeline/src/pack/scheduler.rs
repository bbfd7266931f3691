//! The order of transactions: who runs next, on which bank, and who waits for whom.
//!
//! reads   [`Candidate`]s; banks' completions; the begin and end of leader slots
//! writes  microblocks: transactions that conflict neither with each other nor with anything that executes
//! memory  [`Scheduler::bytes`], nearly all taken in [`Scheduler::new`]; queues of accounts grow and
//!         shrink with what waits in them, 96 B a pending transaction at most; 8 B for each that expires at once
//! drops   see [`Counts`]: each kind is counted, offered = scheduled + dropped + pending
//! source  the cluster's lock rules and block limits; the order is our own: reward per cost
//!
//! A transaction stands in one place at a time. *Ready* ones compete in one heap. One that meets an
//! account that is closed to it moves into that account's queue, and is not looked at again until
//! the account opens: so a thousand transactions that write one account cost the same each as
//! independent ones, where scanning over them again and again would be quadratic. When an account
//! opens, the best of its queue becomes its *delegate* among the ready. At any time
//!
//! > an account with a queue is locked, or capped, or has a delegate,
//!
//! so nobody waits for nothing. A new transaction joins the queue of an account right away when
//! somebody better waits there, so readers that keep coming do not starve a writer.
//!
//! A delegate that leaves without locking its account (it met another closed one, say) hands over
//! to the next in the queue.

use std::collections::VecDeque;
use std::hint::black_box;

use super::accounts::{Accounts, NONE};
use super::heap::{Entry, Heap};
use super::pool::{EXPIRY_SPAN, LockId, Pool, State, TXN_BYTES, TXN_LOCKS, pay_class};
use super::terms::{Candidate, Counts, Idle, Pacing, Refused, SchedulerConfig};

/// Bytes that an entry has besides its transactions: hash count, hash, transaction count.
const ENTRY_BYTES: u64 = 8 + 32 + 8;
/// So many in a row that do not fit into what is left of the block close it.
const MISFITS: u32 = 64;
/// An account with less than this part of its limit left is closed to writers for the block.
const CAPPED_BELOW: u32 = 64;
/// Accounts of a transaction that are hashed ahead of their turn; most have fewer.
const HASHED: usize = 8;
/// Worse-paying transactions that one arrival may push out for want of accounts.
const EVICTIONS: u32 = 16;

/// A microblock that executes.
#[derive(Debug, Default)]
struct Flight {
    slot: u64,
    id: u64,
    block: u32,
    /// Reserved cost and number of locks of each transaction.
    txns: Vec<(u32, u16)>,
    locks: Vec<LockId>,
}

/// The leader slot under way.
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
}

/// The microblock that [`Scheduler::schedule`] made.
#[derive(Clone, Copy, Debug)]
pub struct Scheduled<'a> {
    /// The slot it belongs to.
    pub slot: u64,
    /// Sequential over all banks within the slot, from 0.
    pub id: u64,
    /// Compute units reserved for it.
    pub cost: u64,
    slots: &'a [u32],
    pool: &'a Pool,
}

impl<'a> Scheduled<'a> {
    /// How many transactions it has; at least one.
    pub fn txn_count(&self) -> usize {
        self.slots.len()
    }

    /// Reserved compute units and wire bytes of each transaction, best first.
    pub fn txns(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let pool = self.pool;
        self.slots.iter().map(move |&slot| (pool.meta(slot as usize).entry.cost, pool.txn(slot as usize)))
    }

    /// Digest of the accounts from lookup tables of each transaction that has some, in the same order.
    pub fn loaded(&self) -> impl Iterator<Item = Option<u64>> + use<'a> {
        let pool = self.pool;
        self.slots.iter().map(move |&slot| pool.loaded(slot as usize))
    }

    /// When each transaction entered the node, in the same order.
    pub fn origins_us(&self) -> impl Iterator<Item = u32> + use<'a> {
        let pool = self.pool;
        self.slots.iter().map(move |&slot| pool.meta(slot as usize).origin_us)
    }

    /// When the first of its transactions entered the node of which that is known.
    pub fn origin_us(&self) -> u32 {
        self.origins_us().find(|origin_us| *origin_us != 0).unwrap_or(0)
    }
}

/// Pending and executing transactions.
#[derive(Debug)]
pub struct Scheduler {
    config: SchedulerConfig,
    pool: Pool,
    accounts: Accounts,
    ready: Heap,
    /// Queues of accounts, by number; those in `spare_queues` are empty.
    queues: Vec<Heap>,
    spare_queues: Vec<u32>,
    block_short: Vec<u32>,
    account_short: Vec<u32>,
    capped: Vec<u32>,
    in_flight: Vec<VecDeque<Flight>>,
    spare_flights: Vec<Flight>,
    /// Slots of the pool in the microblock made last.
    outgoing: Vec<u32>,
    slot: Option<Slot>,
    seq: u64,
    time: u64,
    counts: Counts,
    /// Tags of those that the last insertion or expiry has taken out.
    dropped: Vec<u64>,
}

impl Scheduler {
    /// Memory that a scheduler of this configuration takes, in bytes.
    pub fn bytes(config: &SchedulerConfig) -> u64 {
        let heaps = config.capacity as u64 * (size_of::<Entry>() as u64 + 96);
        let flights = config.banks as u64 * u64::from(config.flights_per_bank) * 4 * config.microblock_locks() as u64;
        Pool::bytes(config.capacity) + Accounts::bytes(config.accounts) + heaps + flights
    }

    /// An empty scheduler. Panics when the configuration has no slot, account, bank or cost.
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

    /// What happened so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Tags of the pending transactions that the last [`Scheduler::insert`] has pushed out, or the last
    /// [`Scheduler::expire`] has dropped.
    pub fn dropped(&self) -> &[u64] {
        &self.dropped
    }

    /// How many transactions are pending.
    pub fn pending(&self) -> usize {
        self.pool.len()
    }

    /// How many of them compete for the next microblock; the others wait for accounts or the block.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many accounts are known.
    pub fn accounts(&self) -> usize {
        self.accounts.len()
    }

    /// Compute units and bytes that the block has so far.
    pub fn block(&self) -> Option<(u64, u64)> {
        self.slot.map(|slot| (slot.cost, slot.bytes))
    }

    /// Takes a transaction in, perhaps in place of one that pays worse.
    pub fn insert(&mut self, candidate: &Candidate<'_>) -> Result<(), Refused> {
        self.counts.offered += 1;
        self.dropped.clear();
        let result = self.admit(candidate);
        if let Err(why) = result {
            *self.counts.refused_mut(why) += 1;
        }
        result
    }

    fn admit(&mut self, candidate: &Candidate<'_>) -> Result<(), Refused> {
        // The tables are large: all their cache misses at once, instead of one after the other.
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
            return Err(Refused::PoolFull);
        }
        let mut locks = [LockId::new(0, false); TXN_LOCKS];
        let locks = self.refer(candidate, &hashes, pay, &mut locks)?;
        // The span is longer than a blockhash lives.
        let expires_at = candidate.expires_at.min(self.time + EXPIRY_SPAN - 1);
        let entry = self.pool.put(candidate, locks, self.seq, expires_at);
        self.seq += 1;
        match self.queue_to_join(&entry) {
            Some(account) => self.wait(entry, account),
            None => self.ready.push(entry, &mut self.pool.places),
        }
        Ok(())
    }

    fn check(&self, candidate: &Candidate<'_>) -> Result<(), Refused> {
        let limits = &self.config.limits;
        if candidate.bytes.len() > TXN_BYTES {
            return Err(Refused::TooLong);
        }
        if candidate.keys.is_empty() || candidate.keys.len() > TXN_LOCKS {
            return Err(Refused::TooManyAccounts);
        }
        if candidate.cost > limits.account_cost || u64::from(candidate.cost) > limits.block_cost {
            return Err(Refused::TooCostly);
        }
        if candidate.expires_at < self.time {
            return Err(Refused::Expired);
        }
        if self.pool.contains(candidate.tag) {
            return Err(Refused::Duplicate);
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
    ) -> Result<&'l [LockId], Refused> {
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
                refused = Some(Refused::AccountsFull);
                break;
            };
            if locks[..count].iter().any(|l| l.account() == id) {
                refused = Some(Refused::AccountTwice);
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

    /// Pushes out the transaction that pays worst, if it is of a class below `pay`.
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

    /// Drops every transaction whose time ended before `time`, unless `renewed` knows a later end by its bytes. Time
    /// does not go back.
    pub fn expire(&mut self, time: u64, renewed: impl Fn(&[u8]) -> Option<u64>) {
        self.dropped.clear();
        let first = self.time.max(time.saturating_sub(EXPIRY_SPAN));
        // Times that share no list with those that pass.
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

    /// A leader slot begins; the one before it, if any, has ended. `max_microblocks` is what poh can
    /// still mix in.
    pub fn begin_slot(&mut self, slot: u64, start_ns: u64, end_ns: u64, max_microblocks: u64) {
        self.accounts.begin_block();
        let (microblocks, cost, bytes, growth, misfits) = (0, 0, 0, 0, 0);
        self.slot = Some(Slot { slot, start_ns, end_ns, microblocks, max_microblocks, cost, bytes, growth, misfits });
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

    /// No more microblocks for the slot under way; gives the slot and how many there were.
    pub fn end_slot(&mut self) -> Option<(u64, u64)> {
        self.slot.take().map(|slot| (slot.slot, slot.microblocks))
    }

    /// The next microblock for `bank`. Looks at `budget` transactions at most.
    pub fn schedule(&mut self, bank: usize, now_ns: u64, budget: usize) -> Result<Scheduled<'_>, Idle> {
        let mut slot = self.may_schedule(bank, now_ns)?;
        let limits = self.config.limits;
        let mut flight = self.spare_flights.pop().expect("one for each that may execute");
        let mut bytes_left = limits.microblock_bytes;
        let before = (slot.cost, slot.bytes);
        self.outgoing.clear();
        slot.bytes += ENTRY_BYTES;
        let mut looked = 0;
        while self.outgoing.len() < limits.microblock_txns && looked < budget {
            let Some(&top) = self.ready.top() else { break };
            let at = top.slot as usize;
            let len = self.pool.txn(at).len();
            let more = if self.pool.loaded(at).is_some() { SchedulerConfig::LOADED_HEADER } else { 0 };
            let needs = len + SchedulerConfig::TXN_HEADER + more;
            let too_long = slot.cost - before.0 + u64::from(top.cost) > limits.microblock_cost;
            if needs > bytes_left || (too_long && !self.outgoing.is_empty()) || slot.misfits >= MISFITS {
                break;
            }
            looked += 1;
            self.ready.pop(&mut self.pool.places);
            if let Some(next) = self.ready.top() {
                black_box(self.pool.locks(next.slot as usize).first());
            }
            let grown = slot.growth + u64::from(self.pool.meta(at).growth);
            let block = (slot.cost + u64::from(top.cost), slot.bytes + len as u64);
            if block.0 > limits.block_cost || block.1 > limits.block_bytes || grown > limits.block_growth {
                slot.misfits += 1;
                self.put_off(at, State::BlockShort);
            } else if let Some(account) = self.closed_account(at) {
                self.resign(at);
                self.wait(top, account);
            } else if let Some(account) = self.spent_account(&top) {
                self.refuse_spent(&top, account);
            } else {
                self.launch(&top, &mut flight);
                bytes_left -= needs;
                (slot.cost, slot.bytes) = block;
                slot.growth = grown;
                slot.misfits = 0;
            }
        }
        self.counts.looked_at += looked as u64;
        if self.outgoing.is_empty() {
            (slot.cost, slot.bytes) = before;
            self.slot = Some(slot);
            self.spare_flights.push(flight);
            return Err(self.why_nothing(looked == budget, slot.misfits >= MISFITS));
        }
        (flight.slot, flight.id, flight.block) = (slot.slot, slot.microblocks, self.accounts.block());
        let scheduled = Scheduled {
            slot: slot.slot,
            id: slot.microblocks,
            cost: slot.cost - before.0,
            slots: &self.outgoing,
            pool: &self.pool,
        };
        slot.microblocks += 1;
        self.slot = Some(slot);
        self.in_flight[bank].push_back(flight);
        self.counts.microblocks += 1;
        self.counts.scheduled += self.outgoing.len() as u64;
        Ok(scheduled)
    }

    fn may_schedule(&self, bank: usize, now_ns: u64) -> Result<Slot, Idle> {
        let slot = self.slot.ok_or(Idle::NoSlot)?;
        if self.in_flight[bank].len() >= self.config.flights_per_bank as usize {
            return Err(Idle::BankBusy);
        }
        if slot.microblocks >= slot.max_microblocks || slot.misfits >= MISFITS {
            return Err(Idle::BlockFull);
        }
        if self.config.pacing == Pacing::Even {
            let until_ns = paced_until(&slot, self.config.limits.block_cost);
            if now_ns < until_ns {
                return Err(Idle::Paced { until_ns });
            }
        }
        Ok(slot)
    }

    fn why_nothing(&self, out_of_budget: bool, block_full: bool) -> Idle {
        if block_full {
            Idle::BlockFull
        } else if out_of_budget {
            Idle::OutOfBudget
        } else {
            Idle::NothingReady
        }
    }

    /// An account of the transaction that is closed to it.
    #[inline]
    fn closed_account(&self, slot: usize) -> Option<u32> {
        let closed = |lock: &&LockId| self.accounts.get(lock.account()).is_closed_to(lock.write());
        self.pool.locks(slot).iter().find(closed).map(|lock| lock.account())
    }

    /// An account of a new transaction that is closed to it, or for which somebody better waits.
    fn queue_to_join(&self, entry: &Entry) -> Option<u32> {
        let joins = |lock: &&LockId| {
            let account = self.accounts.get(lock.account());
            if account.is_closed_to(lock.write()) {
                return true;
            }
            // Of a capped account only writers wait, and until the block's end.
            let queues = account.queue != NONE && !account.capped;
            queues && self.queues[account.queue as usize].top().is_some_and(|top| top.before(entry))
        };
        self.pool.locks(entry.slot as usize).iter().find(joins).map(|lock| lock.account())
    }

    /// An account whose write limit the transaction would exceed.
    #[inline]
    fn spent_account(&self, entry: &Entry) -> Option<u32> {
        let limit = self.config.limits.account_cost;
        let exceeds = |lock: &&LockId| lock.write() && self.accounts.spent(lock.account()) + entry.cost > limit;
        self.pool.locks(entry.slot as usize).iter().find(exceeds).map(|lock| lock.account())
    }

    /// Puts a transaction off because of an account's write limit: into its queue when there is
    /// next to nothing left of the limit for anybody, else by itself.
    fn refuse_spent(&mut self, entry: &Entry, account: u32) {
        self.counts.put_off_account_limit += 1;
        let limit = self.config.limits.account_cost;
        if limit - self.accounts.spent(account) < limit / CAPPED_BELOW {
            self.accounts.get_mut(account).capped = true;
            self.capped.push(account);
            self.resign(entry.slot as usize);
            self.wait(*entry, account);
        } else {
            self.put_off(entry.slot as usize, State::AccountShort);
        }
    }

    /// Locks the accounts of a transaction that has left the ready ones, and frees its slot.
    fn launch(&mut self, entry: &Entry, flight: &mut Flight) {
        let at = entry.slot as usize;
        let locks = self.pool.locks(at);
        for lock in locks {
            let account = self.accounts.get_mut(lock.account());
            if lock.write() {
                account.writer = true;
                self.accounts.spend(lock.account(), entry.cost);
            } else {
                account.readers += 1;
            }
        }
        flight.txns.push((entry.cost, locks.len() as u16));
        flight.locks.extend_from_slice(locks);
        self.outgoing.push(entry.slot);
        self.resign(at);
        self.pool.free(at);
    }

    /// A bank has finished the oldest microblock that it had. `costs` is what each of its transactions took in truth,
    /// in compute units. Panics when `slot` and `id` are not that microblock's, or a cost is missing.
    pub fn complete(&mut self, bank: usize, slot: u64, id: u64, mut costs: impl Iterator<Item = u32>) {
        let mut flight = self.in_flight[bank].pop_front().expect("a bank completes what it was given");
        assert_eq!((flight.slot, flight.id), (slot, id), "a bank completes in order");
        let gives_back = self.config.use_consumed_cus && flight.block == self.accounts.block();
        // As in `admit`: the cache misses of all accounts at once.
        let touch = |touched, lock: &LockId| touched | self.accounts.touch_known(lock.account());
        black_box(flight.locks.iter().fold(0, touch));
        let (mut at, mut unused) = (0, 0);
        for (reserved, count) in flight.txns.drain(..) {
            let locks = &flight.locks[at..at + usize::from(count)];
            at += usize::from(count);
            let took = costs.next().expect("a bank says what each transaction took");
            let back = if gives_back { reserved.saturating_sub(took) } else { 0 };
            unused += u64::from(back);
            for lock in locks {
                self.unlock(*lock, flight.block, back);
            }
        }
        self.refund_block(unused);
        flight.locks.clear();
        self.spare_flights.push(flight);
    }

    fn refund_block(&mut self, unused: u64) {
        let Some(slot) = self.slot.as_mut().filter(|_| unused > 0) else { return };
        slot.cost = slot.cost.checked_sub(unused).expect("no more comes back than was reserved");
        self.counts.cost_given_back += unused;
        slot.misfits = 0;
        self.resume_block_short();
    }

    fn unlock(&mut self, lock: LockId, block: u32, back: u32) {
        let id = lock.account();
        if lock.write() && back > 0 {
            self.accounts.refund(id, block, back);
        }
        let account = self.accounts.get_mut(id);
        if lock.write() {
            account.writer = false;
        } else {
            account.readers -= 1;
        }
        self.open(id);
        self.accounts.forgo(id);
    }

    /// Sends a delegate if transactions wait for an account that is open to all.
    #[inline]
    fn open(&mut self, account: u32) {
        let it = self.accounts.get(account);
        if it.queue != NONE && it.is_free() && !it.capped {
            self.send_delegate(account);
        }
    }

    /// Lets the best of an account's queue compete for all of them, unless somebody better does.
    fn send_delegate(&mut self, account: u32) {
        let it = self.accounts.get(account);
        let queue = it.queue as usize;
        if it.delegate != NONE {
            let best = self.queues[queue].top().expect("a queue is not empty");
            let delegate = self.pool.meta_mut(it.delegate as usize);
            if delegate.entry.before(best) {
                return;
            }
            // It stays among the ready, for itself alone.
            delegate.delegate_of = None;
        }
        let best = self.queues[queue].pop(&mut self.pool.places).expect("a queue is not empty");
        self.accounts.get_mut(account).delegate = best.slot;
        self.tidy_queue(account);
        let meta = self.pool.meta_mut(best.slot as usize);
        (meta.state, meta.delegate_of) = (State::Ready, Some(account));
        self.ready.push(best, &mut self.pool.places);
    }

    /// A transaction that leaves the ready ones is nobody's delegate any more. The next in the queue
    /// goes, if the account is open to all, or open to readers and was open to this one.
    #[inline]
    fn resign(&mut self, slot: usize) {
        let Some(account) = self.pool.meta_mut(slot).delegate_of.take() else { return };
        let it = self.accounts.get_mut(account);
        it.delegate = NONE;
        if it.queue == NONE || it.writer || it.capped {
            return;
        }
        let reads = self.pool.locks(slot).contains(&LockId::new(account, false));
        if reads || it.is_free() {
            self.send_delegate(account);
        }
    }

    /// Puts a transaction into an account's queue.
    fn wait(&mut self, entry: Entry, account: u32) {
        self.counts.waited += 1;
        let it = self.accounts.get_mut(account);
        if it.queue == NONE {
            it.queue = self.spare_queues.pop().unwrap_or_else(|| {
                self.queues.push(Heap::default());
                self.queues.len() as u32 - 1
            });
        }
        self.queues[it.queue as usize].push(entry, &mut self.pool.places);
        self.pool.meta_mut(entry.slot as usize).state = State::Waiting(account);
    }

    fn tidy_queue(&mut self, account: u32) {
        let it = self.accounts.get_mut(account);
        let queue = &mut self.queues[it.queue as usize];
        queue.trim();
        if queue.is_empty() {
            self.spare_queues.push(it.queue);
            it.queue = NONE;
        }
    }

    /// Sets a transaction that has left the ready ones aside.
    fn put_off(&mut self, slot: usize, until: State) {
        let aside = match until {
            State::BlockShort => &mut self.block_short,
            _ => &mut self.account_short,
        };
        self.pool.places[slot] = aside.len() as u32;
        aside.push(slot as u32);
        self.pool.meta_mut(slot).state = until;
        self.resign(slot);
    }

    fn resume_block_short(&mut self) {
        while let Some(slot) = self.block_short.pop() {
            self.make_ready(slot);
        }
    }

    fn make_ready(&mut self, slot: u32) {
        let meta = self.pool.meta_mut(slot as usize);
        meta.state = State::Ready;
        let entry = meta.entry;
        self.ready.push(entry, &mut self.pool.places);
    }

    /// Takes a pending transaction out of wherever it stands.
    fn take_out(&mut self, slot: usize) {
        let place = self.pool.places[slot] as usize;
        match self.pool.meta(slot).state {
            State::Vacant => unreachable!("only pending transactions are taken out"),
            State::Ready => {
                self.ready.remove(place, &mut self.pool.places);
                self.resign(slot);
            }
            State::Waiting(account) => {
                let queue = self.accounts.get(account).queue as usize;
                self.queues[queue].remove(place, &mut self.pool.places);
                self.tidy_queue(account);
            }
            State::BlockShort => remove_aside(&mut self.block_short, place, &mut self.pool.places),
            State::AccountShort => remove_aside(&mut self.account_short, place, &mut self.pool.places),
        }
        for at in 0..self.pool.locks(slot).len() {
            let account = self.pool.locks(slot)[at].account();
            self.accounts.forgo(account);
        }
        self.pool.free(slot);
    }
}

fn remove_aside(aside: &mut Vec<u32>, place: usize, places: &mut [u32]) {
    aside.swap_remove(place);
    if let Some(moved) = aside.get(place) {
        places[*moved as usize] = place as u32;
    }
}

/// When the share of the block's cost that is used up equals the share of the slot that has passed.
fn paced_until(slot: &Slot, block_cost: u64) -> u64 {
    let length = u128::from(slot.end_ns.saturating_sub(slot.start_ns));
    slot.start_ns + (length * u128::from(slot.cost.min(block_cost)) / u128::from(block_cost.max(1))) as u64
}

#[cfg(test)]
mod tests;

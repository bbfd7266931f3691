//! flights: microblocks in flight: how they are built, and how banks' completions release them.
//!
//! reads   the ready transactions, best first; banks' completions
//! writes  microblocks; acquires and releases locks
//! memory  the scheduler's

use std::hint::black_box;

use super::{Flight, Scheduler, Slot};
use crate::pack::accounts::NONE;
use crate::pack::heap::Entry;
use crate::pack::pool::{LockId, Pool, State};
use crate::pack::types::{BlockLimit, Idle, Pacing, SchedulerConfig};

/// Bytes of an entry besides its transactions: hash count, hash, transaction count.
pub(super) const ENTRY_BYTES: u64 = 8 + 32 + 8;
/// After this many consecutive transactions that do not fit, the block is closed.
pub(super) const MISFITS: u32 = 64;
/// An account with less than this fraction of its limit left is closed to writers for the block.
const CAPPED_BELOW: u32 = 64;

/// The microblock that [`Scheduler::schedule`] made.
#[derive(Clone, Copy, Debug)]
pub struct ScheduledMicroblock<'a> {
    /// The slot it belongs to.
    pub slot: u64,
    /// Sequential over all banks within the slot, from 0.
    pub id: u64,
    /// Compute units reserved for it.
    pub cost: u64,
    slots: &'a [u32],
    pool: &'a Pool,
}

impl<'a> ScheduledMicroblock<'a> {
    /// How many transactions it has; at least one.
    pub fn txn_count(&self) -> usize {
        self.slots.len()
    }

    /// Reserved compute units and wire bytes of each transaction, best first.
    pub fn txns(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let pool = self.pool;
        self.slots.iter().map(move |&slot| (pool.meta(slot as usize).entry.cost, pool.txn(slot as usize)))
    }

    /// Digest of the accounts from lookup tables for each transaction, in the same order; `None` if it uses none.
    pub fn loaded(&self) -> impl Iterator<Item = Option<u64>> + use<'a> {
        let pool = self.pool;
        self.slots.iter().map(move |&slot| pool.loaded(slot as usize))
    }

    /// When each transaction entered the node, in the same order.
    pub fn origins_us(&self) -> impl Iterator<Item = u32> + use<'a> {
        let pool = self.pool;
        self.slots.iter().map(move |&slot| pool.meta(slot as usize).origin_us)
    }

    /// The earliest known entry into the node among its transactions.
    pub fn origin_us(&self) -> u32 {
        self.origins_us().find(|origin_us| *origin_us != 0).unwrap_or(0)
    }
}

impl Scheduler {
    /// Builds the next microblock for `bank` from at most `budget` examined transactions.
    pub fn schedule(&mut self, bank: usize, now_ns: u64, budget: usize) -> Result<ScheduledMicroblock<'_>, Idle> {
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
            let exceeded = [
                (block.0 > limits.block_cost, BlockLimit::Compute),
                (block.1 > limits.block_bytes, BlockLimit::Bytes),
                (grown > limits.block_growth, BlockLimit::Growth),
            ];
            if let Some((_, limit)) = exceeded.into_iter().find(|(exceeds, _)| *exceeds) {
                (slot.misfits, slot.short_of) = (slot.misfits + 1, limit);
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
        let scheduled = ScheduledMicroblock {
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

    pub(super) fn may_schedule(&self, bank: usize, now_ns: u64) -> Result<Slot, Idle> {
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

    pub(super) fn why_nothing(&self, out_of_budget: bool, block_full: bool) -> Idle {
        if block_full {
            Idle::BlockFull
        } else if out_of_budget {
            Idle::OutOfBudget
        } else {
            Idle::NothingReady
        }
    }

    /// Returns an account of the transaction that is closed to it.
    #[inline]
    pub(super) fn closed_account(&self, slot: usize) -> Option<u32> {
        let closed = |lock: &&LockId| self.accounts.get(lock.account()).is_closed_to(lock.write());
        self.pool.locks(slot).iter().find(closed).map(|lock| lock.account())
    }

    /// Returns an account of a new transaction that is closed to it, or for which a better transaction waits.
    pub(super) fn queue_to_join(&self, entry: &Entry) -> Option<u32> {
        let joins = |lock: &&LockId| {
            let account = self.accounts.get(lock.account());
            if account.is_closed_to(lock.write()) {
                return true;
            }
            // Only writers queue for a capped account, and they wait until the block's end.
            let queues = account.queue != NONE && !account.capped;
            queues && self.queues[account.queue as usize].top().is_some_and(|top| top.before(entry))
        };
        self.pool.locks(entry.slot as usize).iter().find(joins).map(|lock| lock.account())
    }

    /// Returns an account whose write limit the transaction would exceed.
    #[inline]
    pub(super) fn spent_account(&self, entry: &Entry) -> Option<u32> {
        let limit = self.config.limits.account_cost;
        let exceeds = |lock: &&LockId| lock.write() && self.accounts.spent(lock.account()) + entry.cost > limit;
        self.pool.locks(entry.slot as usize).iter().find(exceeds).map(|lock| lock.account())
    }

    /// Defers a transaction because of an account's write limit: into its queue if next to nothing is left of the limit
    /// for any transaction, else alone.
    pub(super) fn refuse_spent(&mut self, entry: &Entry, account: u32) {
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

    /// Locks the accounts of a transaction that has left the heap, and frees its slot.
    pub(super) fn launch(&mut self, entry: &Entry, flight: &mut Flight) {
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

    /// Completes a bank's oldest microblock in flight. `costs` is the compute that each of its transactions actually
    /// used. Panics if `slot` and `id` do not match that microblock, or a cost is missing.
    pub fn complete(&mut self, bank: usize, slot: u64, id: u64, mut costs: impl Iterator<Item = u32>) {
        let mut flight = self.in_flight[bank].pop_front().expect("a bank completes what it was given");
        assert_eq!((flight.slot, flight.id), (slot, id), "a bank completes in order");
        let gives_back = self.config.use_consumed_cus && flight.block == self.accounts.block();
        // As in `admit`: incur the cache misses of all accounts at once.
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

    pub(super) fn refund_block(&mut self, unused: u64) {
        let Some(slot) = self.slot.as_mut().filter(|_| unused > 0) else { return };
        slot.cost = slot.cost.checked_sub(unused).expect("no more comes back than was reserved");
        self.counts.cost_given_back += unused;
        slot.misfits = 0;
        self.resume_block_short();
    }

    pub(super) fn unlock(&mut self, lock: LockId, block: u32, back: u32) {
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
}

/// When the used share of the block's cost equals the elapsed share of the slot.
fn paced_until(slot: &Slot, block_cost: u64) -> u64 {
    let length = u128::from(slot.end_ns.saturating_sub(slot.start_ns));
    slot.start_ns + (length * u128::from(slot.cost.min(block_cost)) / u128::from(block_cost.max(1))) as u64
}

//! pack: decides which transactions go into the block, in which order and on which bank.
//!
//! reads   `dedup_pack`, reliable: a transaction's bytes, tag = keyed hash of its first signature; if the node votes
//!         alone, `tower_pack`, reliable: its signed vote in the same form; `bank_pack` ×B, reliable: [`Completion`];
//!         `poh_pack`, reliable: [`LeaderSlot`], which carries the newest blockhash
//! writes  `pack_bank` ×B, elective: [`Microblock`]; `pack_poh`, reliable: [`DonePacking`], and that work waits for a
//!         slot
//! memory  [`Scheduler::bytes`], allocated at startup: 1.9 KB per pending transaction and 84 B per account that they
//!         name; 151 blockhashes; at most 1,024 transactions whose lookup tables do not resolve yet
//! drops   see [`Counters`]; every kind is counted, and whatever is neither dropped nor pending is in a microblock
//! source  the order is reward per cost by the cluster's cost model, see [`hearth_ledger::cost`]
//!
//! [`Scheduler`] makes the decisions, as plain logic without links or clocks; the tile translates between it and the
//! links.

mod accounts;
mod config;
mod heap;
mod lists;
mod pool;
mod scheduler;
mod table;
mod tables;
mod types;

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::bank::{LoadedAddresses, advances_nonce};
use hearth_ledger::blockhash::{BlockhashQueue, last_valid_block_height};
use hearth_ledger::budget::Budget;
use hearth_ledger::cost::{Cost, allocated_bytes};
use hearth_ledger::drop_log::DropReason;
use hearth_ledger::fees::Fee;
use hearth_ledger::programs::is_reserved;
use hearth_tile::latency::TAKEN;
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, LatencyDecl, Out, Poll, Port, Tile, WaitFor};
use hearth_wire::vote::voted_for;
use hearth_wire::{AccountSet, Pubkey, Txn};

use crate::drops::DropLog;
use crate::links::{
    BANK_PACK, Completion, DEDUP_PACK, DonePacking, HAD_WORK, LeaderSlot, MICROBLOCK_TXNS, Microblock, MicroblockTxn,
    PACK_BANK, PACK_POH, POH_PACK, PohEntry, SLOT_BEGINS, TOWER_PACK, WORK_WAITS,
};

pub use config::Config;
pub use scheduler::{ScheduledMicroblock, Scheduler};
pub use types::{
    BlockLimit, Candidate, Counts, Idle, Limits, Pacing, RejectReason, SchedulerConfig, TXN_BYTES, TXN_LOCKS,
};

use config::FLIGHTS_PER_BANK;
use tables::{Arrival, Tables, UnresolvedTransaction};

hearth_tile::counters! {
    /// What pack counts. Received = scheduled + dropped of all kinds + pending.
    pub struct Counters {
        /// Transactions that have come to pack.
        received: Counter,
        /// Transactions put into microblocks.
        scheduled: Counter,
        /// Microblocks sent to banks.
        microblocks: Counter,
        /// Blocks packed to their end.
        blocks: Counter,
        /// Transactions in pack's pool that are not yet scheduled.
        pending: Gauge,
        /// Pending transactions that no account or limit holds back.
        ready: Gauge,
        /// Accounts that pending and executing transactions name.
        accounts: Gauge,
        /// Transactions dropped: their lookup tables do not give the accounts, nor did so two slots later.
        dropped_lookups: Counter,
        /// Transactions dropped: the requested compute budget is invalid.
        dropped_budget: Counter,
        /// Transactions dropped: too long, or too many accounts.
        dropped_size: Counter,
        /// Transactions dropped: an account named twice.
        dropped_account_twice: Counter,
        /// Transactions dropped: they cost more than a block, or writing one account, may.
        dropped_too_costly: Counter,
        /// Transactions dropped: pending already.
        dropped_duplicate: Counter,
        /// Transactions dropped: the pool is full of others that pay as well or better.
        dropped_pool_full: Counter,
        /// Transactions dropped: the pool has no room for their accounts.
        dropped_accounts_full: Counter,
        /// Pending transactions dropped for one that pays better.
        dropped_evicted: Counter,
        /// Transactions dropped: their blockhash is too old or unknown.
        dropped_expired: Counter,
        /// Times a transaction was put off to the next block by an account's write limit.
        put_off_account_limit: Counter,
        /// Times a transaction joined the queue of a locked account.
        waited: Counter,
        /// Compute units reserved, not used and given back to the block.
        cost_given_back: Counter,
        /// Time in which transactions waited for the next block since this one had no compute units left, nanoseconds.
        full_compute_ns: Counter,
        /// Time in which transactions waited for the next block since this one had no room left for bytes of entries,
        /// which its shreds bound, nanoseconds.
        full_bytes_ns: Counter,
        /// Time in which transactions waited for the next block since the accounts of this one may grow no more,
        /// nanoseconds.
        full_growth_ns: Counter,
        /// Time in which transactions waited for the next block since this one may have no more microblocks, which
        /// its hashes bound, nanoseconds.
        full_microblocks_ns: Counter,
        /// Time in which transactions waited for the next block since the accounts that they write had none of their
        /// compute units left, nanoseconds.
        full_account_ns: Counter,
    }
}

/// Maximum transactions that wait until their lookup tables resolve. They count as pending, beside the pool's.
pub const LOOKUPS_MAX: usize = tables::ROOM;
/// Transactions examined per microblock.
const BUDGET: usize = 4 * MICROBLOCK_TXNS;

const _: () = assert!(SchedulerConfig::TXN_HEADER == Microblock::TXN_HEADER);
const _: () = assert!(SchedulerConfig::LOADED_HEADER == Microblock::LOCKED_HEADER);
const _: () = assert!(Microblock::HEADER <= PohEntry::HEADER + PohEntry::ENTRY_HEADER);

/// The producer of an input link.
#[derive(Clone, Copy, Debug)]
enum Source {
    Dedup,
    /// This node's own votes. Never blocked: room in the pool depends on them.
    Votes,
    Bank(usize),
    Poh,
}

/// Connects the scheduler to the links and the clock.
pub struct Pack {
    scheduler: Scheduler,
    sources: Vec<Source>,
    banks: Vec<Port>,
    poh: Port,
    fill_wait_ns: u64,
    hold_when_full: bool,
    capacity: usize,
    blockhashes: BlockhashQueue,
    /// The ledger, which has the blockhashes of other nodes' blocks.
    others: Option<Arc<Ledger>>,
    tables: Tables,
    drops: DropLog,
    /// When the current leader slot ends.
    end_ns: Option<u64>,
    shortest_slot_ns: Option<u64>,
    /// Earliest time at which that slot may end because nothing is pending.
    may_end_ns: Option<u64>,
    /// Poh takes no microblocks for that slot: pending transactions wait for the next one.
    is_closed: bool,
    /// Whether other senders' transactions have arrived since the last slot ended.
    has_work: bool,
    /// Whether poh was notified that work waits for a slot.
    told_work: bool,
    /// Until this time only full microblocks are sent.
    fill_until_ns: u64,
    paced_until: Option<u64>,
    /// The last attempt scheduled nothing; only a frag can change that.
    held: bool,
    /// When the tile last checked whether the block is full.
    looked_ns: u64,
}

impl Tile for Pack {
    const NAME: &'static str = "pack";
    const LATENCIES: &'static [LatencyDecl] = &[TAKEN];
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let banks = host.outputs(PACK_BANK);
        if banks.is_empty() {
            return Err(host.error("there is no bank to pack for: give the layout a bank tile"));
        }
        if config.capacity == 0 || config.accounts < TXN_LOCKS {
            return Err(host.error(format!("pack needs room for a transaction and {TXN_LOCKS} accounts at least")));
        }
        banks.iter().for_each(|port| host.elective(*port));
        let mut sources: Vec<(In, Source)> = vec![(host.input(DEDUP_PACK)?, Source::Dedup)];
        sources.extend(host.inputs_named(TOWER_PACK).into_iter().map(|input| (input, Source::Votes)));
        sources.push((host.input(POH_PACK)?, Source::Poh));
        let completions = host.inputs_named(BANK_PACK);
        sources.extend(completions.into_iter().enumerate().map(|(bank, input)| (input, Source::Bank(bank))));
        sources.sort_by_key(|(input, _)| input.index());
        let mut scheduler = Scheduler::new(config.scheduler(banks.len(), host.entropy()));
        scheduler.expire(config.blockhashes.last_height() + 1, |_| None);
        Ok(Self {
            scheduler,
            sources: sources.into_iter().map(|(_, source)| source).collect(),
            banks,
            poh: host.output(PACK_POH)?,
            fill_wait_ns: config.fill_wait_ns,
            hold_when_full: config.hold_when_full,
            capacity: config.capacity,
            blockhashes: config.blockhashes,
            others: config.ledger.clone().filter(|_| config.takes_turns),
            tables: Tables::new(config.ledger),
            drops: config.drops,
            end_ns: None,
            shortest_slot_ns: config.shortest_slot_ns,
            may_end_ns: None,
            is_closed: false,
            has_work: false,
            told_work: false,
            fill_until_ns: 0,
            paced_until: None,
            held: false,
            looked_ns: host.clock().now(),
        })
    }

    fn filter(&mut self, _: &FragMeta, input: In) -> Filter {
        let waits = self.hold_when_full
            && matches!(self.sources[input.index()], Source::Dedup)
            && self.scheduler.pending() >= self.capacity - room_for_votes(self.capacity);
        if waits { Filter::Later } else { Filter::Take }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        self.held = false;
        match self.sources[frag.input().index()] {
            Source::Dedup => {
                if self.take(&frag, self.reward_of_vote(&frag), out) {
                    self.work_came(out);
                }
            }
            Source::Votes => {
                self.take(&frag, Some(VOTE_REWARD), out);
            }
            Source::Bank(bank) => {
                let done = Completion::read(frag.payload());
                self.scheduler.complete(bank, done.slot, done.id, done.costs());
            }
            Source::Poh => {
                let leader = LeaderSlot::read(frag.payload());
                if frag.control() == SLOT_BEGINS {
                    self.begin(&leader);
                    self.record_dropped(DropReason::PackExpired, out);
                    self.try_waiting(out);
                }
            }
        }
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let now = out.now();
        if self.end_ns.is_some_and(|end| now >= end) || self.drained_at().is_some_and(|at| now >= at) {
            self.end(out);
            return Poll::Busy;
        }
        self.schedule_some(now, out)
    }

    /// Schedules new arrivals at once: the next turn may be a millisecond away on a shared core.
    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.schedule_some(out.now(), out);
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        self.report(out.count);
        let now = out.now();
        self.count_full(now, out.count);
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        let filled_at = (self.scheduler.ready() > 0).then_some(self.fill_until_ns);
        let next = self.paced_until.or(filled_at).filter(|_| !self.held);
        wait.until(self.end_ns.map(|end| self.drained_at().into_iter().chain(next).fold(end, u64::min)));
    }

    fn stop(&mut self, out: &mut Out<'_, Self>) {
        self.report(out.count);
    }
}

impl Pack {
    /// Schedules full microblocks while banks accept them, then the rest in one.
    fn schedule_some(&mut self, now: u64, out: &mut Out<'_, Self>) -> Poll {
        if self.end_ns.is_none_or(|end| now >= end) || self.held || !self.is_worth_scheduling(now) {
            return Poll::Idle;
        }
        let mut done = Poll::Idle;
        for _ in 0..FLIGHTS_PER_BANK {
            if !self.schedule_all(now, out) {
                break;
            }
            done = Poll::Busy;
            self.fill_until_ns = now + self.fill_wait_ns;
            if !self.is_worth_scheduling(now) {
                break;
            }
        }
        if done == Poll::Idle {
            self.held = self.paced_until.is_none();
        }
        done
    }

    /// When leaders take turns, votes of staked nodes go before everything else, because finality waits for them.
    fn reward_of_vote(&self, frag: &Frag<'_>) -> Option<u64> {
        let ledger = self.others.as_ref()?;
        let txn = Txn::parse(frag.payload()).expect("verify has parsed it");
        let account = voted_for(&txn)?.account;
        let epoch = ledger.epoch_schedule().epoch(self.tables.slot);
        let stakes = ledger.epoch_stakes(epoch)?;
        let is_staked = stakes.vote(&account).is_some_and(|vote| vote.stake > 0 && txn.signer_keys()[0] == vote.node);
        is_staked.then_some(VOTE_REWARD)
    }

    /// Puts a transaction into the pool, ranked by `reward` if given, else by its own. Returns whether it is pending
    /// now.
    fn take(&mut self, frag: &Frag<'_>, reward: Option<u64>, out: &mut Out<'_, Self>) -> bool {
        out.count.received += 1;
        let txn = Txn::parse(frag.payload()).expect("verify has parsed it");
        let arrival = Arrival { tag: frag.tag(), origin_us: out.origin_us(), reward };
        let taken = match txn.loaded_count() {
            0 => self.offer(&txn, None, arrival, out),
            _ => self.look_up(UnresolvedTransaction::new(&txn, arrival), out),
        };
        if !taken {
            out.filtered();
        }
        taken
    }

    /// Notes that another sender's transaction is pending; with slots on demand this asks poh for a slot.
    fn work_came(&mut self, out: &mut Out<'_, Self>) {
        self.has_work = true;
        if self.shortest_slot_ns.is_some() && self.end_ns.is_none() && !self.told_work {
            out.publish_control(self.poh, 0, WORK_WAITS, &[]);
            self.told_work = true;
        }
    }

    /// When the current slot may end because nothing is pending.
    fn drained_at(&self) -> Option<u64> {
        self.may_end_ns.filter(|_| self.end_ns.is_some() && (self.is_closed || self.scheduler.pending() == 0))
    }

    /// Offers a transaction to the scheduler; returns whether it was accepted.
    fn offer(
        &mut self,
        txn: &Txn<'_>,
        loaded: Option<&LoadedAddresses>,
        arrival: Arrival,
        out: &mut Out<'_, Self>,
    ) -> bool {
        let Ok(budget) = Budget::of(txn) else {
            out.count.dropped_budget += 1;
            self.drops.tell(arrival.tag, DropReason::PackBudget, out);
            return false;
        };
        let expires_at = self.expires_at(txn);
        let Some(loaded) = loaded else {
            let candidate = candidate(txn, txn.account_keys(), &[], &budget, arrival);
            return self.insert(&Candidate { expires_at, ..candidate }, out);
        };
        let keys = [txn.account_keys(), loaded.all()].concat();
        let candidate = candidate(txn, &keys, loaded.all(), &budget, arrival);
        let loaded = Some(self.tables.digest(loaded));
        self.insert(&Candidate { expires_at, loaded, ..candidate }, out)
    }

    #[inline]
    fn insert(&mut self, candidate: &Candidate<'_>, out: &mut Out<'_, Self>) -> bool {
        let result = self.scheduler.insert(candidate);
        if !self.scheduler.dropped().is_empty() {
            self.record_dropped(DropReason::PackEvicted, out);
        }
        if let Err(why) = result {
            self.drops.tell(candidate.tag, why.into(), out);
        }
        result.is_ok()
    }

    fn record_dropped(&self, reason: DropReason, out: &mut Out<'_, Self>) {
        self.scheduler.dropped().iter().for_each(|tag| self.drops.tell(*tag, reason, out));
    }

    /// Resolves a transaction's lookup tables and offers it, or lets it wait for the tables. Returns whether it was
    /// kept.
    fn look_up(&mut self, waiting: UnresolvedTransaction, out: &mut Out<'_, Self>) -> bool {
        let txn = Txn::parse(&waiting.bytes).expect("verify has parsed it");
        if let Some(loaded) = self.tables.resolve(&txn) {
            return self.offer(&txn, Some(&loaded), waiting.arrival, out);
        }
        let tag = waiting.arrival.tag;
        let kept = self.tables.wait(waiting);
        if !kept {
            out.count.dropped_lookups += 1;
            self.drops.tell(tag, DropReason::PackLookups, out);
        }
        kept
    }

    /// Retries waiting transactions: a slot has started, so what the previous one did to the tables counts now.
    fn try_waiting(&mut self, out: &mut Out<'_, Self>) {
        for waiting in self.tables.take_waiting() {
            self.look_up(waiting, out);
        }
    }

    /// The height of the last block in which a transaction can land.
    fn expires_at(&self, txn: &Txn<'_>) -> u64 {
        let newest = self.blockhashes.last_height();
        match self.blockhashes.height_of(txn.recent_blockhash()) {
            Some(height) => last_valid_block_height(height),
            // A nonce's value says nothing about its age.
            None if advances_nonce(txn) => last_valid_block_height(newest),
            // The current block may have ended with this hash a moment ago: checked again when the next one starts.
            // That one cannot end before pack has received its start, so this is the only hash that pack may not know
            // yet.
            None => newest + 1,
        }
    }

    fn begin(&mut self, leader: &LeaderSlot) {
        self.end_ns = Some(leader.end_ns);
        self.may_end_ns = self.shortest_slot_ns.map(|shortest| leader.start_ns + shortest);
        self.is_closed = leader.max_microblocks == 0;
        self.tables.slot = leader.slot;
        self.paced_until = None;
        if let Some(ledger) = &self.others {
            self.blockhashes = (*ledger.blockhashes()).clone();
        }
        let blockhashes = &mut self.blockhashes;
        // The first slot builds on a block that was known at startup.
        if *blockhashes.last() != leader.blockhash {
            // Only its age matters here.
            blockhashes.register(leader.blockhash, 0);
        }
        let expires_at = |bytes: &[u8]| {
            let txn = Txn::parse(bytes).expect("verify has parsed it");
            blockhashes.height_of(txn.recent_blockhash()).map(last_valid_block_height)
        };
        self.scheduler.expire(blockhashes.last_height() + 1, expires_at);
        self.scheduler.begin_slot(leader.slot, leader.start_ns, leader.end_ns, leader.max_microblocks);
    }

    fn end(&mut self, out: &mut Out<'_, Self>) {
        // Transactions that wait for a table wait for the next slot. A full pool accepts none that could ask for one
        // later.
        let is_left = self.scheduler.pending() + self.tables.waiting() > 0;
        (self.end_ns, self.told_work) = (None, is_left);
        let has_work = std::mem::take(&mut self.has_work);
        let (slot, microblocks) = self.scheduler.end_slot().expect("a slot is under way");
        let control = match (is_left, has_work) {
            (true, _) => HAD_WORK | WORK_WAITS,
            (false, true) => HAD_WORK,
            (false, false) => 0,
        };
        out.publish_control(self.poh, slot, control, &DonePacking { slot, microblocks }.encode());
        out.count.blocks += 1;
    }

    /// Whether a microblock would be full, or the last one was long enough ago. At low load no transaction waits; at
    /// higher load each microblock holds what arrived since the last.
    fn is_worth_scheduling(&self, now: u64) -> bool {
        let ready = self.scheduler.ready();
        // If other transactions wait for accounts that the ready ones may hold, waiting would delay them all.
        let holds_others = self.scheduler.pending() > ready;
        ready > 0 && (ready >= MICROBLOCK_TXNS || holds_others || now >= self.fill_until_ns)
    }

    /// Sends each bank at most one microblock; returns whether it sent any.
    fn schedule_all(&mut self, now: u64, out: &mut Out<'_, Self>) -> bool {
        // `filter` and `count`, not `any`: every bank gets its turn.
        (0..self.banks.len()).filter(|bank| self.schedule(*bank, now, out)).count() > 0
    }

    /// Sends a bank its next microblock, if there is one; returns whether it did anything.
    fn schedule(&mut self, bank: usize, now: u64, out: &mut Out<'_, Self>) -> bool {
        let port = self.banks[bank];
        if out.credits(port, 1) == 0 {
            return false;
        }
        match self.scheduler.schedule(bank, now, BUDGET) {
            Ok(made) => {
                let txns = made.txns().zip(made.origins_us()).zip(made.loaded());
                let txns = txns.map(|(((reserved_cost, bytes), origin_us), locked)| MicroblockTxn {
                    reserved_cost,
                    origin_us,
                    bytes,
                    locked,
                });
                out.set_origin(made.origin_us());
                out.publish_with(port, made.id, |buffer| Microblock::write(buffer, made.slot, made.id, txns));
                self.paced_until = None;
                true
            }
            Err(Idle::OutOfBudget) => true,
            Err(Idle::Paced { until_ns }) => {
                self.paced_until = Some(until_ns);
                false
            }
            Err(Idle::NoSlot | Idle::BankBusy | Idle::NothingReady | Idle::BlockFull) => false,
        }
    }

    /// If the block is short of a resource, adds the time since the last check to that counter.
    fn count_full(&mut self, now: u64, count: &mut Counters) {
        let passed = now - std::mem::replace(&mut self.looked_ns, now);
        // An evenly paced block is short of compute while a full microblock waits for its turn.
        let is_paced = self.paced_until.is_some() && self.scheduler.ready() >= MICROBLOCK_TXNS;
        match self.scheduler.short_of().or(is_paced.then_some(BlockLimit::Compute)) {
            Some(BlockLimit::Compute) => count.full_compute_ns += passed,
            Some(BlockLimit::Bytes) => count.full_bytes_ns += passed,
            Some(BlockLimit::Growth) => count.full_growth_ns += passed,
            Some(BlockLimit::Microblocks) => count.full_microblocks_ns += passed,
            Some(BlockLimit::Account) => count.full_account_ns += passed,
            None => {}
        }
    }

    fn report(&self, count: &mut Counters) {
        let c = self.scheduler.counts();
        *count = Counters {
            scheduled: c.scheduled,
            microblocks: c.microblocks,
            pending: (self.scheduler.pending() + self.tables.waiting()) as u64,
            ready: self.scheduler.ready() as u64,
            accounts: self.scheduler.accounts() as u64,
            dropped_size: c.too_long + c.too_many_accounts,
            dropped_account_twice: c.account_twice,
            dropped_too_costly: c.too_costly,
            dropped_duplicate: c.duplicate,
            dropped_pool_full: c.pool_full,
            dropped_accounts_full: c.accounts_full,
            dropped_evicted: c.evicted,
            dropped_expired: c.expired + c.expired_on_arrival,
            put_off_account_limit: c.put_off_account_limit,
            waited: c.waited,
            cost_given_back: c.cost_given_back,
            ..*count
        };
    }
}

/// The node's own votes rank first, and no payment evicts them from the pool.
const VOTE_REWARD: u64 = u64::MAX;

/// Slots that a full pool reserves for the node's own votes, so that other transactions cannot block them.
fn room_for_votes(capacity: usize) -> usize {
    (capacity / 16).min(64)
}

/// Builds the scheduler's view of a transaction, without its expiry: `keys` are its own accounts, then the `loaded`
/// ones.
fn candidate<'a>(
    txn: &Txn<'a>,
    keys: &'a [Pubkey],
    loaded: &[Pubkey],
    budget: &Budget,
    arrival: Arrival,
) -> Candidate<'a> {
    let mut unlocked = AccountSet::default();
    let reserved = keys.iter().enumerate().filter(|(_, key)| is_reserved(key));
    reserved.for_each(|(index, _)| unlocked.insert(index as u8));
    Candidate {
        bytes: txn.bytes(),
        tag: arrival.tag,
        reward: arrival.reward.unwrap_or_else(|| Fee::of(txn, budget).reward()),
        cost: Cost::estimate(txn, Some(budget)).total().try_into().unwrap_or(u32::MAX),
        growth: allocated_bytes(txn, true).try_into().unwrap_or(u32::MAX),
        expires_at: 0,
        origin_us: arrival.origin_us,
        loaded: None,
        keys,
        writes: txn.write_locks(loaded, is_reserved),
        unlocked,
    }
}

#[cfg(test)]
mod tests;

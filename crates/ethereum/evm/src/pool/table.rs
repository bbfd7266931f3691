//! The pool's tables behind the lock of [`Pool`](super::Pool), and every rule of insertion and eviction.
//!
//! reads   transactions that are valid by themselves, their accounts' state, included hashes
//! writes  executable transactions in order; drops and newly executable ones, as [`Effects`]
//! memory  at most `capacity` transactions of `max_bytes` together; an account without transactions is forgotten
//! drops   the worst by price, expired ones, those no longer executable; each with its reason
//! source  the behaviour of geth's pool where it has a rule of its own

use std::collections::BinaryHeap;

use alloy_consensus::Transaction;
use alloy_primitives::map::{AddressMap, B256Map, B256Set};
use alloy_primitives::{Address, B256, U256, U512};

use super::PoolConfig;
use super::check::CheckedTx;
use super::error::{DropReason, PoolError};
use super::next_nonces::NextNonces;
use super::queue::{Queue, SenderState, Slot};
use super::rank::{Fees, RankPosition, RankedEntries};
use crate::blobs::{self, BlobEnv};
use crate::tx::{SharedTx, Tx};

/// The minimum gas of a transaction: with less gas left, a block is full.
const LEAST_GAS: u64 = 21_000;
/// Bytes of transactions that a block is made of at most. From Osaka on a block's RLP may have 8 MiB (EIP-7934: 10 MiB
/// less a margin of 2 MiB); header and withdrawals have the rest, of which the other ledger's bytes allow less.
pub const BLOCK_BYTES: usize = 6 << 20;
/// Length of the RLP head before a transaction, in bytes at most.
const RLP_HEAD: usize = 4;
/// Maximum blob transactions of one account, and the percentage by which each of their three fee caps must rise for a
/// replacement, as in geth's separate blob pool.
const BLOB_TXS_PER_SENDER: usize = 16;
const BLOB_PRICE_BUMP_PERCENT: u64 = 100;
/// Maximum accounts whose next transaction does not fit the rest of a block, before the search for one that fits ends.
const MISFITS: usize = 256;

/// A transaction that the pool gave up.
#[derive(Clone, Debug)]
pub struct DroppedTx {
    /// The transaction, no longer in the pool.
    pub tx: SharedTx,
    /// Why the pool dropped it.
    pub reason: DropReason,
}

/// The obstacle between a transaction and the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Its account's transaction with this nonce is not here.
    MissingNonce(u64),
    /// A transaction of its account pays less than the next block's base fee.
    BaseFee {
        /// The nonce of the transaction.
        nonce: u64,
        /// Whether it is the one that was queried, and not one before it.
        is_itself: bool,
        /// The maximum that it pays for a unit of gas, in wei.
        pays: u128,
        /// The base fee, in wei.
        base_fee: u64,
    },
    /// A transaction of its account pays less than the next block's base fee of blob gas.
    BlobFee {
        /// The maximum that it pays for a unit of blob gas, in wei.
        pays: u128,
        /// The current price, in wei.
        price: u128,
    },
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MissingNonce(nonce) => write!(f, "it waits for a transaction of its account with nonce {nonce}"),
            Self::BaseFee { is_itself: true, pays, base_fee, .. } => {
                write!(f, "it pays at most {pays} wei for a unit of gas, and the next block's base fee is {base_fee}")
            }
            Self::BaseFee { nonce, pays, base_fee, .. } => write!(
                f,
                "it waits for its account's transaction with nonce {nonce}, which pays at most {pays} wei for a unit \
                 of gas: the next block's base fee is {base_fee}"
            ),
            Self::BlobFee { pays, price } => write!(
                f,
                "it, or its account's transaction before it, pays at most {pays} wei for a unit of blob gas, which \
                 costs {price} in the next block"
            ),
        }
    }
}

/// The side effects of a change.
#[derive(Debug, Default)]
pub struct Effects {
    /// The transactions that the change dropped, each with its reason.
    pub dropped: Vec<DroppedTx>,
    /// The hashes of transactions that became executable.
    pub ready: Vec<B256>,
}

/// Bytes that a transaction holds: encoded, decoded, and its places in the tables.
pub fn footprint(tx: &Tx) -> usize {
    512 + 2 * tx.raw.len()
}

/// The tables of accounts and transactions.
#[derive(Debug)]
pub struct Table {
    config: PoolConfig,
    base_fee: u64,
    blobs: BlobEnv,
    /// The price of a unit of blob gas in the next block, in wei.
    blob_price: u128,
    index: AddressMap<u32>,
    queues: Vec<Option<Queue>>,
    free: Vec<u32>,
    by_hash: B256Map<SharedTx>,
    bytes: usize,
    ready: usize,
    gapped: usize,
    /// How many transactions here set each account's code.
    authorities: AddressMap<u32>,
    arrivals: u64,
    heads: RankedEntries,
    floors_ready: RankedEntries,
    floors_gapped: RankedEntries,
    swept: usize,
}

impl Table {
    /// Creates tables without accounts and transactions.
    pub fn new(config: PoolConfig) -> Self {
        Self {
            config,
            base_fee: 0,
            blobs: BlobEnv::default(),
            blob_price: BlobEnv::default().price(),
            index: AddressMap::default(),
            queues: vec![],
            free: vec![],
            by_hash: B256Map::default(),
            bytes: 0,
            ready: 0,
            gapped: 0,
            authorities: AddressMap::default(),
            arrivals: 0,
            heads: RankedEntries::default(),
            floors_ready: RankedEntries::default(),
            floors_gapped: RankedEntries::default(),
            swept: 0,
        }
    }

    /// Returns the number of executable transactions, of those behind a gap, and the bytes of all.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.ready, self.gapped, self.bytes)
    }

    /// A transaction that is here.
    pub fn get(&self, hash: &B256) -> Option<&SharedTx> {
        self.by_hash.get(hash)
    }

    /// Whether a transaction is here, nothing of its account is missing before it, and it pays the base fee.
    pub fn is_next(&self, hash: &B256) -> bool {
        let Some(tx) = self.get(hash) else { return false };
        let missing = self.queue(&tx.sender).map_or(0, Queue::next);
        let pays = tx.envelope.max_fee_per_gas() >= u128::from(self.base_fee) && self.pays_for_blobs(tx);
        tx.envelope.nonce() < missing && pays
    }

    /// Whether a transaction has no blobs, or pays for them in the next block.
    fn pays_for_blobs(&self, tx: &Tx) -> bool {
        tx.envelope.max_fee_per_blob_gas().is_none_or(|cap| cap >= self.blob_price)
    }

    /// Returns the obstacle between a transaction that is here and the next block, room aside.
    pub fn obstacle(&self, hash: &B256) -> Option<Obstacle> {
        let tx = self.get(hash)?;
        let queue = self.queue(&tx.sender)?;
        let nonce = tx.envelope.nonce();
        if nonce >= queue.next() {
            return Some(Obstacle::MissingNonce(queue.next()));
        }
        // Those of an account are executed by nonce: the first that is too cheap holds up all behind it.
        let mut before = queue.slots().iter().take_while(|slot| slot.nonce <= nonce);
        let base_fee = self.base_fee;
        let Some(cheap) = before.find(|slot| slot.tx.envelope.max_fee_per_gas() < u128::from(base_fee)) else {
            let mut before = queue.slots().iter().take_while(|slot| slot.nonce <= nonce);
            let cheap = before.find(|slot| !self.pays_for_blobs(&slot.tx))?;
            let pays = cheap.tx.envelope.max_fee_per_blob_gas().unwrap_or_default();
            return Some(Obstacle::BlobFee { pays, price: self.blob_price });
        };
        let (pays, is_itself) = (cheap.tx.envelope.max_fee_per_gas(), cheap.nonce == nonce);
        Some(Obstacle::BaseFee { nonce: cheap.nonce, is_itself, pays, base_fee })
    }

    /// Returns an account's queue.
    pub fn queue(&self, address: &Address) -> Option<&Queue> {
        self.queues[*self.index.get(address)? as usize].as_ref()
    }

    /// The queues in places `from..to`, and whether there are more.
    pub fn queues(&self, from: usize, to: usize) -> (impl Iterator<Item = &Queue>, bool) {
        let to = to.min(self.queues.len());
        (self.queues[from.min(to)..to].iter().flatten(), to < self.queues.len())
    }

    /// The base fee that the orders go by.
    pub fn set_base_fee(&mut self, base_fee: u64) {
        self.base_fee = base_fee;
        for ranked in [&mut self.heads, &mut self.floors_ready, &mut self.floors_gapped] {
            ranked.set_base_fee(base_fee);
        }
    }

    /// Sets the price of blobs in the next block, and how many it may hold.
    pub fn set_blobs(&mut self, blobs: BlobEnv) {
        self.blobs = blobs;
        self.blob_price = blobs.price();
    }

    /// Returns the blob settings that were set last.
    pub fn blobs(&self) -> BlobEnv {
        self.blobs
    }

    /// Inserts a transaction whose account was as `read` after block `block`.
    pub fn insert(
        &mut self,
        new: CheckedTx,
        read: SenderState,
        block: u64,
        now_ms: u64,
        effects: &mut Effects,
    ) -> Result<(), PoolError> {
        if self.by_hash.contains_key(&new.tx.hash) {
            return Err(PoolError::AlreadyKnown);
        }
        let id = self.index.get(&new.tx.sender).copied();
        let queue = id.and_then(|id| self.queues[id as usize].as_ref());
        // A later block's update to the pool prevails; if the caller knows better, the next block will correct it.
        let state = queue.filter(|queue| queue.block >= block).map_or(read, |queue| queue.state);
        let next = queue.map_or(state.nonce, |queue| queue.state.nonce.max(state.nonce));
        if new.nonce < next {
            return Err(PoolError::NonceTooLow { next, nonce: new.nonce });
        }
        check_kind(queue, &new, next)?;
        let cost = check_funds(queue, &new, &state)?;
        self.check_delegation(queue, &new, &state)?;
        let size = footprint(&new.tx);
        let at = queue.map_or(Err(0), |queue| queue.find(new.nonce));
        let slot = Slot { tx: new.tx, nonce: new.nonce, gas: new.gas, fees: new.fees, cost, arrival: 0, at_ms: now_ms };
        if let (Ok(at), Some(id)) = (at, id) {
            return self.replace(id, at, slot, size, effects);
        }
        let missing = queue.map_or(state.nonce, Queue::next);
        let own = self.own_victim(queue, &slot)?;
        let victims = self.victims(queue, &slot, slot.nonce > missing, size, own)?;
        if let (Some(at), Some(id)) = (own, id) {
            self.drop_at(id, at, DropReason::Gapped, effects);
        }
        for (id, count) in victims {
            for _ in 0..count {
                let last = self.queues[id as usize].as_ref().expect("a victim is there").slots().len() - 1;
                self.drop_at(id, last, DropReason::Evicted, effects);
            }
        }
        self.put(slot, state, block, size, effects);
        Ok(())
    }

    fn put(&mut self, mut slot: Slot, state: SenderState, block: u64, size: usize, effects: &mut Effects) {
        self.arrivals += 1;
        slot.arrival = self.arrivals;
        let sender = slot.tx.sender;
        let id = match self.index.get(&sender) {
            Some(id) => *id,
            None => {
                let id = self.free.pop().unwrap_or(self.queues.len() as u32);
                self.queues.resize((id as usize + 1).max(self.queues.len()), None);
                self.queues[id as usize] = Some(Queue::new(sender, state, block, self.arrivals));
                self.index.insert(sender, id);
                id
            }
        };
        self.note_tx(&slot.tx, size);
        let queue = self.queues[id as usize].as_mut().expect("an indexed queue is there");
        let next = queue.next();
        let at = queue.find(slot.nonce).expect_err("its nonce is free");
        queue.insert(at, slot);
        effects.ready.extend(queue.ready_from(next));
        self.settle(id);
    }

    fn replace(
        &mut self,
        id: u32,
        at: usize,
        mut slot: Slot,
        size: usize,
        effects: &mut Effects,
    ) -> Result<(), PoolError> {
        let queue = self.queues[id as usize].as_mut().expect("an indexed queue is there");
        let old = &queue.slots()[at];
        // Both are of one kind.
        let replaces = match (slot.tx.envelope.max_fee_per_blob_gas(), old.tx.envelope.max_fee_per_blob_gas()) {
            (Some(new), Some(replaced)) => {
                let (new, replaced) = (Fees::new(new, new), Fees::new(replaced, replaced));
                let bump = BLOB_PRICE_BUMP_PERCENT;
                slot.fees.replaces(old.fees, bump) && new.replaces(replaced, bump)
            }
            _ => slot.fees.replaces(old.fees, self.config.price_bump_percent),
        };
        if !replaces {
            return Err(PoolError::ReplaceUnderpriced);
        }
        if self.bytes - footprint(&old.tx) + size > self.config.max_bytes {
            return Err(PoolError::Full);
        }
        self.arrivals += 1;
        slot.arrival = self.arrivals;
        let (tx, hash) = (slot.tx.clone(), slot.tx.hash);
        if at < queue.ready() {
            effects.ready.push(hash);
        }
        let old = queue.replace(at, slot);
        self.note_tx(&tx, size);
        self.forget_tx(&old.tx);
        effects.dropped.push(DroppedTx { tx: old.tx, reason: DropReason::Replaced(hash) });
        self.settle(id);
        Ok(())
    }

    /// Allows at most one transaction in flight for an account with a delegation, or about to get one; none for a
    /// contract. An impersonated account is exempt.
    fn check_delegation(&self, queue: Option<&Queue>, new: &CheckedTx, state: &SenderState) -> Result<(), PoolError> {
        let signed = !new.tx.is_impersonated();
        if signed && state.is_contract {
            return Err(PoolError::NotEoa(new.tx.sender));
        }
        if signed && state.delegated || self.authorities.contains_key(&new.tx.sender) {
            let next = queue.map_or(state.nonce, Queue::next);
            match queue.filter(|queue| queue.ready() > 0) {
                None if new.nonce != next => return Err(PoolError::DelegatedGapped),
                Some(_) if new.nonce >= next => return Err(PoolError::DelegatedInFlight),
                _ => {}
            }
        }
        let busy = |authority: &Address| self.queue(authority).is_some_and(|queue| queue.slots().len() > 1);
        if new.tx.authorities.iter().flatten().any(busy) {
            return Err(PoolError::AuthorityReserved);
        }
        Ok(())
    }

    /// The account's own transaction that has to go for a new one of it, because it has as many as may be.
    fn own_victim(&self, queue: Option<&Queue>, new: &Slot) -> Result<Option<usize>, PoolError> {
        let Some(queue) = queue else { return Ok(None) };
        let (next, pooled) = (queue.next(), queue.slots().len());
        let too_many = pooled >= self.config.per_sender;
        let too_many_gapped = new.nonce > next && queue.gapped() >= self.config.gap;
        if !too_many && !too_many_gapped {
            return Ok(None);
        }
        let last = queue.slots().back().expect("there are many");
        match (queue.gapped() > 0 && new.nonce < last.nonce, too_many_gapped) {
            (true, _) => Ok(Some(pooled - 1)),
            (false, true) => Err(PoolError::NonceTooHigh { nonce: new.nonce, gapped: next }),
            (false, false) => Err(PoolError::AccountLimit { pooled }),
        }
    }

    /// Returns which accounts' last transactions to evict, and how many of each, so that there is room for a new one.
    ///
    /// The worth of an executable transaction here is the lowest fee among its account's executable ones: none of them
    /// gets into a block without those before it. An evicted transaction must be worth less than the new one. Those
    /// behind nonce gaps are evicted first, whatever they pay, and one behind a gap never evicts an executable one.
    fn victims(
        &self,
        queue: Option<&Queue>,
        new: &Slot,
        gapped: bool,
        size: usize,
        own: Option<usize>,
    ) -> Result<Vec<(u32, usize)>, PoolError> {
        let freed = own.and_then(|at| queue.map(|queue| footprint(&queue.slots()[at].tx)));
        let over_gapped = gapped && own.is_none() && self.gapped >= self.config.gaps;
        let over_count = (self.by_hash.len() + 1).saturating_sub(self.config.capacity + usize::from(own.is_some()));
        let mut plan = Plan {
            count: over_count.max(usize::from(over_gapped)),
            bytes: (self.bytes + size).saturating_sub(self.config.max_bytes + freed.unwrap_or(0)),
            victims: vec![],
        };
        if plan.is_enough() {
            return Ok(plan.victims);
        }
        let floor = queue.filter(|queue| !gapped && queue.ready() > 0).map_or(new.fees, Queue::floor_ready);
        let worth = new.fees.least(floor).value(self.base_fee);
        let own_id = queue.and_then(|queue| self.index.get(&queue.address).copied());
        let victim = |id: u32| self.queues[id as usize].as_ref().expect("a ranked queue is there");
        for RankPosition { id, value, .. } in self.floors_gapped.worst().filter(|place| Some(place.id) != own_id) {
            if plan.is_enough() || gapped && value >= worth {
                break;
            }
            plan.take(id, victim(id).slots().iter().rev().take(victim(id).gapped()));
        }
        let worse = self.floors_ready.worst().filter(|place| Some(place.id) != own_id);
        let mut worse = worse.take_while(|place| place.value < worth).peekable();
        if gapped && !plan.is_enough() && !over_gapped && worse.peek().is_some() {
            return Err(PoolError::FutureReplacePending);
        }
        for RankPosition { id, .. } in worse {
            if plan.is_enough() || gapped {
                break;
            }
            plan.take(id, victim(id).slots().iter().rev().skip(victim(id).gapped()));
        }
        if plan.is_enough() {
            return Ok(plan.victims);
        }
        let lowest = self.floors_ready.worst().next().is_some_and(|place| worth < place.value);
        Err(if lowest && !over_gapped { PoolError::Underpriced } else { PoolError::Full })
    }

    /// Applies an account's state after block `block`, and drops transactions that are no longer executable. `included`
    /// says which are in that block. `always`: also if the account was read after a later block, which was taken back.
    pub fn recheck(
        &mut self,
        address: &Address,
        state: SenderState,
        block: u64,
        included: &B256Set,
        always: bool,
        effects: &mut Effects,
    ) {
        let Some(id) = self.index.get(address).copied() else { return };
        let queue = self.queues[id as usize].as_mut().expect("an indexed queue is there");
        if queue.block > block && !always {
            return;
        }
        let next = queue.next();
        let (passed, costly) = queue.recheck(state, block);
        effects.ready.extend(queue.ready_from(next));
        for slot in passed {
            self.forget_tx(&slot.tx);
            if !included.contains(&slot.tx.hash) {
                let reason = PoolError::NonceTooLow { next: state.nonce, nonce: slot.nonce };
                effects.dropped.push(DroppedTx { tx: slot.tx, reason: DropReason::Invalid(reason) });
            }
        }
        for slot in costly {
            self.forget_tx(&slot.tx);
            let reason = overdraft(state.balance, None, U512::from(slot.cost), None);
            effects.dropped.push(DroppedTx { tx: slot.tx, reason: DropReason::Invalid(reason) });
        }
        self.settle(id);
        self.trim(id, effects);
    }

    /// Drops one transaction; later ones of its account get behind a nonce gap.
    pub fn remove(&mut self, hash: &B256, reason: DropReason, effects: &mut Effects) -> bool {
        let Some(tx) = self.by_hash.get(hash) else { return false };
        let nonce = tx.envelope.nonce();
        let id = self.index[&tx.sender];
        let at = self.queues[id as usize].as_ref().and_then(|queue| queue.find(nonce).ok());
        self.drop_at(id, at.expect("a known transaction is in its queue"), reason, effects);
        self.trim(id, effects);
        true
    }

    /// Drops expired transactions, in the next queues that hold together about `visits` transactions.
    pub fn sweep(&mut self, now_ms: u64, visits: usize, effects: &mut Effects) {
        let lifetime = self.config.lifetime;
        let Some(before) = now_ms.checked_sub(lifetime.as_millis() as u64) else { return };
        let mut visited = 0;
        for _ in 0..self.queues.len().min(visits) {
            let id = self.swept % self.queues.len();
            self.swept = id + 1;
            let Some(queue) = &mut self.queues[id] else { continue };
            visited += queue.slots().len();
            let gone = queue.expire(before);
            if !gone.is_empty() {
                for slot in gone {
                    self.forget_tx(&slot.tx);
                    let reason = DropReason::Expired(lifetime.as_secs());
                    effects.dropped.push(DroppedTx { tx: slot.tx, reason });
                }
                self.settle(id as u32);
                self.trim(id as u32, effects);
            }
            if visited >= visits {
                break;
            }
        }
    }

    /// Returns the next transactions to execute: by what they pay beyond the base fee, then by arrival, each account's
    /// by nonce. Together they stay within `gas_limit` by their gas limits, [`BLOCK_BYTES`], and the next block's
    /// blobs. Accounts continue after the taken ones.
    pub fn best(&mut self, base_fee: u64, gas_limit: u64, after: &NextNonces) -> Vec<SharedTx> {
        self.set_base_fee(base_fee);
        let is_first =
            |place: &RankPosition| self.queues[place.id as usize].as_ref().is_some_and(|q| !after.has(&q.address));
        let mut heads = self.heads.best().filter(is_first).peekable();
        let mut followers: BinaryHeap<(RankPosition, usize)> =
            after.accounts().filter_map(|(address, next)| self.goes_on(address, next, after)).collect();
        let (mut taken, mut left, mut misfits, mut left_bytes) = (vec![], gas_limit, 0, BLOCK_BYTES);
        let mut left_blobs = self.blobs.params.max_blob_count;
        while left >= LEAST_GAS && misfits < MISFITS {
            let is_head = match (heads.peek(), followers.peek()) {
                (Some(head), follower) => follower.is_none_or(|(follower, _)| head > follower),
                (None, Some(_)) => false,
                (None, None) => break,
            };
            let next = if is_head { heads.next().map(|head| (head, 0)) } else { followers.peek().copied() };
            let (place, index) = next.expect("it was there to be compared");
            if place.value < 0 {
                break;
            }
            let queue = self.queues[place.id as usize].as_ref().expect("a ranked queue is there");
            let slot = &queue.slots()[index];
            let mut follower = None;
            let (bytes, blobs) = (slot.tx.raw.len() + RLP_HEAD, blobs::count_of(&slot.tx.envelope));
            let blobs_fit = blobs <= left_blobs && self.pays_for_blobs(&slot.tx);
            if slot.gas <= left && bytes <= left_bytes && blobs_fit {
                (left, left_bytes) = (left - slot.gas, left_bytes - bytes);
                left_blobs -= blobs;
                taken.push(slot.tx.clone());
                follower = (index + 1 < queue.ready()).then(|| {
                    let slot = &queue.slots()[index + 1];
                    let place = RankPosition { value: slot.fees.value(base_fee), earlier: !slot.arrival, id: place.id };
                    (place, index + 1)
                });
            } else {
                // A transaction whose blobs do not fit does not end the search: one without blobs may fit.
                misfits += usize::from(blobs_fit);
            }
            match (is_head, follower) {
                (true, Some(follower)) => followers.push(follower),
                (true, None) => {}
                // One sift instead of two.
                (false, Some(follower)) => *followers.peek_mut().expect("it was there") = follower,
                (false, None) => drop(followers.pop()),
            }
        }
        taken
    }

    /// The place of an account's transaction of nonce `next`, and which of its queue that is.
    fn goes_on(&self, address: &Address, next: u64, after: &NextNonces) -> Option<(RankPosition, usize)> {
        let id = *self.index.get(address)?;
        let queue = self.queues[id as usize].as_ref()?;
        let at = queue.find(next).ok().filter(|at| *at < queue.ready())?;
        let slot = &queue.slots()[at];
        let place = RankPosition { value: slot.fees.value(self.base_fee), earlier: !slot.arrival, id };
        (!after.is_refused(&slot.tx.hash)).then_some((place, at))
    }

    fn drop_at(&mut self, id: u32, at: usize, reason: DropReason, effects: &mut Effects) {
        let queue = self.queues[id as usize].as_mut().expect("an indexed queue is there");
        if let Some(slot) = queue.remove(at) {
            self.forget_tx(&slot.tx);
            effects.dropped.push(DroppedTx { tx: slot.tx, reason });
        }
        self.settle(id);
    }

    /// Holds the bounds on gaps after something went from the midst of a queue.
    fn trim(&mut self, id: u32, effects: &mut Effects) {
        while let Some(queue) = self.queues[id as usize].as_ref().filter(|queue| queue.gapped() > self.config.gap) {
            self.drop_at(id, queue.slots().len() - 1, DropReason::Gapped, effects);
        }
        while self.gapped > self.config.gaps {
            let id = self.floors_gapped.worst().next().expect("some are behind a gap").id;
            let queue = self.queues[id as usize].as_ref().expect("a ranked queue is there");
            self.drop_at(id, queue.slots().len() - 1, DropReason::Gapped, effects);
        }
    }

    /// Brings the orders and the sums up to a queue that has changed; forgets it when it is empty.
    fn settle(&mut self, id: u32) {
        let queue = self.queues[id as usize].as_mut().expect("an indexed queue is there");
        let (before, after, joined) = (queue.standing, queue.stand(), queue.joined);
        queue.standing = after;
        self.ready = self.ready - before.ready_count + after.ready_count;
        self.gapped = self.gapped - before.gapped_count + after.gapped_count;
        if before.head != after.head {
            self.heads.set(id, after.head);
        }
        if before.ready != after.ready {
            self.floors_ready.set(id, after.ready.map(|fees| (fees, joined)));
        }
        if before.gapped != after.gapped {
            self.floors_gapped.set(id, after.gapped.map(|fees| (fees, joined)));
        }
        if queue.slots().is_empty() {
            self.index.remove(&queue.address);
            self.queues[id as usize] = None;
            self.free.push(id);
        }
    }

    fn note_tx(&mut self, tx: &SharedTx, size: usize) {
        self.bytes += size;
        for authority in tx.authorities.iter().flatten() {
            *self.authorities.entry(*authority).or_default() += 1;
        }
        self.by_hash.insert(tx.hash, tx.clone());
    }

    fn forget_tx(&mut self, tx: &Tx) {
        self.bytes -= footprint(tx);
        for authority in tx.authorities.iter().flatten() {
            if let Some(count) = self.authorities.get_mut(authority) {
                *count -= 1;
                if *count == 0 {
                    self.authorities.remove(authority);
                }
            }
        }
        self.by_hash.remove(&tx.hash);
    }
}

/// An eviction plan: what is still lacking, and how many of each account's last transactions go.
struct Plan {
    count: usize,
    bytes: usize,
    victims: Vec<(u32, usize)>,
}

impl Plan {
    fn is_enough(&self) -> bool {
        self.count == 0 && self.bytes == 0
    }

    fn take<'a>(&mut self, id: u32, slots: impl Iterator<Item = &'a Slot>) {
        let mut taken = 0;
        for slot in slots {
            if self.is_enough() {
                break;
            }
            self.count = self.count.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(footprint(&slot.tx));
            taken += 1;
        }
        self.victims.push((id, taken));
    }
}

/// Refuses as geth does, whose blob transactions have a pool of their own: an account's transactions are of one kind,
/// and those with blobs are few and come without a gap. `next` is the account's nonce.
fn check_kind(queue: Option<&Queue>, new: &CheckedTx, next: u64) -> Result<(), PoolError> {
    let has_blobs = new.tx.envelope.is_eip4844();
    let first = queue.and_then(|queue| queue.slots().front());
    if first.is_some_and(|first| first.tx.envelope.is_eip4844() != has_blobs) {
        return Err(PoolError::AddressReserved);
    }
    if !has_blobs {
        return Ok(());
    }
    let gapped = queue.map_or(next, Queue::next).max(next);
    if new.nonce > gapped {
        return Err(PoolError::NonceTooHigh { nonce: new.nonce, gapped });
    }
    let others = queue.filter(|queue| queue.find(new.nonce).is_err());
    let pooled = others.map_or(0, |queue| queue.slots().len());
    if pooled >= BLOB_TXS_PER_SENDER { Err(PoolError::AccountLimit { pooled }) } else { Ok(()) }
}

/// Checks that the account can pay for a new transaction besides its pooled ones; returns the new one's cost.
fn check_funds(queue: Option<&Queue>, new: &CheckedTx, state: &SenderState) -> Result<U256, PoolError> {
    let balance = U512::from(state.balance);
    if new.cost > balance {
        return Err(overdraft(state.balance, None, new.cost, None));
    }
    let cost: U256 = new.cost.to();
    let Some(queue) = queue else { return Ok(cost) };
    let spent = queue.spent_from(state.nonce);
    let old = queue.find(new.nonce).ok().filter(|at| *at < queue.ready()).map(|at| queue.slots()[at].cost);
    let need = U512::from(spent) + new.cost - U512::from(old.unwrap_or_default());
    if need > balance {
        return Err(overdraft(state.balance, Some(spent), new.cost, old));
    }
    Ok(cost)
}

/// Formats geth's error for an insufficient balance: alone, with pooled ones, or for a replacement.
fn overdraft(balance: U256, spent: Option<U256>, cost: U512, old: Option<U256>) -> PoolError {
    let balance_wide = U512::from(balance);
    let Some(spent) = spent else {
        let over = cost - balance_wide;
        return PoolError::InsufficientFunds(format!("balance {balance}, tx cost {cost}, overshot {over}").into());
    };
    let need = U512::from(spent) + cost - U512::from(old.unwrap_or_default());
    let over = need - balance_wide;
    let what = match old.map(U512::from) {
        None => format!("tx cost {cost}"),
        Some(old) if old <= cost => format!("tx bumped {}", cost - old),
        Some(old) => format!("tx bumped -{}", old - cost),
    };
    PoolError::InsufficientFunds(format!("balance {balance}, queued cost {spent}, {what}, overshot {over}").into())
}

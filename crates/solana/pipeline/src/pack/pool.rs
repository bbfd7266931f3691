//! pool: storage for pending transactions.
//!
//! reads   transactions that the scheduler has admitted
//! writes  nothing but its own state
//! memory  [`Pool::bytes`], allocated in [`Pool::new`]: about 1.9 KB per slot
//! drops   nothing; the scheduler removes transactions and counts the reason

use super::heap::Entry;
use super::lists::Lists;
use super::table::IndexTable;
use super::types::{Candidate, TXN_BYTES, TXN_LOCKS};

/// Pay classes: see [`pay_class`].
const PAY_CLASSES: usize = 64 << PAY_FRACTION_BITS;
const PAY_FRACTION_BITS: u32 = 6;
/// Distinct expiry times; a transaction lives for at most this many blocks.
pub const EXPIRY_SPAN: u64 = 512;

/// An account of a transaction, and whether the transaction locks it for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockId(u32);

impl LockId {
    /// Creates the lock of account `id`, which must be below 2^31.
    #[inline]
    pub fn new(id: u32, write: bool) -> Self {
        Self(id << 1 | u32::from(write))
    }

    /// The id of the account, below 2^31.
    #[inline]
    pub fn account(self) -> u32 {
        self.0 >> 1
    }

    /// Whether the lock is for writing.
    #[inline]
    pub fn write(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The place where a pending transaction waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The slot is empty.
    Vacant,
    /// Competes for the next microblock.
    Ready,
    /// Waits in the queue of an account.
    Waiting(u32),
    /// Deferred until the block has room again.
    BlockShort,
    /// Deferred to the next block by an account's write limit.
    AccountShort,
}

/// A transaction's metadata, besides its bytes and locks.
#[derive(Clone, Debug)]
pub struct Meta {
    /// The rank by which pack chooses among ready transactions.
    pub entry: Entry,
    /// Keyed hash of its first signature.
    pub tag: u64,
    /// Bytes of account data that it may allocate.
    pub growth: u32,
    /// When it entered the node, in microseconds; 0 if unknown.
    pub origin_us: u32,
    /// The account whose queue it left to compete on behalf of all that wait there.
    pub delegate_of: Option<u32>,
    /// Whether and where the transaction waits; vacant if the pool slot is free.
    pub state: State,
    len: u16,
    locks: u16,
    pay: u16,
    expiry: u16,
}

/// A slot: a transaction's metadata, locks and bytes side by side, usually in one page.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Slot {
    meta: Meta,
    locks: [LockId; TXN_LOCKS],
    bytes: [u8; TXN_BYTES],
    /// Digest of the accounts loaded from lookup tables.
    loaded: Option<u64>,
}

const _: () = assert!(size_of::<Meta>() <= 64);

impl Slot {
    fn vacant() -> Self {
        let meta = Meta {
            entry: Entry { reward: 0, seq: 0, cost: 1, slot: 0 },
            tag: 0,
            growth: 0,
            origin_us: 0,
            delegate_of: None,
            state: State::Vacant,
            len: 0,
            locks: 0,
            pay: 0,
            expiry: 0,
        };
        Self { meta, locks: [LockId(0); TXN_LOCKS], bytes: [0; TXN_BYTES], loaded: None }
    }
}

/// Slots for pending transactions.
#[derive(Debug)]
pub struct Pool {
    /// Slots used so far. Their address space is reserved at startup; pages become resident when first written.
    slots: Vec<Slot>,
    capacity: usize,
    /// Position of each slot in the heap or list that its state names.
    pub places: Vec<u32>,
    free: Vec<u32>,
    signatures: IndexTable,
    by_pay: Lists,
    by_expiry: Lists,
}

impl Pool {
    /// Memory that `capacity` slots take, in bytes.
    pub const fn bytes(capacity: usize) -> u64 {
        let slot = size_of::<Slot>() + 4 + 4 + 16 + 8 + 8;
        (capacity * slot) as u64
    }

    /// Creates empty slots. Panics if `capacity` is 0 or exceeds 31 bits.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity > 0 && capacity < 1 << 31, "a pool has 1 to 2^31 - 1 slots");
        Self {
            slots: Vec::with_capacity(capacity),
            capacity,
            places: vec![u32::MAX; capacity],
            free: Vec::with_capacity(capacity),
            signatures: IndexTable::new(capacity),
            by_pay: Lists::new(PAY_CLASSES, capacity),
            by_expiry: Lists::new(EXPIRY_SPAN as usize, capacity),
        }
    }

    /// How many transactions are pending.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no slot is free.
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == self.capacity
    }

    /// Whether a transaction with this signature is pending.
    #[inline]
    pub fn contains(&self, tag: u64) -> bool {
        self.signatures.find(tag, |slot| self.slots[slot].meta.tag == tag).is_some()
    }

    /// Prefetches what [`Pool::contains`] and [`Pool::put`] will read.
    #[inline]
    pub fn touch(&self, tag: u64) -> u64 {
        self.signatures.touch(tag)
    }

    /// Stores a transaction in a free slot, as [`State::Ready`], and returns its rank.
    pub fn put(&mut self, candidate: &Candidate<'_>, locks: &[LockId], seq: u64, expires_at: u64) -> Entry {
        let slot = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < self.capacity, "the caller has made room");
            self.slots.push(Slot::vacant());
            self.slots.len() as u32 - 1
        });
        let at = slot as usize;
        let entry = Entry { reward: candidate.reward, seq, cost: candidate.cost, slot };
        let (pay, expiry) = (pay_class(candidate.reward, candidate.cost), expires_at % EXPIRY_SPAN);
        let it = &mut self.slots[at];
        it.bytes[..candidate.bytes.len()].copy_from_slice(candidate.bytes);
        it.locks[..locks.len()].copy_from_slice(locks);
        it.loaded = candidate.loaded;
        it.meta = Meta {
            entry,
            tag: candidate.tag,
            growth: candidate.growth,
            origin_us: candidate.origin_us,
            delegate_of: None,
            state: State::Ready,
            len: candidate.bytes.len() as u16,
            locks: locks.len() as u16,
            pay: pay as u16,
            expiry: expiry as u16,
        };
        self.signatures.insert(candidate.tag, at);
        self.by_pay.push(pay, at);
        self.by_expiry.push(expiry as usize, at);
        entry
    }

    /// Frees a slot. Its bytes and locks stay readable until the next [`Pool::put`].
    pub fn free(&mut self, slot: usize) {
        let meta = &mut self.slots[slot].meta;
        assert_ne!(meta.state, State::Vacant, "a slot is freed once");
        meta.state = State::Vacant;
        let (tag, pay, expiry) = (meta.tag, meta.pay, meta.expiry);
        self.signatures.remove(tag, slot);
        self.by_pay.remove(pay.into(), slot);
        self.by_expiry.remove(expiry.into(), slot);
        self.free.push(slot as u32);
    }

    /// The metadata of a transaction.
    #[inline]
    pub fn meta(&self, slot: usize) -> &Meta {
        &self.slots[slot].meta
    }

    /// The metadata of a transaction, to change.
    #[inline]
    pub fn meta_mut(&mut self, slot: usize) -> &mut Meta {
        &mut self.slots[slot].meta
    }

    /// The wire bytes of a transaction.
    #[inline]
    pub fn txn(&self, slot: usize) -> &[u8] {
        let it = &self.slots[slot];
        &it.bytes[..usize::from(it.meta.len)]
    }

    /// Digest of the accounts it loaded from lookup tables, if any.
    #[inline]
    pub fn loaded(&self, slot: usize) -> Option<u64> {
        self.slots[slot].loaded
    }

    /// The accounts it locks.
    #[inline]
    pub fn locks(&self, slot: usize) -> &[LockId] {
        let it = &self.slots[slot];
        &it.locks[..usize::from(it.meta.locks)]
    }

    /// The newest transaction of the class that pays worst, and that class.
    pub fn worst(&self) -> Option<(usize, usize)> {
        let class = self.by_pay.first_used()?;
        Some((self.by_pay.newest(class).expect("the list is used"), class))
    }

    /// Changes a transaction's expiry.
    pub fn renew(&mut self, slot: usize, expires_at: u64) {
        let meta = &mut self.slots[slot].meta;
        let (before, after) = (meta.expiry, (expires_at % EXPIRY_SPAN) as u16);
        meta.expiry = after;
        self.by_expiry.remove(before.into(), slot);
        self.by_expiry.push(after.into(), slot);
    }

    /// Returns some transaction that expires at `time`, modulo [`EXPIRY_SPAN`].
    pub fn expiring_at(&self, time: u64) -> Option<usize> {
        self.by_expiry.newest((time % EXPIRY_SPAN) as usize)
    }
}

/// Returns the pay class, by which victims of eviction are chosen: reward per cost to two significant digits (64 steps
/// per doubling), higher is better. Scheduling order does not depend on it.
#[inline]
pub fn pay_class(reward: u64, cost: u32) -> usize {
    const SCALE_BITS: u32 = 20;
    let reward = reward.min(u64::MAX >> SCALE_BITS);
    let rate = (reward << SCALE_BITS) / u64::from(cost.max(1));
    // A hand-made floating-point number: the exponent, then the bits after the leading one.
    let exponent = (rate | 1).ilog2().max(PAY_FRACTION_BITS);
    let fraction = (rate >> (exponent - PAY_FRACTION_BITS)) & !(1 << PAY_FRACTION_BITS);
    let class = (((exponent - PAY_FRACTION_BITS) as usize) << PAY_FRACTION_BITS) | fraction as usize;
    // Below the first doubling there is no leading one.
    if rate >> PAY_FRACTION_BITS == 0 { rate as usize } else { class + (1 << PAY_FRACTION_BITS) }
}

const _: () = assert!((64 - PAY_FRACTION_BITS as usize + 1) << PAY_FRACTION_BITS <= PAY_CLASSES);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A higher rate has the same class or a better one; a rate 1/32 higher has a better one.
        #[test]
        fn classes_follow_pay(
            (reward, other_reward) in (0u64..1 << 43, 0u64..1 << 43),
            (cost, other_cost) in (1u32..2_000_000, 1u32..2_000_000),
        ) {
            let (ours, theirs) = (pay_class(reward, cost), pay_class(other_reward, other_cost));
            prop_assert!(ours < PAY_CLASSES);
            let (a, b) = (u128::from(reward) * u128::from(other_cost), u128::from(other_reward) * u128::from(cost));
            if a >= b {
                prop_assert!(ours >= theirs);
            }
            // Rates below 2^-13 lamports per unit have coarser classes.
            if a * 32 > b * 33 && reward << 13 > u64::from(cost) && other_reward << 13 > u64::from(other_cost) {
                prop_assert!(ours > theirs, "{} {}", ours, theirs);
            }
        }
    }

    #[test]
    fn extreme_pay_has_a_class() {
        assert_eq!(pay_class(0, 1), 0);
        assert!(pay_class(u64::MAX, 1) < PAY_CLASSES);
        assert!(pay_class(u64::MAX, 1) > pay_class(u64::MAX, 100));
    }
}

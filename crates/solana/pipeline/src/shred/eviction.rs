//! eviction: decides which sets and slots are evicted when more are in progress than fit.
//!
//! reads   the sets in progress, and when each slot last gained a shred
//! writes  what to evict for a new set or slot
//! memory  none of its own
//! drops   started sets and slots: [`Receiver::evicted`]
//!
//! The lowest slots have priority: sets of the highest slot are evicted first, so a node that is far behind works its
//! way up. A leader that withholds part of every FEC set must not starve later slots: if a slot exceeds its share, its
//! highest sets are evicted for those of a later slot, and a slot without new shreds for [`STANDS_NS`] is evicted
//! whole. What is still needed returns by repair. So do an evicted slot's stored sets, because we no longer know which
//! block version they belong to.

use super::arrival::ShredRefusal;
use super::finding::Finding;
use super::receiver::{Incoming, Receiver, STANDS_NS};

/// A slot may hold this fraction of the started sets, and at least this many, before a later slot may evict its sets.
const SHARES: usize = 16;
const SHARE_MIN: usize = 4;

/// The slot or set to evict to make room for a set.
#[derive(Clone, Copy, Debug)]
enum EvictionTarget {
    Set((u64, u32)),
    Slot(u64),
}

impl Receiver {
    /// How many started sets a slot may have before a later slot may evict them.
    fn share(&self) -> usize {
        (self.config.sets_max / SHARES).max(SHARE_MIN)
    }

    /// Returns what to evict for a set when there is no room: the highest started set, if it is higher than the new
    /// one; else the highest set of the slot with the most sets, if that exceeds its share; else a stalled slot.
    fn eviction_for(&self, key: (u64, u32), now_ns: u64) -> Option<EvictionTarget> {
        if let Some((highest, _)) = self.sets.last_key_value().filter(|(highest, _)| **highest > key) {
            return Some(EvictionTarget::Set(*highest));
        }
        let others = self.slots.iter().filter(|(slot, _)| **slot != key.0);
        let most = others.max_by_key(|(_, incoming)| incoming.begun);
        match most.filter(|(_, incoming)| incoming.begun > self.share()) {
            Some((slot, _)) => {
                let of_slot = self.sets.range((*slot, 0)..=(*slot, u32::MAX));
                of_slot.last().map(|(highest, _)| EvictionTarget::Set(*highest))
            }
            None => self.stands(key.0, now_ns, |incoming| incoming.begun > 0).map(EvictionTarget::Slot),
        }
    }

    /// Returns the slot that has stalled longest, if long enough to be evicted.
    pub(super) fn stands(&self, but: u64, now_ns: u64, is_of_use: impl Fn(&Incoming) -> bool) -> Option<u64> {
        let others = self.slots.iter().filter(|(slot, incoming)| **slot != but && is_of_use(incoming));
        let (slot, incoming) = others.min_by_key(|(_, incoming)| incoming.kept_ns)?;
        (now_ns.saturating_sub(incoming.kept_ns) >= STANDS_NS).then_some(*slot)
    }

    /// Whether there is room for a set, or something to evict for it.
    pub(super) fn has_room(&self, key: (u64, u32), now_ns: u64) -> bool {
        self.sets.len() < self.config.sets_max || self.eviction_for(key, now_ns).is_some()
    }

    /// Evicts what must go for a set.
    pub(super) fn make_room(&mut self, key: (u64, u32), now_ns: u64) -> Result<(), ShredRefusal> {
        if self.sets.len() < self.config.sets_max {
            return Ok(());
        }
        match self.eviction_for(key, now_ns).ok_or(ShredRefusal::NoRoom)? {
            EvictionTarget::Slot(slot) => self.evict(slot),
            EvictionTarget::Set(highest) => {
                let set = self.sets.remove(&highest).expect("it is the highest of some");
                self.slots.get_mut(&highest.0).expect("a begun set is of a slot").begun -= 1;
                self.evicted.sets += 1;
                self.free(set);
            }
        }
        Ok(())
    }

    /// Evicts a slot to make room: its sets are forgotten and counted.
    pub(super) fn evict(&mut self, slot: u64) {
        // This also forgets which block version its sets belong to.
        if self.slots.get(&slot).is_some_and(|incoming| !incoming.complete.is_empty()) {
            self.findings.push(Finding::Evicted(slot));
        }
        self.evicted.slots += 1;
        self.evicted.sets += self.forget(slot);
    }

    /// Forgets all sets of a slot. Returns how many were started.
    pub(super) fn forget(&mut self, slot: u64) -> u64 {
        self.slots.remove(&slot);
        let keys: Vec<(u64, u32)> = self.sets.range((slot, 0)..=(slot, u32::MAX)).map(|(key, _)| *key).collect();
        for key in &keys {
            if let Some(set) = self.sets.remove(key) {
                self.free(set);
            }
        }
        keys.len() as u64
    }
}

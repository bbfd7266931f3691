//! eviction: who makes room for whom where more is begun than is kept.
//!
//! reads   what is begun, and when something of it was kept last
//! writes  what has to go for a set, or for a slot
//! memory  none of its own
//! drops   begun sets and slots: [`Receiver::evicted`]
//!
//! The lowest slots come first: what is begun of the highest goes. So a node that is far behind works its way up. Who
//! leads a slot and holds back a part of each set keeps nobody out of the slots behind: of what a slot has beyond its
//! share the highest sets go for those of a later slot, and a slot of which nothing new has come for [`STANDS_NS`]
//! goes whole. What is needed comes again by repair; so do the sets that are stored of a slot that goes, since it is
//! not known any more of which block they are.

use super::arrival::Refused;
use super::finding::Finding;
use super::receiver::{Incoming, Receiver, STANDS_NS};

/// One of so many begun sets may be of a slot before a later one may have its place; and so many may be in any case.
const SHARES: usize = 16;
const SHARE_MIN: usize = 4;

/// What makes room for a set.
#[derive(Clone, Copy, Debug)]
enum Goes {
    Set((u64, u32)),
    Slot(u64),
}

impl Receiver {
    /// Begun sets that a slot may have before a later one may have their places.
    fn share(&self) -> usize {
        (self.config.sets_max / SHARES).max(SHARE_MIN)
    }

    /// What has to go for a set, where there is no room: of what is begun the highest, if that is higher; else the
    /// highest set of the slot that has most, if that is more than its share; else a slot that stands.
    fn goes_for(&self, key: (u64, u32), now_ns: u64) -> Option<Goes> {
        if let Some((highest, _)) = self.sets.last_key_value().filter(|(highest, _)| **highest > key) {
            return Some(Goes::Set(*highest));
        }
        let others = self.slots.iter().filter(|(slot, _)| **slot != key.0);
        let most = others.max_by_key(|(_, incoming)| incoming.begun);
        match most.filter(|(_, incoming)| incoming.begun > self.share()) {
            Some((slot, _)) => {
                let of_slot = self.sets.range((*slot, 0)..=(*slot, u32::MAX));
                of_slot.last().map(|(highest, _)| Goes::Set(*highest))
            }
            None => self.stands(key.0, now_ns, |incoming| incoming.begun > 0).map(Goes::Slot),
        }
    }

    /// The slot that has stood longest, if that is long enough to make room for another.
    pub(super) fn stands(&self, but: u64, now_ns: u64, is_of_use: impl Fn(&Incoming) -> bool) -> Option<u64> {
        let others = self.slots.iter().filter(|(slot, incoming)| **slot != but && is_of_use(incoming));
        let (slot, incoming) = others.min_by_key(|(_, incoming)| incoming.kept_ns)?;
        (now_ns.saturating_sub(incoming.kept_ns) >= STANDS_NS).then_some(*slot)
    }

    /// Whether there is room for a set, or what has to go for it.
    pub(super) fn has_room(&self, key: (u64, u32), now_ns: u64) -> bool {
        self.sets.len() < self.config.sets_max || self.goes_for(key, now_ns).is_some()
    }

    /// Has what has to go for a set go.
    pub(super) fn make_room(&mut self, key: (u64, u32), now_ns: u64) -> Result<(), Refused> {
        if self.sets.len() < self.config.sets_max {
            return Ok(());
        }
        match self.goes_for(key, now_ns).ok_or(Refused::NoRoom)? {
            Goes::Slot(slot) => self.evict(slot),
            Goes::Set(highest) => {
                let set = self.sets.remove(&highest).expect("it is the highest of some");
                self.slots.get_mut(&highest.0).expect("a begun set is of a slot").begun -= 1;
                self.evicted.sets += 1;
                self.free(set);
            }
        }
        Ok(())
    }

    /// A slot makes room.
    pub(super) fn evict(&mut self, slot: u64) {
        // Which block they are of is forgotten with it.
        if self.slots.get(&slot).is_some_and(|incoming| !incoming.complete.is_empty()) {
            self.findings.push(Finding::Evicted(slot));
        }
        self.evicted.slots += 1;
        self.evicted.sets += self.forget(slot);
    }

    /// Forgets what is there of a slot. Returns how many sets were begun.
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

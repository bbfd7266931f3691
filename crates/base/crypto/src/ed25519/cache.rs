//! A cache of the tables for frequent keys.
//!
//! reads   the public keys of incoming signatures
//! writes  tables, in slots that are reused
//! memory  `capacity` slots of one table each, and 256 KB of sightings
//! drops   the table of a key that was not used during one turn of the hand (CLOCK)
//! source  Corbató, "A paging experiment with the Multics system" (1968) for the hand
//!
//! A key earns a table after a few misses. If more keys are active than there are slots, replacing a table at each miss
//! would build tables endlessly; so the hand moves one slot per [`MISSES_PER_STEP`] such misses, and a slot used since
//! its last visit stays.

use super::point::Entry;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Misses of keys that have earned a table for one step of the hand.
const MISSES_PER_STEP: u32 = 16;
/// Buckets of four counters of sightings.
const BUCKETS: usize = 1 << 14;

struct Slot {
    key: [u8; 32],
    used: bool,
    entries: Box<[Entry]>,
}

/// Tables by public key.
pub(super) struct TableCache {
    by_key: HashMap<[u8; 32], u32>,
    slots: Vec<Slot>,
    capacity: usize,
    entries_per_table: usize,
    hand: usize,
    misses: u32,
    /// A tag of 24 bits and a count of 8; 0 is free.
    sightings: Box<[[u32; 4]]>,
    build_after: u8,
    hasher: RandomState,
}

impl TableCache {
    /// Creates a cache of at most `bytes`, where a key earns a table with miss number `build_after` + 1.
    pub(super) fn new(bytes: usize, entries_per_table: usize, build_after: u8) -> Self {
        // The map takes up to two entries of key and index for a key, and a control byte.
        let per_key = entries_per_table * size_of::<Entry>() + size_of::<Slot>() + 2 * 37;
        Self {
            by_key: HashMap::new(),
            slots: Vec::new(),
            capacity: bytes / per_key,
            entries_per_table,
            hand: 0,
            misses: 0,
            sightings: vec![[0; 4]; BUCKETS].into(),
            build_after,
            hasher: RandomState::new(),
        }
    }

    /// The slot of a key that has a table.
    pub(super) fn find(&mut self, key: &[u8; 32]) -> Option<u32> {
        let slot = *self.by_key.get(key)?;
        self.slots[slot as usize].used = true;
        Some(slot)
    }

    /// The table in a slot that [`Self::find`] gave since the last [`Self::insert`].
    pub(super) fn table(&self, slot: u32) -> &[Entry] {
        &self.slots[slot as usize].entries
    }

    /// Number of tables held.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Counts a miss of `key`, and returns whether to build a table for it now.
    pub(super) fn wants_table(&mut self, key: &[u8; 32]) -> bool {
        if self.capacity == 0 || self.count_sighting(key) < u32::from(self.build_after) {
            return false;
        }
        if self.slots.len() < self.capacity {
            return true;
        }
        self.misses += 1;
        if self.misses < MISSES_PER_STEP {
            return false;
        }
        self.misses = 0;
        let slot = &mut self.slots[self.hand];
        if slot.used {
            slot.used = false;
            self.hand = (self.hand + 1) % self.capacity;
            return false;
        }
        true
    }

    /// How often `key` was sighted before, at most 254. In a full bucket it displaces the one seen least.
    fn count_sighting(&mut self, key: &[u8; 32]) -> u32 {
        let hash = self.hasher.hash_one(key);
        let bucket = &mut self.sightings[hash as usize % BUCKETS];
        let tag = (hash >> 40) as u32;
        let at = match bucket.iter().position(|c| c >> 8 == tag && *c != 0) {
            Some(at) => at,
            None => {
                let least = (0..4).min_by_key(|i| bucket[*i] & 0xff).unwrap_or(0);
                bucket[least] = tag << 8;
                least
            }
        };
        let seen = bucket[at] & 0xff;
        bucket[at] = (tag << 8) | (seen + 1).min(0xff);
        seen.min(0xfe)
    }

    /// Gives `key` a table, in a new slot or in the one under the hand, which `build` overwrites.
    pub(super) fn insert(&mut self, key: [u8; 32], build: impl FnOnce(&mut [Entry])) {
        if self.slots.len() < self.capacity {
            let mut entries = vec![Entry::NEUTRAL; self.entries_per_table].into_boxed_slice();
            build(&mut entries);
            self.by_key.insert(key, self.slots.len() as u32);
            self.slots.push(Slot { key, used: true, entries });
            return;
        }
        let slot = &mut self.slots[self.hand];
        self.by_key.remove(&slot.key);
        build(&mut slot.entries);
        slot.key = key;
        slot.used = true;
        self.by_key.insert(key, self.hand as u32);
        self.hand = (self.hand + 1) % self.capacity;
    }

    /// Alters every table, so that tests can show that a wrong table is noticed.
    #[cfg(test)]
    pub(super) fn spoil(&mut self) {
        for slot in &mut self.slots {
            for entry in &mut slot.entries {
                entry.product[0] ^= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> [u8; 32] {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_le_bytes());
        key
    }

    /// Looks `n` up, and inserts it if the cache wants it. Returns whether it was found.
    fn meet(cache: &mut TableCache, n: u32) -> bool {
        let found = cache.find(&key(n)).is_some();
        if !found && cache.wants_table(&key(n)) {
            cache.insert(key(n), |entries| entries[0].product[0] = u64::from(n));
        }
        found
    }

    fn cache_of(slots: usize) -> TableCache {
        let per_key = 2 * size_of::<Entry>() + size_of::<Slot>() + 2 * 37;
        TableCache::new(slots * per_key, 2, 2)
    }

    #[test]
    fn a_table_is_built_at_the_third_sighting() {
        let mut cache = cache_of(4);
        assert_eq!((0..5).map(|_| meet(&mut cache, 7)).collect::<Vec<_>>(), [false, false, false, true, true]);
    }

    #[test]
    fn capacity_holds_and_slots_keep_their_keys() {
        let mut cache = cache_of(8);
        for round in 0..2000 {
            for n in 0..40 {
                meet(&mut cache, n + round / 500 * 20);
            }
            assert!(cache.len() <= 8);
            for (k, slot) in &cache.by_key {
                assert_eq!(cache.slots[*slot as usize].key, *k);
                assert_eq!(key(cache.table(*slot)[0].product[0] as u32), *k);
            }
            assert_eq!(cache.by_key.len(), cache.len());
        }
    }

    #[test]
    fn a_new_working_set_displaces_the_old() {
        let mut cache = cache_of(8);
        for _ in 0..3 {
            (0..8).for_each(|n| _ = meet(&mut cache, n));
        }
        for _ in 0..100 {
            (100..108).for_each(|n| _ = meet(&mut cache, n));
        }
        assert!((100..108).all(|n| meet(&mut cache, n)));
    }

    #[test]
    fn without_room_nothing_is_built() {
        let mut cache = cache_of(0);
        assert!((0..100).all(|_| !meet(&mut cache, 1)));
    }
}

//! table: an index from hashes to positions in an array owned by the caller, for keys that come and go.
//!
//! reads   a 64-bit keyed hash, of which it keeps the upper half, and a position
//! writes  nothing but its own state
//! memory  16 B per key that it may hold, allocated in [`IndexTable::new`]
//! drops   nothing; the array's owner bounds the number of keys, and one too many is a broken invariant
//! source  linear probing with deletion by backward shift (Knuth, volume 3, algorithm 6.4 R)
//!
//! A place holds hash and position in one word, so neither a miss nor a deletion reads the array.

use crate::tag_cache::resident_words;

const FREE: u64 = 0;

/// Maps hashes to positions.
#[derive(Debug)]
pub struct IndexTable {
    places: Vec<u64>,
}

impl IndexTable {
    /// Creates a table for up to `keys` keys.
    pub fn new(keys: usize) -> Self {
        assert!(keys < u32::MAX as usize / 2, "positions have 32 bits");
        let places = resident_words(2 * keys + 1).expect("memory for the pool");
        Self { places }
    }

    /// Returns the position under `hash` for which `is_it` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut place = self.home(hash);
        loop {
            let word = self.places[place];
            if word == FREE {
                return None;
            }
            if word >> 32 == hash >> 32 && is_it(position(word)) {
                return Some(position(word));
            }
            place = self.after(place);
        }
    }

    /// Prefetches the home place of `hash`.
    #[inline]
    pub fn touch(&self, hash: u64) -> u64 {
        self.places[self.home(hash)]
    }

    /// Adds `position` under `hash`; the key must not be in the table.
    #[inline]
    pub fn insert(&mut self, hash: u64, position: usize) {
        let mut place = self.home(hash);
        while self.places[place] != FREE {
            place = self.after(place);
        }
        self.places[place] = hash >> 32 << 32 | (position as u64 + 1);
    }

    /// Removes `position` from `hash`. Panics if it is not there.
    #[inline]
    pub fn remove(&mut self, hash: u64, position: usize) {
        let wanted = hash >> 32 << 32 | (position as u64 + 1);
        let mut gap = self.home(hash);
        while self.places[gap] != wanted {
            assert_ne!(self.places[gap], FREE, "what is removed was inserted");
            gap = self.after(gap);
        }
        let mut place = gap;
        loop {
            place = self.after(place);
            let follower = self.places[place];
            if follower == FREE {
                break;
            }
            if self.distance(self.home(follower), place) >= self.distance(gap, place) {
                self.places[gap] = follower;
                gap = place;
            }
        }
        self.places[gap] = FREE;
    }

    /// The first place of a chain: the hash's upper half, times the length, over 2^32.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.places.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, place: usize) -> usize {
        if place + 1 == self.places.len() { 0 } else { place + 1 }
    }

    #[inline]
    fn distance(&self, from: usize, place: usize) -> usize {
        if place >= from { place - from } else { place + self.places.len() - from }
    }
}

#[inline]
fn position(word: u64) -> usize {
    (word as u32 - 1) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Compares with a map, using hashes that often collide.
        #[test]
        fn matches_model(ops in prop::collection::vec((any::<bool>(), 0usize..24, 0u64..4), 0..300)) {
            let mut table = IndexTable::new(24);
            let mut model: HashMap<usize, u64> = HashMap::new();
            for (add, key, spread) in ops {
                let hash = (spread << 62) | (key as u64 % 3) << 33;
                if add && !model.contains_key(&key) {
                    table.insert(hash, key);
                    model.insert(key, hash);
                } else if let Some(hash) = model.remove(&key) {
                    table.remove(hash, key);
                }
                for (key, hash) in &model {
                    prop_assert_eq!(table.find(*hash, |at| at == *key), Some(*key));
                }
                prop_assert_eq!(table.places.iter().filter(|w| **w != FREE).count(), model.len());
            }
        }
    }
}

//! For each key, the versions that replaced its value: sorted lists, so that an old version's value is found without
//! walking all later versions.
//!
//! memory  see [`VersionIndex::bytes`]: for each key twice the size of its entry, and 8 B for each place of its list.
//!         A list of more than 16 places shrinks once more than three quarters are empty

use std::collections::VecDeque;
use std::hash::Hash;

use alloy_primitives::map::HashMap;

/// Places of a list that are not given back.
const LIST_MIN: usize = 16;
/// The same of the map.
const MAP_MIN: usize = 1_024;

/// By key, the numbers of the versions that replaced its value, ascending.
pub(super) struct VersionIndex<K> {
    by_key: HashMap<K, VecDeque<u64>>,
    /// Bytes of the lists.
    list_bytes: usize,
}

impl<K> Default for VersionIndex<K> {
    fn default() -> Self {
        Self { by_key: HashMap::default(), list_bytes: 0 }
    }
}

impl<K: Eq + Hash> VersionIndex<K> {
    /// A table that doubles is half full at least; the allocator takes something for each list.
    const KEY_BYTES: usize = 2 * (size_of::<(K, VecDeque<u64>)>() + 1) + 16;

    /// Version `sequence` replaced the value of `key`; it is none before those known.
    pub(super) fn add(&mut self, key: K, sequence: u64) {
        let list = self.by_key.entry(key).or_default();
        let before = list.capacity();
        list.push_back(sequence);
        self.list_bytes += (list.capacity() - before) * size_of::<u64>();
    }

    /// The first version after `sequence` that replaced the value of `key`. Takes one look-up, and steps of a binary
    /// search in the list of this key.
    pub(super) fn after(&self, key: &K, sequence: u64) -> Option<u64> {
        let list = self.by_key.get(key)?;
        list.get(list.partition_point(|known| *known <= sequence)).copied()
    }

    /// Forgets of `key` the versions up to `sequence`.
    pub(super) fn forget(&mut self, key: &K, sequence: u64) {
        let Some(list) = self.by_key.get_mut(key) else { return };
        let before = list.capacity();
        while list.front().is_some_and(|known| *known <= sequence) {
            list.pop_front();
        }
        let is_empty = list.is_empty();
        if is_empty {
            *list = VecDeque::new();
        } else if list.capacity() > LIST_MIN && list.len() < list.capacity() / 4 {
            list.shrink_to(list.len() * 2);
        }
        self.list_bytes -= (before - list.capacity()) * size_of::<u64>();
        if is_empty {
            self.by_key.remove(key);
            if self.by_key.capacity() > MAP_MIN && self.by_key.len() < self.by_key.capacity() / 4 {
                self.by_key.shrink_to(self.by_key.len() * 2);
            }
        }
    }

    /// Returns its memory, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.by_key.len() * Self::KEY_BYTES + self.list_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_after_one_is_found_until_it_is_forgotten() {
        let mut places = VersionIndex::default();
        let empty = places.bytes();
        for sequence in 1..=10_000u64 {
            places.add("each", sequence);
            if sequence.is_multiple_of(100) {
                places.add("some", sequence);
            }
        }
        assert_eq!(places.after(&"each", 0), Some(1));
        assert_eq!(places.after(&"some", 100), Some(200));
        assert_eq!(places.after(&"some", 10_000), None);
        assert_eq!(places.after(&"none", 0), None);
        let full = places.bytes();
        assert!(full >= 10_100 * size_of::<u64>(), "{full}");
        for sequence in 1..=9_950 {
            places.forget(&"each", sequence);
            places.forget(&"some", sequence);
        }
        assert_eq!(places.after(&"each", 0), Some(9_951));
        assert_eq!(places.after(&"some", 0), Some(10_000));
        assert!(places.bytes() < full / 20, "what is forgotten takes nothing: {}", places.bytes());
        places.forget(&"each", 10_000);
        places.forget(&"some", 10_000);
        assert_eq!((places.bytes(), places.after(&"some", 0)), (empty, None));
    }
}

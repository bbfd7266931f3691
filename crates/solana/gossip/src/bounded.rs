//! A bounded map that evicts the entry that was set longest ago.
//!
//! memory  `capacity` entries, and twice as many places in a queue
//! drops   the entry that was set longest ago

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map with a maximum size; see the module.
#[derive(Debug)]
pub struct Bounded<K, V> {
    map: HashMap<K, (u64, V)>,
    /// Keys in the order in which they were set; entries of keys that were set again are stale.
    order: VecDeque<(u64, K)>,
    capacity: usize,
    next: u64,
}

impl<K, V> Bounded<K, V> {
    /// Maximum bytes of a map with this capacity: the table doubles when seven of eight places are taken, the queue
    /// when all are.
    pub const fn bytes(capacity: usize) -> u64 {
        let places = (capacity * 8 / 7 + 1).next_power_of_two();
        let queue = (2 * capacity + 1).next_power_of_two();
        (places * (size_of::<(K, (u64, V))>() + 1) + queue * size_of::<(u64, K)>()) as u64
    }
}

impl<K: Copy + Eq + Hash, V> Bounded<K, V> {
    /// A map of at most `capacity` entries, at least one.
    pub fn new(capacity: usize) -> Self {
        Self { map: HashMap::new(), order: VecDeque::new(), capacity: capacity.max(1), next: 0 }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key).map(|(_, value)| value)
    }

    /// The value of a key, mutable; this does not renew its age.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key).map(|(_, value)| value)
    }

    /// The values of all entries, mutable, in no order; this does not renew their age.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.map.values_mut().map(|(_, value)| value)
    }

    /// Removes the entry of a key and returns its value, if there is one.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.map.remove(key).map(|(_, value)| value)
    }

    /// Sets an entry, and returns the evicted one if the map was full.
    pub fn set(&mut self, key: K, value: V) -> Option<(K, V)> {
        let mut forgotten = None;
        self.next += 1;
        self.map.insert(key, (self.next, value));
        self.order.push_back((self.next, key));
        while self.map.len() > self.capacity {
            let Some((stamp, key)) = self.order.pop_front() else { break };
            if self.is_newest(stamp, &key) {
                forgotten = self.map.remove(&key).map(|(_, value)| (key, value));
            }
        }
        if self.order.len() > 2 * self.capacity {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|(stamp, key)| self.is_newest(*stamp, key));
            self.order = order;
        }
        forgotten
    }

    fn is_newest(&self, stamp: u64, key: &K) -> bool {
        self.map.get(key).is_some_and(|(newest, _)| *newest == stamp)
    }

    /// The value of a key, created by `make` if it is missing.
    pub fn entry(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if !self.map.contains_key(&key) {
            self.set(key, make());
        }
        self.get_mut(&key).expect("what was set last stays")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_the_queue_stays_short() {
        let mut map = Bounded::new(3);
        for key in 0..5 {
            map.set(key, key * 10);
        }
        assert_eq!((map.get(&1), map.get(&2), map.get(&4), map.len()), (None, Some(&20), Some(&40), 3));
        assert_eq!((map.set(2, 21), map.set(5, 50)), (None, Some((3, 30))));
        assert_eq!((map.get(&2), map.get(&3), map.get(&4)), (Some(&21), None, Some(&40)));
        for round in 0..10_000 {
            map.set(5, round);
            assert!(map.order.len() <= 6 && map.len() == 3);
        }
        assert_eq!((map.get(&2), map.get(&4)), (Some(&21), Some(&40)), "setting one again drops no other");
        assert_eq!((map.remove(&2), map.len()), (Some(21), 2));
        *map.entry(9, || 1) += 1;
        *map.entry(9, || 1) += 1;
        assert_eq!(map.get(&9), Some(&3));
    }
}

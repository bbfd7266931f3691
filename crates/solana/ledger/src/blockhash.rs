//! The recent blockhashes. A transaction names one, and can land while that one is recent.
//!
//! reads   the last hash of each block, when the block ends
//! writes  the block height of a hash that is still valid
//! memory  152 hashes of 56 B
//! drops   hashes too old for any transaction
//! source  `blockhash_queue.rs` of `solana-accounts-db` 4.2: a hash is valid while at most 150 were registered after it

use std::collections::{HashMap, VecDeque};

use hearth_wire::Hash;
use hearth_wire::consts::MAX_BLOCKHASH_AGE_BLOCKS;

/// The blockhashes that transactions may name, with the height of the block that each one ended. Genesis has height 0.
#[derive(Clone, Debug)]
pub struct BlockhashQueue {
    heights: HashMap<Hash, u64>,
    by_age: VecDeque<Hash>,
    last_height: u64,
}

/// The last block height at which a transaction can land that names the blockhash of the block of this `height`.
pub const fn last_valid_block_height(height: u64) -> u64 {
    height + MAX_BLOCKHASH_AGE_BLOCKS + 1
}

impl BlockhashQueue {
    /// The queue at genesis: transactions name the genesis hash until the first block ends.
    pub fn new(genesis_hash: Hash) -> Self {
        Self { heights: HashMap::from([(genesis_hash, 0)]), by_age: VecDeque::from([genesis_hash]), last_height: 0 }
    }

    /// The queue at the end of slot 0: transactions may name the genesis hash and slot 0's last hash, which in low
    /// power is the same.
    pub fn at_genesis(genesis_hash: Hash, slot_0_hash: Hash) -> Self {
        let mut queue = Self::new(genesis_hash);
        if slot_0_hash != genesis_hash {
            queue.heights.insert(slot_0_hash, 0);
            queue.by_age.push_back(slot_0_hash);
        }
        queue
    }

    /// Restores a queue from its hashes, the newest last; the newest ended the block of height `last_height`.
    pub(crate) fn restore(hashes: &[Hash], last_height: u64) -> Self {
        // The genesis hash, before that of slot 0, has height 0 too.
        let height = |age: usize| last_height.saturating_sub(age as u64);
        let heights = hashes.iter().rev().enumerate().map(|(age, hash)| (*hash, height(age))).collect();
        Self { heights, by_age: hashes.iter().copied().collect(), last_height }
    }

    /// The hashes, the newest last.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = &Hash> {
        self.by_age.iter()
    }

    /// Registers the last hash of the next block. Panics if that hash is still valid: a hash chain does not repeat
    /// itself.
    pub fn register(&mut self, hash: Hash) {
        self.last_height += 1;
        let unseen = self.heights.insert(hash, self.last_height).is_none();
        assert!(unseen, "block {} ends with the hash of an earlier one", self.last_height);
        self.by_age.push_back(hash);
        while self.by_age.len() as u64 > MAX_BLOCKHASH_AGE_BLOCKS + 1 {
            let oldest = self.by_age.pop_front().expect("the queue is not empty");
            self.heights.remove(&oldest);
        }
    }

    /// The height of the block that `hash` ended, if transactions may still name it.
    #[inline]
    pub fn height_of(&self, hash: &Hash) -> Option<u64> {
        self.heights.get(hash).copied()
    }

    /// The hashes, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Hash> {
        self.by_age.iter().rev()
    }

    /// The newest blockhash.
    pub fn last(&self) -> &Hash {
        self.by_age.back().expect("the queue is never empty")
    }

    /// The height of the block that the newest blockhash ended.
    pub fn last_height(&self) -> u64 {
        self.last_height
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> Hash {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&n.to_le_bytes());
        hash
    }

    #[test]
    fn a_hash_is_good_for_150_more() {
        let mut queue = BlockhashQueue::new(hash(0));
        assert_eq!((queue.last(), queue.height_of(&hash(0))), (&hash(0), Some(0)));
        for height in 1..=150 {
            queue.register(hash(height));
            assert_eq!(queue.height_of(&hash(0)), Some(0), "at {height}");
        }
        queue.register(hash(151));
        assert_eq!(queue.height_of(&hash(0)), None);
        assert_eq!(queue.height_of(&hash(1)), Some(1));
        assert_eq!((queue.last(), queue.last_height()), (&hash(151), 151));
        assert_eq!((queue.heights.len(), queue.by_age.len()), (151, 151));
        // With 150 registered, the next block, of height 151, is the last that accepts the genesis hash.
        assert_eq!(last_valid_block_height(0), 151);
    }

    #[test]
    fn slot_0_has_a_hash_of_its_own_unless_it_costs_none() {
        let mut queue = BlockhashQueue::at_genesis(hash(0), hash(1_000));
        assert_eq!((queue.last(), queue.last_height()), (&hash(1_000), 0));
        assert_eq!((queue.height_of(&hash(0)), queue.height_of(&hash(1_000))), (Some(0), Some(0)));
        for height in 1..=149 {
            queue.register(hash(height));
        }
        assert_eq!((queue.height_of(&hash(0)), queue.height_of(&hash(1_000))), (Some(0), Some(0)));
        let kept: Vec<Hash> = queue.by_age().copied().collect();
        let restored = BlockhashQueue::restore(&kept, queue.last_height());
        assert_eq!(restored.heights, queue.heights);
        queue.register(hash(150));
        assert_eq!((queue.height_of(&hash(0)), queue.height_of(&hash(1_000))), (None, Some(0)));
        let low_power = BlockhashQueue::at_genesis(hash(0), hash(0));
        assert_eq!(low_power.by_age().count(), 1);
    }
}

//! The recent blockhashes. A transaction names one, and can land while that one is recent.
//!
//! reads   the last hash of each block, when the block ends
//! writes  the block height of a hash that is still valid, and the price per signature in its block
//! memory  152 hashes of 64 B
//! drops   hashes too old for any transaction
//! source  `blockhash_queue.rs` of `solana-accounts-db` 4.2: a hash is valid while at most 150 were registered after it

use std::collections::{HashMap, VecDeque};

use hearth_wire::Hash;
use hearth_wire::consts::MAX_BLOCKHASH_AGE_BLOCKS;

/// A blockhash that transactions may name.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// The height of the block that it ended.
    height: u64,
    /// The price of that block.
    price: u64,
}

/// The blockhashes that transactions may name, with the height of the block that each one ended. Genesis has height 0.
///
/// With each hash is its block's *price*: lamports per signature as [`crate::fees::next_price`] derives them. Nonces
/// and the recent blockhashes sysvar have it. What a transaction pays does not depend on it.
#[derive(Clone, Debug)]
pub struct BlockhashQueue {
    entries: HashMap<Hash, Entry>,
    by_age: VecDeque<Hash>,
    last_height: u64,
}

/// The last block height at which a transaction can land that names the blockhash of the block of this `height`.
pub const fn last_valid_block_height(height: u64) -> u64 {
    height + MAX_BLOCKHASH_AGE_BLOCKS + 1
}

impl BlockhashQueue {
    /// The queue at genesis: transactions name the genesis hash until the first block ends. Its price is 0.
    pub fn new(genesis_hash: Hash) -> Self {
        Self::at_genesis(genesis_hash, genesis_hash)
    }

    /// The queue at the end of slot 0: transactions name the genesis hash or `slot_0_hash`, the last hash of slot 0's
    /// ticks. Both have the price 0. The two are equal where a tick takes no hashes.
    pub fn at_genesis(genesis_hash: Hash, slot_0_hash: Hash) -> Self {
        let entry = Entry { height: 0, price: 0 };
        let entries = HashMap::from([(genesis_hash, entry), (slot_0_hash, entry)]);
        let mut by_age = VecDeque::from([genesis_hash, slot_0_hash]);
        by_age.truncate(entries.len());
        Self { entries, by_age, last_height: 0 }
    }

    /// Restores a queue from its hashes with their prices, the newest last; the newest ended the block of height
    /// `last_height`.
    pub(crate) fn restore(hashes: &[(Hash, u64)], last_height: u64) -> Self {
        let entry = |(age, (hash, price)): (usize, &(Hash, u64))| {
            // The genesis hash is older than slot 0's, and has its height.
            (*hash, Entry { height: last_height.saturating_sub(age as u64), price: *price })
        };
        let entries = hashes.iter().rev().enumerate().map(entry).collect();
        Self { entries, by_age: hashes.iter().map(|(hash, _)| *hash).collect(), last_height }
    }

    /// The hashes with their prices, the newest last.
    pub(crate) fn by_age(&self) -> impl DoubleEndedIterator<Item = (&Hash, u64)> {
        self.by_age.iter().map(|hash| (hash, self.entries[hash].price))
    }

    /// Registers the last hash of the next block, and that block's price. A copy that only needs ages may have any
    /// price. Panics if that hash is still valid: a hash chain does not repeat itself.
    pub fn register(&mut self, hash: Hash, price: u64) {
        self.last_height += 1;
        let unseen = self.entries.insert(hash, Entry { height: self.last_height, price }).is_none();
        assert!(unseen, "block {} ends with the hash of an earlier one", self.last_height);
        self.by_age.push_back(hash);
        while self.by_age.len() as u64 > MAX_BLOCKHASH_AGE_BLOCKS + 1 {
            let oldest = self.by_age.pop_front().expect("the queue is not empty");
            self.entries.remove(&oldest);
        }
    }

    /// The height of the block that `hash` ended, if transactions may still name it.
    #[inline]
    pub fn height_of(&self, hash: &Hash) -> Option<u64> {
        self.entries.get(hash).map(|entry| entry.height)
    }

    /// The hashes with their prices, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = (&Hash, u64)> {
        self.by_age().rev()
    }

    /// The newest blockhash, which new transactions should name.
    pub fn last(&self) -> &Hash {
        self.by_age.back().expect("the queue is never empty")
    }

    /// The price of the newest blockhash, in lamports per signature.
    pub fn last_price(&self) -> u64 {
        self.entries[self.last()].price
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
            queue.register(hash(height), 5_000);
            assert_eq!(queue.height_of(&hash(0)), Some(0), "at {height}");
        }
        queue.register(hash(151), 5_000);
        assert_eq!(queue.height_of(&hash(0)), None);
        assert_eq!(queue.height_of(&hash(1)), Some(1));
        assert_eq!((queue.last(), queue.last_height()), (&hash(151), 151));
        assert_eq!((queue.entries.len(), queue.by_age.len()), (151, 151));
        // With 150 registered, the next block, of height 151, is the last that accepts the genesis hash.
        assert_eq!(last_valid_block_height(0), 151);
    }

    #[test]
    fn both_hashes_of_slot_0_are_recent_and_free() {
        let mut queue = BlockhashQueue::at_genesis(hash(1_000), hash(0));
        assert_eq!((queue.last(), queue.last_price(), queue.last_height()), (&hash(0), 0, 0));
        assert_eq!(queue.newest_first().collect::<Vec<_>>(), [(&hash(0), 0), (&hash(1_000), 0)]);
        // The genesis hash is the older one: it is valid with 150 after it, of which slot 0's is the first.
        for height in 1..150 {
            queue.register(hash(height), 5_000);
            assert_eq!(queue.height_of(&hash(1_000)), Some(0), "at {height}");
        }
        queue.register(hash(150), 5_500);
        assert_eq!((queue.height_of(&hash(1_000)), queue.height_of(&hash(0))), (None, Some(0)));
        assert_eq!((queue.last_price(), queue.newest_first().nth(1)), (5_500, Some((&hash(149), 5_000))));
        let same = BlockhashQueue::at_genesis(hash(3), hash(3));
        assert_eq!((same.by_age.len(), same.height_of(&hash(3))), (1, Some(0)));
    }

    #[test]
    fn a_queue_is_restored_with_its_prices() {
        for blocks in [0, 1, 149, 150, 151, 300] {
            let mut queue = BlockhashQueue::at_genesis(hash(1_000), hash(0));
            (1..=blocks).for_each(|height| queue.register(hash(height), 5_000 + height));
            let kept: Vec<(Hash, u64)> = queue.by_age().map(|(hash, price)| (*hash, price)).collect();
            let restored = BlockhashQueue::restore(&kept, blocks);
            assert_eq!(restored.by_age().collect::<Vec<_>>(), queue.by_age().collect::<Vec<_>>());
            assert_eq!((restored.last_height(), restored.last_price()), (blocks, queue.last_price()));
            for (hash, _) in &kept {
                assert_eq!(restored.height_of(hash), queue.height_of(hash), "with {blocks} blocks");
            }
        }
    }
}

//! SplitMix64: numbers for tests and benches, the same from the same seed on every machine.
//!
//! reads   a seed; `HEARTH_SEED`
//! writes  numbers
//! memory  one word
//! source  Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014

use std::hash::{BuildHasher, RandomState};

/// Returns the seed of a randomised test: `HEARTH_SEED`, or one that differs from run to run. A test that fails prints
/// it.
pub fn seed() -> u64 {
    match std::env::var("HEARTH_SEED") {
        Ok(text) => text.parse().expect("HEARTH_SEED is a number"),
        Err(_) => RandomState::new().hash_one(0),
    }
}

/// A pseudorandom generator for which every seed is valid.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next number.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is at least 1.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }

    /// Returns an index into `count` things, of which there must be at least one.
    #[inline]
    pub fn index(&mut self, count: usize) -> usize {
        (self.word() % count as u64) as usize
    }

    /// Returns true with a probability of `per_mille` in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// Returns `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.word() as u8).collect()
    }

    /// 32 bytes: a seed, an address.
    pub fn key(&mut self) -> [u8; 32] {
        let mut key = [0; 32];
        key.as_chunks_mut().0.iter_mut().for_each(|word| *word = self.word().to_le_bytes());
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference implementation's first numbers for this seed.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = Random(1_234_567);
        let first: [u64; 3] = std::array::from_fn(|_| random.word());
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert_eq!(Random(1_234_567).key()[..8], first[0].to_le_bytes());
    }
}

//! Random numbers that peers cannot predict: ping tokens, filter keys, choice of peers.
//!
//! reads   a seed of 32 bytes
//! memory  ChaCha's state and four of its blocks
//! source  `rand_chacha`

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A cryptographic random number generator.
pub(crate) struct Random(Box<ChaCha12Rng>);

impl Random {
    pub fn new(seed: [u8; 32]) -> Self {
        Self(Box::new(ChaCha12Rng::from_seed(seed)))
    }

    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
    }

    /// A number above 0, up to 1.
    fn unit(&mut self) -> f64 {
        ((self.word() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A sort key: sorting by it in ascending order draws items by weight.
    pub fn rank(&mut self, weight: u64) -> f64 {
        -self.unit().ln() / weight.max(1) as f64
    }

    /// An index drawn by weight; the sum of the weights must not be 0.
    pub fn pick(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum());
        let found = weights.iter().position(|weight| {
            let is_it = left < *weight;
            left = left.wrapping_sub(*weight);
            is_it
        });
        found.expect("the number is below the sum")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_counts() {
        let mut random = Random::new([7; 32]);
        let weights = [1, 0, 9, 90];
        let mut found = [0u32; 4];
        let mut first = [0u32; 4];
        for _ in 0..10_000 {
            found[random.pick(&weights)] += 1;
            let ranks = [1, 9, 90].map(|weight| random.rank(weight));
            first[(0..3).min_by(|a, b| ranks[*a].total_cmp(&ranks[*b])).unwrap()] += 1;
        }
        for (found, wanted) in [(found, [100, 0, 900, 9_000]), (first, [100, 900, 9_000, 0])] {
            let is_near = |(found, wanted): (&u32, u32)| found.abs_diff(wanted) <= wanted / 4 + wanted.min(50);
            assert!(found.iter().zip(wanted).all(is_near), "{found:?}");
        }
    }
}

//! A weighted shuffle of nodes: a greater weight tends to come earlier.
//!
//! reads   weights; random numbers
//! writes  indices, each once: those with weight, drawn by it, then those without, uniformly
//! memory  17 B per node, and a scratch of 13 B per node for the order that is being drawn
//! source  `solana-gossip` 4.2.2, `weighted_shuffle.rs`: the same numbers are drawn, so the orders are the same
//!
//! The weights are in a tree whose nodes have [`WIDTH`] children and store the total of each. Children are searched
//! without a branch, and removing a drawn weight changes one sum per level.

use super::random::Random;

/// Children per tree node.
const WIDTH: usize = 8;

/// A tree node: the total weight of each child.
type Sums = [u64; WIDTH];

/// Weights prepared for drawing orders.
#[derive(Clone, Debug, Default)]
pub struct WeightedShuffle {
    weights: Vec<u64>,
    /// The levels of the tree, from the root to the nodes just above the weights.
    sums: Vec<Sums>,
    /// Offset of each level in `sums`.
    levels: Vec<usize>,
    total: u64,
    /// Indices without weight, ascending.
    zeros: Vec<u32>,
    /// Number of indices to draw.
    count: usize,
}

/// The remaining weights while an order is drawn. It is reused for all orders, so that drawing allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    sums: Vec<Sums>,
    zeros: Vec<u32>,
    pub(super) order: Vec<u32>,
}

/// Removes a weight from the tree.
fn take(sums: &mut [Sums], levels: &[usize], index: usize, weight: u64) {
    let mut at = index;
    for level in levels.iter().rev() {
        sums[level + at / WIDTH][at % WIDTH] -= weight;
        at /= WIDTH;
    }
}

/// The child in which `rest` falls, and the total of those before it.
fn child(sums: &Sums, rest: u64) -> (usize, u64) {
    let (mut child, mut before, mut sum) = (0, 0, 0);
    for has in sums {
        sum += has;
        let is_behind = sum <= rest;
        child += usize::from(is_behind);
        before = if is_behind { sum } else { before };
    }
    (child, before)
}

/// Builds the tree over weights; returns its sums and the offsets of its levels.
fn tree(weights: &[u64]) -> (Vec<Sums>, Vec<usize>) {
    let mut by_level: Vec<Vec<Sums>> = vec![];
    let mut below: Vec<u64> = weights.to_vec();
    loop {
        let level: Vec<Sums> = below
            .chunks(WIDTH)
            .map(|children| std::array::from_fn(|child| children.get(child).copied().unwrap_or_default()))
            .collect();
        below = level.iter().map(|sums| sums.iter().sum()).collect();
        by_level.push(level);
        if below.len() <= 1 {
            break;
        }
    }
    let (mut sums, mut levels) = (vec![], vec![]);
    for level in by_level.into_iter().rev() {
        levels.push(sums.len());
        sums.extend(level);
    }
    (sums, levels)
}

impl WeightedShuffle {
    /// Prepares these weights. A weight that would overflow the sum counts as zero.
    pub fn new(weights: &[u64]) -> Self {
        let mut made = Self { weights: weights.to_vec(), count: weights.len(), ..Self::default() };
        for (index, weight) in made.weights.iter_mut().enumerate() {
            match made.total.checked_add(*weight) {
                Some(total) if *weight > 0 => made.total = total,
                _ => {
                    *weight = 0;
                    made.zeros.push(index as u32);
                }
            }
        }
        (made.sums, made.levels) = tree(&made.weights);
        made
    }

    /// The number of indices.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are no indices.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Removes an index permanently.
    pub fn remove(&mut self, index: usize) {
        let weight = std::mem::take(&mut self.weights[index]);
        if weight > 0 {
            take(&mut self.sums, &self.levels, index, weight);
            self.total -= weight;
            self.count -= 1;
        } else if let Ok(place) = self.zeros.binary_search(&(index as u32)) {
            self.zeros.remove(place);
            self.count -= 1;
        }
    }

    /// Draws an order of all but `without`, from the front.
    pub fn draw<'a>(&'a self, without: Option<usize>, random: Random, scratch: &'a mut Scratch) -> Draws<'a> {
        scratch.sums.clone_from(&self.sums);
        scratch.zeros.clone_from(&self.zeros);
        let mut total = self.total;
        if let Some(index) = without {
            let weight = self.weights[index];
            take(&mut scratch.sums, &self.levels, index, weight);
            total -= weight;
            if let Ok(place) = scratch.zeros.binary_search(&(index as u32)) {
                scratch.zeros.remove(place);
            }
        }
        let Self { weights, levels, .. } = self;
        Draws { weights, levels, sums: &mut scratch.sums, zeros: &mut scratch.zeros, total, random }
    }
}

/// An order that is being drawn.
pub struct Draws<'a> {
    weights: &'a [u64],
    levels: &'a [usize],
    sums: &'a mut [Sums],
    zeros: &'a mut Vec<u32>,
    total: u64,
    random: Random,
}

impl Iterator for Draws<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.total == 0 {
            let count = self.zeros.len() as u64;
            return (count > 0).then(|| self.zeros.swap_remove(self.random.below(count) as usize) as usize);
        }
        let mut rest = self.random.below(self.total);
        let mut index = 0;
        for level in self.levels {
            let (child, before) = child(&self.sums[level + index], rest);
            rest -= before;
            index = WIDTH * index + child;
        }
        let weight = self.weights[index];
        take(self.sums, self.levels, index, weight);
        self.total -= weight;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::random::Cipher::{self, ChaCha8, ChaCha20};
    use super::*;

    fn order(weights: &[u64], removed: &[usize], cipher: Cipher, seed: u8) -> Vec<usize> {
        let mut shuffle = WeightedShuffle::new(weights);
        removed.iter().for_each(|index| shuffle.remove(*index));
        let order: Vec<usize> = shuffle.draw(None, Random::new(cipher, [seed; 32]), &mut Scratch::default()).collect();
        assert_eq!(order.len(), shuffle.len());
        order
    }

    #[test]
    fn without_weights_all_are_as_likely() {
        assert_eq!(order(&[0; 5], &[], ChaCha8, 37), [4, 3, 1, 2, 0]);
        assert_eq!(order(&[0; 5], &[], ChaCha20, 37), [1, 4, 2, 3, 0]);
    }

    #[test]
    fn orders_are_those_of_the_cluster() {
        let weights = [19, 23, 7, 0, 0, 23, 3, 0, 5, 0, 19, 29];
        assert_eq!(order(&weights, &[], ChaCha20, 48), [8, 1, 5, 10, 11, 0, 2, 6, 9, 4, 3, 7]);
        assert_eq!(order(&weights, &[], ChaCha8, 48), [5, 11, 2, 0, 10, 1, 6, 8, 7, 3, 9, 4]);
        let weights = [78, 70, 38, 27, 21, 0, 82, 42, 21, 77, 77, 0, 17, 4, 50, 96, 0, 83, 33, 16, 72];
        let wanted = [10, 3, 14, 18, 0, 9, 19, 6, 2, 1, 17, 7, 13, 15, 20, 12, 4, 8, 5, 16, 11];
        assert_eq!(order(&weights, &[], ChaCha20, 48), wanted);
        let wanted = [10, 6, 9, 17, 20, 8, 4, 1, 2, 14, 7, 12, 18, 19, 13, 16, 5];
        assert_eq!(order(&weights, &[11, 3, 15, 0], ChaCha20, 48), wanted);
        let wanted = [3, 15, 10, 6, 19, 17, 2, 0, 9, 20, 1, 14, 7, 8, 12, 18, 4, 13, 5, 11, 16];
        assert_eq!(order(&weights, &[], ChaCha20, 37), wanted);
        let wanted = [2, 14, 10, 6, 17, 15, 3, 9, 12, 0, 1, 7, 18, 13, 11];
        assert_eq!(order(&weights, &[16, 8, 20, 5, 19, 4], ChaCha20, 37), wanted);
    }

    #[test]
    fn overflowing_weight_counts_as_none() {
        let weights = [u64::MAX, 7, 0];
        let shuffle = WeightedShuffle::new(&weights);
        assert_eq!((shuffle.total, &*shuffle.zeros), (u64::MAX, &[1, 2][..]));
        assert_eq!(order(&weights, &[], ChaCha20, 1)[0], 0);
        assert!(WeightedShuffle::new(&[]).is_empty() && order(&[], &[], ChaCha20, 1).is_empty());
    }

    /// The rule taken literally: the first index whose cumulative weight exceeds the drawn number.
    fn plain(weights: &[u64], random: &mut Random) -> Vec<usize> {
        let mut left = weights.to_vec();
        let mut zeros: Vec<usize> = (0..weights.len()).filter(|index| weights[*index] == 0).collect();
        let mut order = Vec::new();
        while left.iter().sum::<u64>() > 0 {
            let drawn = random.below(left.iter().sum());
            let mut sum = 0;
            let is_there = |weight: &u64| {
                sum += weight;
                sum > drawn
            };
            let index = left.iter().position(is_there).expect("below the sum");
            left[index] = 0;
            order.push(index);
        }
        while !zeros.is_empty() {
            order.push(zeros.swap_remove(random.below(zeros.len() as u64) as usize));
        }
        order
    }

    proptest! {
        #[test]
        fn orders_are_those_of_the_rule(
            weights in prop::collection::vec(prop_oneof![Just(0u64), 1u64..9, 1u64..1 << 50], 0..300), seed: [u8; 32],
        ) {
            let shuffle = WeightedShuffle::new(&weights);
            let mut scratch = Scratch::default();
            for cipher in [ChaCha8, ChaCha20] {
                let drawn: Vec<usize> = shuffle.draw(None, Random::new(cipher, seed), &mut scratch).collect();
                prop_assert_eq!(&drawn, &plain(&weights, &mut Random::new(cipher, seed)));
            }
            // Removed for one order, or permanently.
            for index in 0..weights.len() {
                let mut without = shuffle.clone();
                without.remove(index);
                let drawn = |shuffle: &WeightedShuffle, one: Option<usize>| -> Vec<usize> {
                    shuffle.draw(one, Random::new(ChaCha8, seed), &mut Scratch::default()).collect()
                };
                let all = drawn(&without, None);
                prop_assert!(!all.contains(&index) && all.len() == without.len());
                prop_assert_eq!(all, drawn(&shuffle, Some(index)));
            }
        }
    }
}

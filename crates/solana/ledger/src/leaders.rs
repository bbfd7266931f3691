//! The leader schedule: the leader of each slot, drawn by stake.
//!
//! reads   the stakes of an epoch
//! writes  one leader for each four slots
//! memory  4 bytes for each four slots of an epoch, 64 bytes per leader
//! source  `solana-leader-schedule`, `agave-random` 4.2: ChaCha20 seeded by the epoch's number, uniform sampling with
//!         rejection as in `rand` 0.8

use hearth_wire::Pubkey;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Consecutive slots of a leader.
pub const CONSECUTIVE_SLOTS: u64 = 4;

/// The leader of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The identity of the node that produces the block.
    pub node: Pubkey,
    /// The vote account by whose stake it was drawn.
    pub vote: Pubkey,
}

/// The leader schedule of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderSchedule {
    leaders: Vec<Leader>,
    turns: Vec<u32>,
}

impl LeaderSchedule {
    /// Draws the leaders of an epoch of `slots` slots; without stake there are none.
    pub fn new(mut stakes: Vec<(Leader, u64)>, epoch: u64, slots: u64) -> Self {
        stakes.retain(|(_, stake)| *stake > 0);
        stakes.sort_unstable_by(|(a, a_stake), (b, b_stake)| (b_stake, b.vote).cmp(&(a_stake, a.vote)));
        stakes.dedup_by_key(|(leader, stake)| (leader.vote, *stake));
        let mut sum = 0;
        let add = |(_, stake): &(Leader, u64)| {
            sum += stake;
            sum
        };
        let sums: Vec<u64> = stakes.iter().map(add).collect();
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&epoch.to_le_bytes());
        let mut random = ChaCha20Rng::from_seed(seed);
        let turns = if sum == 0 { 0 } else { slots.div_ceil(CONSECUTIVE_SLOTS) };
        let turn = |_| {
            let drawn = below(&mut random, sum);
            sums.partition_point(|end| *end <= drawn) as u32
        };
        let turns = (0..turns).map(turn).collect();
        Self { leaders: stakes.into_iter().map(|(leader, _)| leader).collect(), turns }
    }

    /// The leader of the slot at this index in the epoch.
    pub fn leader(&self, index: u64) -> Option<&Leader> {
        let turn = self.turns.get((index / CONSECUTIVE_SLOTS) as usize)?;
        Some(&self.leaders[*turn as usize])
    }
}

/// A uniformly distributed number below `end`.
fn below(random: &mut ChaCha20Rng, end: u64) -> u64 {
    let zone = u64::MAX - (u64::MAX - end + 1) % end;
    loop {
        let product = u128::from(random.next_u64()) * u128::from(end);
        if product as u64 <= zone {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(epoch: u64, stakes: &[u64], slots: u64) -> Vec<u8> {
        let leader = |n: usize| Leader { node: [n as u8; 32], vote: [n as u8 + 100; 32] };
        let stakes = stakes.iter().enumerate().map(|(n, stake)| (leader(n), *stake)).collect();
        let schedule = LeaderSchedule::new(stakes, epoch, slots);
        (0..slots).map(|slot| schedule.leader(slot).unwrap().node[0]).collect()
    }

    /// The cluster's own test vectors, each leader four times.
    #[test]
    fn draws_as_the_cluster_does() {
        let cases: [(u64, &[u64], &[u8]); 7] = [
            (1, &[10, 20, 30], &[1, 1, 2, 1, 1, 0, 0, 1, 2, 1, 0, 1]),
            (1, &[30, 10, 20], &[2, 2, 0, 2, 2, 1, 1, 2, 0, 2, 1, 2]),
            (1, &[10, 20, 25, 30, 35, 40, 100], &[4, 5, 6, 3, 4, 1, 2, 3, 6, 4, 2, 4, 5, 6, 6]),
            (457_468, &[10, 20, 30], &[2, 2, 0, 1, 0, 2, 1, 2, 1, 2, 2, 2]),
            (457_469, &[10, 20, 30], &[1, 2, 2, 2, 2, 2, 2, 1, 0, 2, 2, 0]),
            (457_470, &[10, 20, 30], &[2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 0, 2]),
            (3_466_545, &[10, 20, 30], &[2, 2, 0, 0, 2, 1, 1, 1, 0, 0, 2, 2, 1, 2]),
        ];
        for (epoch, stakes, expected) in cases {
            let expected: Vec<u8> = expected.iter().flat_map(|leader| [*leader; 4]).collect();
            assert_eq!(order(epoch, stakes, expected.len() as u64), expected, "epoch {epoch} of {stakes:?}");
        }
    }

    #[test]
    fn ends_are_in_order() {
        assert_eq!(order(7, &[0, 5, 0], 10), [1; 10]);
        assert_eq!(LeaderSchedule::new(vec![], 3, 32).leader(0), None);
        let zero = Leader { node: [1; 32], vote: [2; 32] };
        assert_eq!(LeaderSchedule::new(vec![(zero, 0)], 3, 32).leader(0), None);
    }
}

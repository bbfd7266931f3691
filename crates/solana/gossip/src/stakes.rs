//! Stakes, and what follows for values: their lifetimes, and which are passed on.
//!
//! reads   a map from the caller: the stakes in the root bank's epoch for the next one
//! writes  timeouts, buckets, verdicts
//! memory  that of the map
//! source  `solana-gossip` 4.2.2, `crds_gossip_pull.rs` (timeouts), `crds_filter.rs`, `push_active_set.rs` (buckets)

use std::collections::HashMap;

use hearth_wire::Pubkey;
use hearth_wire::gossip::CrdsKind;

use super::config::{SOL, STAKE_FILTER_NODES, TIMEOUT_MS};

/// The direction of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Push,
    Answer,
}

/// The stake of each node, and the length of the epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct Stakes {
    map: HashMap<Pubkey, u64>,
    epoch_ms: u64,
    is_any: bool,
}

impl Stakes {
    pub fn new(map: HashMap<Pubkey, u64>, epoch_ms: u64) -> Self {
        let is_any = map.values().any(|stake| *stake > 0);
        Self { map, epoch_ms, is_any }
    }

    pub fn of(&self, pubkey: &Pubkey) -> u64 {
        self.map.get(pubkey).copied().unwrap_or_default()
    }

    /// The number of nodes in the map.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// Whether any node has stake.
    pub fn is_any(&self) -> bool {
        self.is_any
    }

    /// Lifetime of another node's values, in ms.
    pub fn timeout(&self, pubkey: &Pubkey) -> u64 {
        match !self.is_any || self.of(pubkey) > 0 {
            true => TIMEOUT_MS.max(self.epoch_ms),
            false => TIMEOUT_MS,
        }
    }

    /// Whether a value of this kind and node is accepted, or passed on.
    pub fn passes(&self, pubkey: &Pubkey, kind: CrdsKind, direction: Direction) -> bool {
        if self.map.len() < STAKE_FILTER_NODES {
            return true;
        }
        match (kind, direction) {
            (CrdsKind::ContactInfo | CrdsKind::SnapshotHashes, _) => true,
            (CrdsKind::Vote, Direction::In | Direction::Push) => true,
            (CrdsKind::EpochSlots, Direction::In) => true,
            _ => self.of(pubkey) >= SOL,
        }
    }
}

/// Number of stake buckets: one per power of two of SOL.
pub(super) const BUCKETS: usize = 25;

/// The bucket of a stake in lamports.
pub(super) fn bucket(stake: u64) -> usize {
    ((u64::BITS - (stake / SOL).leading_zeros()) as usize).min(BUCKETS - 1)
}

/// The weight of a bucket's nodes in random draws.
pub(super) fn weight(bucket: usize) -> u64 {
    (bucket as u64 + 1).pow(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_those_of_the_cluster() {
        let wanted = [0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5];
        assert!(wanted.iter().enumerate().all(|(sol, wanted)| bucket(sol as u64 * SOL) == *wanted));
        for (sol, wanted) in [(4_194_303, 22), (4_194_304, 23), (8_388_607, 23), (8_388_608, 24), (1 << 33, 24)] {
            assert_eq!(bucket(sol * SOL), wanted);
        }
    }

    #[test]
    fn stake_extends_the_timeout_to_an_epoch() {
        let (a, b) = ([1; 32], [2; 32]);
        let none = Stakes::new([(a, 0)].into(), 60_000);
        assert_eq!((none.timeout(&a), none.timeout(&b)), (60_000, 60_000));
        let some = Stakes::new([(a, 1)].into(), 60_000);
        assert_eq!((some.timeout(&a), some.timeout(&b)), (60_000, 15_000));
        assert_eq!(Stakes::new([(a, 1)].into(), 5).timeout(&a), 15_000);
    }

    #[test]
    fn large_cluster_filters_values_by_stake() {
        use Direction::{Answer, In, Push};
        let mut map: HashMap<Pubkey, u64> = (0..STAKE_FILTER_NODES as u64 - 1)
            .map(|n| {
                let mut key = [9; 32];
                key[..8].copy_from_slice(&n.to_le_bytes());
                (key, SOL)
            })
            .collect();
        let low = [1; 32];
        let small = Stakes::new(map.clone(), 0);
        assert!(small.passes(&low, CrdsKind::DuplicateShred, In));
        map.insert(low, SOL - 1);
        let large = Stakes::new(map, 0);
        let verdicts = |kind| [In, Push, Answer].map(|direction| large.passes(&low, kind, direction));
        assert_eq!(verdicts(CrdsKind::ContactInfo), [true; 3]);
        assert_eq!(verdicts(CrdsKind::SnapshotHashes), [true; 3]);
        assert_eq!(verdicts(CrdsKind::Vote), [true, true, false]);
        assert_eq!(verdicts(CrdsKind::EpochSlots), [true, false, false]);
        assert_eq!(verdicts(CrdsKind::LowestSlot), [false; 3]);
        assert_eq!(verdicts(CrdsKind::DuplicateShred), [false; 3]);
        let mut rich = [9; 32];
        rich[..8].copy_from_slice(&3u64.to_le_bytes());
        assert!(large.passes(&rich, CrdsKind::DuplicateShred, Push));
    }
}

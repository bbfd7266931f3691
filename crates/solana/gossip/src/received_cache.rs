//! Tracks which nodes deliver whose values, and how soon, to prune the slowest.
//!
//! reads   deliveries: origin, sender, how many had delivered the value before
//! writes  senders to prune for an origin
//! memory  [`ORIGINS_MAX`] × 2 origins, at most 90 senders of 40 B each
//! drops   beyond these bounds, the origins that were first seen longest ago, and senders
//! source  `solana-gossip` 4.2.2, `received_cache.rs`, `crds_gossip_push.rs`

use std::cmp::Reverse;

use hearth_wire::Pubkey;

use super::bounded::Bounded;
use super::config::ORIGINS_MAX;
use super::stakes::Stakes;

/// Number of new values of an origin before its senders are evaluated.
const UPSERTS_MIN: u32 = 20;
/// Minimum senders that are kept.
const INGRESS_NODES_MIN: usize = 2;
/// Stake of the kept senders, in percent of the smaller stake, this node's or the origin's.
const INGRESS_STAKE_PERCENT: u64 = 15;
/// A delivery counts for its sender if fewer had delivered the value before.
const DUPLICATES_MAX: u32 = 2;
/// Maximum recorded senders that deliver nothing in time.
const SENDERS_MAX: usize = 50;
/// Senders that deliver in time are as few as the values; this bounds the list in any case.
const TIMELY_MAX: usize = 90;

#[derive(Default)]
struct Senders {
    /// Each sender with its score.
    scores: Vec<(Pubkey, u32)>,
    upserts: u32,
}

/// For each origin, the nodes that delivered its values, with their scores.
pub(super) struct ReceivedCache(Bounded<Pubkey, Senders>);

impl ReceivedCache {
    pub fn new() -> Self {
        Self(Bounded::new(2 * ORIGINS_MAX))
    }

    /// Records that `sender` delivered a value of `origin` that `duplicates` others had delivered before.
    pub fn record(&mut self, origin: Pubkey, sender: Pubkey, duplicates: u32) {
        let senders = self.0.entry(origin, Senders::default);
        senders.upserts += u32::from(duplicates == 0);
        let is_timely = duplicates < DUPLICATES_MAX;
        let max = if is_timely { TIMELY_MAX } else { SENDERS_MAX };
        if let Some((_, score)) = senders.scores.iter_mut().find(|(node, _)| *node == sender) {
            *score += u32::from(is_timely);
        } else if senders.scores.len() < max {
            senders.scores.push((sender, u32::from(is_timely)));
        }
    }

    /// The senders to prune for `origin`, once enough new values have arrived; the counts then restart.
    pub fn prune(&mut self, own: &Pubkey, origin: &Pubkey, stakes: &Stakes) -> Vec<Pubkey> {
        let Some(senders) = self.0.get_mut(origin).filter(|senders| senders.upserts >= UPSERTS_MIN) else {
            return Vec::new();
        };
        let Senders { mut scores, .. } = std::mem::take(senders);
        scores.sort_by_key(|(node, score)| Reverse((*score, stakes.of(node), *node)));
        let enough = stakes.of(own).min(stakes.of(origin)) as u128 * u128::from(INGRESS_STAKE_PERCENT) / 100;
        let mut sum = 0u128;
        let mut pruned = Vec::new();
        for (place, (node, _)) in scores.iter().enumerate() {
            if place >= INGRESS_NODES_MIN && sum >= enough && node != origin {
                pruned.push(*node);
            }
            sum += u128::from(stakes.of(node));
        }
        pruned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The deliveries of the cluster's own test. It uses shares of 50 % and 100 %; here the stakes are larger instead.
    #[test]
    fn quickest_senders_stay_until_enough_stake() {
        let deliveries: [&[u32]; 5] = [&[3, 1, 7, 5], &[7, 6, 5, 2], &[2, 0, 0, 2], &[3, 5, 0, 6], &[6, 2, 6, 2]];
        let (own, origin) = ([100; 32], [101; 32]);
        let node = |n: usize| [n as u8; 32];
        let pruned = |stake: u64| {
            let mut received = ReceivedCache::new();
            for (n, counts) in deliveries.iter().enumerate() {
                for (duplicates, count) in counts.iter().enumerate() {
                    (0..*count).for_each(|_| received.record(origin, node(n), duplicates as u32));
                }
            }
            let map =
                [(node(0), 6), (node(1), 1), (node(2), 5), (node(3), 3), (node(4), 7), (own, stake), (origin, stake)];
            let mut pruned = received.prune(&own, &origin, &Stakes::new(map.into(), 0));
            assert_eq!(received.prune(&own, &origin, &Stakes::default()), [[0; 32]; 0], "it starts again");
            pruned.sort_unstable();
            pruned
        };
        // Scores 4, 13, 2, 8, 8: nodes 1, 4, 3, 0, 2 in this order; they have 1, 8, 11, 17, 22 together.
        assert_eq!(pruned(30), [node(0), node(2), node(3)], "15 % of 30 is less than two have");
        assert_eq!(pruned(60), [node(0), node(2)], "of 60 three are needed");
        assert_eq!(pruned(100), [node(2)]);
        assert_eq!(pruned(1_000), [[0; 32]; 0]);
    }

    #[test]
    fn spam_makes_no_list_long() {
        let mut received = ReceivedCache::new();
        for n in 0..1_000u32 {
            let mut sender = [0; 32];
            sender[..4].copy_from_slice(&n.to_le_bytes());
            received.record([1; 32], sender, n % 3);
        }
        let senders = received.0.get(&[1; 32]).expect("is there");
        assert_eq!(senders.scores.len(), TIMELY_MAX);
    }
}

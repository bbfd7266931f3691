//! The active set: the nodes to which new values are pushed.
//!
//! reads   candidates with their stakes; prunes
//! writes  the nodes for a value of an origin
//! memory  25 lists of 12 nodes; 4 KiB for each node that has sent a prune
//! drops   the oldest of a list when a node is added
//! source  `solana-gossip` 4.2.2, `push_active_set.rs`

use hearth_wire::Pubkey;
use hearth_wire::gossip::BloomFilter;

use super::config::{ACTIVE_SET, FANOUT};
use super::random::Random;
use super::stakes::{BUCKETS, Stakes, bucket, weight};

/// Bits of the filter of origins that a node has pruned.
const PRUNED_BITS: u64 = 32 * 1_024;
/// Keys of that filter: the optimum for 8,192 origins.
const PRUNED_KEYS: usize = 3;

struct ActiveNode {
    pubkey: Pubkey,
    /// The origins that it has pruned.
    pruned: Option<BloomFilter>,
}

/// A list of nodes for each bucket of the smaller of two stakes: this node's and the origin's.
pub(super) struct ActiveSet {
    own: Pubkey,
    lists: [Vec<ActiveNode>; BUCKETS],
}

impl ActiveSet {
    pub fn new(own: Pubkey) -> Self {
        Self { own, lists: std::array::from_fn(|_| Vec::new()) }
    }

    /// The node has another key.
    pub fn set_own(&mut self, own: Pubkey) {
        self.own = own;
        self.retain(|node| *node != own);
    }

    fn list_of(&self, origin: &Pubkey, stakes: &Stakes) -> usize {
        bucket(stakes.of(&self.own).min(stakes.of(origin)))
    }

    /// Whether a list in use has room for one of `nodes` nodes.
    pub fn has_room(&self, nodes: usize, stakes: &Stakes) -> bool {
        self.lists[..=bucket(stakes.of(&self.own))].iter().any(|list| list.len() < nodes.min(ACTIVE_SET))
    }

    /// The length of the longest list.
    pub fn size(&self) -> usize {
        self.lists.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Removes nodes that are no longer known.
    pub fn retain(&mut self, is_known: impl Fn(&Pubkey) -> bool) {
        self.lists.iter_mut().for_each(|list| list.retain(|active| is_known(&active.pubkey)));
    }

    /// Fills the lists from `nodes`; if `is_due`, adds a node to each, and evicts the oldest.
    pub fn rotate(&mut self, nodes: &[(u64, Pubkey)], is_due: bool, stakes: &Stakes, random: &mut Random) {
        let in_use = bucket(stakes.of(&self.own));
        self.lists[in_use + 1..].iter_mut().for_each(Vec::clear);
        let size = ACTIVE_SET + usize::from(is_due);
        for (k, list) in self.lists[..=in_use].iter_mut().enumerate() {
            let mut order: Vec<(f64, &Pubkey)> = nodes
                .iter()
                .filter(|(_, pubkey)| list.iter().all(|active| active.pubkey != *pubkey))
                .map(|(stake, pubkey)| (random.rank(weight(bucket(*stake).min(k))), pubkey))
                .collect();
            order.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
            let room = size.saturating_sub(list.len());
            list.extend(order.into_iter().take(room).map(|(_, pubkey)| ActiveNode { pubkey: *pubkey, pruned: None }));
            if list.len() > ACTIVE_SET {
                list.drain(..list.len() - ACTIVE_SET);
            }
        }
    }

    /// The nodes to which a value of `origin` is pushed.
    pub fn nodes<'a>(&'a self, origin: &'a Pubkey, stakes: &Stakes) -> impl Iterator<Item = &'a Pubkey> {
        let is_own = *origin == self.own;
        let list = &self.lists[self.list_of(origin, stakes)];
        let wants = move |active: &&ActiveNode| {
            let is_pruned = active.pruned.as_ref().is_some_and(|pruned| pruned.contains(origin));
            active.pubkey != *origin && (is_own || !is_pruned)
        };
        list.iter().filter(wants).take(FANOUT).map(|active| &active.pubkey)
    }

    /// Records that `node` has pruned these origins. It still gets its own values.
    pub fn prune(&mut self, node: &Pubkey, origins: &[Pubkey], stakes: &Stakes, random: &mut Random) {
        for origin in origins.iter().filter(|origin| **origin != self.own) {
            let list = self.list_of(origin, stakes);
            if let Some(active) = self.lists[list].iter_mut().find(|active| active.pubkey == *node) {
                let mut keys = || (0..PRUNED_KEYS).map(|_| random.word()).collect();
                active.pruned.get_or_insert_with(|| BloomFilter::new(PRUNED_BITS, keys())).add(origin);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::SOL;
    use super::*;

    fn nodes(count: u8) -> Vec<(u64, Pubkey)> {
        (1..=count).map(|n| (u64::from(n) * SOL, [n; 32])).collect()
    }

    #[test]
    fn active_set_rotates_one_of_twelve() {
        let mut random = Random::new([3; 32]);
        let stakes = Stakes::new(nodes(40).into_iter().map(|(stake, pubkey)| (pubkey, stake)).collect(), 0);
        let mut set = ActiveSet::new([40; 32]);
        assert!(set.has_room(40, &stakes));
        set.rotate(&nodes(5), false, &stakes, &mut random);
        assert!(!set.has_room(5, &stakes) && set.has_room(6, &stakes));
        set.rotate(&nodes(39), false, &stakes, &mut random);
        assert!(!set.has_room(39, &stakes));
        let in_use = bucket(40 * SOL);
        assert!(set.lists.iter().enumerate().all(|(k, list)| list.len() == if k <= in_use { 12 } else { 0 }));
        let before: Vec<Pubkey> = set.lists[2].iter().map(|active| active.pubkey).collect();
        set.rotate(&nodes(39), true, &stakes, &mut random);
        let after: Vec<Pubkey> = set.lists[2].iter().map(|active| active.pubkey).collect();
        assert_eq!(before[1..], after[..11], "the oldest went");
        assert!(!before.contains(&after[11]));
        assert_eq!(set.nodes(&[40; 32], &stakes).count(), FANOUT);
        assert!(set.nodes(&after[0], &stakes).all(|node| *node != after[0]), "not to whose it is");
    }

    #[test]
    fn prune_stops_an_origin() {
        let mut random = Random::new([4; 32]);
        let stakes = Stakes::default();
        let mut set = ActiveSet::new([9; 32]);
        set.rotate(&nodes(5), true, &stakes, &mut random);
        let to = |set: &ActiveSet, origin: u8| set.nodes(&[origin; 32], &stakes).any(|node| *node == [1; 32]);
        assert!(to(&set, 2) && to(&set, 3) && to(&set, 9) && !to(&set, 1));
        set.prune(&[1; 32], &[[2; 32], [9; 32]], &stakes, &mut random);
        assert!(!to(&set, 2) && to(&set, 3) && to(&set, 9));
        assert_eq!(set.nodes(&[2; 32], &stakes).count(), 3, "others get it");
    }
}

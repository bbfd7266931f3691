//! Propagation of this node's own blocks: a leader whose blocks do not get through must not keep making forks.
//!
//! reads   votes, blocks built on own ones, other nodes' claims to have slots
//! writes  whether more than a third of the stake has a block; which own blocks to broadcast again
//! memory  32 B per vote account for each own block above the root that is not propagated
//! source  `docs/cluster-protocol.md` section 7.4: `solana-core` 4.2.2, `progress_map.rs`, `replay_stage.rs`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hearth_wire::Pubkey;

use super::stakes::VoteWeights;
use super::types::BankId;
use super::{PROPAGATED_THRESHOLD, exceeds};

/// How long a block may lack a third of the stake before its first rebroadcast.
const BACKOFF_MS: u64 = 5_000;
/// How often the wait doubles.
const BACKOFF_CAP: u32 = 6;

#[derive(Clone, Debug)]
struct SlotPropagation {
    stakes: Arc<VoteWeights>,
    seen: BTreeSet<Pubkey>,
    stake: u64,
    is_propagated: bool,
    /// The previous own block on its chain.
    before: Option<BankId>,
    since_ms: u64,
    times: u32,
}

/// The own blocks above the root.
#[derive(Clone, Debug, Default)]
pub(crate) struct Propagation {
    blocks: BTreeMap<BankId, SlotPropagation>,
}

impl Propagation {
    /// Adds a frozen own block, which the node itself has.
    pub fn add(&mut self, id: BankId, before: Option<BankId>, node: &Pubkey, stakes: Arc<VoteWeights>, now_ms: u64) {
        let block = SlotPropagation {
            stakes,
            seen: BTreeSet::new(),
            stake: 0,
            is_propagated: false,
            before,
            since_ms: now_ms,
            times: 0,
        };
        self.blocks.insert(id, block);
        self.seen_by_node(Some(id), node);
    }

    /// A vote account voted for a bank whose newest own block is `own`: it has that one and earlier ones. Returns
    /// whether that is new.
    pub fn seen(&mut self, mut own: Option<BankId>, account: &Pubkey) -> bool {
        let mut is_news = false;
        while let Some(block) = own.and_then(|id| self.blocks.get_mut(&id)) {
            // If a block is propagated, so are its ancestors.
            if block.is_propagated || !block.seen.insert(*account) {
                return is_news;
            }
            is_news = true;
            block.stake += block.stakes.stake(account);
            if exceeds(block.stake, block.stakes.total(), PROPAGATED_THRESHOLD) {
                block.is_propagated = true;
                block.seen = BTreeSet::new();
            }
            own = block.before;
        }
        is_news
    }

    /// A node has a bank, because it built on it or claims so. Returns whether that is new.
    pub fn seen_by_node(&mut self, own: Option<BankId>, node: &Pubkey) -> bool {
        let Some(block) = own.and_then(|id| self.blocks.get(&id)) else { return false };
        let stakes = Arc::clone(&block.stakes);
        stakes.votes_of(node).iter().fold(false, |is_news, account| self.seen(own, account) || is_news)
    }

    /// Whether an own block is propagated. An unknown one is rooted, and thus propagated.
    pub fn is_propagated(&self, id: &BankId) -> bool {
        self.blocks.get(id).is_none_or(|block| block.is_propagated)
    }

    /// The own blocks that are due for a rebroadcast, each after a doubling wait.
    pub fn overdue(&mut self, now_ms: u64) -> Vec<u64> {
        let mut slots = Vec::new();
        for (id, block) in self.blocks.iter_mut().filter(|(_, block)| !block.is_propagated) {
            if now_ms.saturating_sub(block.since_ms) >= BACKOFF_MS << block.times.min(BACKOFF_CAP) {
                (block.since_ms, block.times) = (now_ms, block.times.saturating_add(1));
                slots.push(id.slot);
            }
        }
        slots
    }

    /// Removes own blocks for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(&BankId) -> bool) {
        self.blocks.retain(|id, _| keep(id));
    }
}

#[cfg(test)]
mod tests {
    use super::super::stakes::VoteStake;
    use super::*;

    fn id(slot: u64) -> BankId {
        BankId { slot, hash: [0; 32] }
    }

    fn stakes() -> Arc<VoteWeights> {
        let one = |name| {
            let node = [name + 100; 32];
            VoteStake { vote: [name; 32], node, collector: node, stake: 10 }
        };
        Arc::new(VoteWeights::new(&[1, 2, 3, 4].map(one)))
    }

    #[test]
    fn a_third_propagates_a_block_and_its_ancestors() {
        let mut all = Propagation::default();
        all.add(id(4), None, &[101; 32], stakes(), 0);
        all.add(id(5), Some(id(4)), &[101; 32], stakes(), 0);
        assert!(!all.is_propagated(&id(4)) && !all.is_propagated(&id(5)));
        all.seen(Some(id(4)), &[1; 32]);
        assert!(!all.is_propagated(&id(4)), "the own stake counts once");
        all.seen(Some(id(5)), &[2; 32]);
        assert!(all.is_propagated(&id(4)) && all.is_propagated(&id(5)));
        all.add(id(9), Some(id(5)), &[101; 32], stakes(), 0);
        all.seen_by_node(Some(id(9)), &[103; 32]);
        assert!(all.is_propagated(&id(9)) && all.is_propagated(&id(77)));
    }

    #[test]
    fn resends_back_off() {
        let mut all = Propagation::default();
        all.add(id(4), None, &[101; 32], stakes(), 1_000);
        let times: Vec<u64> = (0..100).map(|s| s * 1_000).filter(|now| !all.overdue(*now).is_empty()).collect();
        assert_eq!(times, [6_000, 16_000, 36_000, 76_000]);
        all.seen(Some(id(4)), &[2; 32]);
        assert!(all.overdue(1 << 40).is_empty());
    }
}

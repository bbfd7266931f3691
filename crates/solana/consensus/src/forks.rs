//! Fork choice: the heaviest subtree by each account's latest vote.
//!
//! reads   frozen banks and their parents; the latest votes; which versions are duplicates, and which confirmed
//! writes  the heaviest bank overall and above any bank; ancestry
//! memory  about 200 B per bank above the root, 72 B per vote account
//! drops   banks that do not descend from a new root
//! source  `docs/cluster-protocol.md` section 6.2: `solana-core` 4.2.2, `consensus/heaviest_subtree_fork_choice.rs`
//!
//! The weight of a bank is the stake that voted for it and its descendants. A bank that is marked invalid, and its
//! descendants, are not candidates, but their weight counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use hearth_mutation::{Mutation, active};
use hearth_wire::Pubkey;

use super::types::BankId;

/// Why a bank cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForkError {
    /// Its parent is missing: not frozen yet, or dropped below the root.
    #[error("the parent is not known")]
    UnknownParent,
    /// It was added before.
    #[error("the bank is known")]
    Known,
    /// Its slot is not above its parent's.
    #[error("the slot is not above the parent's")]
    Order,
}

#[derive(Clone, Debug)]
struct Node {
    parent: Option<BankId>,
    children: Vec<BankId>,
    /// Number of banks since the first root.
    number: u64,
    stake_at: u64,
    weight: u64,
    /// Height of the subtree.
    height: u64,
    best: BankId,
    deepest: BankId,
    is_marked: bool,
    is_confirmed: bool,
    invalid_ancestor: Option<u64>,
}

/// The banks from the root on, and their weights.
#[derive(Clone, Debug)]
pub struct Forks {
    nodes: BTreeMap<BankId, Node>,
    votes: BTreeMap<Pubkey, (BankId, u64)>,
    root: BankId,
}

impl Forks {
    /// A tree with one bank.
    pub fn new(root: BankId) -> Self {
        Self { nodes: [(root, Node::new(root, None, 0))].into(), votes: BTreeMap::new(), root }
    }

    /// The root of the tree, below which nothing is kept.
    pub fn root(&self) -> BankId {
        self.root
    }

    /// Whether a bank is in the tree.
    pub fn contains(&self, id: &BankId) -> bool {
        self.nodes.contains_key(id)
    }

    /// Number of banks in the tree.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Always false: the root is in the tree.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The parent; `None` for the root, and for a bank that is not in the tree.
    pub fn parent(&self, id: &BankId) -> Option<BankId> {
        self.nodes.get(id)?.parent
    }

    /// The frozen banks whose parent is this one; empty if it is not in the tree.
    pub fn children(&self, id: &BankId) -> &[BankId] {
        self.nodes.get(id).map_or(&[], |node| &node.children)
    }

    /// A bank and its ancestors, down to the root.
    pub fn chain(&self, id: &BankId) -> impl Iterator<Item = BankId> + '_ {
        let first = self.contains(id).then_some(*id);
        std::iter::successors(first, |id| self.parent(id))
    }

    /// The bank itself, or its ancestor, at exactly a slot.
    pub fn on_chain(&self, id: &BankId, slot: u64) -> Option<BankId> {
        self.chain(id).find(|id| id.slot <= slot).filter(|id| id.slot == slot)
    }

    /// Whether a bank is `from` or descends from it. False unless both are in the tree.
    pub fn descends(&self, id: &BankId, from: &BankId) -> bool {
        self.on_chain(id, from.slot) == Some(*from)
    }

    /// The newest common ancestor of two banks.
    pub fn common(&self, a: &BankId, b: &BankId) -> Option<BankId> {
        let (mut a, mut b) = (self.contains(a).then_some(*a)?, self.contains(b).then_some(*b)?);
        while a != b {
            if a.slot >= b.slot {
                a = self.parent(&a)?;
            } else {
                b = self.parent(&b)?;
            }
        }
        Some(a)
    }

    /// The number of banks above `from` on the chain of `to`.
    pub fn distance(&self, from: &BankId, to: &BankId) -> Option<u64> {
        self.nodes.get(to)?.number.checked_sub(self.nodes.get(from)?.number)
    }

    /// Every bank of the tree.
    pub fn banks(&self) -> impl Iterator<Item = &BankId> {
        self.nodes.keys()
    }

    /// A bank and its descendants.
    pub fn subtree(&self, id: &BankId) -> Vec<BankId> {
        let mut found: Vec<BankId> = self.contains(id).then_some(*id).into_iter().collect();
        let mut at = 0;
        while let Some(next) = found.get(at) {
            found.extend_from_slice(&self.nodes[next].children);
            at += 1;
        }
        found
    }

    /// Adds a frozen bank.
    ///
    /// # Errors
    ///
    /// Its parent is not in the tree, it is already there, or its slot is not above its parent's.
    pub fn add(&mut self, id: BankId, parent: BankId) -> Result<(), ForkError> {
        if self.contains(&id) {
            return Err(ForkError::Known);
        }
        let above = self.nodes.get_mut(&parent).ok_or(ForkError::UnknownParent)?;
        if id.slot <= parent.slot {
            return Err(ForkError::Order);
        }
        above.children.push(id);
        let mut node = Node::new(id, Some(parent), above.number + 1);
        node.invalid_ancestor = above.invalid_ancestor;
        self.nodes.insert(id, node);
        self.recompute([id, parent].into());
        Ok(())
    }

    /// Counts votes, each with the account and its stake. A vote replaces an account's last one if it is for a newer
    /// slot, or for the same slot and a smaller hash. Votes for banks outside the tree have no effect.
    pub fn vote(&mut self, votes: impl IntoIterator<Item = (Pubkey, BankId, u64)>) {
        let mut changed = BTreeSet::new();
        for (account, id, stake) in votes {
            let is_newer = |last: &BankId| id.slot > last.slot || (id.slot == last.slot && id.hash < last.hash);
            if !self.contains(&id) || self.votes.get(&account).is_some_and(|(last, _)| !is_newer(last)) {
                continue;
            }
            if let Some((last, stake)) = self.votes.insert(account, (id, stake))
                && let Some(node) = self.nodes.get_mut(&last)
            {
                if !active(Mutation::DoubleCount) {
                    node.stake_at -= stake;
                }
                changed.insert(last);
            }
            let node = self.nodes.get_mut(&id).expect("in the tree");
            node.stake_at = node.stake_at.saturating_add(stake);
            changed.insert(id);
        }
        self.recompute(changed);
    }

    /// The last block that an account voted for, if its bank was replayed here.
    pub fn latest_vote(&self, account: &Pubkey) -> Option<BankId> {
        self.votes.get(account).map(|(id, _)| *id)
    }

    /// The stake that voted for a bank and its descendants.
    pub fn weight(&self, id: &BankId) -> u64 {
        self.nodes.get(id).map_or(0, |node| node.weight)
    }

    /// The tip of the heaviest fork: at each branch above the root, the child with the most stake.
    pub fn heaviest(&self) -> BankId {
        self.nodes[&self.root].best
    }

    /// The heaviest bank among one and its descendants.
    pub fn heaviest_above(&self, id: &BankId) -> Option<BankId> {
        self.nodes.get(id).map(|node| node.best)
    }

    /// The descendant with the most banks in between, valid or not.
    pub fn deepest_above(&self, id: &BankId) -> Option<BankId> {
        self.nodes.get(id).map(|node| node.deepest)
    }

    /// Whether neither the bank nor an ancestor is marked invalid without being confirmed.
    pub fn is_candidate(&self, id: &BankId) -> bool {
        self.nodes.get(id).is_some_and(|node| node.invalid_ancestor.is_none())
    }

    /// The newest slot marked invalid, of the bank or an ancestor.
    pub fn invalid_ancestor(&self, id: &BankId) -> Option<u64> {
        self.nodes.get(id)?.invalid_ancestor
    }

    /// Whether the bank, or a descendant, is duplicate confirmed.
    pub fn is_confirmed(&self, id: &BankId) -> bool {
        self.nodes.get(id).is_some_and(|node| node.is_confirmed)
    }

    /// Excludes a bank and its descendants from the candidates, unless it is duplicate confirmed.
    pub fn mark_invalid(&mut self, id: &BankId) {
        let Some(node) = self.nodes.get_mut(id).filter(|node| !node.is_confirmed) else { return };
        node.is_marked = true;
        self.judge(id);
    }

    /// Marks a bank and its ancestors as duplicate confirmed, which makes them candidates. Returns those that were not
    /// before.
    pub fn mark_confirmed(&mut self, id: &BankId) -> Vec<BankId> {
        let chain = self.chain(id);
        let newly: Vec<BankId> = chain.take_while(|id| !self.nodes[id].is_confirmed).collect();
        for id in &newly {
            self.nodes.get_mut(id).expect("in the tree").is_confirmed = true;
        }
        if let Some(oldest) = newly.last() {
            self.judge(oldest);
        }
        newly
    }

    /// Updates which banks are candidates, from a bank on.
    fn judge(&mut self, id: &BankId) {
        let subtree = self.subtree(id);
        let below = self.parent(id);
        for id in &subtree {
            let node = &self.nodes[id];
            let above = node.parent.and_then(|parent| self.nodes[&parent].invalid_ancestor);
            let invalid = match (node.is_confirmed, node.is_marked) {
                (true, _) => None,
                (false, true) => Some(id.slot),
                (false, false) => above,
            };
            self.nodes.get_mut(id).expect("in the tree").invalid_ancestor = invalid;
        }
        self.recompute(subtree.into_iter().chain(below).collect());
    }

    /// Makes a bank the root; drops and returns what does not descend from it. Votes below it are removed.
    ///
    /// # Panics
    ///
    /// The bank is not in the tree.
    pub fn set_root(&mut self, root: BankId) -> Vec<BankId> {
        let kept: BTreeSet<BankId> = self.subtree(&root).into_iter().collect();
        assert!(!kept.is_empty(), "a root that is not in the tree");
        let dropped = self.nodes.keys().filter(|id| !kept.contains(id)).copied().collect();
        self.nodes.retain(|id, _| kept.contains(id));
        self.nodes.get_mut(&root).expect("kept").parent = None;
        self.votes.retain(|_, (id, _)| id.slot >= root.slot);
        self.root = root;
        dropped
    }

    /// Recomputes banks whose stake, children or validity changed, and all their ancestors: children before parents.
    fn recompute(&mut self, mut changed: BTreeSet<BankId>) {
        while let Some(id) = changed.pop_last() {
            let node = &self.nodes[&id];
            let child = |id: &BankId| (*id, &self.nodes[id]);
            let weight = node.children.iter().fold(node.stake_at, |sum, id| sum.saturating_add(self.nodes[id].weight));
            let height = node.children.iter().map(|id| self.nodes[id].height).max().map_or(0, |height| height + 1);
            let candidates = node.children.iter().map(child).filter(|(_, child)| child.invalid_ancestor.is_none());
            let weighed = |weight: u64| if active(Mutation::LighterFork) { !weight } else { weight };
            let best = candidates.max_by_key(|(id, child)| (weighed(child.weight), Reverse(*id)));
            let deepest =
                node.children.iter().map(child).max_by_key(|(id, child)| (child.height, child.weight, Reverse(*id)));
            let best = best.map_or(id, |(_, child)| child.best);
            let deepest = deepest.map_or(id, |(_, child)| child.deepest);
            let now = (weight, height, best, deepest);
            // If nothing changed here, nothing changes in its ancestors.
            if now != (node.weight, node.height, node.best, node.deepest) {
                changed.extend(node.parent);
                let node = self.nodes.get_mut(&id).expect("in the tree");
                (node.weight, node.height, node.best, node.deepest) = now;
            }
        }
    }
}

impl Node {
    fn new(id: BankId, parent: Option<BankId>, number: u64) -> Self {
        Self {
            parent,
            children: Vec::new(),
            number,
            stake_at: 0,
            weight: 0,
            height: 0,
            best: id,
            deepest: id,
            is_marked: false,
            is_confirmed: false,
            invalid_ancestor: None,
        }
    }
}

#[cfg(test)]
mod tests;

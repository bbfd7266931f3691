//! The safety properties, checked with full knowledge of all nodes.

use std::collections::BTreeSet;

use hearth_consensus::{BankId, TowerVote};

use crate::world::World;

/// Roots, confirmations and votes of all nodes so far.
pub struct Oracle {
    /// The highest root of any node.
    pub root: BankId,
    /// The root of each node.
    pub roots: Vec<BankId>,
    /// Every block reported as confirmed to any node.
    pub confirmed: BTreeSet<BankId>,
    /// The blocks that each node voted for, with the greatest depth that each ever had in its tower.
    votes: Vec<Vec<(BankId, u32)>>,
    pub switches: usize,
}

impl Oracle {
    pub fn new(genesis: BankId, nodes: usize) -> Self {
        Self {
            root: genesis,
            roots: vec![genesis; nodes],
            confirmed: BTreeSet::new(),
            votes: vec![Vec::new(); nodes],
            switches: 0,
        }
    }

    /// A node has a new root. `is_restart`: it replays what it had rooted.
    pub fn rooted(&mut self, world: &World, node: usize, rooted: &[BankId]) -> Result<(), String> {
        let Some(root) = rooted.last().copied() else { return Err(format!("node {node} rooted nothing")) };
        if !rooted.windows(2).all(|pair| world.blocks[&pair[1]].parent == pair[0]) {
            return Err(format!("node {node} rooted {rooted:?}, which is no chain"));
        }
        let before = self.roots[node];
        if !world.descends(root, before) && !world.descends(before, root) {
            return Err(format!("node {node} rooted {root:?} after {before:?}"));
        }
        self.roots[node] = before.max(root);
        let highest = self.root;
        if !world.descends(root, highest) && !world.descends(highest, root) {
            return Err(format!("node {node} rooted {root:?}, another {highest:?}"));
        }
        if root > highest {
            self.root = root;
            let below = self.confirmed.iter().filter(|id| id.slot > highest.slot && id.slot <= root.slot);
            if let Some(left) = below.copied().find(|id| !world.descends(root, *id)) {
                return Err(format!("node {node} rooted {root:?}, but {left:?} was confirmed"));
            }
        }
        Ok(())
    }

    pub fn confirmed(&mut self, world: &World, node: usize, id: BankId) -> Result<(), String> {
        self.confirmed.insert(id);
        let is_on_chain = world.descends(id, self.root) || world.descends(self.root, id);
        is_on_chain.then_some(()).ok_or_else(|| format!("node {node}: {id:?} confirmed, {:?} rooted", self.root))
    }

    pub fn finalized(&mut self, world: &World, node: usize, slot: u64) -> Result<(), String> {
        let is_rooted = world.on_chain(self.root, slot).is_some();
        is_rooted.then_some(()).ok_or_else(|| format!("node {node}: {slot} finalized, {:?} rooted", self.root))
    }

    /// A node sent a vote. It must be for a newer slot than all before, on the fork of every vote that still binds.
    pub fn voted(&mut self, world: &World, node: usize, vote: &TowerVote) -> Result<(), String> {
        let id = vote.id;
        self.switches += usize::from(vote.is_switch);
        let votes = &mut self.votes[node];
        if let Some((last, _)) = votes.last().filter(|(last, _)| last.slot >= id.slot) {
            return Err(format!("node {node} voted for {id:?} after {last:?}"));
        }
        while votes.last().is_some_and(|(last, deep)| last.slot + (1 << deep.min(&31)) < id.slot) {
            votes.pop();
        }
        // By slot: another version of it was dumped because of more than 52 %.
        let chain: BTreeSet<u64> = world.chain(id).map(|id| id.slot).collect();
        let broken = votes.iter().find(|(last, _)| !chain.contains(&last.slot));
        if let Some((last, deep)) = broken {
            return Err(format!("node {node} voted for {id:?}, while {last:?} bound it, {deep} deep"));
        }
        votes.push((id, 0));
        let depth = votes.len();
        for (index, (_, deep)) in votes.iter_mut().enumerate() {
            *deep = (*deep).max((depth - index) as u32);
        }
        let slots: Vec<u64> = vote.votes.iter().map(|vote| vote.slot).collect();
        let bound = votes.len().saturating_sub(31);
        let model: Vec<u64> = votes[bound..].iter().map(|(id, _)| id.slot).collect();
        if !model.ends_with(&slots) {
            return Err(format!("node {node} sent votes for {slots:?}, its binding votes are {model:?}"));
        }
        Ok(())
    }
}

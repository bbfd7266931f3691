//! blocks: the executed blocks above the root, and the path from one to another.
//!
//! reads   blocks that are frozen, rooted or dropped
//! writes  paths
//! memory  120 B per block above the root
//! drops   blocks that do not descend from a new root

use std::collections::{BTreeMap, BTreeSet};

use hearth_consensus::BankId;
use hearth_wire::Hash;

/// The part of an executed block that tower keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TowerBlock {
    /// Its slot and bank hash.
    pub id: BankId,
    /// The slot of its parent.
    pub parent: u64,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
    /// Its last entry's hash.
    pub blockhash: Hash,
}

/// Executed blocks by slot, one version of each.
#[derive(Debug)]
pub struct Blocks {
    blocks: BTreeMap<u64, TowerBlock>,
    root: u64,
}

impl Blocks {
    /// Creates the set with only the root.
    pub fn new(root: TowerBlock) -> Self {
        Self { blocks: BTreeMap::from([(root.id.slot, root)]), root: root.id.slot }
    }

    /// Returns the block of a slot.
    pub fn get(&self, slot: u64) -> Option<&TowerBlock> {
        self.blocks.get(&slot)
    }

    /// Whether exactly this block was executed here and not dropped.
    pub fn has(&self, id: &BankId) -> bool {
        self.get(id.slot).is_some_and(|block| block.id == *id)
    }

    /// The newest slot with a block.
    pub fn newest(&self) -> u64 {
        self.blocks.last_key_value().map_or(self.root, |(slot, _)| *slot)
    }

    /// How many blocks there are, including the root.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a block whose parent is in the set.
    pub fn add(&mut self, block: TowerBlock) {
        assert!(self.blocks.contains_key(&block.parent), "blocks come after their parents");
        self.blocks.insert(block.id.slot, block);
    }

    /// Returns the path to the block of `slot` from a fork given by its slots: the block of the fork to rewind to, and
    /// the blocks to execute from there, in order. `None` if the slot has no common ancestor with the fork.
    pub fn path(&self, line: &BTreeSet<u64>, slot: u64) -> Option<(u64, Vec<u64>)> {
        let (mut path, mut at) = (vec![], slot);
        while !line.contains(&at) {
            path.push(at);
            at = self.blocks.get(&at).filter(|_| at > self.root)?.parent;
        }
        path.reverse();
        Some((at, path))
    }

    /// Sets a new root and forgets what does not descend from it. Returns the forgotten slots that are not ancestors of
    /// the new root.
    pub fn set_root(&mut self, root: u64) -> Vec<u64> {
        let mut line = BTreeSet::new();
        let mut at = root;
        while let Some(block) = self.blocks.get(&at) {
            line.insert(at);
            if at == self.root {
                break;
            }
            at = block.parent;
        }
        let mut kept: BTreeMap<u64, TowerBlock> = BTreeMap::new();
        let mut gone = vec![];
        for (slot, block) in std::mem::take(&mut self.blocks) {
            if slot == root || kept.contains_key(&block.parent) {
                kept.insert(slot, block);
            } else if !line.contains(&slot) {
                gone.push(slot);
            }
        }
        (self.blocks, self.root) = (kept, root);
        gone
    }

    /// Forgets a block and its descendants; returns their slots.
    pub fn dump(&mut self, slot: u64) -> Vec<u64> {
        let mut gone = BTreeSet::new();
        for (at, block) in self.blocks.range(slot..) {
            if *at == slot || gone.contains(&block.parent) {
                gone.insert(*at);
            }
        }
        self.blocks.retain(|slot, _| !gone.contains(slot));
        gone.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(slot: u64, parent: u64) -> TowerBlock {
        let hash = [slot as u8; 32];
        TowerBlock { id: BankId { slot, hash }, parent, block_id: hash, blockhash: hash }
    }

    /// 0 ─ 1 ─ 2 ─ 5 ─ 6
    ///     └ 3 ─ 4
    ///       └ 7
    fn blocks() -> Blocks {
        let mut blocks = Blocks::new(block(0, 0));
        [(1, 0), (2, 1), (3, 1), (4, 3), (5, 2), (6, 5), (7, 3)]
            .iter()
            .for_each(|(at, on)| blocks.add(block(*at, *on)));
        blocks
    }

    #[test]
    fn a_path_goes_back_to_the_block_that_both_have_below() {
        let (blocks, line) = (blocks(), BTreeSet::from([0, 1, 2, 5, 6]));
        assert_eq!(blocks.path(&line, 6), Some((6, vec![])));
        assert_eq!(blocks.path(&line, 2), Some((2, vec![])));
        assert_eq!(blocks.path(&line, 4), Some((1, vec![3, 4])));
        assert_eq!(blocks.path(&line, 9), None, "it was not executed");
        assert_eq!(blocks.path(&BTreeSet::from([9]), 4), None, "it does not hang together");
    }

    #[test]
    fn root_drops_blocks_of_other_forks() {
        let mut blocks = blocks();
        assert_eq!(blocks.set_root(2), [3, 4, 7], "0 and 1 are on the line");
        assert_eq!((blocks.count(), blocks.get(1), blocks.has(&block(5, 2).id)), (3, None, true));
        assert_eq!(blocks.set_root(6), [0; 0]);
        assert_eq!(blocks.count(), 1);
    }

    #[test]
    fn a_version_that_is_dropped_takes_what_is_on_it_along() {
        let mut blocks = blocks();
        assert_eq!(blocks.dump(3), [3, 4, 7]);
        assert_eq!(blocks.path(&BTreeSet::from([0]), 6), Some((0, vec![1, 2, 5, 6])));
        assert_eq!(blocks.dump(9), [0; 0]);
    }
}

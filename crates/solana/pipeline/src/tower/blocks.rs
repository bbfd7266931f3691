//! blocks: the executed blocks above the root, and the path from one to another.
//!
//! reads   blocks that are frozen, rooted, dropped
//! writes  paths
//! memory  120 B a block above the root
//! drops   what does not descend from a new root

use std::collections::{BTreeMap, BTreeSet};

use hearth_consensus::BankId;
use hearth_wire::Hash;

/// A block that was executed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// What it is.
    pub id: BankId,
    /// The slot of the block that it was executed on.
    pub parent: u64,
    /// The Merkle root of its last FEC set.
    pub block_id: Hash,
    /// Its last entry's hash.
    pub blockhash: Hash,
}

/// Blocks by slot: one version of each.
#[derive(Debug)]
pub struct Blocks {
    blocks: BTreeMap<u64, Frozen>,
    root: u64,
}

impl Blocks {
    /// Begins with a root.
    pub fn new(root: Frozen) -> Self {
        Self { blocks: BTreeMap::from([(root.id.slot, root)]), root: root.id.slot }
    }

    /// The block of a slot.
    pub fn get(&self, slot: u64) -> Option<&Frozen> {
        self.blocks.get(&slot)
    }

    /// Whether this very block was executed here, and not dropped.
    pub fn has(&self, id: &BankId) -> bool {
        self.get(id.slot).is_some_and(|block| block.id == *id)
    }

    /// The newest slot with a block.
    pub fn newest(&self) -> u64 {
        self.blocks.last_key_value().map_or(self.root, |(slot, _)| *slot)
    }

    /// How many there are, the root among them.
    pub fn count(&self) -> usize {
        self.blocks.len()
    }

    /// Adds a block on one that is there.
    pub fn add(&mut self, block: Frozen) {
        assert!(self.blocks.contains_key(&block.parent), "blocks come after their parents");
        self.blocks.insert(block.id.slot, block);
    }

    /// How to get to the block of `slot` from a line of blocks, given by their slots: the block of the line to go back
    /// to, and the blocks to execute from there on, in order. None if the slot does not hang together with the line.
    pub fn path(&self, line: &BTreeSet<u64>, slot: u64) -> Option<(u64, Vec<u64>)> {
        let (mut path, mut at) = (vec![], slot);
        while !line.contains(&at) {
            path.push(at);
            at = self.blocks.get(&at).filter(|_| at > self.root)?.parent;
        }
        path.reverse();
        Some((at, path))
    }

    /// A new root: forgets what does not descend from it. Returns the slots that are forgotten and are not below it on
    /// its line.
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
        let mut kept: BTreeMap<u64, Frozen> = BTreeMap::new();
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

    /// Forgets a block and all that was executed on it; their slots.
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

    fn block(slot: u64, parent: u64) -> Frozen {
        let hash = [slot as u8; 32];
        Frozen { id: BankId { slot, hash }, parent, block_id: hash, blockhash: hash }
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
    fn what_a_root_leaves_behind() {
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

//! Follows the paths of many changes together, before anything is changed, to overlap the loads from memory, and to
//! hash side by side the leaves that new ones will push down.
//!
//! reads   the arena's nodes on the way to each change, all of their children once
//! writes  the keys of the leaves met
//! memory  16 B a change on its way, and each leaf met with its key
//! source  a step of one path does not wait for another's, so a processor has several under way where going down
//!         one path after the other would wait for the memory at each node

use super::arena::Node;
use super::batch::Batch;
use super::{Change, Child, Leaf, Source, common, nibble};

/// Minimum changes for which it pays: fewer touch only the nearest caches, or little.
const MIN: usize = 8;

/// A change on its way: its node, and the depth in nibbles.
struct ChangePath {
    change: u32,
    id: u32,
    mask: u16,
    depth: u8,
}

impl<L: Leaf> Batch<'_, L> {
    /// Follows the paths of `changes`, sorted by key, below the place `at`, which is `depth` nibbles deep.
    pub(super) fn meet<S: Source<L>>(&mut self, at: Option<Child<L>>, depth: usize, changes: &[Change<L>], source: &S) {
        let Some(Child::Node { mask, id, .. }) = at else { return };
        if changes.len() < MIN {
            return;
        }
        let start = |change: u32| ChangePath { change, id, mask, depth: depth as u8 };
        let mut ways: Vec<ChangePath> = (0..changes.len() as u32).map(start).collect();
        let mut leaves: Vec<L> = Vec::new();
        while !ways.is_empty() {
            let mut node_before = u32::MAX;
            ways.retain_mut(|way| {
                let node = self.arena.get(way.id);
                if way.id != node_before {
                    touch(&node);
                    node_before = way.id;
                }
                let change = &changes[way.change as usize];
                match step(&node, way, change) {
                    None => false,
                    Some(Child::Leaf(_, old)) => {
                        if change.live && !old.same(&change.leaf) {
                            leaves.push(*old);
                        }
                        false
                    }
                    Some(Child::Node { mask, id, .. }) => {
                        (way.id, way.mask) = (*id, *mask);
                        true
                    }
                }
            });
        }
        leaves.sort_unstable_by(L::order);
        leaves.dedup_by(|a, b| a.same(b));
        let keys = source.keys(&leaves);
        self.met = leaves.into_iter().zip(keys).collect();
    }
}

/// Returns the child of the node at a change's nibble.
fn step<'a, L: Leaf>(node: &Node<'a, L>, way: &mut ChangePath, change: &Change<L>) -> Option<&'a Child<L>> {
    let (prefix, depth) = (node.prefix, usize::from(way.depth));
    if common(&change.key, depth, prefix) < prefix.len() {
        return None;
    }
    way.depth += prefix.len() as u8 + 1;
    node.child(way.mask, nibble(&change.key, depth + prefix.len()))
}

/// Brings a node's children near: its hash needs all of them.
fn touch<L>(node: &Node<'_, L>) {
    let all = node.children.iter().fold(0u8, |all, child| all ^ child.reference().encoded()[0]);
    std::hint::black_box(all);
}

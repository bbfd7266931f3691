//! Merkle-Patricia tries of the newest version: a block replaces children in place, and adds nodes if a branch gets
//! other children than before. Replaced children are kept aside, so that older roots stay readable.
//!
//! reads   sorted changes by hashed key, and a [`Source`] for the leaves' values
//! writes  nodes into an [`Arena`]; roots
//! memory  in the arena about 1.4 children a leaf, 60 to 68 B each
//! source  the yellow paper, appendix D; a node's children carry their references beside them, so that a branch is
//!         hashed without looking at its children. A block of transfers among many accounts replaces one child of
//!         16 in most nodes on its paths: a copy of each such node was most of what its root cost

mod arena;
mod batch;
mod finish;
mod nodes;
mod ordered;
mod prefetch;
mod rlp;
mod sparse;
#[cfg(test)]
mod tests;
mod update;
mod view;
mod walk;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use alloy_primitives::B256;
use alloy_trie::EMPTY_ROOT_HASH;

pub(crate) use arena::{Arena, ReservedNodes};
pub(crate) use nodes::{Child, Nodes, Patch, Ref, Undo};
pub(crate) use ordered::ordered_root;
pub(crate) use sparse::{Base, SparseTrie, StoredNode};
pub(crate) use update::{Overlay, update, update_many};
pub(crate) use view::View;
#[cfg(test)]
use walk::subtree;
pub(crate) use walk::{find, for_each_leaf, prove};

/// Keccak-256 of an address or of a slot's key: the path of a leaf.
pub(crate) type Key = [u8; 32];

/// A leaf's identity; the source provides its value.
pub(crate) trait Leaf: Copy + PartialEq + Send + Sync {
    /// Whether both are leaves of one key.
    fn same(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }

    /// An order of the leaves, whichever: only those of one key are equal.
    fn order(&self, other: &Self) -> Ordering;

    /// Returns this leaf as the replacement of `old`, or of nothing.
    fn replacing(self, old: Option<&Self>) -> Self {
        let _ = old;
        self
    }
}

/// Knows a leaf's key and value.
pub(crate) trait Source<L>: Sync {
    /// The hashed key of a leaf.
    fn key(&self, leaf: &L) -> Key;
    /// The hashed keys of many.
    fn keys(&self, leaves: &[L]) -> Vec<Key> {
        leaves.iter().map(|leaf| self.key(leaf)).collect()
    }
    /// Appends the leaf's value after the changes; `at` is its change's index, or [`UNCHANGED`].
    fn value(&self, leaf: &L, at: u32, out: &mut Vec<u8>);
}

/// In the place of a change's [`Change::at`]: the leaf is none that changes.
pub(crate) const UNCHANGED: u32 = u32::MAX;

/// A change of one leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change<L> {
    /// The hashed key of the leaf.
    pub(crate) key: Key,
    /// The leaf that the change writes or removes.
    pub(crate) leaf: L,
    /// Whether it is there afterwards.
    pub(crate) live: bool,
    /// The index of its value in the source.
    pub(crate) at: u32,
}

/// The root of the trie that holds these values under these keys, which are hashed already: for tests of tries alone.
#[doc(hidden)]
pub fn root_of(values: &BTreeMap<Key, Vec<u8>>) -> B256 {
    let changes: Vec<Change<KeyLeaf>> =
        values.keys().map(|key| Change { key: *key, leaf: KeyLeaf(*key), live: true, at: 0 }).collect();
    let made = update(&Arena::new(), None, &changes, &Values(values), 1);
    made.root.map_or(EMPTY_ROOT_HASH, |root| root.reference().root())
}

/// A leaf that is its key.
#[derive(Clone, Copy, PartialEq)]
struct KeyLeaf(Key);

impl Leaf for KeyLeaf {
    fn order(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

/// The values of such leaves.
struct Values<'a>(&'a BTreeMap<Key, Vec<u8>>);

impl Source<KeyLeaf> for Values<'_> {
    fn key(&self, leaf: &KeyLeaf) -> Key {
        leaf.0
    }

    fn value(&self, leaf: &KeyLeaf, _: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0[&leaf.0]);
    }
}

/// The nibble of `key` at `depth`.
fn nibble(key: &Key, depth: usize) -> u8 {
    let byte = key[depth / 2];
    if depth.is_multiple_of(2) { byte >> 4 } else { byte & 15 }
}

/// The nibbles of `key` from `from` to before `to`.
fn nibbles(key: &Key, from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|depth| nibble(key, depth)).collect()
}

/// How many nibbles of `key` from `depth` on are those of `prefix`.
fn common(key: &Key, depth: usize, prefix: &[u8]) -> usize {
    prefix.iter().zip(depth..).take_while(|(digit, at)| nibble(key, *at) == **digit).count()
}

//! Ways through a trie: to one leaf, with or without what proves it, and to all.

use alloy_primitives::Bytes;

use super::arena::before;
use super::{Arena, Child, Key, Leaf, Ref, Source, UNCHANGED, View, common, nibble, rlp};

/// The leaf at `key`, if `same` says that the one found there is it.
pub(crate) fn find<L: Leaf>(
    view: &View<'_, L>,
    root: Option<&Child<L>>,
    key: &Key,
    same: impl Fn(&L) -> bool,
) -> Option<L> {
    let (mut at, mut depth) = (*root?, 0);
    loop {
        match at {
            Child::Leaf(_, leaf) => return same(&leaf).then_some(leaf),
            Child::Node { mask, id, .. } => {
                let prefix = view.prefix(id);
                if common(key, depth, prefix) < prefix.len() {
                    return None;
                }
                depth += prefix.len();
                let digit = nibble(key, depth);
                if mask & (1 << digit) == 0 {
                    return None;
                }
                at = view.children(id)[before(mask, digit)];
                depth += 1;
            }
        }
    }
}

/// The nodes from the root towards `key`, as far as they go: what proves its value, or that it has none.
pub(crate) fn prove<L: Leaf, S: Source<L>>(
    view: &View<'_, L>,
    root: Option<&Child<L>>,
    key: &Key,
    source: &S,
) -> Vec<Bytes> {
    let mut proof: Vec<Bytes> = Vec::new();
    let (mut next, mut depth) = (root.copied(), 0);
    // A node that is within its parent is no part of a proof, but for the root.
    let mut add = |encoded: Vec<u8>| {
        if encoded.len() >= 32 || proof.is_empty() {
            proof.push(encoded.into());
        }
    };
    while let Some(at) = next {
        let mut encoded = Vec::new();
        match at {
            Child::Leaf(_, leaf) => {
                let mut value = Vec::new();
                source.value(&leaf, UNCHANGED, &mut value);
                rlp::leaf(&source.key(&leaf), depth, &value, &mut encoded);
                add(encoded);
                next = None;
            }
            Child::Node { mask, id, .. } => {
                let (children, prefix) = (view.children(id), view.prefix(id));
                let mut branch = Vec::new();
                rlp::branch(&rlp::spread(mask, &children), &mut branch);
                if !prefix.is_empty() {
                    rlp::extension(prefix, &Ref::of(&branch), &mut encoded);
                    add(encoded);
                    if common(key, depth, prefix) < prefix.len() {
                        break;
                    }
                    depth += prefix.len();
                }
                add(branch);
                let digit = nibble(key, depth);
                next = (mask & (1 << digit) != 0).then(|| children[before(mask, digit)]);
                depth += 1;
            }
        }
    }
    proof
}

/// Calls `each` for every leaf, in order of the keys.
pub(crate) fn for_each_leaf<L: Leaf>(arena: &Arena<L>, root: Option<&Child<L>>, each: &mut impl FnMut(&L)) {
    match root {
        None => {}
        Some(Child::Leaf(_, leaf)) => each(leaf),
        Some(Child::Node { id, .. }) => {
            for child in arena.get(*id).children {
                for_each_leaf(arena, Some(child), each);
            }
        }
    }
}

/// Adds the numbers of all nodes below `root` to `ids`.
#[cfg(test)]
pub(crate) fn subtree<L: Leaf>(arena: &Arena<L>, root: Option<&Child<L>>, ids: &mut Vec<u32>) {
    if let Some(Child::Node { id, .. }) = root {
        ids.push(*id);
        for child in arena.get(*id).children {
            subtree(arena, Some(child), ids);
        }
    }
}

//! The tree over the 64 shreds of an FEC set: the leader signs its root.
//!
//! reads   64 digests of leaves, data shreds first
//! writes  the root, and for every leaf the nodes that prove it
//! memory  127 nodes
//! drops   nothing; a proof of the wrong length or for an index outside its tree has no root
//! source  the Merkle shreds of Solana; a node is a hash over its children cut to 20 bytes

use crate::sha256::{digest_each, padding, sha256};

/// Prefix of a leaf's hash input. The rest is the shred from its variant byte to its proof.
pub const LEAF_PREFIX: &[u8; 26] = b"\x00SOLANA_MERKLE_SHREDS_LEAF";

/// Prefix of an inner node's hash input.
const NODE_PREFIX: &[u8; 26] = b"\x01SOLANA_MERKLE_SHREDS_NODE";

/// Bytes of a node that count: in proofs and in the hash of the parent.
pub const NODE_SIZE: usize = 20;

/// Leaves in the tree of a full set.
pub const SHRED_LEAVES: usize = 64;

/// Levels below the root of a full set's tree.
const DEPTH: usize = SHRED_LEAVES.ilog2() as usize;

/// Bytes in the proof of a leaf of a full set.
pub const PROOF_SIZE: usize = DEPTH * NODE_SIZE;

/// Nodes in the tree of a full set.
const NODES: usize = 2 * SHRED_LEAVES - 1;

/// The hash of a leaf, given the shred's bytes from its variant byte to its proof.
pub fn shred_leaf(shred: &[u8]) -> [u8; 32] {
    sha256(&[LEAF_PREFIX, shred])
}

/// Bytes that a parent's hash is taken of: prefix, left and right child.
const PARENT_SIZE: usize = NODE_PREFIX.len() + 2 * NODE_SIZE;

/// A parent's message, padded for hashing, without its children.
const PARENT: [u8; 128] = {
    let mut padded = padding(PARENT_SIZE);
    let mut i = 0;
    while i < NODE_PREFIX.len() {
        padded[i] = NODE_PREFIX[i];
        i += 1;
    }
    padded
};

/// Returns the padded hash input of a parent.
fn parent(left: &[u8], right: &[u8]) -> [u8; 128] {
    let mut padded = PARENT;
    let middle = NODE_PREFIX.len() + NODE_SIZE;
    padded[NODE_PREFIX.len()..middle].copy_from_slice(&left[..NODE_SIZE]);
    padded[middle..PARENT_SIZE].copy_from_slice(&right[..NODE_SIZE]);
    padded
}

/// The tree over the 64 shreds of a set.
#[derive(Clone, Debug)]
pub struct ShredTree {
    /// The leaves, then each level above, then the root.
    nodes: [[u8; 32]; NODES],
}

impl ShredTree {
    /// The tree over hashed leaves.
    pub fn new(leaves: &[[u8; 32]; SHRED_LEAVES]) -> Self {
        let mut nodes = [[0; 32]; NODES];
        nodes[..SHRED_LEAVES].copy_from_slice(leaves);
        let (mut from, mut width) = (0, SHRED_LEAVES);
        while width > 1 {
            let (below, above) = nodes.split_at_mut(from + width);
            let children = &below[from..];
            let parents = &mut above[..width / 2];
            let mut messages = [PARENT; SHRED_LEAVES / 2];
            for (message, pair) in messages.iter_mut().zip(children.as_chunks::<2>().0) {
                *message = parent(&pair[0], &pair[1]);
            }
            digest_each(&messages[..width / 2], parents);
            (from, width) = (from + width, width / 2);
        }
        Self { nodes }
    }

    /// The root, which is signed, and to which the next set is chained.
    pub fn root(&self) -> &[u8; 32] {
        &self.nodes[NODES - 1]
    }

    /// The proof of leaf `index`: its sibling, then the sibling of each ancestor below the root.
    /// Panics unless `index` is below [`SHRED_LEAVES`].
    pub fn proof(&self, index: usize) -> [u8; PROOF_SIZE] {
        assert!(index < SHRED_LEAVES, "no such leaf");
        let mut proof = [0; PROOF_SIZE];
        let (mut from, mut width, mut at) = (0, SHRED_LEAVES, index);
        for node in proof.chunks_exact_mut(NODE_SIZE) {
            node.copy_from_slice(&self.nodes[from + (at ^ 1)][..NODE_SIZE]);
            (from, width, at) = (from + width, width / 2, at / 2);
        }
        proof
    }
}

/// Returns the root that `proof` leads to from the hashed leaf `index`, in a tree of any size. `None` if the proof is
/// not a whole number of nodes, or too short for the index.
pub fn shred_root(leaf: [u8; 32], index: usize, proof: &[u8]) -> Option<[u8; 32]> {
    let (siblings, rest) = proof.as_chunks::<NODE_SIZE>();
    let (mut node, mut at) = (leaf, index);
    for sibling in siblings {
        let message = if at.is_multiple_of(2) { parent(&node, sibling) } else { parent(sibling, &node) };
        digest_each(&[message], std::slice::from_mut(&mut node));
        at /= 2;
    }
    (rest.is_empty() && at == 0).then_some(node)
}

/// The known nodes of a set's tree, from proofs that led to its root: later proofs are followed only up to a known
/// node.
#[derive(Clone, Debug)]
pub struct ShredProofs {
    root: [u8; 32],
    /// The leaves, then each level above, without the root. A node is known together with its sibling and all above.
    nodes: [[u8; NODE_SIZE]; NODES - 1],
    known: u128,
}

const _: () = assert!(NODES - 1 <= u128::BITS as usize);

impl ShredProofs {
    /// Starts from a first proof. The caller must check the root that it leads to. `None` if it is not a proof for a
    /// leaf of a full set.
    pub fn begin(leaf: &[u8; 32], index: usize, proof: &[u8]) -> Option<Self> {
        let root = shred_root(*leaf, index, proof).filter(|_| proof.len() == PROOF_SIZE)?;
        let mut begun = Self { root, nodes: [[0; NODE_SIZE]; NODES - 1], known: 0 };
        begun.check(leaf, index, proof).then_some(begun)
    }

    /// The root of the set's tree.
    pub fn root(&self) -> &[u8; 32] {
        &self.root
    }

    /// Returns whether the proof leads from the hashed leaf to the root; if so, all of its nodes become known.
    pub fn check(&mut self, leaf: &[u8; 32], index: usize, proof: &[u8]) -> bool {
        let (siblings, rest) = proof.as_chunks::<NODE_SIZE>();
        if siblings.len() != DEPTH || !rest.is_empty() || index >= SHRED_LEAVES {
            return false;
        }
        let mut learned = [[0; NODE_SIZE]; DEPTH];
        let (mut node, mut from, mut width, mut at) = (*leaf, 0, SHRED_LEAVES, index);
        let mut level = 0;
        while level < DEPTH && self.known >> (from + at) & 1 == 0 {
            learned[level].copy_from_slice(&node[..NODE_SIZE]);
            let sibling = &siblings[level];
            let message = if at.is_multiple_of(2) { parent(&node, sibling) } else { parent(sibling, &node) };
            digest_each(&[message], std::slice::from_mut(&mut node));
            (level, from, width, at) = (level + 1, from + width, width / 2, at / 2);
        }
        let leads_there = match level {
            DEPTH => node == self.root,
            _ => node[..NODE_SIZE] == self.nodes[from + at],
        };
        // From here on up the nodes are known: the proof must name them.
        let reached = level;
        let mut is_right = leads_there;
        for sibling in &siblings[reached..] {
            is_right &= *sibling == self.nodes[from + (at ^ 1)];
            (from, width, at) = (from + width, width / 2, at / 2);
        }
        if is_right {
            self.learn(index, &learned[..reached], siblings);
        }
        is_right
    }

    fn learn(&mut self, index: usize, path: &[[u8; NODE_SIZE]], siblings: &[[u8; NODE_SIZE]]) {
        let (mut from, mut width, mut at) = (0, SHRED_LEAVES, index);
        for (node, sibling) in path.iter().zip(siblings) {
            (self.nodes[from + at], self.nodes[from + (at ^ 1)]) = (*node, *sibling);
            self.known |= 1 << (from + at) | 1 << (from + (at ^ 1));
            (from, width, at) = (from + width, width / 2, at / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    fn leaves(seed: u8) -> [[u8; 32]; SHRED_LEAVES] {
        std::array::from_fn(|i| shred_leaf(&[seed, i as u8]))
    }

    /// The root by the definition, level by level.
    fn root_by_definition(leaves: &[[u8; 32]]) -> [u8; 32] {
        let mut level = leaves.to_vec();
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| {
                    let hash = Sha256::new().chain_update(b"\x01SOLANA_MERKLE_SHREDS_NODE");
                    hash.chain_update(&pair[0][..20]).chain_update(&pair[1][..20]).finalize().into()
                })
                .collect();
        }
        level[0]
    }

    #[test]
    fn root_is_that_of_the_definition() {
        assert_eq!(*ShredTree::new(&leaves(1)).root(), root_by_definition(&leaves(1)));
    }

    #[test]
    fn every_proof_leads_to_the_root() {
        let (leaves, tree) = (leaves(2), ShredTree::new(&leaves(2)));
        for (i, leaf) in leaves.iter().enumerate() {
            assert_eq!(shred_root(*leaf, i, &tree.proof(i)), Some(*tree.root()));
        }
    }

    #[test]
    fn a_leaf_is_the_hash_of_prefix_and_bytes() {
        let expected: [u8; 32] = Sha256::digest(b"\x00SOLANA_MERKLE_SHREDS_LEAFxyz").into();
        assert_eq!(shred_leaf(b"xyz"), expected);
    }

    proptest! {
        #[test]
        fn a_changed_proof_leads_elsewhere(index in 0..SHRED_LEAVES, byte in 0..PROOF_SIZE, flip in 1..=255u8) {
            let (leaves, tree) = (leaves(3), ShredTree::new(&leaves(3)));
            let mut proof = tree.proof(index);
            proof[byte] ^= flip;
            prop_assert_ne!(shred_root(leaves[index], index, &proof), Some(*tree.root()));
        }

        #[test]
        fn a_proof_that_does_not_fit_has_no_root(index in SHRED_LEAVES..10_000, cut in 1..NODE_SIZE) {
            let proof = ShredTree::new(&leaves(4)).proof(5);
            prop_assert_eq!(shred_root([1; 32], index, &proof), None);
            prop_assert_eq!(shred_root([1; 32], 0, &proof[cut..]), None);
            prop_assert!(ShredProofs::begin(&[1; 32], index, &proof).is_none());
            prop_assert!(ShredProofs::begin(&[1; 32], 0, &proof[cut..]).is_none());
        }

        #[test]
        fn known_nodes_change_no_verdict(
            seed in 0..9u8,
            given in proptest::collection::vec(
                (0..SHRED_LEAVES, any::<bool>(), 0..PROOF_SIZE + 32, 1..=255u8), 1..90,
            ),
        ) {
            let (leaves, tree) = (leaves(seed), ShredTree::new(&leaves(seed)));
            let first = given[0].0;
            let mut known = ShredProofs::begin(&leaves[first], first, &tree.proof(first)).unwrap();
            prop_assert_eq!(known.root(), tree.root());
            for (index, is_changed, byte, flip) in given {
                let (mut leaf, mut proof) = (leaves[index], tree.proof(index));
                if is_changed {
                    match byte.checked_sub(PROOF_SIZE) {
                        Some(byte) => leaf[byte] ^= flip,
                        None => proof[byte] ^= flip,
                    }
                }
                // Only this many bytes of a leaf's hash count.
                let counts = byte < PROOF_SIZE + NODE_SIZE;
                prop_assert_eq!(known.check(&leaf, index, &proof), !(is_changed && counts));
                prop_assert_eq!(shred_root(leaf, index, &proof) == Some(*tree.root()), !(is_changed && counts));
            }
        }
    }
}

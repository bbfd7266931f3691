//! The tree over the signatures of an entry: its root is mixed into the proof-of-history chain.
//!
//! reads   signatures, 64 bytes each, in the order of the entry's transactions
//! writes  the root
//! memory  32 B a signature and 2 KiB, kept for the next entry
//! source  the crate `solana-merkle-tree`: leaf 0x00 ‖ signature, node 0x01 ‖ left ‖ right, the last
//!         node of an odd level paired with itself

use crate::sha256::{digest_each, padding};

/// Messages hashed in one go.
const TOGETHER: usize = 16;

/// A leaf's message, padded for hashing, without its signature.
const LEAF: [u8; 128] = padding(1 + 64);

/// An inner node's message, padded for hashing, without its children.
const NODE: [u8; 128] = {
    let mut padded = padding(1 + 2 * 32);
    padded[0] = 1;
    padded
};

/// Collects signatures and gives the root over them. Reused from entry to entry.
#[derive(Clone, Debug, Default)]
pub struct MixinTree {
    /// Hashes of leaves; of inner nodes while the root is made.
    nodes: Vec<[u8; 32]>,
    /// Leaves that wait to be hashed together.
    waiting: Vec<[u8; 128]>,
}

impl MixinTree {
    /// A tree with room for `signatures` before it allocates.
    pub fn with_capacity(signatures: usize) -> Self {
        Self { nodes: Vec::with_capacity(signatures + 1), waiting: Vec::with_capacity(TOGETHER) }
    }

    /// Adds the next signature.
    pub fn push(&mut self, signature: &[u8; 64]) {
        let mut leaf = LEAF;
        leaf[1..65].copy_from_slice(signature);
        self.waiting.push(leaf);
        if self.waiting.len() == TOGETHER {
            self.hash_waiting();
        }
    }

    fn hash_waiting(&mut self) {
        let from = self.nodes.len();
        self.nodes.resize(from + self.waiting.len(), [0; 32]);
        digest_each(&self.waiting, &mut self.nodes[from..]);
        self.waiting.clear();
    }

    /// Returns the root over all signatures pushed since the last call, and clears them. All zeros if there are none.
    pub fn take_root(&mut self) -> [u8; 32] {
        self.hash_waiting();
        let mut width = self.nodes.len();
        while width > 1 {
            self.nodes.truncate(width);
            if width % 2 == 1 {
                self.nodes.push(self.nodes[width - 1]);
            }
            width = width.div_ceil(2);
            self.hash_parents(width);
        }
        let root = self.nodes.first().copied().unwrap_or_default();
        self.nodes.clear();
        root
    }

    /// Replaces the first `parents` nodes by the parents of the first 2 × `parents`.
    fn hash_parents(&mut self, parents: usize) {
        let mut messages = [NODE; TOGETHER];
        for from in (0..parents).step_by(TOGETHER) {
            let count = TOGETHER.min(parents - from);
            // The children end at or after the place of these parents, and are read before.
            for (i, message) in messages[..count].iter_mut().enumerate() {
                let child = 2 * (from + i);
                message[1..33].copy_from_slice(&self.nodes[child]);
                message[33..65].copy_from_slice(&self.nodes[child + 1]);
            }
            digest_each(&messages[..count], &mut self.nodes[from..from + count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn root_by_definition(signatures: &[[u8; 64]]) -> [u8; 32] {
        let mut level: Vec<[u8; 32]> =
            signatures.iter().map(|s| Sha256::new().chain_update([0]).chain_update(s).finalize().into()).collect();
        while level.len() > 1 {
            level = level
                .chunks(2)
                .map(|pair| {
                    let hash = Sha256::new().chain_update([1]).chain_update(pair[0]);
                    hash.chain_update(pair.last().unwrap()).finalize().into()
                })
                .collect();
        }
        level.first().copied().unwrap_or_default()
    }

    #[test]
    fn root_is_that_of_the_definition() {
        let mut tree = MixinTree::default();
        for count in (0..70).chain([127, 128, 129, 1000]) {
            let signatures: Vec<[u8; 64]> = (0..count).map(|i| [(i * 7 + count) as u8; 64]).collect();
            signatures.iter().for_each(|s| tree.push(s));
            assert_eq!(tree.take_root(), root_by_definition(&signatures), "{count} signatures");
        }
    }
}

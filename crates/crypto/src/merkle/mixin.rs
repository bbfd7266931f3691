//! The tree over the signatures of an entry: its root is mixed into the proof-of-history chain.
//!
//! reads   signatures, 64 bytes each, in the order of the entry's transactions
//! writes  the root
//! memory  32 B a signature, kept for the next entry
//! drops   nothing
//! source  the crate `solana-merkle-tree`: leaf 0x00 ‖ signature, node 0x01 ‖ left ‖ right, the last
//!         node of an odd level paired with itself

use crate::sha256::{Sha256State, finish_each, sha256};

/// Collects signatures and gives the root over them. Reused from entry to entry.
#[derive(Clone, Debug, Default)]
pub struct MixinTree {
    /// Hashed leaves.
    nodes: Vec<[u8; 32]>,
    /// A signature that waits for another, since two are hashed faster together.
    waiting: Option<[u8; 64]>,
}

impl MixinTree {
    /// A tree with room for `signatures` before it allocates.
    pub fn with_capacity(signatures: usize) -> Self {
        Self { nodes: Vec::with_capacity(signatures + 1), waiting: None }
    }

    /// Adds the next signature.
    pub fn push(&mut self, signature: &[u8; 64]) {
        let Some(before) = self.waiting.take() else {
            self.waiting = Some(*signature);
            return;
        };
        let mut hashes = [[0; 32]; 2];
        hash_two([&leaf(&before), &leaf(signature)], &mut hashes);
        self.nodes.extend(hashes);
    }

    /// The root over all signatures pushed since the last call, and forgets them. All zeros when
    /// there is none.
    pub fn take_root(&mut self) -> [u8; 32] {
        if let Some(last) = self.waiting.take() {
            self.nodes.push(sha256(&[&leaf(&last)]));
        }
        let mut width = self.nodes.len();
        while width > 1 {
            if width % 2 == 1 {
                self.nodes.truncate(width);
                self.nodes.push(self.nodes[width - 1]);
            }
            width = width.div_ceil(2);
            self.reduce(width);
        }
        let root = self.nodes.first().copied().unwrap_or_default();
        self.nodes.clear();
        root
    }

    /// Replaces the first `parents` nodes by the parents of the first 2 × `parents`.
    fn reduce(&mut self, parents: usize) {
        let mut i = 0;
        while i < parents {
            // Two parents come of four children, which end at or after the place of the parents.
            let children = |at: usize| [&self.nodes[2 * at], &self.nodes[2 * at + 1]];
            let left = parent(children(i));
            if i + 1 < parents {
                let right = parent(children(i + 1));
                let mut hashes = [[0; 32]; 2];
                hash_two([&left, &right], &mut hashes);
                self.nodes[i..i + 2].copy_from_slice(&hashes);
            } else {
                self.nodes[i] = sha256(&[&left]);
            }
            i += 2;
        }
    }
}

/// What a leaf's hash is taken of.
fn leaf(signature: &[u8; 64]) -> [u8; 65] {
    let mut message = [0; 65];
    message[1..].copy_from_slice(signature);
    message
}

/// What an inner node's hash is taken of.
fn parent([left, right]: [&[u8; 32]; 2]) -> [u8; 65] {
    let mut message = [1; 65];
    message[1..33].copy_from_slice(left);
    message[33..].copy_from_slice(right);
    message
}

fn hash_two(messages: [&[u8; 65]; 2], hashes: &mut [[u8; 32]; 2]) {
    finish_each(&mut [Sha256State::new(); 2], &messages.map(|m| &m[..]), hashes);
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

//! Merkle trees: over the shreds of a set, and over the signatures of an entry.
//!
//! reads   leaves
//! writes  roots and proofs
//! memory  127 nodes for a set of shreds; 32 B a signature for an entry, kept for the next one
//! source  the trees of Solana: of a set of shreds (nodes cut to 20 bytes), and of `solana-merkle-tree`

mod mixin;
mod shred;

pub use mixin::MixinTree;
pub use shred::{LEAF_PREFIX, NODE_SIZE, PROOF_SIZE, SHRED_LEAVES, ShredProofs, ShredTree, shred_leaf, shred_root};

//! Turbine: each shred goes down a tree of its own, drawn by stake.
//!
//! reads   the nodes that are known and their stakes; a shred's slot, kind and index
//! writes  the node that the leader sends it to, and those that a node sends it on to
//! memory  a set of nodes for each epoch; a scratch of 8 B a node for each thread
//! source  `solana-turbine`, `solana-gossip`, `agave-random` 4.2.2

mod nodes;
mod random;
mod shuffle;
mod tree;

pub use nodes::{Contact, Loopback, Node, NodeSet, Retransmit};
pub use random::{Cipher, Random, ShredId};
pub use shuffle::{Scratch, WeightedShuffle};
pub use tree::{FANOUT, children, distance, parent};

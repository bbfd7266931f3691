//! Turbine: each shred is sent down its own tree, drawn by stake.
//!
//! reads   the known nodes and their stakes; a shred's slot, kind and index
//! writes  the node to which the leader sends it, and those to which a node retransmits it
//! memory  a set of nodes for each epoch; a scratch of 8 B per node for each thread
//! source  `solana-turbine`, `solana-gossip`, `agave-random` 4.2.2

mod nodes;
mod random;
mod shuffle;
mod tree;

pub use nodes::{Contact, Loopback, Node, NodeSet, Retransmit};
pub use random::{Cipher, Random, ShredId};
pub use shuffle::{Scratch, WeightedShuffle};
pub use tree::{FANOUT, children, distance, parent};

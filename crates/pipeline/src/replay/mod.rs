//! replay: executes the blocks of the cluster, and takes the ledger to the one that is to be built on.
//!
//! reads   the block store; tower's commands; which slot proof of history makes
//! writes  the ledger; what tower is told; orders for proof of history; what store and shred are told
//! memory  see [`position`]
//! drops   blocks that cannot be executed: counted
//! source  `replay_stage.rs`, `blockstore_processor.rs` of Agave 4.2

pub mod position;
mod vote_hashes;
mod votes;

pub use votes::cast;

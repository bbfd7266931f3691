//! State-sync snapshots: a new node begins from a peer's instead of executing all blocks.

pub mod codec;
pub mod maker;
pub mod restore;
pub mod store;

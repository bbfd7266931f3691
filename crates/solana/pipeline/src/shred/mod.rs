//! shred: entries into FEC sets, and shreds back into them.
//!
//! reads   entries of the slots that this node leads; shreds of the others
//! writes  FEC sets of 32 data and 32 parity shreds, byte for byte as the cluster makes them; shreds, to the next in
//!         their trees
//! memory  one batch of entries and one set at a time, see the modules
//! drops   nothing of its own making; what it refuses of others' is counted by the caller
//! source  `solana-ledger` 4.2; `oracle/` makes the vectors of the tests with that very crate
//!
//! The walk of what this node makes: `shredder` → `set` → `tile`. The path of what others make is straight:
//! `turbine_ingress` has each datagram go through `parse` → `check` (signed by the leader?) → `resolve` (its FEC set:
//! `fec_resolver`; `eviction` where there is too much; `block_versions`, `equivocation` and `equivocation_proof` where
//! a leader made two blocks) → `retransmit` (down its tree: `trees`) → `hand_on` (store, reports). `gaps` tells
//! [`crate::repair`] what is missing, which asks others for it.

mod arrival;
mod block_versions;
mod check;
mod cluster;
mod counters;
mod deshredder;
mod equivocation;
mod equivocation_proof;
mod error;
mod eviction;
mod features;
mod fec_resolver;
mod finding;
mod gaps;
mod hand_on;
mod parse;
mod receiver;
mod resolve;
mod retransmit;
mod set;
mod shredder;
mod signing;
mod store_message;
mod tile;
mod trees;
mod turbine_ingress;

pub use arrival::{Refused, ShredSource};
pub use cluster::Cluster;
pub use counters::Counters;
pub use deshredder::{Added, Deshredder, merkle_root};
pub use error::DeshredError;
pub use finding::{Conflict, Finding, Ours};
pub use receiver::{CompletedSet, Evicted, Missing, Receiver, ReceiverConfig, Resolved, SetProgress};
pub use set::{FecSet, LAST_SET_CAPACITY, SET_CAPACITY, SetHeader};
pub use shredder::{Shredder, ShredderConfig, ShredderError};
pub use tile::{Config, OWN_SETS_BYTES_MAX, Shred, entry_bytes_within};
pub use turbine_ingress::memory;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;

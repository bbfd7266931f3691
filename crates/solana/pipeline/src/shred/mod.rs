//! shred: turns entries into FEC sets, and shreds back into entries.
//!
//! reads   entries of the slots that this node leads; shreds of the others
//! writes  FEC sets of 32 data and 32 parity shreds, byte for byte as the cluster makes them; shreds for this node's
//!         children in the Turbine trees
//! memory  one batch of entries and one set at a time, see the modules
//! drops   nothing that this node makes; the caller counts refused shreds of other nodes
//! source  `solana-ledger` 4.2; `oracle/` generates the test vectors with that very crate
//!
//! The path of this node's own blocks: `shredder` → `set` → `tile`. Other leaders' shreds take a straight path:
//! `turbine_ingress` passes each datagram through `parse` → `check` (is it signed by the leader?) → `resolve` (its FEC
//! set: `fec_resolver`; `eviction` if there are too many; `block_versions`, `equivocation` and `equivocation_proof` if
//! the leader made two blocks) → `retransmit` (down its tree: `trees`; `runs` gathers what goes to one child) →
//! `deliver` (store, reports). `gaps` reports missing shreds to [`crate::repair`], which requests them from other
//! nodes.

mod arrival;
mod block_versions;
mod check;
mod cluster;
mod counters;
mod deliver;
mod deshredder;
mod equivocation;
mod equivocation_proof;
mod error;
mod eviction;
mod features;
mod fec_resolver;
mod finding;
mod gaps;
mod parse;
mod receiver;
mod resolve;
mod retransmit;
mod runs;
mod senders;
mod set;
mod shredder;
mod signing;
mod slot_0;
mod store_message;
mod tile;
mod trees;
mod turbine_ingress;

pub use arrival::{ShredRefusal, ShredSource};
pub use cluster::Cluster;
pub use counters::Counters;
pub use deshredder::{AddResult, Deshredder, merkle_root};
pub use error::DeshredError;
pub use finding::{Conflict, ContradictedShred, Finding};
pub use receiver::{CompletedSet, EvictionTotals, MissingShreds, Receiver, ReceiverConfig, ResolvedShred, SetProgress};
pub use set::{FecSet, LAST_SET_CAPACITY, SET_CAPACITY, SetHeader};
pub use shredder::{Shredder, ShredderConfig, ShredderError};
pub use slot_0::Slot0;
pub use tile::{Config, OWN_SETS_BYTES_MAX, OWN_SETS_MAX, Shred, entry_bytes_within};
pub use turbine_ingress::memory;

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;

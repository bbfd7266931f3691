//! shred: entries into FEC sets, and shreds back into them.
//!
//! reads   entries of the slots that this node leads; shreds of the others
//! writes  FEC sets of 32 data and 32 parity shreds, byte for byte as the cluster makes them; shreds, to the next in
//!         their trees
//! memory  one batch of entries and one set at a time, see the modules
//! drops   nothing of its own making; what it refuses of others' is counted by the caller
//! source  `solana-ledger` 4.2; `oracle/` makes the vectors of the tests with that very crate
//!
//! The walk of what this node makes: `shredder` → `set` → `tile`. Of what others make: `intake` takes a datagram →
//! `receiver` checks it (`assembly` a set of it, `room` where there is too much, `versions`, `contest` and `conflict`
//! where a leader made two blocks) → `relay` sends it on; `asking` asks for what is missing. [`crate::rserve`] answers
//! others.

mod asking;
mod assembly;
mod conflict;
mod contest;
mod deshredder;
mod features;
mod intake;
mod receiver;
mod relay;
mod room;
mod set;
mod shredder;
mod signing;
mod tile;
mod versions;

pub use conflict::{Conflict, Ours};
pub use deshredder::{Added, DeshredError, Deshredder, merkle_root};
pub use intake::Cluster;
pub use receiver::{Completed, Missing, Receiver, ReceiverConfig, Refused, Taken, Unknown, Way};
pub use room::Evicted;
pub use set::{FecSet, LAST_SET_CAPACITY, SET_CAPACITY, SetHeader};
pub use shredder::{Shredder, ShredderConfig, ShredderError};
pub use tile::{Config, Counters, Shred, entry_bytes_within};

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;

//! replay: executes a block of another node's, or of the disk, in bounded steps and on any number of workers.
//!
//! reads   a block's bytes, the ledger at its parent
//! writes  the ledger; what its transactions did, for the history
//! memory  one block's places, conflicts and history; each worker's own
//! drops   a block that is wrong: an error that names the first fault
//! source  `blockstore_processor.rs` of `solana-ledger` 4.2
//!
//! [`Replay`] is the block's state machine: it parses, checks ticks, hands out [orders](crate::exec::Order) and takes
//! reports. It does no I/O, starts no thread and holds no bytes of the block, so a tile or a thread can drive it.
//! [`Pool`] drives it with workers in the process. Whatever the number of workers and the order of their reports, the
//! block comes to what it comes to one transaction after the other.

mod block;
mod conflicts;
mod error;
mod pool;
#[cfg(test)]
mod tests;

pub use block::{Executed, Job, Replay, Rules, Step};
pub use error::ReplayError;
pub use pool::Pool;

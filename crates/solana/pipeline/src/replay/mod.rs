//! replay: executes blocks of the cluster and of the disk, and moves the ledger to the block to build on.
//!
//! reads   the block store; tower's commands; which slot poh is producing
//! writes  the ledger; reports to tower; orders for poh; the effects of transactions, for the history
//! memory  see [`position`]; one block's places, conflicts and history; each worker's own
//! drops   an invalid block, with an error that names its first fault
//! source  `replay_stage.rs`, `blockstore_processor.rs` of Agave 4.2
//!
//! [`position`] decides which block executes next, and on which parent. [`Replay`] is the state machine of one block:
//! it parses, checks ticks, issues [orders](crate::exec::WorkOrder) and takes reports. It does no I/O, starts no thread
//! and holds no bytes of the block, so either a tile or a thread can drive it. In a cluster [the tile](ReplayTile)
//! drives it with [exec](crate::exec) tiles; at a start from disk, [`Pool`] does, with workers in the process. A block
//! has the same result as sequential execution, whatever the number of workers and the order of their reports.

mod block;
mod conflicts;
mod error;
mod executor;
mod log_limit;
mod pool;
pub mod position;
mod store_queue;
#[cfg(test)]
mod tests;
mod tile;
mod vote_hashes;
mod votes;

pub use block::{ExecutedBlock, Job, Replay, Rules, Step};
pub use error::ReplayError;
pub use executor::Dispatcher;
pub use pool::Pool;
pub use store_queue::BYTES_MAX as UNSENT_HISTORY_BYTES_MAX;
pub use tile::{Config, ReplayTile};
pub use votes::cast;

use hearth_wire::transfer::TRANSFER_SIZE;

use crate::tower::SLOTS_MAX;

/// Maximum bytes that replay takes for this many vote accounts and blocks above the root, besides the current block.
pub const fn memory(accounts: u64, blocks: u64) -> u64 {
    // 40 B per stored slot, 120 B per block; events with all accounts that a block changed, 450 B each.
    40 * SLOTS_MAX as u64 + 120 * blocks + 450 * accounts + vote_hashes::memory(accounts, blocks)
}

/// Bytes that a block takes during execution: itself and, if it consists of transfers, for each its place, its
/// conflicts with the previous and the next one, its cost, and its two accounts.
pub const fn block_memory(bytes: u64) -> u64 {
    bytes + bytes / TRANSFER_SIZE as u64 * (8 + 20 + 2 * 12 + 8 + 2 * 40)
}

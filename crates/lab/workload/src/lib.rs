//! The workloads by which builds are measured, without a node: each tile at full rate on a rig, and blocks.
//!
//! reads   nothing: transfers, accounts and signatures are generated here, the same in each run
//! writes  nothing but a rig's links
//! memory  16 MB for each link of a rig; 512 MB for signature tables; 300 B for each transaction of a block
//!
//! One thread that never waits does all the work, so the result depends on the compiled code and little on what else
//! the machine does. The program of this crate contains nothing else, and builds in a fraction of the time of the whole
//! node.

pub mod bank;
pub mod block;
pub mod dedup;
pub mod follow;
pub mod pack;
pub mod poh;
pub mod quic;
pub mod shred;
pub mod synthetic;
pub mod tiles;
pub mod times;
pub mod verify;

/// A workload that can be repeated.
pub trait Work {
    /// Does one round of work. Returns its number of transactions.
    fn round(&mut self) -> u64;
}

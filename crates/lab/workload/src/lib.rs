//! What a build is measured by, without a node: each tile at full rate on a rig, and blocks.
//!
//! reads   nothing: transfers, accounts and signatures are made here, the same in each run
//! writes  nothing but a rig's links
//! memory  16 MB for each link of a rig; 512 MB for signature tables; 300 B for each transaction of a block
//!
//! All of it is made by one thread that never waits, so it says what the compiler made of the code and little of what
//! the machine did meanwhile. The program of this crate has nothing else in it, and is built in a fraction of the
//! time of the whole node's.

pub mod bank;
pub mod block;
pub mod dedup;
pub mod follow;
pub mod made;
pub mod pack;
pub mod poh;
pub mod quic;
pub mod shred;
pub mod tiles;
pub mod times;
pub mod verify;

/// What can be done again and again.
pub trait Work {
    /// Does a piece of it; how many transactions that were.
    fn round(&mut self) -> u64;
}

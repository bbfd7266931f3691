//! What happens in blocks besides votes. An act adds a few transactions to a block; it keeps what it needs to know
//! about accounts that it made. No result decides how many random numbers it draws, so that the other transactions of
//! a ledger stay much the same when some of them are left out.

pub mod budget;
pub mod configuration;
pub mod flood;
pub mod gone;
pub mod invalid;
pub mod loader;
pub mod loader_v4;
pub mod nonce;
pub mod precompile;
pub mod probe;
pub mod refused;
pub mod stake;
pub mod system;
pub mod table;
pub mod token;
pub mod token_2022;
pub mod vote;

use crate::block::Block;
use crate::world::World;

/// A source of transactions.
pub trait Act {
    /// Adds transactions to `block`.
    fn act(&mut self, block: &mut Block<'_>, world: &mut World);
}

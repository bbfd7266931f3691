//! ledger: what the chain holds: accounts, statuses, blockhashes, blocks on disk; and the rules by
//! which a transaction changes them.
//!
//! reads   transactions (as `hearth_wire::txn::Txn`), the genesis file, blocks
//! writes  accounts in memory, one outcome per transaction, blocks on disk
//! memory  accounts and statuses, each bounded where it is kept
//! drops   nothing in silence: a transaction that does not land has an outcome that says why

pub mod account;
pub mod accounts;
pub mod blockhash;
pub mod blockstore;
pub mod budget;
pub mod cost;
pub mod error;
pub mod fees;
pub mod programs;
pub mod rent;
mod seed;
pub mod status_cache;
#[cfg(test)]
mod testing;

pub use account::Account;
pub use accounts::Accounts;
pub use error::{InstructionError, TransactionError};

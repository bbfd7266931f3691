//! The UTXO ledger: outputs, assets, signatures, and the transfer to the EVM.
//!
//! A transaction spends whole outputs and creates new ones. [`tx`] has its encoding and signatures, [`rules`] its
//! validity against the outputs that it spends: pool and block call the same function. [`ledger`] keeps the set of
//! unspent outputs and the log on disk; a block works in a [`ledger::Session`] over it, which is committed or dropped
//! as a whole. [`prism`] transfers between the two ledgers of a chain.
//!
//! A chain calls, for each block, in this order:
//!
//! 1. [`Ledger::begin`](ledger::Ledger::begin) and [`Session::apply`](ledger::Session::apply) with the block's
//!    transactions: rejected ones leave no trace;
//! 2. [`Session::commitment`](ledger::Session::commitment) goes into the header before the EVM runs,
//!    [`Session::withdrawals`](ledger::Session::withdrawals) are credited after it has run;
//! 3. [`Session::receive`](ledger::Session::receive) with the logs of the EVM's transactions;
//! 4. [`Ledger::commit`](ledger::Ledger::commit), before the chain's own commit, which is decisive:
//!    [`Ledger::open`](ledger::Ledger::open) reverts, at the next start, blocks that the chain does not know.
//!
//! source  Bitcoin's model of outputs; EIP-4895 (withdrawals), EIP-4788 (the root that contracts can read)

pub mod address;
pub mod amount;
pub mod asset;
mod codec;
pub mod lattice;
pub mod ledger;
pub mod output;
pub mod pool;
pub mod pool_journal;
pub mod prism;
pub mod rules;
#[cfg(test)]
mod testing;
pub mod tx;

pub use address::OwnerKey;
pub use asset::{Asset, AssetId};
pub use ledger::{Ledger, Session};
pub use output::{OutPoint, Output};
pub use pool::Pool;
pub use tx::{SharedTx, Tx};

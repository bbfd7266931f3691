//! svm: transactions that are more than transfers, run by the cluster's own engine (`solana-svm`).
//!
//! reads   batches of transactions that the ledger has checked, and its accounts
//! writes  outcomes and changed accounts, for the ledger to commit
//! memory  compiled programs: at most 512, the least used are evicted first
//! source  `solana-runtime` 4.2: how the cluster's bank feeds this engine
//!
//! All heavy dependencies are in this crate: the ledger knows only the engine's interface
//! ([`hearth_ledger::bank::ProgramRuntime`]).
//!
//! [`Svm`] (shared by all threads) creates workers, each of which converts a batch of transactions and accounts to the
//! engine's types, runs it, and returns outcomes. [`programs`] are those of a new chain.

mod convert;
mod delayed;
mod engine;
mod environment;
mod fork_graph;
mod message;
mod precompiles;
pub mod programs;
mod worker;

pub use engine::{LOG_BYTES, Svm};
pub use environment::feature_set_id;
pub use worker::is_executing;

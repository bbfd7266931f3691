//! svm: transactions that are more than transfers, run by the cluster's own engine (`solana-svm`).
//!
//! reads   batches of transactions that the ledger has checked, and its accounts
//! writes  outcomes and changed accounts, for the ledger to commit
//! memory  compiled programs: at most 512, the least used leave first
//! drops   nothing
//! source  `solana-runtime` 4.2: how the cluster's bank feeds this engine
//!
//! All that is heavy among the dependencies is here: the ledger knows of an engine only that there may
//! be one ([`hearth_ledger::bank::GeneralPath`]).
//!
//! The walk: [`Svm`] (what all threads share) → its workers (one batch) → the transaction and the
//! accounts in the engine's terms → outcomes. [`programs`] is what a chain has at its beginning.

mod convert;
mod delayed;
mod engine;
mod environment;
mod message;
mod precompiles;
pub mod programs;
mod worker;

pub use engine::{LOG_BYTES, Svm};
pub use environment::feature_set_id;
pub use worker::is_executing;

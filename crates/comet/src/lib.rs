//! The ledger as an application of CometBFT.

pub mod envelope;
pub mod homes;
pub mod program;
pub mod rpc;
pub mod settings;
pub mod snapshot;

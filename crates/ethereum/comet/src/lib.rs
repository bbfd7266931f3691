//! The ledger as an application of CometBFT.
//!
//! [`App`] answers what CometBFT asks; [`Spreader`] hands this node's transactions to the others; [`homes`] writes a
//! network's files. docs/cometbft.md tells the whole.

pub mod app;
pub mod app_hash;
pub mod block;
pub mod check;
pub mod envelope;
pub mod homes;
pub mod program;
pub mod query;
pub mod rpc;
pub mod settings;
pub mod snapshot;
pub mod spread;

pub use app::App;
pub use spread::Spreader;

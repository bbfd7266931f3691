//! The ledger as an application of CometBFT.
//!
//! [`App`] answers what CometBFT asks; [`Spreader`] hands this node's transactions to the others; [`testnet_dirs`]
//! writes a network's files. docs/cometbft.md tells the whole.

pub mod app;
pub mod app_hash;
pub mod block;
pub mod check;
pub mod config_toml;
pub mod envelope;
pub mod program;
pub mod query;
pub mod rpc;
pub mod snapshot;
pub mod testnet_dirs;
pub mod tx_gossip;

pub use app::App;
pub use tx_gossip::Spreader;

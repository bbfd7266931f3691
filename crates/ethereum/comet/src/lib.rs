//! The ledger as a CometBFT application.
//!
//! [`App`] answers CometBFT's requests; [`Spreader`] hands this node's transactions to the others; [`testnet_dirs`]
//! writes a network's files. docs/cometbft.md has the full design.

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

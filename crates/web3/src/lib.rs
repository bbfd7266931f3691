//! web3: what clients ask a node, in Ethereum's words: JSON-RPC 2.0 and subscriptions, over HTTP and WebSocket.
//!
//! reads   requests over TCP; the chain
//! writes  answers and notifications; transactions into the chain, in bursts
//! memory  [`Limits`] bounds it: connections, the size of a request and of an answer, subscriptions, queued
//!         notifications, filters, calls at once
//! drops   connections, subscriptions, filters and calls over the limits, clients that read too slowly: each is told
//!         where it can be, and counted in [`Counters`]
//! source  the execution API of ethereum.org; go-ethereum 1.16 for errors and what the specification leaves open; anvil
//!         and hardhat for what they add for development

pub mod config;
pub mod counters;
pub mod criteria;
pub mod failure;
pub mod gate;
pub mod heavy;
pub mod hexadecimal;
pub mod json;
pub mod jsonrpc;
pub mod params;
pub mod rate;

pub use config::{Config, Limits};
pub use counters::Counters;

/// The release of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

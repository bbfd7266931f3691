//! web3: Ethereum's JSON-RPC 2.0 and subscriptions, over HTTP and WebSocket.
//!
//! reads   requests over TCP; the chain
//! writes  answers and notifications; transactions into the chain, in bursts
//! memory  [`Limits`] bounds it: connections, the size of a request and of an answer, subscriptions, queued
//!         notifications, filters, calls at once
//! drops   connections, subscriptions, filters and calls over the limits, clients that read too slowly: each gets an
//!         error where that is possible, and is counted in [`Counters`]
//! source  the execution API of ethereum.org; go-ethereum 1.16 for errors and what the specification leaves open; anvil
//!         and hardhat for what they add for development
//!
//! The path of a request: [`server`] (sockets and threads) → `http` or `websocket` (bytes into requests) →
//! [`hearth_serve::jsonrpc`] (one request or a batch) → `params` → `methods` (the answers), `subscriptions` and
//! `filters` (notifications). Expensive work goes through `call_pool` to threads of its own.

mod call_pool;
pub mod config;
mod console;
mod console_printer;
mod cors;
pub mod counters;
mod criteria;
pub mod error;
mod failure;
mod feed;
mod filters;
mod hexadecimal;
mod http;
mod ids;
mod json;
mod methods;
pub mod metrics;
mod params;
mod profiler;
pub mod server;
mod shapes;
mod subscriber_queue;
mod subscriptions;
mod trace;
mod websocket;

pub use config::{Config, Limits};
pub use counters::{Counters, is_gauge};
pub use error::ServeError;
pub use profiler::{Instruments, PROFILE_SECONDS_MAX, ProfileFormat, ProfileSpan, Profiler};
pub use server::{Server, serve, serve_on};

/// The version of this program, as `web3_clientVersion` says it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

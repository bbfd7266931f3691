//! rpc: Solana's client interface: JSON-RPC 2.0 over HTTP, and subscriptions over WebSocket.
//!
//! reads   requests over TCP; the ledger
//! writes  responses and notifications; transactions into the pipeline, through [`TransactionInlet`]
//! memory  bounded by [`Limits`]: connections, sizes of requests and responses, subscriptions, queued notifications
//! drops   connections and subscriptions over the limits, transactions for which the pipeline has no room, and clients
//!         that read too slowly. Each gets an error where possible, and is counted in [`Counters`]
//! source  the methods, parameters, shapes and error codes of `solana-rpc` and `solana-rpc-client-api` 4.2
//!
//! A request passes through [`server`] (sockets, by `hearth_serve`) → `http` or `websocket` (bytes into requests) →
//! [`hearth_serve::jsonrpc`] (one request or a batch) → `params` → `methods` (immediate results) or `subscriptions`
//! (later notifications).
//!
//! The RPC runs on its own threads, beside the pipeline: tiles never wait for a client, and a read holds a ledger lock
//! only for one lookup.

pub mod config;
pub mod counters;
mod encoding;
mod filters;
mod history;
mod http;
mod jsonrpc;
mod methods;
mod params;
mod profiler;
#[cfg(test)]
mod reference_tests;
pub mod server;
mod subscriptions;
mod websocket;

pub use config::{
    Busy, ClusterNode, ClusterNodes, Download, FaucetSigner, IdentitySource, Limits, Liveness, NewestSnapshot, Offer,
    RpcConfig, RpcNode, TransactionInlet,
};
pub use counters::Counters;
pub use methods::PROFILE_HZ_MAX;
pub use profiler::{Admin, ProfileFormat, ProfilePlan, ProfileSpan, Profiler};
pub use server::{RpcError, RpcServer};

/// The Agave release whose interface this server implements; clients adapt to the version that it reports.
pub const INTERFACE_VERSION: &str = "4.2.2";
/// The release of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

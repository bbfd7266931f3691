//! rpc: what clients ask a node, in Solana's words: JSON-RPC 2.0 over HTTP, subscriptions over WebSocket.
//!
//! reads   requests over TCP; the ledger
//! writes  answers and notifications; transactions into the pipeline, through [`TransactionInlet`]
//! memory  [`Limits`] bounds it: connections, the size of a request and of an answer, subscriptions, queued
//!         notifications
//! drops   connections and subscriptions over the limits, transactions that the pipeline has no room for, clients
//!         that read too slowly: each is told where it can be, and counted in [`Counters`]
//! source  the methods, parameters, shapes and error codes of `solana-rpc` and `solana-rpc-client-api` 4.2
//!
//! The walk: [`server`] (what listens, by `hearth_serve`) → `http` or `websocket` (bytes into requests) →
//! [`hearth_serve::jsonrpc`] (one request or a batch) → `params` → `methods` (what is answered) or `subscriptions`
//! (what is told later).
//!
//! It runs on threads of its own, beside the pipeline: tiles never wait for a client, and a read holds a lock of
//! the ledger for one look.

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
    Busy, ClusterNode, ClusterNodes, Download, FaucetSigner, Limits, Liveness, Offer, RpcConfig, RpcNode,
    TransactionInlet,
};
pub use counters::Counters;
pub use methods::PROFILE_HZ_MAX;
pub use profiler::{Admin, ProfileFormat, ProfilePlan, ProfileSpan, Profiler};
pub use server::{RpcError, RpcServer};

/// The release of the cluster's software whose interface is followed: what clients that adapt to a version look at.
pub const INTERFACE_VERSION: &str = "4.2.2";
/// The release of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

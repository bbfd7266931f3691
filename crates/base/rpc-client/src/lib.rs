//! rpc-client: asks nodes over HTTP, one JSON-RPC question at a time or many in a request.
//!
//! [`RpcClient`] speaks to Solana's nodes, Ethereum's and CometBFT alike; what a method means is its caller's concern.
//! [`http`] is the client below it, for pages that are not JSON-RPC.
//!
//! reads   answers over HTTP
//! writes  requests
//! memory  an answer, [`Options::answer_max`] at most; a few kept connections
//! drops   nothing: each question has an answer or an [`RpcError`]
//! source  JSON-RPC 2.0

mod answer;
mod client;
mod error;
pub mod http;

pub use client::{Options, RpcClient};
pub use error::{Refusal, RpcError};

#[cfg(test)]
mod tests;

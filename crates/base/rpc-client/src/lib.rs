//! rpc-client: a JSON-RPC client over HTTP, for single requests and batches.
//!
//! [`RpcClient`] works with Solana, Ethereum and CometBFT nodes alike; the meaning of methods is up to the caller.
//! [`http`] is the client below it, for pages that are not JSON-RPC.
//!
//! reads   answers over HTTP
//! writes  requests
//! memory  one answer, [`Options::answer_max`] at most; a few idle connections
//! drops   nothing: each request gets an answer or an [`RpcError`]
//! source  JSON-RPC 2.0

mod answer;
mod client;
mod error;
pub mod http;

pub use client::{Options, RpcClient};
pub use error::{Refusal, RpcError};

#[cfg(test)]
mod tests;

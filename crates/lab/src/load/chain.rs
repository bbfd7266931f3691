//! Which chain a node is of, found out by what it answers.
//!
//! reads   `eth_chainId`; `getVersion`
//! writes  nothing

use std::time::Duration;

use serde_json::json;

use super::rpc::{Rpc, RpcError};
use super::{run, solana};

/// A node of a chain that a load knows.
pub enum Connected {
    /// It speaks Ethereum's JSON-RPC.
    Ethereum(run::Node),
    /// It speaks Solana's.
    Solana(solana::Node),
}

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It does not answer as it should.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// It answers, and knows neither question.
    #[error("{url} speaks neither Ethereum's JSON-RPC ({ethereum}) nor Solana's ({solana})")]
    Neither {
        /// Whom we asked.
        url: String,
        /// Its words when asked as a node of Ethereum.
        ethereum: String,
        /// Its words when asked as one of Solana.
        solana: String,
    },
}

/// Asks a node which chain it is of, and who it is.
pub fn connect(url: &str, timeout: Duration) -> Result<Connected, ConnectError> {
    let rpc = Rpc::new(url, timeout)?;
    let ethereum = match rpc.call("eth_chainId", &json!([])) {
        Ok(_) => return Ok(Connected::Ethereum(run::connect(url, timeout)?)),
        // Some servers refuse what they do not know by a status alone, or without an id.
        Err(why @ (RpcError::Refused { .. } | RpcError::Status { .. } | RpcError::Garbled { .. })) => why,
        Err(why) => return Err(why.into()),
    };
    match rpc.call("getVersion", &json!([])) {
        Ok(_) => Ok(Connected::Solana(solana::Node::ask(rpc)?)),
        Err(RpcError::Refused { message, .. }) if matches!(ethereum, RpcError::Refused { .. }) => {
            Err(ConnectError::Neither { url: url.into(), ethereum: ethereum.to_string(), solana: message })
        }
        // It was no refusal, and its first failure says what is wrong.
        Err(_) if !matches!(ethereum, RpcError::Refused { .. }) => Err(ethereum.into()),
        Err(why) => Err(why.into()),
    }
}

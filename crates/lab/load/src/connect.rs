//! Finds out which chain a node belongs to by what it answers.
//!
//! reads   `eth_chainId`; `getVersion`

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::rpc::{Rpc, RpcError};
use crate::{ethereum, solana};

/// How often a node that is not up yet is asked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A node of a chain that the load supports.
pub enum ConnectedNode {
    /// The node speaks Ethereum's JSON-RPC.
    Ethereum(ethereum::Node),
    /// The node speaks Solana's.
    Solana(solana::Node),
}

/// Why there is no connection to a node.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The node does not answer as it should.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The node answers, but refuses both requests.
    #[error("{url} speaks neither Ethereum's JSON-RPC ({ethereum}) nor Solana's ({solana})")]
    Neither {
        /// URL of the node.
        url: String,
        /// Its answer to Ethereum's request.
        ethereum: String,
        /// Its answer to Solana's request.
        solana: String,
    },
}

/// Finds out which chain a node belongs to, and connects to it.
pub fn connect(url: &str, timeout: Duration) -> Result<ConnectedNode, ConnectError> {
    let rpc = Rpc::new(url, timeout)?;
    let ethereum = match rpc.call("eth_chainId", &json!([])) {
        Ok(_) => return Ok(ConnectedNode::Ethereum(ethereum::node::connect(url, timeout)?)),
        // Some servers refuse an unknown method by an HTTP status alone, or without an id.
        Err(why @ (RpcError::Refused { .. } | RpcError::Status { .. } | RpcError::Garbled { .. })) => why,
        Err(why) => return Err(why.into()),
    };
    match rpc.call("getVersion", &json!([])) {
        Ok(_) => Ok(ConnectedNode::Solana(solana::Node::ask(rpc)?)),
        Err(RpcError::Refused { message, .. }) if matches!(ethereum, RpcError::Refused { .. }) => {
            Err(ConnectError::Neither { url: url.into(), ethereum: ethereum.to_string(), solana: message })
        }
        // The first error was not a refusal, so it says what is wrong.
        Err(_) if !matches!(ethereum, RpcError::Refused { .. }) => Err(ethereum.into()),
        Err(why) => Err(why.into()),
    }
}

impl ConnectError {
    /// Returns whether the error may pass by itself: the node may be starting or overloaded.
    fn may_pass(&self) -> bool {
        match self {
            Self::Rpc(why) => solana::retry::may_pass(why),
            Self::Neither { .. } => false,
        }
    }
}

/// Like [`connect`], but retries for `patience` while the node may be starting. The callback gets the first error.
pub fn connect_patiently(
    url: &str,
    timeout: Duration,
    patience: Duration,
    stop: &dyn Fn() -> bool,
    on_retry: &mut dyn FnMut(&ConnectError),
) -> Result<ConnectedNode, ConnectError> {
    let (deadline, mut is_told) = (Instant::now() + patience, false);
    loop {
        match connect(url, timeout) {
            Err(why) if why.may_pass() && Instant::now() < deadline && !stop() => {
                if !is_told {
                    on_retry(&why);
                    is_told = true;
                }
                thread::sleep(LOOK_EVERY);
            }
            ended => return ended,
        }
    }
}

//! Which chain a node is of, found out by what it answers.
//!
//! reads   `eth_chainId`; `getVersion`

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::rpc::{Rpc, RpcError};
use crate::{ethereum, solana};

/// How often a node that is not up yet is asked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A node of a chain that a load knows.
pub enum Connected {
    /// It speaks Ethereum's JSON-RPC.
    Ethereum(ethereum::Node),
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
        Ok(_) => return Ok(Connected::Ethereum(ethereum::node::connect(url, timeout)?)),
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

impl ConnectError {
    /// Whether a node may be there a moment later: one that is just starting, or has too much to do.
    fn may_pass(&self) -> bool {
        match self {
            Self::Rpc(why) => solana::retry::may_pass(why),
            Self::Neither { .. } => false,
        }
    }
}

/// The same of a node that may not be up yet: asks again for so long. `told` hears once why it does not answer.
pub fn connect_patiently(
    url: &str,
    timeout: Duration,
    patience: Duration,
    stop: &dyn Fn() -> bool,
    told: &mut dyn FnMut(&ConnectError),
) -> Result<Connected, ConnectError> {
    let (deadline, mut is_told) = (Instant::now() + patience, false);
    loop {
        match connect(url, timeout) {
            Err(why) if why.may_pass() && Instant::now() < deadline && !stop() => {
                if !is_told {
                    told(&why);
                    is_told = true;
                }
                thread::sleep(LOOK_EVERY);
            }
            ended => return ended,
        }
    }
}

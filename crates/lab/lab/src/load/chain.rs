//! Which chain a node is of, found out by what it answers; and that several are of the same.
//!
//! reads   `eth_chainId`; `getVersion`; what tells a chain from others
//! writes  nothing

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::asked::LoadError;
use super::rpc::{Retryable, Rpc, RpcError};
use super::{run, solana};

/// How often a node that is not up yet is asked.
const LOOK_EVERY: Duration = Duration::from_millis(200);

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

impl ConnectError {
    /// Whether a node may be there a moment later: one that is just starting, or has too much to do.
    fn may_pass(&self) -> bool {
        match self {
            Self::Rpc(why) => solana::patient::may_pass(why),
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

/// What tells a chain from others: names and values.
pub type Marks = Vec<(&'static str, String)>;

/// That further nodes are of the first one's chain, by `marks` that both tell. Gives those that do not answer: they may
/// do so later.
pub fn check_chains(
    first: &Rpc,
    others: &[String],
    timeout: Duration,
    marks: fn(&Rpc) -> Result<Marks, RpcError>,
) -> Result<Vec<RpcError>, LoadError> {
    let mut silent = vec![];
    if others.is_empty() {
        return Ok(silent);
    }
    let ours = marks(first)?;
    for url in others {
        let first = || first.url().to_owned();
        let theirs = match marks(&Rpc::new(url, timeout)?) {
            Ok(theirs) => theirs,
            Err(why @ RpcError::Refused { .. }) if !why.may_pass() => {
                return Err(LoadError::OtherKind { url: url.clone(), first: first(), why });
            }
            Err(why) => {
                silent.push(why);
                continue;
            }
        };
        let pairs = ours.iter().filter_map(|(what, ours)| {
            let (_, theirs) = theirs.iter().find(|(name, _)| name == what)?;
            (ours != theirs).then(|| (*what, ours.clone(), theirs.clone()))
        });
        if let Some((what, ours, theirs)) = { pairs }.next() {
            return Err(LoadError::OtherChain { url: url.clone(), first: first(), what, ours, theirs });
        }
    }
    Ok(silent)
}

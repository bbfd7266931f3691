//! Why a run gives no report, whatever the chain.

use crate::retry::NoAnswer;
use crate::rpc::RpcError;
use crate::tpu::TpuError;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The node.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// A transaction of the set-up.
    #[error("{what}: {why}")]
    SetUp {
        /// Which.
        what: &'static str,
        /// What happened.
        why: String,
    },
    /// Stopped before anything was measured.
    #[error("stopped before the load began")]
    Stopped,
    /// A further node is of another chain.
    #[error("{url} is of another chain than {first}: its {what} is {theirs}, not {ours}")]
    OtherChain {
        /// Its address.
        url: String,
        /// The first node's.
        first: String,
        /// What differs.
        what: &'static str,
        /// The first node's.
        ours: String,
        /// Its own.
        theirs: String,
    },
    /// A further node does not know what nodes of this chain are asked.
    #[error("{url} is no node of the chain that {first} is of: {why}")]
    OtherKind {
        /// Its address.
        url: String,
        /// The first node's.
        first: String,
        /// What it says.
        why: RpcError,
    },
    /// A process that was named is not there.
    #[error("there is no process {0}")]
    Process(u32),
    /// The way to the TPU.
    #[error(transparent)]
    Tpu(#[from] TpuError),
    /// The node tells no address for transactions.
    #[error("the node names no QUIC address for transactions: give it with --tpu, or send with --rpc-send")]
    NoTpu,
    /// One account has nobody to pay.
    #[error("a load needs two accounts or more: each pays the others")]
    TooFew,
}

impl From<NoAnswer> for LoadError {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Stopped => Self::Stopped,
            NoAnswer::Rpc(why) => why.into(),
        }
    }
}

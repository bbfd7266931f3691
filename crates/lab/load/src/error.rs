//! Why a run gives no report, on any chain.

use crate::retry::NoAnswer;
use crate::rpc::RpcError;
use crate::tpu::TpuError;

/// Why a run gives no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The node does not answer as it should.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// A transaction of the set-up failed.
    #[error("{what}: {why}")]
    SetUp {
        /// The step of the set-up.
        what: &'static str,
        /// Why the step failed, in the node's words where it has some.
        why: String,
    },
    /// The run was stopped before anything was measured.
    #[error("stopped before the load began")]
    Stopped,
    /// A further node belongs to another chain.
    #[error("{url} is of another chain than {first}: its {what} is {theirs}, not {ours}")]
    OtherChain {
        /// URL of the further node.
        url: String,
        /// URL of the first node.
        first: String,
        /// Name of the mark that differs.
        what: &'static str,
        /// The first node's value.
        ours: String,
        /// The further node's value.
        theirs: String,
    },
    /// A further node does not support the requests of this chain.
    #[error("{url} and {first} are nodes of different chains: {why}")]
    OtherKind {
        /// URL of the further node.
        url: String,
        /// URL of the first node.
        first: String,
        /// The further node's answer.
        why: RpcError,
    },
    /// No process has this id.
    #[error("there is no process {0}")]
    Process(u32),
    /// The TPU cannot be reached.
    #[error(transparent)]
    Tpu(#[from] TpuError),
    /// The node reports no QUIC address for transactions.
    #[error("the node names no QUIC address for transactions: give it with --tpu, or send with --rpc-send")]
    NoTpu,
    /// A load needs at least two accounts, because they pay each other.
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

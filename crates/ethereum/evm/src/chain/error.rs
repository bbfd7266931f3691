//! Errors of the chain.

use std::io;
use std::path::PathBuf;

use alloy_primitives::B256;
use hearth_wal::pool_file::PoolFileError;
use revm::primitives::hardfork::SpecId;

use super::INTERVAL_MAX;
use crate::blocks::BlocksError;
use crate::exec::BlockFault;
use crate::genesis::GenesisError;
use crate::pool::PoolError;
use crate::side::{SideError, SideRefusal};
use crate::state::StateError;
use crate::tx::TxError;

/// Why a transaction is refused, in geth's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// It is malformed, or for another chain.
    #[error(transparent)]
    Tx(#[from] TxError),
    /// The pool refuses it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The side ledger refuses it.
    #[error(transparent)]
    Side(SideRefusal),
    /// The pool accepted it, but it could not be stored: it was dropped again.
    #[error("the transaction cannot be kept on disk: {0}")]
    NotKept(String),
}

impl From<SideRefusal> for SubmitError {
    fn from(refusal: SideRefusal) -> Self {
        match refusal {
            SideRefusal::NotKept(why) => Self::NotKept(why),
            refusal => Self::Side(refusal),
        }
    }
}

/// Why the chain cannot be opened or continue.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// An error of the state.
    #[error(transparent)]
    State(#[from] StateError),
    /// An error of the side ledger.
    #[error(transparent)]
    Side(#[from] SideError),
    /// A side ledger that cannot be this chain's.
    #[error(
        "the outputs of that state cannot be loaded: this chain's ledger of outputs has a history of its own, or its \
         rules have none yet; begin a new chain with that state"
    )]
    SideInUse,
    /// An error of the chain's folder.
    #[error("cannot {what} {}: {source}", path.display())]
    Folder {
        /// The operation that failed.
        what: &'static str,
        /// The file or folder on which it failed.
        path: PathBuf,
        /// Why it failed, as the operating system says it.
        source: io::Error,
    },
    /// An error of the block store.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// An error of the pool's file.
    #[error(transparent)]
    Journal(#[from] PoolFileError),
    /// The rules were others when the folder's blocks were made.
    #[error("{}: {what}: a fork or a limit can be changed only before blocks are made under it", path.display())]
    Schedule {
        /// The file with the forks of the folder's chain.
        path: PathBuf,
        /// The difference, in words, or why the file cannot be used.
        what: String,
    },
    /// A genesis under whose rules there is no block 1.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The executed transactions cannot form a block.
    #[error("no block {number} can be made: {why}")]
    NoBlock {
        /// The height that the block would have.
        number: u64,
        /// The fault that its execution found.
        why: BlockFault,
    },
    /// The next block is one of proof of work.
    #[error(
        "the next block is under {0:?}, before the merge: this node makes no blocks of such rules. Give a genesis \
        with terminalTotalDifficulty 0 and all forks up to London from block 0, or import the blocks up to the merge"
    )]
    BeforeMerge(SpecId),
    /// The state is that of a block that is not there.
    #[error(
        "{}: the state is that of block {state}, but the blocks end with {blocks}: files of the folder are missing or \
        cut", dir.display()
    )]
    StateAhead {
        /// The chain's folder, with blocks and state.
        dir: PathBuf,
        /// Number of the state's block.
        state: u64,
        /// Number of the newest block.
        blocks: u64,
    },
    /// The state is that of a block that is not kept any more.
    #[error(
        "{}: the state is that of block {state}, but the blocks begin with {first}: files of the folder are missing or \
        cut", dir.display()
    )]
    StateBehind {
        /// The chain's folder, with blocks and state.
        dir: PathBuf,
        /// Number of the state's block.
        state: u64,
        /// Number of the first block.
        first: u64,
    },
    /// The state is that of another block of this height.
    #[error("the state is not that of the folder's block {number}: they do not belong together")]
    OtherState {
        /// The height of the state's block.
        number: u64,
    },
    /// A block of the folder has another hash when it is executed again.
    #[error("block {number} of the folder is {kept}, but executing it again gives {executed}")]
    Replay {
        /// The height of the block whose hash differs.
        number: u64,
        /// The hash in the folder.
        kept: B256,
        /// The hash it would have.
        executed: B256,
    },
    /// No thread for the sequencer.
    #[error("cannot start the sequencer's thread: {0}")]
    Thread(#[source] io::Error),
    /// An earlier failure left the stores in an unknown state.
    #[error("no more blocks can be made: {0}")]
    Ended(String),
    /// A block that does not follow the head.
    #[error("block {number} does not follow the newest block, {head}")]
    NotNext {
        /// The height of the refused block.
        number: u64,
        /// The newest block's number.
        head: u64,
    },
    /// A block that was executed on another than the newest block.
    #[error("block {number} was executed on {parent}, which is not the newest block")]
    OtherParent {
        /// The height of the refused block.
        number: u64,
        /// The block it was executed on.
        parent: B256,
    },
    /// A time before that of the newest block.
    #[error("Timestamp error: {timestamp} is lower than or equal to previous block's timestamp {head}")]
    Timestamp {
        /// The requested Unix time, in seconds.
        timestamp: u64,
        /// The Unix time of the newest block, in seconds.
        head: u64,
    },
    /// A time that would leave none for the blocks after it.
    #[error("Timestamp error: {0} is too large: at most 2^63-1")]
    TimestampTooLate(u64),
    /// An interval of nothing, or of ages.
    #[error("a block time must be longer than nothing and shorter than {} days", INTERVAL_MAX.as_secs() / 86_400)]
    Interval,
}

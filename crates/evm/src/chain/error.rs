//! What can go wrong with the chain.

use std::io;

use alloy_primitives::B256;

use crate::pool::PoolError;
use crate::state::StateError;
use crate::tx::TxError;

/// Why a transaction is not taken, in geth's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// It is none, or not for this chain.
    #[error(transparent)]
    Tx(#[from] TxError),
    /// The pool does not take it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// It is none of the ledger of outputs.
    #[error(transparent)]
    Output(#[from] hearth_utxo::tx::TxError),
    /// The pool of the ledger of outputs does not take it.
    #[error(transparent)]
    OutputPool(#[from] hearth_utxo::pool::PoolError),
}

/// Why the chain cannot be opened or go on.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The state.
    #[error(transparent)]
    State(#[from] StateError),
    /// The ledger of outputs.
    #[error(transparent)]
    Outputs(#[from] hearth_utxo::ledger::LedgerError),
    /// No thread for the sequencer.
    #[error("cannot start the sequencer's thread: {0}")]
    Thread(#[source] io::Error),
    /// A block that does not follow the head.
    #[error("block {number} does not follow the newest block, {head}")]
    NotNext {
        /// Its height.
        number: u64,
        /// That of the newest.
        head: u64,
    },
    /// A block that was executed on another than the newest block.
    #[error("block {number} was executed on {parent}, which is not the newest block")]
    OtherParent {
        /// Its height.
        number: u64,
        /// The block it was executed on.
        parent: B256,
    },
    /// A time before that of the newest block.
    #[error("Timestamp error: {timestamp} is lower than or equal to previous block's timestamp {head}")]
    Timestamp {
        /// The time asked for.
        timestamp: u64,
        /// That of the newest block.
        head: u64,
    },
    /// An interval of nothing.
    #[error("a block time must be longer than nothing")]
    NoInterval,
}

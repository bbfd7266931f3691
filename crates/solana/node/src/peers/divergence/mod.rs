//! Divergence: why this node's state or tower no longer fits its cluster, in a sentence.
//!
//! reads   the errors with which the tiles replay and tower ended; what other nodes say of accounts, over their RPC
//! writes  a sentence
//! source  `docs/consensus.md`

mod asking;
mod first_difference;

use std::sync::Arc;
use std::sync::mpsc::channel;

use hearth_command::output::note;
use hearth_gossip::board::Board;
use hearth_ledger::blockstore::StoreError;
use hearth_ledger::{Ledger, RewindError};
use hearth_pipeline::failure::Failure;
use hearth_pipeline::replay::ReplayError;
use hearth_pipeline::replay::position::PositionError;
use hearth_pipeline::tower::TowerError;
use hearth_wire::{Hash, Pubkey};

use super::gossip;
pub use asking::Asking;
use asking::Question;
use first_difference::DivergentBlock;

/// Why a node can no longer be in its cluster.
#[derive(Debug, thiserror::Error)]
pub enum DivergenceError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A block that was executed before.
    #[error("a block of the cluster does not execute here: {0}")]
    Again(#[from] ReplayError),
    /// The ledger cannot leave a fork.
    #[error("the ledger cannot leave a fork: {0}")]
    Rewind(#[from] RewindError),
    /// Another state.
    #[error(
        "slot {slot}: the cluster has voted for the bank hash {theirs}, and here it is {ours}: this node's state is not the cluster's. \
         {differs}. Keep the ledger folder for whoever looks into it, and begin anew in an empty one"
    )]
    Mismatch {
        /// The slot.
        slot: u64,
        /// What more than a third of the stake voted for.
        theirs: String,
        /// What came out here.
        ours: String,
        /// The first account that differs, if it can be known.
        differs: String,
    },
    /// What the cluster has executed does not execute here.
    #[error(
        "slot {slot}: the cluster has voted for this very block, and here it cannot be executed: {why}. This node's state \
         is not the cluster's, or its program does otherwise. Keep the ledger folder for whoever looks into it"
    )]
    Dead {
        /// The slot.
        slot: u64,
        /// Why it cannot be executed here.
        why: String,
    },
    /// A block came to another hash than the first time.
    #[error("slot {0} has come to another bank hash than when it was executed first: the node cannot trust its state")]
    NotTheSame(u64),
    /// The tower does not fit the chain, the disk does not take it, or another process is this node.
    #[error(transparent)]
    Tower(#[from] TowerError),
}

/// Explains the errors with which replay and tower end a node that has diverged from its cluster.
pub struct DivergenceWatch {
    /// The node.
    pub node: Pubkey,
    /// The chain.
    pub ledger: Arc<Ledger>,
    /// The nodes of the cluster, as gossip posts them.
    pub board: Arc<Board>,
    /// Where the tile replay says why it has ended.
    pub replay: Failure<PositionError>,
    /// Where the tile tower does.
    pub tower: Failure<TowerError>,
    /// What others are asked about it.
    pub asking: Asking,
}

impl DivergenceWatch {
    /// Why one of the tiles has ended, once. Where other nodes are asked about it, which takes seconds, there is no
    /// failure until they have answered, so that the caller can stop the node meanwhile.
    pub fn failure(&self) -> Option<DivergenceError> {
        if let Some(error) = self.replay.take().and_then(|why| self.explain(why)) {
            return Some(error);
        }
        if self.asking.is_open() {
            return self.asking.poll();
        }
        self.tower.take().map(DivergenceError::from)
    }

    /// As [`DivergenceWatch::failure`], for a node that stops now: other nodes' answers are not waited for.
    pub fn last_failure(&self) -> Option<DivergenceError> {
        self.failure().or_else(|| self.asking.end())
    }

    /// The error that the node ends with; none yet where others are asked about it.
    fn explain(&self, why: PositionError) -> Option<DivergenceError> {
        let error: DivergenceError = match why {
            PositionError::Store(why) => why.into(),
            PositionError::Rewind(why) => why.into(),
            PositionError::Again(why) => why.into(),
            PositionError::NotTheSame(slot) => DivergenceError::NotTheSame(slot),
            PositionError::RefutedDead { slot, why } => DivergenceError::Dead { slot, why },
            PositionError::Refuted { slot, theirs, ours } => {
                self.ask(slot, theirs, ours);
                return None;
            }
        };
        Some(error)
    }

    /// Asks others where the two states part.
    fn ask(&self, slot: u64, theirs: Hash, ours: Hash) {
        note(format_args!(
            "slot {slot} has another bank hash here than its leader voted for: asking which account differs"
        ));
        let (ledger, board, node) = (Arc::clone(&self.ledger), Arc::clone(&self.board), self.node);
        let (answer, differs) = channel();
        let ask = move || {
            let leader = ledger.leader_at(slot).map(|leader| leader.node).unwrap_or_default();
            let block = DivergentBlock { ledger: &ledger, node, slot, theirs, leader };
            // Nobody waits for it where the node was stopped meanwhile.
            let _ = answer.send(block.first_difference(|| gossip::nodes(&board)));
        };
        // Where no thread begins the channel closes, and the error says that nobody was asked.
        let _ = std::thread::Builder::new().name("divergence".into()).spawn(ask);
        self.asking.begin(Question { slot, theirs, ours, differs });
    }
}

//! Divergence: explains why this node's state or tower no longer fits its cluster.
//!
//! reads   the errors with which the tiles replay and tower ended; other nodes' accounts, over their RPC
//! writes  a sentence
//! source  `docs/consensus.md`

mod first_difference;
mod hash_query;

use std::sync::Arc;
use std::sync::mpsc::channel;

use hearth_command::exit_code::{ExitCode, FAILED, UNSUPPORTED_CHAIN};
use hearth_command::output::note;
use hearth_gossip::board::Board;
use hearth_ledger::blockstore::StoreError;
use hearth_ledger::{Ledger, RewindError, SlotError};
use hearth_pipeline::failure::Failure;
use hearth_pipeline::identity::IdentityWatch;
use hearth_pipeline::replay::ReplayError;
use hearth_pipeline::replay::position::PositionError;
use hearth_pipeline::tower::TowerError;
use hearth_wire::Hash;

use super::gossip;
use first_difference::DivergentBlock;
use hash_query::HashMismatch;
pub use hash_query::HashQuery;

/// Why a node can no longer be in its cluster.
#[derive(Debug, thiserror::Error)]
pub enum DivergenceError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A block that was replayed before fails now.
    #[error("a block of the cluster does not execute here: {0}")]
    Again(#[from] ReplayError),
    /// The ledger cannot rewind.
    #[error("the ledger cannot leave a fork: {0}")]
    Rewind(#[from] RewindError),
    /// The state differs from the cluster's.
    #[error(
        "slot {slot}: the cluster has voted for the bank hash {theirs}, and here it is {ours}: this node's state is not the cluster's. \
         {differs}. Keep the ledger folder as evidence, and start again in an empty one"
    )]
    Mismatch {
        /// The slot of the first known difference.
        slot: u64,
        /// The hash that more than a third of the stake voted for.
        theirs: String,
        /// The hash computed here.
        ours: String,
        /// The first account that differs, if known.
        differs: String,
    },
    /// A block that the cluster has executed cannot be executed here.
    #[error(
        "slot {slot}: the cluster has voted for this very block, and here it cannot be executed: {why}. This node's state \
         is not the cluster's, or its program has other rules. Keep the ledger folder as evidence"
    )]
    Dead {
        /// The slot of the block that is dead here.
        slot: u64,
        /// Why it cannot be executed, as a clause.
        why: String,
    },
    /// A block's hash differs from its first replay.
    #[error("slot {0} has another bank hash than at its first execution: the node cannot trust its state")]
    NotTheSame(u64),
    /// The chain has a feature that this program lacks.
    #[error(transparent)]
    Feature(#[from] SlotError),
    /// The tower does not fit the chain, cannot be written to disk, or another process uses this identity.
    #[error(transparent)]
    Tower(#[from] TowerError),
}

impl ExitCode for DivergenceError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Feature(SlotError::Feature { .. }) => UNSUPPORTED_CHAIN,
            _ => FAILED,
        }
    }
}

/// Explains the errors with which replay and tower end a node that has diverged from its cluster.
pub struct DivergenceWatch {
    /// This node's identity, which may change while it runs.
    pub node: IdentityWatch,
    /// The ledger that has this node's version of the block.
    pub ledger: Arc<Ledger>,
    /// The cluster's nodes, posted by gossip.
    pub board: Arc<Board>,
    /// The error with which the replay tile ended.
    pub replay: Failure<PositionError>,
    /// The error with which the tower tile ended.
    pub tower: Failure<TowerError>,
    /// The pending question to other nodes.
    pub asking: HashQuery,
}

impl DivergenceWatch {
    /// Why one of the tiles has ended, reported once. If other nodes are queried, which takes seconds, there is no
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

    /// As [`DivergenceWatch::failure`], for a node that stops now: other nodes' answers are not awaited.
    pub fn last_failure(&self) -> Option<DivergenceError> {
        self.failure().or_else(|| self.asking.end())
    }

    /// The error with which the node ends; `None` while other nodes are queried about it.
    fn explain(&self, why: PositionError) -> Option<DivergenceError> {
        let error: DivergenceError = match why {
            PositionError::Store(why) => why.into(),
            PositionError::Rewind(why) => why.into(),
            PositionError::Again(why) => why.into(),
            PositionError::Feature(why) => why.into(),
            PositionError::NotTheSame(slot) => DivergenceError::NotTheSame(slot),
            PositionError::RefutedDead { slot, why } => DivergenceError::Dead { slot, why },
            PositionError::Refuted { slot, theirs, ours } => {
                self.ask(slot, theirs, ours);
                return None;
            }
        };
        Some(error)
    }

    /// Asks other nodes where the two states diverge.
    fn ask(&self, slot: u64, theirs: Hash, ours: Hash) {
        note(format_args!(
            "slot {slot} has another bank hash here than its leader voted for: asking which account differs"
        ));
        let (ledger, board, node) = (Arc::clone(&self.ledger), Arc::clone(&self.board), self.node.newest());
        let (answer, differs) = channel();
        let ask = move || {
            let leader = ledger.leader_at(slot).map(|leader| leader.node).unwrap_or_default();
            let block = DivergentBlock { ledger: &ledger, node, slot, theirs, leader };
            // If the node was stopped meanwhile nobody waits for the answer.
            let _ = answer.send(block.first_difference(|| gossip::nodes(&board)));
        };
        // If no thread can be started the channel closes, and the error says that nobody was asked.
        let _ = std::thread::Builder::new().name("divergence".into()).spawn(ask);
        self.asking.begin(HashMismatch { slot, theirs, ours, differs });
    }
}

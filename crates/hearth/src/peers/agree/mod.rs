//! Agreement: why the tiles replay and tower end, in a sentence.
//!
//! reads   why the tiles have ended; which accounts other nodes have, over their RPC
//! writes  a sentence
//! memory  –
//! drops   –
//! source  `docs/consensus.md`

mod differs;

use std::sync::Arc;

use hearth_cluster::board::Board;
use hearth_ledger::blockstore::StoreError;
use hearth_ledger::{Ledger, RewindError};
use hearth_pipeline::failure::Failure;
use hearth_pipeline::replay::ReplayError;
use hearth_pipeline::replay::position::PositionError;
use hearth_pipeline::tower::TowerError;
use hearth_wire::base58::encode_32;
use hearth_wire::{Hash, Pubkey};

use super::gossip;
use crate::say::note;
use differs::Parted;

/// Why a node can no longer be in its cluster.
#[derive(Debug, thiserror::Error)]
pub enum AgreeError {
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

/// What looks whether the node can still be in its cluster.
pub struct Agreement {
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
}

impl Agreement {
    /// Why one of the tiles has ended, once.
    pub fn failure(&self) -> Option<AgreeError> {
        let replay = self.replay.take().map(|why| self.explain(why));
        replay.or_else(|| self.tower.take().map(AgreeError::from))
    }

    fn explain(&self, why: PositionError) -> AgreeError {
        match why {
            PositionError::Store(why) => why.into(),
            PositionError::Rewind(why) => why.into(),
            PositionError::Again(why) => why.into(),
            PositionError::NotTheSame(slot) => AgreeError::NotTheSame(slot),
            PositionError::RefutedDead { slot, why } => AgreeError::Dead { slot, why },
            PositionError::Refuted { slot, theirs, ours } => self.mismatch(slot, theirs, ours),
        }
    }

    /// What the node ends with: it asks others where the two states part.
    fn mismatch(&self, slot: u64, theirs: Hash, ours: Hash) -> AgreeError {
        note(format_args!(
            "slot {slot} has another bank hash here than its leader voted for: asking which account differs"
        ));
        let leader = self.ledger.leader_at(slot).map(|leader| leader.node).unwrap_or_default();
        let parted = Parted { ledger: &self.ledger, node: self.node, slot, theirs, leader };
        let differs = parted.told(|| gossip::nodes(&self.board));
        let [theirs, ours] = [theirs, ours].map(|hash| encode_32(&hash).to_string());
        AgreeError::Mismatch { slot, theirs, ours, differs }
    }
}

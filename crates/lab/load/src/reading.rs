//! What reading the chain gave, whatever the chain.
//!
//! memory  see [`Blocks`]

use std::time::Instant;

use hdrhistogram::Histogram;

use crate::blocks::{Block, Blocks, Edges};
use crate::outcome::{histogram, record_many};
use crate::rpc::RpcError;

/// How far the reader was behind the node.
pub struct ReadingLag(pub Histogram<u64>);

impl Default for ReadingLag {
    fn default() -> Self {
        Self(histogram())
    }
}

impl ReadingLag {
    /// A block of the measured time with so many of the load's transactions was read that long after it could be.
    pub(super) fn record(&mut self, block: &Block, read: Instant, edges: &Edges) {
        if block.ours > 0 && edges[0].is_some_and(|begin| block.seen >= begin) {
            record_many(&mut self.0, read.saturating_duration_since(block.seen), block.ours);
        }
    }
}

/// What reading the chain gave.
#[derive(Default)]
pub struct Chain {
    /// In order.
    pub blocks: Blocks,
    /// How often the node named a block number whose block it could not give.
    pub number_ahead: u64,
    /// How often a block's parent was not the block before.
    pub reorganised: u64,
    /// Questions without an answer.
    pub errors: u64,
    /// How long after a block could first be read the load read it, for each of the load's transactions in it.
    pub reading_lag_us: ReadingLag,
    /// Why it ends before it was to.
    pub lost: Option<RpcError>,
    /// When the node last answered, where it does.
    pub lost_from: Option<Instant>,
}

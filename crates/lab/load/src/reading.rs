//! The result of reading the chain's blocks, on any chain.
//!
//! memory  see [`Blocks`]

use std::time::Instant;

use hdrhistogram::Histogram;

use crate::blocks::{Block, Blocks, Edges};
use crate::outcome::{histogram, record_many};
use crate::rpc::RpcError;

/// A histogram of how far the reader was behind the node, in µs.
pub struct ReadingLag(pub Histogram<u64>);

impl Default for ReadingLag {
    fn default() -> Self {
        Self(histogram())
    }
}

impl ReadingLag {
    /// Records how late a block of the measured time was read, once for each of the load's transactions in it.
    pub(super) fn record(&mut self, block: &Block, read: Instant, edges: &Edges) {
        if block.ours > 0 && edges[0].is_some_and(|begin| block.seen >= begin) {
            record_many(&mut self.0, read.saturating_duration_since(block.seen), block.ours);
        }
    }
}

/// The result of reading the chain's blocks.
#[derive(Default)]
pub struct Chain {
    /// The blocks in order.
    pub blocks: Blocks,
    /// How often the node reported a block number whose block it could not serve.
    pub number_ahead: u64,
    /// How often a block's parent was not the block before.
    pub reorganised: u64,
    /// Requests without an answer.
    pub errors: u64,
    /// How long after a block became readable the load read it, once for each of the load's transactions in it.
    pub reading_lag_us: ReadingLag,
    /// Why reading ended early.
    pub lost: Option<RpcError>,
    /// When the node last answered before reading ended early.
    pub lost_from: Option<Instant>,
}

//! The summary of an ended block.
//!
//! memory  a summary: 200 B

use hearth_wire::{Hash, Pubkey};

use crate::bank::BankCounts;

/// The summary of an ended block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BlockSummary {
    /// The block's slot.
    pub slot: u64,
    /// The slot of the parent block.
    pub parent: u64,
    /// The number of blocks before it.
    pub height: u64,
    /// Hash of its last entry, which later transactions may name.
    pub blockhash: Hash,
    /// The hash of its bank, once it is computed.
    pub bank_hash: Option<Hash>,
    /// Its clock, in Unix seconds.
    pub unix_timestamp: i64,
    /// Transactions committed since genesis, failed ones included.
    pub transaction_count: u64,
    /// Counts of its transactions by outcome.
    pub counts: BankCounts,
    /// The fees paid to the leader, if any.
    pub reward: Option<FeeReward>,
}

/// The leader's share of a block's fees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FeeReward {
    /// Who received it.
    pub collector: Pubkey,
    /// The amount in lamports.
    pub lamports: u64,
    /// The collector's balance afterwards, in lamports.
    pub post_balance: u64,
}

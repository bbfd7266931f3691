//! What is known of a block that has ended, beside its transactions.
//!
//! memory  a summary: 200 B

use hearth_wire::{Hash, Pubkey};

use crate::bank::BankCounts;

/// A block that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BlockSummary {
    /// Its slot.
    pub slot: u64,
    /// The slot of the block before.
    pub parent: u64,
    /// How many blocks precede it.
    pub height: u64,
    /// Its last hash: what transactions may name from now on.
    pub blockhash: Hash,
    /// The hash of its bank, once it is worked out.
    pub bank_hash: Option<Hash>,
    /// What its clock said, in seconds since 1970.
    pub unix_timestamp: i64,
    /// Transactions committed since genesis, failed ones included.
    pub transaction_count: u64,
    /// What became of its transactions.
    pub counts: BankCounts,
    /// What the leader got of the fees, if anything.
    pub reward: Option<FeeReward>,
}

/// The leader's share of a block's fees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FeeReward {
    /// Who got it.
    pub collector: Pubkey,
    /// How much.
    pub lamports: u64,
    /// The balance with it.
    pub post_balance: u64,
}

//! The summary of an ended block, and the payments in it.
//!
//! memory  a summary: 200 B; a payment: 56 B

use hearth_wire::{Hash, Pubkey};

use crate::bank::BankCounts;

/// The summary of an ended block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BlockSummary {
    /// The slot of the block.
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
    /// Whether inflation paid rewards as it began; [`Ledger::rewards`](crate::Ledger::rewards) has them.
    pub has_rewards: bool,
}

/// The leader's share of a block's fees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FeeReward {
    /// Address of the account that received it.
    pub collector: Pubkey,
    /// The amount in lamports.
    pub lamports: u64,
    /// The collector's balance afterwards, in lamports.
    pub post_balance: u64,
}

/// Why a payment was made in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewardKind {
    /// The leader's share of the fees.
    Fee,
    /// The reward of a validator's or a delegator's stake.
    Staking,
    /// The commission of a vote account.
    Voting,
    /// The reward of a stake that is no longer active.
    DeactivatedStake,
}

/// A payment in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reward {
    /// Address of the account that received it.
    pub pubkey: Pubkey,
    /// The amount in lamports.
    pub lamports: i64,
    /// The balance afterwards, in lamports.
    pub post_balance: u64,
    /// The reason for the payment.
    pub kind: RewardKind,
    /// The vote account's commission in percent, for staking and voting, on a chain that counts it so.
    pub commission: Option<u8>,
    /// The vote account's commission in hundredths of a percent, on a chain that counts it so. A chain on which vote
    /// accounts name collectors tells neither.
    pub commission_bps: Option<u16>,
}

/// The rewards that inflation paid as a block began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockRewards {
    /// The payments: commissions in the first block of an epoch, stakes in the blocks after it.
    pub rewards: Vec<Reward>,
    /// In the first block of an epoch: the number of blocks after it that pay stakes.
    pub num_partitions: Option<u64>,
}

impl BlockRewards {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.rewards.is_empty() && self.num_partitions.is_none()
    }
}

//! config: pack's configuration: how much it holds, how it fills a block, when a slot may end.
//!
//! reads   the node's configuration
//! writes  the scheduler's configuration
//! source  the cluster's block limits

use std::sync::Arc;

use hearth_ledger::Ledger;
use hearth_ledger::blockhash::BlockhashQueue;
use hearth_ledger::cost::BlockLimits;

use super::scheduler::Scheduler;
use super::tables::Tables;
use super::types::{Limits, Pacing, SchedulerConfig};
use crate::drops::DropLog;
use crate::links::{MICROBLOCK_MTU, MICROBLOCK_TXNS, PohEntry};
use crate::shred;

/// Compute units reserved for a microblock with several transactions, so that programs occupy a bank for milliseconds
/// at most: 1.5 times what 64 transfers without a compute budget reserve.
const MICROBLOCK_COST: u64 = 2_000_000;
/// Maximum microblocks in flight per bank. On a shared core, this is what a bank does in one turn.
pub(super) const FLIGHTS_PER_BANK: u32 = 8;

/// Configuration of pack: its limits, and how it fills blocks.
#[derive(Clone)]
pub struct Config {
    /// Maximum transactions that may be pending in pack.
    pub capacity: usize,
    /// Maximum distinct accounts that they may name.
    pub accounts: usize,
    /// Limits of a block.
    pub limits: BlockLimits,
    /// Whether reserved but unused compute is returned to the block.
    pub use_consumed_cus: bool,
    /// How fast to fill a block.
    pub pacing: Pacing,
    /// Minimum time between a partial microblock and the one before, in nanoseconds; none if other transactions wait
    /// for its accounts.
    pub fill_wait_ns: u64,
    /// Whether a full pool blocks its producers. Otherwise pack evicts the transaction that pays worst, as a leader in
    /// the cluster must.
    pub hold_when_full: bool,
    /// With slots on demand: minimum length of a slot, in nanoseconds. It ends then unless transactions are pending.
    pub shortest_slot_ns: Option<u64>,
    /// The blockhashes known at startup. Each slot that starts adds the next.
    pub blockhashes: BlockhashQueue,
    /// Leaders take turns: other nodes' blocks come between this node's slots, and the ledger knows their hashes.
    pub takes_turns: bool,
    /// The ledger to read lookup tables from. Without it, transactions that use lookup tables are dropped.
    pub ledger: Option<Arc<Ledger>>,
    /// Receives the tag and reason of each dropped transaction.
    pub drops: DropLog,
}

impl Default for Config {
    /// The defaults of `tiles.pack`.
    fn default() -> Self {
        Self {
            capacity: 65_524,
            accounts: 1 << 18,
            limits: BlockLimits::default(),
            use_consumed_cus: true,
            pacing: Pacing::None,
            fill_wait_ns: 500_000,
            hold_when_full: true,
            shortest_slot_ns: None,
            blockhashes: BlockhashQueue::new([0; 32]),
            takes_turns: false,
            ledger: None,
            drops: DropLog::default(),
        }
    }
}

impl Config {
    /// Memory that pack allocates for `banks` banks, in bytes.
    pub fn bytes(&self, banks: usize) -> u64 {
        Scheduler::bytes(&self.scheduler(banks, 0)) + Tables::BYTES
    }

    pub(super) fn scheduler(&self, banks: usize, secret: u64) -> SchedulerConfig {
        let limits = Limits {
            block_cost: self.limits.block_cost,
            account_cost: u32::try_from(self.limits.account_cost).unwrap_or(u32::MAX).min(u32::MAX / 2),
            block_bytes: self.limits.entry_bytes.min(shred::entry_bytes_within(self.limits.shreds)),
            block_growth: self.limits.data_growth_bytes,
            microblock_txns: MICROBLOCK_TXNS,
            microblock_cost: MICROBLOCK_COST,
            // The same transactions travel in three messages, of which this one has the longest headers.
            microblock_bytes: MICROBLOCK_MTU - PohEntry::HEADER - PohEntry::ENTRY_HEADER,
        };
        SchedulerConfig {
            capacity: self.capacity,
            accounts: self.accounts,
            banks,
            flights_per_bank: FLIGHTS_PER_BANK,
            limits,
            use_consumed_cus: self.use_consumed_cus,
            pacing: self.pacing,
            secret,
        }
    }
}

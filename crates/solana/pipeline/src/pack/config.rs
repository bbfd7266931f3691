//! What pack is told: how much it holds, how a block is filled, when a slot may end.
//!
//! reads   the node's configuration
//! writes  the scheduler's
//! source  the cluster's limits on blocks

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

/// Compute units reserved for a microblock of several, so that programs hold a bank up for milliseconds at most: as
/// much as 64 transfers reserve that say nothing of what they will use, and half as much again.
const MICROBLOCK_COST: u64 = 2_000_000;
/// Microblocks that a bank has at a time. Where tiles share a core, this is what a bank does in one turn.
pub(super) const FLIGHTS_PER_BANK: u32 = 8;

/// How pack works.
#[derive(Clone)]
pub struct Config {
    /// Pending transactions at most.
    pub capacity: usize,
    /// Accounts that they may name, at most.
    pub accounts: usize,
    /// What a block may hold.
    pub limits: BlockLimits,
    /// Whether reserved compute that was not used is used again within the block.
    pub use_consumed_cus: bool,
    /// How fast a block is filled.
    pub pacing: Pacing,
    /// A microblock that is not full is sent no sooner than this after the last one, nanoseconds; at once where others
    /// wait for its accounts.
    pub fill_wait_ns: u64,
    /// Whether a full pool holds its producers back. Otherwise the worst-paying transaction is dropped, as a leader
    /// of the cluster must.
    pub hold_when_full: bool,
    /// Where slots come on demand: how long one lasts at least, nanoseconds. It ends then, unless something waits.
    pub shortest_slot_ns: Option<u64>,
    /// The blockhashes known at the start. Each slot that begins names the next.
    pub blockhashes: BlockhashQueue,
    /// Leaders take turns: blocks of others come between slots, and the ledger knows their hashes.
    pub takes_turns: bool,
    /// Where lookup tables are read. Without it, transactions that use some are dropped.
    pub ledger: Option<Arc<Ledger>>,
    /// Where drops are told.
    pub drops: DropLog,
}

impl Default for Config {
    /// As `tiles.pack` has it where the file says nothing.
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
    /// Memory that pack takes for `banks` banks, in bytes.
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
            // The same transactions travel in three messages; this one's headers are the longest.
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

//! bank: the fields of a block's bank, from the ledger or from what was noted when its state was cut.
//!
//! reads   the ledger between two slots, or a manifest
//! writes  the fields
//! memory  the fields
//! source  `get_fields_to_serialize` of `bank.rs` of `solana-runtime` 4.2

use hearth_wire::{Hash, Pubkey};
use solana_fee_calculator::FeeRateGovernor;

use super::ChainFacts;
use super::totals::Totals;
use crate::archive::{BankFields, BankStats, BlockhashQueue, Fault, QueuedHash};
use crate::block::BlockSummary;
use crate::epoch::EpochSchedule;
use crate::lattice::Lattice;
use crate::ledger::Ledger;
use crate::snapshot::Manifest;

/// Hashes that stay in the queue of the cluster's nodes.
const MAX_AGE: u64 = 300;

/// A bank, but for its accounts and the facts of its chain.
pub(super) struct EndedBank {
    pub(super) block: BlockSummary,
    hash: Hash,
    parent_hash: Hash,
    lattice: Lattice,
    blockhashes: BlockhashQueue,
    leader: Pubkey,
    epoch_schedule: EpochSchedule,
}

impl EndedBank {
    /// The bank of the ledger's last block. No slot may be in progress.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let (slot, hash) = ledger.hash_all();
        let block = ledger.recent_blocks(1)[0];
        let blockhashes = blockhashes(block.height, ledger.chain().blockhashes.newest_first());
        Self {
            hash,
            parent_hash: ledger.bank_hash(block.parent).unwrap_or_default(),
            lattice: ledger.lattice(),
            blockhashes,
            leader: leader(ledger, slot),
            epoch_schedule: *ledger.epoch_schedule(),
            block,
        }
    }

    /// The bank of the block at whose end the ledger was cut, once its hash is known.
    pub(super) fn of_cut(ledger: &Ledger, manifest: &Manifest) -> Self {
        let block = *manifest.last();
        let newest_first = manifest.blockhashes.iter().rev().map(|(hash, price)| (hash, *price));
        Self {
            hash: manifest.bank_hash(),
            parent_hash: manifest.hashes.of(block.parent).unwrap_or_default(),
            lattice: manifest.lattice(),
            blockhashes: blockhashes(block.height, newest_first),
            leader: leader(ledger, block.slot),
            epoch_schedule: *ledger.epoch_schedule(),
            block,
        }
    }

    /// The bank's fields, with the account files that `totals` lists.
    pub(super) fn fields(self, facts: &ChainFacts, totals: Totals) -> Result<BankFields, Fault> {
        let Self { block, hash, parent_hash, lattice, blockhashes, leader, epoch_schedule } = self;
        let slot = block.slot;
        let fields = BankFields {
            blockhashes,
            hash,
            parent_hash,
            parent_slot: block.parent,
            hard_forks: facts.hard_forks.clone(),
            transaction_count: block.transaction_count,
            tick_height: (slot + 1) * facts.ticks_per_slot,
            signature_count: block.counts.signatures,
            capitalization: totals.lamports,
            max_tick_height: (slot + 1) * facts.ticks_per_slot,
            hashes_per_tick: facts.hashes_per_tick,
            ticks_per_slot: facts.ticks_per_slot,
            ns_per_slot: facts.slot_ns.into(),
            genesis_creation_time: facts.creation_time,
            slots_per_year: facts.slots_per_year,
            accounts_data_len: totals.data_len,
            slot,
            block_height: block.height,
            leader,
            fee_rate_governor: FeeRateGovernor {
                lamports_per_signature: facts.lamports_per_signature,
                ..facts.fee_rate_governor.clone()
            },
            inflation: facts.inflation,
            storages: totals.storages(),
            stakes: totals.stakes(epoch_schedule.epoch(slot))?,
            epoch_schedule,
            is_delta: true,
            stats: BankStats::default(),
            lamports_per_signature: facts.lamports_per_signature,
            epoch_stakes: facts.epoch_stakes.clone(),
            lattice,
            block_id: Some(facts.block_id),
        };
        match fields.computed_hash() {
            computed if computed != hash => Err(Fault::Hash { what: "the bank's hash", found: hash, computed }),
            _ => Ok(fields),
        }
    }
}

fn leader(ledger: &Ledger, slot: u64) -> Pubkey {
    ledger.leader_at(slot).map_or([0; 32], |leader| leader.node)
}

/// The recent blockhashes with their prices, of which the newest ended the block of this height.
fn blockhashes<'a>(height: u64, newest_first: impl Iterator<Item = (&'a Hash, u64)>) -> BlockhashQueue {
    // The genesis hash has number 0, that of slot 0 is the first of a block.
    let last_index = height + 1;
    let queued = |(age, (hash, price)): (usize, (&Hash, u64))| QueuedHash {
        hash: *hash,
        lamports_per_signature: price,
        index: last_index - age as u64,
        timestamp: 0,
    };
    let hashes: Vec<QueuedHash> = newest_first.enumerate().map(queued).collect();
    BlockhashQueue { last_index, last: hashes.first().map(|newest| newest.hash), hashes, max_age: MAX_AGE }
}

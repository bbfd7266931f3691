//! archive_start: a ledger from the cluster's archives.
//!
//! reads   a full archive, and an incremental one that builds on it, as streams
//! writes  a ledger at the end of their slot
//! memory  the state; while it is read about 100 B an account besides, and the bank's fields
//! drops   archives that are damaged, contradict themselves or are of another chain: an [`ArchiveError`]. No ledger is
//!         left then
//! source  `Bank::new_from_snapshot` of `bank.rs` and `snapshot_bank_utils.rs` of `solana-runtime` 4.2 for what a bank
//!         takes from an archive; `recalculate_partitioned_rewards_if_active` there for rewards in distribution
//!
//! Accounts hold most of the state: sysvars, features, the stake history. The bank's fields add the recent blockhashes,
//! the stakes of epochs and some counts; the statuses say which transactions may not land again. Which lamports were
//! burned and how fast the chain was is in no archive: these counts start here.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;

use hearth_wire::consts::MAX_BLOCKHASH_AGE_BLOCKS;
use hearth_wire::{Hash, Pubkey};

use crate::account::Account;
use crate::accounts::Accounts;
use crate::archive::{
    self, AccountReceiver, ArchiveError, ArchiveName, BankFields, ChainParameters, Contents, Fault, Progress,
    SlotStatuses, read_state,
};
use crate::bank::BankCounts;
use crate::bank_hash::{BankHasher, Hashes};
use crate::block::BlockSummary;
use crate::blockhash::BlockhashQueue;
use crate::epochs::{Epochs, ResumePoint};
use crate::features::ActiveFeatures;
use crate::genesis::Genesis;
use crate::hard_forks::{HardForkError, continued};
use crate::ledger::{Ledger, LedgerConfig, State};
use crate::performance::{Mark, Samples};
use crate::rewards::RewardFeatures;
use crate::stakes::{EpochStakes, counted_vote};
use crate::status_cache::{ArchivedStatuses, LandedStatus, StatusCache};
use crate::sysvars::Clock;
use crate::vote_state::VoteState;

/// The first slot that the status cache cannot hold.
const SLOT_END: u64 = 1 << 40;
/// The first height that no chain reaches: the status cache counts heights in 32 bits.
const HEIGHT_END: u64 = (1 << 32) - (1 << 20);
/// The first number of transactions that no chain reaches.
const TRANSACTIONS_END: u64 = 1 << 60;
/// The first capitalization that no chain reaches: a genesis has fewer than 2^63 lamports. Rewards then fit, too.
const LAMPORTS_END: u64 = 3 << 62;
/// The last byte at which the key of a message's hash can begin.
const KEY_INDEX_MAX: u64 = (size_of::<Hash>() - archive::KEY_SIZE) as u64;

/// A ledger that an archive started.
pub struct ArchiveStart {
    /// The ledger: the archive's block has ended, and the next slot may begin.
    pub ledger: Arc<Ledger>,
    /// The id of that block, to which the next one chains.
    pub block_id: Hash,
}

impl Ledger {
    /// The ledger at the end of the slot of a full archive, or of an incremental one that builds on it, of the chain
    /// that begins with `genesis`. Every hash is verified before it returns. `progress` learns how far each archive is
    /// read.
    ///
    /// # Errors
    ///
    /// An archive is damaged or of another chain, or was made without a hard fork of `config`.
    pub fn from_archive(
        genesis: &Genesis,
        (full, incremental): (&Path, Option<&Path>),
        config: LedgerConfig,
        progress: &mut dyn FnMut(&ArchiveName, Progress),
    ) -> Result<ArchiveStart, ArchiveError> {
        let mut storing = StoringReceiver { accounts: Accounts::new(), progress };
        let contents = read_state(full, incremental, &mut storing)?.contents;
        let started = start(genesis, config, storing.accounts, contents);
        started.map_err(|fault| ArchiveError::of(incremental.unwrap_or(full), fault))
    }
}

/// Stores accounts as they come.
struct StoringReceiver<'a> {
    accounts: Accounts,
    progress: &'a mut dyn FnMut(&ArchiveName, Progress),
}

impl AccountReceiver for StoringReceiver<'_> {
    fn store(&mut self, key: &Pubkey, account: &Account) {
        self.accounts.store(key, account.clone());
    }

    fn progress(&mut self, archive: &ArchiveName, progress: Progress) {
        (self.progress)(archive, progress);
    }
}

/// Makes a ledger of these accounts, which are those that the fields' hashes cover.
fn start(
    genesis: &Genesis,
    mut config: LedgerConfig,
    accounts: Accounts,
    contents: Contents,
) -> Result<ArchiveStart, Fault> {
    let Contents { fields, statuses, .. } = contents;
    check(genesis, &fields)?;
    config.hard_forks = hard_forks(&config.hard_forks, &fields)?;
    let block_id = fields.block_id.ok_or(Fault::Missing("the id of its block"))?;
    let blockhashes = blockhashes(&fields)?;
    let block = last_block(&fields, Clock::load(&accounts).unix_timestamp);
    let archived = archived_statuses(statuses, fields.block_height)?;
    let features = Arc::new(ActiveFeatures::load(&accounts, fields.slot));
    let parent = (fields.parent_slot, fields.parent_hash);
    let hashes = Hashes::at(parent, (fields.slot, fields.hash), &fields.lattice, fields.capitalization);
    let hashing = BankHasher::restore(&accounts, hashes, config.hash_accounts);
    let mut epochs = Epochs::with_stakes(fields.epoch_schedule, epoch_stakes(&fields)?);
    let votes = &votes_at_begin(&fields);
    let resumed = ResumePoint { slot: fields.slot, votes, features: &RewardFeatures::of(&features) };
    epochs.resume_rewards(&accounts, &hashing.stake_index(), &resumed).map_err(Fault::Malformed)?;
    accounts.note_changes();
    let cache = StatusCache::new(&config.status_cache);
    cache.set_archived(archived);
    let BlockSummary { slot, unix_timestamp, transaction_count, .. } = block;
    let state = State {
        accounts,
        statuses: cache,
        hashing,
        blockhashes,
        blocks: VecDeque::from([block]),
        epochs,
        features,
        samples: Samples::new(Mark { slot, transactions: transaction_count, unix_timestamp }),
        burned_lamports: 0,
    };
    Ok(ArchiveStart { ledger: Ledger::assemble(genesis, config, state), block_id })
}

/// Checks that the bank is of the chain that begins with `genesis`, and that its counts can be those of a chain.
fn check(genesis: &Genesis, fields: &BankFields) -> Result<(), Fault> {
    let began = genesis.config();
    let beginning = ChainParameters {
        creation_time: began.creation_time as i64,
        ticks_per_slot: began.ticks_per_slot,
        epoch_schedule: began.epoch_schedule(),
    };
    beginning.check(fields)?;
    let is_possible = fields.parent_slot < fields.slot
        && fields.slot < SLOT_END
        && fields.block_height <= fields.slot
        && fields.block_height < HEIGHT_END
        && fields.transaction_count < TRANSACTIONS_END
        && fields.capitalization < LAMPORTS_END;
    if !is_possible {
        return Err(Fault::Malformed("a slot, a height, a number of transactions or lamports that no chain reaches"));
    }
    Ok(())
}

/// The hard forks of the chain that continues from the bank: its own, and the configured ones after it.
fn hard_forks(configured: &[u64], fields: &BankFields) -> Result<Vec<u64>, Fault> {
    continued(fields.slot, &fields.hard_forks, configured).map_err(|why| match why {
        HardForkError::Contradiction { found, declared, .. } => Fault::HardForks { found, configured: declared },
        HardForkError::TooMany => Fault::Malformed("more hard forks than any chain has"),
    })
}

/// The blockhashes that transactions may name.
fn blockhashes(fields: &BankFields) -> Result<BlockhashQueue, Fault> {
    let queue = &fields.blockhashes;
    let oldest = queue.last_index.saturating_sub(MAX_BLOCKHASH_AGE_BLOCKS);
    let mut recent: Vec<_> = queue.hashes.iter().filter(|hash| hash.index >= oldest).collect();
    recent.sort_unstable_by_key(|hash| hash.index);
    let distinct: HashSet<&Hash> = recent.iter().map(|hash| &hash.hash).collect();
    let follow = recent.windows(2).all(|pair| pair[1].index == pair[0].index + 1);
    // Number 0 has the genesis hash, which slot 0 replaces where it ends with the same.
    let begins = recent.first().is_some_and(|first| first.index <= oldest.max(1));
    let ends = recent.last().is_some_and(|last| last.index == queue.last_index && queue.last == Some(last.hash));
    if !(follow && begins && ends && distinct.len() == recent.len()) {
        return Err(Fault::Malformed("the recent blockhashes: one is missing, or there twice"));
    }
    let recent: Vec<(Hash, u64)> = recent.iter().map(|hash| (hash.hash, hash.lamports_per_signature)).collect();
    Ok(BlockhashQueue::restore(&recent, fields.block_height))
}

/// The block at whose end the state was. What its transactions were is not known.
fn last_block(fields: &BankFields, unix_timestamp: i64) -> BlockSummary {
    BlockSummary {
        slot: fields.slot,
        parent: fields.parent_slot,
        height: fields.block_height,
        blockhash: fields.blockhashes.last.unwrap_or_default(),
        bank_hash: None,
        unix_timestamp,
        transaction_count: fields.transaction_count,
        counts: BankCounts { signatures: fields.signature_count, ..BankCounts::default() },
        reward: None,
        has_rewards: false,
    }
}

/// The keys of the transactions of the last blocks, of which the newest has this height.
fn archived_statuses(mut slots: Vec<SlotStatuses>, height: u64) -> Result<ArchivedStatuses, Fault> {
    let mut archived = ArchivedStatuses::default();
    slots.sort_unstable_by_key(|slot| slot.slot);
    // They are of the newest blocks, one behind the other, as was checked.
    let oldest = (height + 1).saturating_sub(slots.len() as u64);
    for (slot, height) in slots.into_iter().zip(oldest..) {
        for hash in slot.hashes {
            if hash.key_index > KEY_INDEX_MAX {
                return Err(Fault::Malformed("keys of statuses that reach beyond a hash"));
            }
            for (key, result) in hash.statuses {
                archived.add(hash.key_index as usize, key, LandedStatus { slot: slot.slot, result }, height);
            }
        }
    }
    Ok(archived)
}

/// The stakes of each epoch.
fn epoch_stakes(fields: &BankFields) -> Result<Vec<EpochStakes>, Fault> {
    let mut epochs = HashSet::new();
    let mut all = vec![];
    for stakes in &fields.epoch_stakes {
        let read = |staked: &archive::StakedVote| {
            let state = VoteState::of_account(&staked.account)?;
            Some(counted_vote(&staked.address, &state, staked.account.clone(), staked.stake))
        };
        let mut votes: Vec<_> = stakes.votes.iter().filter_map(read).collect();
        votes.sort_unstable_by_key(|vote| vote.stake.vote);
        let are_distinct = votes.windows(2).all(|pair| pair[0].stake.vote < pair[1].stake.vote);
        let total = votes.iter().try_fold(0u64, |sum, vote| sum.checked_add(vote.stake.stake));
        if !(epochs.insert(stakes.epoch) && are_distinct && total.is_some()) {
            return Err(Fault::Malformed("the stakes of an epoch"));
        }
        all.push(EpochStakes::new(stakes.epoch, stakes.staked_in, votes));
    }
    Ok(all)
}

/// The vote accounts as they were when the bank's epoch began: by their stakes of then the leaders of a later epoch are
/// drawn.
fn votes_at_begin(fields: &BankFields) -> BTreeMap<Pubkey, VoteState> {
    let drawn = fields.epoch_schedule.leader_schedule_epoch(fields.slot);
    let stakes = fields.epoch_stakes.iter().find(|stakes| stakes.epoch == drawn);
    let votes = stakes.into_iter().flat_map(|stakes| &stakes.votes);
    votes.filter_map(|staked| Some((staked.address, VoteState::of_account(&staked.account)?))).collect()
}

#[cfg(test)]
mod tests;

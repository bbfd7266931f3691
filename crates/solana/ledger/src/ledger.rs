//! The ledger: the chain's state, shared by all threads of the node, and the life cycle of slots.
//!
//! reads   the genesis; the last hash of each block; which blocks are durable
//! writes  banks, one at a time; the fees' distribution; a summary of each block
//! memory  accounts and statuses as said there; 512 block summaries of 200 B, and those that a listener wants, with
//!         56 B for each reward of inflation in those blocks; where forks are kept, the data to rewind
//!         (ledger/forks.rs)
//! drops   a slot that does not follow the last: a [`SlotError`]
//! source  `bank.rs`, `bank/fee_distribution.rs` of `solana-runtime` 4.2 for the end of a block
//!
//! The chain is linear: each block follows the last ended one, and slots may be skipped. Where several nodes lead, the
//! ledger can rewind to an earlier block and continue from there on another fork ([`Ledger::rewind`]).

mod changed_accounts;
mod current_fork;
mod demand;
mod forks;
mod snapshot_view;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use solana_fee_calculator::FeeRateGovernor;
use solana_hard_forks::HardForks;

pub use changed_accounts::{ChangedAccount, SlotChanges};
pub use forks::{Forks, FrozenBlock, KeptForks, RewindError};

use hearth_wire::consts::INCINERATOR;
use hearth_wire::{Hash, Pubkey};

use crate::account::Account;
use crate::accounts::Accounts;
use crate::bank::{Bank, BankCounts, NoProgramRuntime, ProgramRuntime, Shared};
use crate::bank_hash::{BankHasher, EndedSlot};
use crate::block::{BlockRewards, BlockSummary, FeeReward};
use crate::blockhash::BlockhashQueue;
use crate::clock::Times;
use crate::commitment::Commitment;
use crate::epoch::EpochSchedule;
use crate::epochs::{Epochs, NewSlot, SlotStart};
use crate::features::{ActiveFeatures, FeatureError};
use crate::fees::next_price;
use crate::genesis::Genesis;
use crate::hard_forks;
use crate::lattice::Lattice;
use crate::notifier::Notifier;
use crate::performance::{Mark, Samples};
use crate::programs::gated_programs;
use crate::rewards::{InflationFeatures, InflationPoint, RewardFeatures, RewardRules};
use crate::snapshot::Snapshots;
use crate::status_cache::{StatusCache, StatusCacheConfig};
use crate::sysvars::{self, Clock};
use forks::Checkpoint;

/// No slot: the node does not vote, and blocks become final by their depth.
const NO_VOTES: u64 = u64::MAX;
/// Block summaries that are kept, besides those of blocks that may be undone or that a listener wants.
pub(crate) const RECENT_BLOCKS: usize = 512;

/// The configuration of a ledger.
pub struct LedgerConfig {
    /// Configuration of the status cache.
    pub status_cache: StatusCacheConfig,
    /// Executes transactions that contain more than transfers.
    pub general: Box<dyn ProgramRuntime>,
    /// If off, accounts are not hashed and bank hashes cover nothing. For benchmarks of everything else.
    pub hash_accounts: bool,
    /// Limits of the data kept for rewinds to an earlier block; `None` if the chain has no forks.
    pub forks: Option<Forks>,
    /// The slots of the chain's hard forks: [`crate::hard_forks`].
    pub hard_forks: Vec<u64>,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        let status_cache = StatusCacheConfig::default();
        Self { status_cache, general: Box::new(NoProgramRuntime), hash_accounts: true, forks: None, hard_forks: vec![] }
    }
}

/// Why a slot cannot begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SlotError {
    /// Another slot has begun and not ended.
    #[error("slot {0} has not ended")]
    Unfinished(u64),
    /// The slot is not in progress.
    #[error("slot {0} has not begun, or has ended")]
    NotBegun(u64),
    /// The parent is not the last block.
    #[error("slot {slot} names slot {parent} as its parent, the last block is of slot {last}")]
    WrongParent {
        /// The slot that was to begin.
        slot: u64,
        /// The parent it names.
        parent: u64,
        /// The slot of the last ended block.
        last: u64,
    },
    /// With this slot the chain would have rules that this program lacks.
    #[error("slot {slot} cannot begin: {source}")]
    Feature {
        /// The slot that was to begin.
        slot: u64,
        /// The feature that this program lacks, or that is missing.
        source: FeatureError,
    },
}

/// The blocks, epochs and rewards of the current fork, behind the ledger's lock.
pub(crate) struct Chain {
    pub(crate) blockhashes: Arc<BlockhashQueue>,
    pub(crate) working: Option<Arc<Bank>>,
    /// Block summaries without bank hashes, the newest last; never empty.
    pub(crate) blocks: VecDeque<BlockSummary>,
    /// The account era that each block ended; 0 for the block with which the ledger started and earlier ones.
    pub(crate) eras: VecDeque<u32>,
    pub(crate) epochs: Epochs,
    /// The features of the newest slot.
    pub(crate) features: Arc<ActiveFeatures>,
    pub(crate) samples: Samples,
    /// The rewards of the slot in progress.
    begun: BlockRewards,
    /// The rewards of ended blocks that are kept, by slot; only of those that have some.
    pub(crate) rewards: VecDeque<(u64, Arc<BlockRewards>)>,
    /// The blocks that the ledger can rewind to; empty if forks are not kept.
    checkpoints: VecDeque<Checkpoint>,
    /// Blocks that rewinds undid, the last undone one last.
    undone: VecDeque<UndoneBlock>,
}

/// A block that a rewind undid.
struct UndoneBlock {
    slot: u64,
    blockhash: Hash,
    is_confirmed: bool,
}

/// The initial state of a ledger: genesis, a snapshot, or an archive.
pub(crate) struct State {
    pub(crate) accounts: Accounts,
    pub(crate) statuses: StatusCache,
    pub(crate) hashing: BankHasher,
    pub(crate) blockhashes: BlockhashQueue,
    pub(crate) blocks: VecDeque<BlockSummary>,
    pub(crate) epochs: Epochs,
    pub(crate) features: Arc<ActiveFeatures>,
    pub(crate) samples: Samples,
    pub(crate) burned_lamports: u64,
}

/// The state of one chain: accounts, statuses, blocks and epochs, shared by the node's threads.
pub struct Ledger {
    pub(crate) shared: Arc<Shared>,
    chain: RwLock<Chain>,
    stored_slot: AtomicU64,
    /// The newest slot rooted by votes; [`NO_VOTES`] if the node does not vote.
    rooted_slot: AtomicU64,
    collector: Pubkey,
    burned_lamports: AtomicU64,
    genesis_hash: Hash,
    slot_0_hash: Hash,
    epoch_schedule: EpochSchedule,
    slot_ns: u64,
    genesis_inflation: InflationPoint,
    hard_forks: HardForks,
    fee_rate_governor: FeeRateGovernor,
    snapshots: OnceLock<Arc<Snapshots>>,
    /// A listener wants the summaries of blocks from this slot on.
    wanted_from: AtomicU64,
}

impl Ledger {
    /// The ledger at genesis: slot 0, or the later slot at which the chain begins, has ended with slot 0's last hash,
    /// and the next may begin.
    pub fn new(genesis: &Genesis, config: LedgerConfig) -> Arc<Self> {
        let accounts = Accounts::new();
        for (key, account) in genesis.accounts() {
            accounts.store(&key, account);
        }
        let began = genesis.config();
        let schedule = began.epoch_schedule();
        let creation_time = began.creation_time as i64;
        let slot = began.genesis_slot;
        let clock = Clock::at_genesis(&schedule, slot, began.slot_ns(), creation_time);
        let blockhash = *genesis.slot_0_hash();
        let blockhashes = BlockhashQueue::at_genesis(*genesis.hash(), blockhash);
        sysvars::begin_chain(&accounts, &schedule, &clock, &began.rent_sysvar(), blockhashes.newest_first());
        // The rent is known now, whatever the genesis has at the address of its sysvar.
        let features = Arc::new(ActiveFeatures::load(&accounts, began.genesis_slot));
        features.absent_programs().for_each(|program| accounts.store(&program.key, Account::default()));
        let ended =
            EndedSlot { slot, era: 0, signatures: 0, blockhash, final_era: 0, kept_bytes: 0, oldest_slot: slot };
        let hashing = BankHasher::new(&accounts, &[0; 32], ended, config.hash_accounts);
        accounts.note_changes();
        let epochs = Epochs::at_genesis(schedule, slot, &accounts, &hashing.stake_index());
        let block = BlockSummary {
            slot,
            parent: slot,
            height: 0,
            blockhash,
            bank_hash: None,
            unix_timestamp: creation_time,
            transaction_count: 0,
            counts: BankCounts::default(),
            reward: None,
            has_rewards: false,
        };
        let state = State {
            accounts,
            statuses: StatusCache::new(&config.status_cache),
            hashing,
            blockhashes,
            blocks: VecDeque::from([block]),
            epochs,
            features,
            samples: Samples::new(Mark { slot, unix_timestamp: creation_time, ..Mark::default() }),
            burned_lamports: 0,
        };
        Self::assemble(genesis, config, state)
    }

    pub(crate) fn assemble(genesis: &Genesis, config: LedgerConfig, state: State) -> Arc<Self> {
        let LedgerConfig { general, forks, .. } = config;
        let hard_forks = hard_forks::of_slots(&config.hard_forks);
        state.hashing.set_hard_forks(hard_forks.clone());
        let last = *state.blocks.back().expect("genesis is a block");
        let shared = Shared {
            accounts: state.accounts,
            statuses: state.statuses,
            general,
            transaction_count: AtomicU64::new(last.transaction_count),
            hashing: state.hashing,
            tap: Notifier::default(),
            keeps_forks: forks.is_some(),
            trials: RwLock::new(()),
        };
        let epoch_schedule = state.epochs.schedule;
        let chain = Chain {
            blockhashes: Arc::new(state.blockhashes),
            working: None,
            eras: state.blocks.iter().map(|_| 0).collect(),
            blocks: state.blocks,
            epochs: state.epochs,
            features: state.features,
            samples: state.samples,
            begun: BlockRewards::default(),
            rewards: VecDeque::new(),
            checkpoints: VecDeque::new(),
            undone: VecDeque::new(),
        };
        let ledger = Self {
            shared: Arc::new(shared),
            chain: RwLock::new(chain),
            stored_slot: AtomicU64::new(last.slot),
            rooted_slot: AtomicU64::new(NO_VOTES),
            collector: genesis.config().identity,
            burned_lamports: AtomicU64::new(state.burned_lamports),
            genesis_hash: *genesis.hash(),
            epoch_schedule,
            slot_0_hash: *genesis.slot_0_hash(),
            slot_ns: genesis.config().slot_ns(),
            genesis_inflation: InflationPoint::of(genesis.config()),
            hard_forks,
            fee_rate_governor: genesis.config().fee_rate_governor.clone(),
            snapshots: OnceLock::new(),
            wanted_from: AtomicU64::new(u64::MAX),
        };
        if let Some(forks) = forks {
            ledger.begin_forks(&forks);
        }
        Arc::new(ledger)
    }

    pub(crate) fn chain(&self) -> RwLockReadGuard<'_, Chain> {
        self.chain.read()
    }

    fn chain_mut(&self) -> RwLockWriteGuard<'_, Chain> {
        self.chain.write()
    }

    /// Begins a slot on top of the last block. Fails if a feature would become active that this program does not
    /// support; the ledger is then as before.
    pub fn begin_slot(&self, slot: u64, parent: u64) -> Result<Arc<Bank>, SlotError> {
        let mut chain = self.chain_mut();
        if let Some(bank) = &chain.working {
            return Err(SlotError::Unfinished(bank.slot()));
        }
        let last = chain.last().slot;
        if parent != last || slot <= parent {
            return Err(SlotError::WrongParent { slot, parent, last });
        }
        let created = self.begin_features(&mut chain, slot).map_err(|source| SlotError::Feature { slot, source })?;
        let (height, parent_blockhash) = (chain.last().height + 1, chain.last().blockhash);
        let rules = &self.reward_rules(&chain.features);
        let new = NewSlot { slot, parent, height, parent_blockhash: &parent_blockhash, rules, created };
        let Shared { accounts, hashing, .. } = &*self.shared;
        let SlotStart { parent_epoch, rewards } = chain.epochs.begin_slot(accounts, hashing, &new);
        chain.begun = rewards;
        hashing.begin(accounts);
        let times = Times { schedule: &self.epoch_schedule, slot_ns: self.slot_ns, parent_epoch };
        let stakes = chain.epochs.stakes(self.epoch_schedule.epoch(slot));
        let stakes = stakes.into_iter().flat_map(|stakes| stakes.votes.iter().map(|vote| (vote.vote, vote.stake)));
        times.begin_slot(accounts, slot, stakes);
        hard_forks::begin_slot(accounts, &self.hard_forks, slot);
        let stakes = chain.epochs.active_stakes(slot).cloned();
        let (blockhashes, features) = (Arc::clone(&chain.blockhashes), Arc::clone(&chain.features));
        let bank = Bank::new(Arc::clone(&self.shared), slot, parent, blockhashes, features, stakes);
        let bank = Arc::new(bank);
        chain.working = Some(Arc::clone(&bank));
        Ok(bank)
    }

    /// Activates the pending features if `slot` is the first of an epoch. Returns the lamports that this creates: those
    /// of the builtin programs that appear.
    fn begin_features(&self, chain: &mut Chain, slot: u64) -> Result<u64, FeatureError> {
        let is_later = self.epoch_schedule.epoch(chain.last().slot) < self.epoch_schedule.epoch(slot);
        if !is_later {
            return Ok(0);
        }
        let Shared { accounts, hashing, .. } = &*self.shared;
        hashing.complete(accounts);
        let balance = |key: &Pubkey| accounts.with(key, |account| account.lamports).unwrap_or(0);
        let of_programs = || gated_programs().iter().map(|program| balance(&program.key)).sum::<u64>();
        let before = of_programs();
        if let Some(features) = chain.features.begin_epoch(accounts, slot)? {
            chain.features = features;
        }
        Ok(of_programs().saturating_sub(before))
    }

    /// The bank in progress, if its slot is this one.
    pub fn bank(&self, slot: u64) -> Option<Arc<Bank>> {
        self.working_bank().filter(|bank| bank.slot() == slot)
    }

    /// The bank in progress.
    pub fn working_bank(&self) -> Option<Arc<Bank>> {
        self.chain().working.clone()
    }

    /// Ends a slot with the hash of its last tick: distributes the fees and registers the hash. Waits for microblocks
    /// that are still running.
    pub fn end_slot(&self, slot: u64, last_hash: Hash) -> Result<BlockSummary, SlotError> {
        let bank = self.bank(slot).ok_or(SlotError::NotBegun(slot))?;
        bank.end();
        let counts = bank.counts();
        let mut chain = self.chain_mut();
        // A rewind may have happened meanwhile.
        if chain.working.take_if(|working| Arc::ptr_eq(working, &bank)).is_none() {
            return Err(SlotError::NotBegun(slot));
        }
        let Shared { accounts, hashing, .. } = &*self.shared;
        // It usually is by now, unless no thread had time for it during a whole slot.
        hashing.complete(accounts);
        let features = &RewardFeatures::of(bank.features());
        let collector = chain.epochs.fee_collector(slot, features).unwrap_or((self.collector, false));
        let reward = self.pay_out(collector, &counts, features);
        let rewards = std::mem::take(&mut chain.begun);
        let price = next_price(&self.fee_rate_governor, chain.blockhashes.last_price(), chain.last().counts.signatures);
        Arc::make_mut(&mut chain.blockhashes).register(last_hash, price);
        sysvars::end_slot(accounts, slot, chain.blockhashes.newest_first());
        let era = accounts.end_era();
        let final_era = chain.eras[self.position(&chain, Commitment::Finalized)];
        let block = BlockSummary {
            slot,
            parent: bank.parent(),
            height: bank.height(),
            blockhash: last_hash,
            bank_hash: None,
            unix_timestamp: Clock::load(accounts).unix_timestamp,
            transaction_count: chain.last().transaction_count + counts.committed,
            counts,
            reward,
            has_rewards: !rewards.is_empty(),
        };
        if block.has_rewards {
            chain.rewards.push_back((slot, Arc::new(rewards)));
        }
        let transactions = block.transaction_count;
        let BlockSummary { unix_timestamp, .. } = block;
        chain.samples.note(Mark { slot, transactions, unix_timestamp }, counts.votes);
        chain.blocks.push_back(block);
        chain.eras.push_back(era);
        let (kept_bytes, oldest_slot) = self.add_checkpoint(&mut chain, &bank);
        let (signatures, blockhash) = (counts.signatures, last_hash);
        hashing.end(EndedSlot { slot, era, signatures, blockhash, final_era, kept_bytes, oldest_slot });
        let kept_from = oldest_slot.min(self.wanted_from.load(Relaxed));
        while chain.blocks.get(RECENT_BLOCKS).is_some_and(|block| block.slot <= kept_from) {
            chain.blocks.pop_front();
            chain.eras.pop_front();
        }
        let oldest = chain.blocks[0].slot;
        while chain.rewards.front().is_some_and(|(slot, _)| *slot < oldest) {
            chain.rewards.pop_front();
        }
        self.cut_if_due(&chain);
        Ok(block)
    }

    /// The rules of rewards while these features are active.
    pub(crate) fn reward_rules(&self, features: &ActiveFeatures) -> RewardRules {
        RewardRules::of(self.genesis_inflation, RewardFeatures::of(features), &InflationFeatures::of(features))
    }

    /// Burns the burned part of a block's fees, and everything sent to the incinerator. The collector, of whom it is
    /// known whether it is the leader's vote account, gets the rest, which is burned too if it cannot receive it.
    fn pay_out(
        &self,
        (collector, is_vote_account): (Pubkey, bool),
        counts: &BankCounts,
        features: &RewardFeatures,
    ) -> Option<FeeReward> {
        let (mut burned, lamports) = (counts.fees.burned(), counts.fees.reward());
        let accounts = &self.shared.accounts;
        let receive = |account: &mut Account| {
            let (before, after) = (account.lamports, account.lamports.checked_add(lamports)?);
            let may = is_vote_account || features.may_collect(&collector, account, before, after);
            may.then(|| {
                account.lamports = after;
                after
            })
        };
        let deposited = if lamports == 0 { None } else { accounts.update(&collector, receive) };
        if deposited.is_none() {
            burned += lamports;
        }
        burned += accounts.update(&INCINERATOR, |account| std::mem::take(&mut account.lamports));
        self.burned_lamports.fetch_add(burned, Relaxed);
        deposited.map(|post_balance| FeeReward { collector, lamports, post_balance })
    }

    /// Hashes at most `limit` changed accounts for the last ended bank, unless another thread is at it. Returns whether
    /// there was any work.
    #[inline]
    pub fn hash_some(&self, limit: usize) -> bool {
        self.shared.hashing.some(&self.shared.accounts, limit)
    }

    /// Finishes the hash of the last ended bank; returns its slot and the hash.
    pub fn hash_all(&self) -> (u64, Hash) {
        self.shared.hashing.complete(&self.shared.accounts);
        self.shared.hashing.newest()
    }

    /// The lattice sum of all accounts at the end of the newest hashed slot.
    pub fn lattice(&self) -> Lattice {
        self.shared.hashing.lattice()
    }

    /// The bank hash of a recent slot, once it is computed.
    pub fn bank_hash(&self, slot: u64) -> Option<Hash> {
        self.shared.hashing.hash_of(slot)
    }

    /// The store of all accounts, the slot in progress included.
    pub fn accounts(&self) -> &Accounts {
        &self.shared.accounts
    }

    /// The queue of landed transactions and changed accounts for listeners.
    pub fn tap(&self) -> &Notifier {
        &self.shared.tap
    }

    /// The cache of landed messages and of the results of transactions.
    pub fn statuses(&self) -> &StatusCache {
        &self.shared.statuses
    }

    /// Lamports burned since genesis, or since the archive from which the ledger started. Together with the lamports of
    /// all accounts and the fees of the slot in progress they equal the lamports of then and the rewards since.
    pub fn burned_lamports(&self) -> u64 {
        self.burned_lamports.load(Relaxed)
    }

    /// The genesis hash, which identifies the chain.
    pub fn genesis_hash(&self) -> &Hash {
        &self.genesis_hash
    }

    /// The chain's hard forks: their slots, and how many forks each stands for.
    pub(crate) fn hard_forks(&self) -> Vec<(u64, u64)> {
        self.hard_forks.iter().map(|(slot, count)| (*slot, *count as u64)).collect()
    }

    /// The slots of the chain's hard forks, ascending, each as often as it counts.
    pub fn hard_fork_slots(&self) -> Vec<u64> {
        self.hard_forks.iter().flat_map(|(slot, count)| std::iter::repeat_n(*slot, *count)).collect()
    }

    /// The shred version of the chain with its hard forks.
    pub fn shred_version(&self) -> u16 {
        hard_forks::shred_version_of(&self.genesis_hash, &self.hard_forks)
    }

    /// The features that are active in the newest slot.
    pub fn features(&self) -> Arc<ActiveFeatures> {
        Arc::clone(&self.chain().features)
    }

    /// Whether this program can run the chain with the features that its accounts say are active.
    ///
    /// # Errors
    /// The first feature that is active and unsupported, or required and not active.
    pub fn check_features(&self) -> Result<(), FeatureError> {
        ActiveFeatures::check_chain(&self.features(), &self.shared.accounts)
    }

    /// Whether the slot after the last block can begin: it cannot if an epoch begins there, and with it a feature that
    /// this program does not support.
    ///
    /// # Errors
    /// The feature that this program does not support.
    pub fn check_next_slot(&self) -> Result<(), FeatureError> {
        let chain = self.chain();
        let (last, next) = (chain.last().slot, chain.last().slot + 1);
        match self.epoch_schedule.epoch(last) < self.epoch_schedule.epoch(next) {
            true => chain.features.upcoming(&self.shared.accounts, next).map(|_| ()),
            false => Ok(()),
        }
    }

    /// The last hash of slot 0.
    pub fn slot_0_hash(&self) -> &Hash {
        &self.slot_0_hash
    }

    /// Slots in an epoch of full length.
    pub fn slots_per_epoch(&self) -> u64 {
        self.epoch_schedule.slots_per_epoch
    }

    /// The division of slots into epochs.
    pub fn epoch_schedule(&self) -> &EpochSchedule {
        &self.epoch_schedule
    }
}

impl Chain {
    /// The last ended block.
    pub(crate) fn last(&self) -> &BlockSummary {
        self.blocks.back().expect("genesis is a block")
    }
}

#[cfg(test)]
mod tests;

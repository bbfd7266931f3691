//! forks: switches forks by rewinding the ledger to an earlier block, on which other blocks then follow.
//!
//! reads   what consensus has confirmed and rooted
//! writes  the state at the end of a block; the vote accounts that an ended block changed
//! memory  for each block above the root: 32 KB, 24 B per transaction and its status entries, and the account values
//!         that it replaced; at most [`Forks::bytes_max`]. 48 B for each of the last 512 blocks that were undone
//! drops   what a rewind below the root would need; beyond that size also the oldest blocks above it, whose rewind then
//!         fails with [`RewindError::Forgotten`]
//! source  docs/decisions/0012-one-hot-state-rewound.md
//!
//! There is one state, at the tip of the current fork, and banks execute on it at full speed. A block's changes are
//! recorded anyway, for hashing and for reads at other commitments. Here the notes of all blocks above the root are
//! kept, and are applied backwards to leave a fork: an undo log.
//!
//! [`Ledger::begin_slot`], [`Ledger::end_slot`], [`Ledger::rewind`] and the marks are mutually exclusive. They may be
//! called from several threads, and the later call sees the effect of the earlier, for example a slot that was aborted
//! and cannot end. Running microblocks are waited for, and none starts after that.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::vote::AccountVotes;
use hearth_wire::{Hash, Pubkey};

use super::{Chain, Ledger, NO_VOTES, RECENT_BLOCKS, UndoneBlock};
use crate::bank::Bank;
use crate::blockhash::BlockhashQueue;
use crate::commitment::Commitment;
use crate::epochs::Epochs;
use crate::features::ActiveFeatures;
use crate::performance::Samples;
use crate::status_cache::LandedKeys;
use crate::vote_state::VoteState;

/// Bytes of a checkpoint: 151 blockhashes twice, in a table at most 7/8 full and in a list (20 KB), the accounts'
/// lattice sum (2 KB), the stakes' addresses, the block's summary and hash.
const CHECKPOINT_BYTES: usize = 32 << 10;
/// Bytes per transaction until its block is rooted: two keys, and its entries in the status cache.
const LANDED_BYTES: usize = 24 + 71;

/// How much to keep for rewinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forks {
    /// Maximum bytes over all blocks above the root. Beyond them the oldest are discarded: the chain continues, and
    /// only a [`Ledger::rewind`] that far back fails. An empty block takes 190 KB: its sysvars of 131,097, 20,488 and
    /// 6,008 bytes, and a checkpoint.
    pub bytes_max: usize,
}

impl Default for Forks {
    /// 4 GiB: 22,000 empty blocks, which are 2.5 hours of 400 ms each; or 13 million transfers between distinct
    /// accounts, each with two notes of 112 bytes and its keys.
    fn default() -> Self {
        Self { bytes_max: 4 << 30 }
    }
}

/// The blocks that are currently kept for rewinds, and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptForks {
    /// The oldest possible rewind target: the root, or a later slot if too much had to be kept.
    pub oldest_slot: u64,
    /// Number of blocks above it.
    pub blocks: usize,
    /// Their size in bytes, without the newest until it is hashed.
    pub bytes: usize,
    /// Limit of `bytes`, as it is configured.
    pub bytes_max: usize,
}

/// Why the ledger cannot rewind. It is then unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewindError {
    /// Forks are not kept.
    #[error("this ledger was not set up to leave forks")]
    NotKept,
    /// The current fork has no such block.
    #[error("the line that ends at slot {head} has no block of slot {slot}")]
    NotOnLine {
        /// The slot of the block to rewind to.
        slot: u64,
        /// The slot of the last block.
        head: u64,
    },
    /// The block is below the root.
    #[error("slot {slot} is below the root, slot {root}")]
    BelowRoot {
        /// The slot of the block to rewind to.
        slot: u64,
        /// The slot of the root, which is final.
        root: u64,
    },
    /// The data for it was discarded, because it exceeded the limit.
    #[error(
        "to go back to slot {slot} would have taken too much memory, the oldest kept is slot {oldest}: start the node \
         again, so that it executes the blocks from its snapshot on"
    )]
    Forgotten {
        /// The slot of the block to rewind to.
        slot: u64,
        /// The oldest possible target.
        oldest: u64,
    },
}

/// An ended and hashed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenBlock {
    /// The slot of the block.
    pub slot: u64,
    /// The slot of the parent block.
    pub parent: u64,
    /// Hash of its last entry.
    pub blockhash: Hash,
    /// The hash of its bank.
    pub bank_hash: Hash,
    /// The vote accounts, by address, that differ from the parent block, deleted ones included. For the block with
    /// which the ledger started, and for the first of an epoch, where stakes change, these are all.
    pub votes: Vec<Pubkey>,
}

/// A possible rewind target: the state at a block's end except for accounts and their hash.
pub(super) struct Checkpoint {
    slot: u64,
    height: u64,
    blockhashes: Arc<BlockhashQueue>,
    epochs: Epochs,
    features: Arc<ActiveFeatures>,
    samples: Samples,
    burned_lamports: u64,
    /// The transactions that landed in it.
    landed: LandedKeys,
}

impl Ledger {
    /// Enables forks for a new ledger, whose block is final.
    pub(super) fn begin_forks(&self, forks: &Forks) {
        let mut chain = self.chain_mut();
        self.rooted_slot.store(chain.last().slot, Relaxed);
        self.shared.hashing.keep_points(forks.bytes_max);
        let (slot, height) = (chain.last().slot, chain.last().height);
        let checkpoint = self.checkpoint(&chain, (slot, height), LandedKeys::default());
        chain.checkpoints.push_back(checkpoint);
        self.shared.statuses.keep_from(height + 1);
    }

    fn checkpoint(&self, chain: &Chain, (slot, height): (u64, u64), landed: LandedKeys) -> Checkpoint {
        Checkpoint {
            slot,
            height,
            blockhashes: Arc::clone(&chain.blockhashes),
            epochs: chain.epochs.clone(),
            features: Arc::clone(&chain.features),
            samples: chain.samples.clone(),
            burned_lamports: self.burned_lamports.load(Relaxed),
            landed,
        }
    }

    /// Adds a checkpoint of the last block; returns the bytes kept for it, and the oldest possible rewind target.
    pub(super) fn add_checkpoint(&self, chain: &mut Chain, bank: &Bank) -> (usize, u64) {
        if !self.shared.keeps_forks {
            self.shared.statuses.forget_archived(bank.height() + 1);
            return (0, bank.slot());
        }
        let bytes = CHECKPOINT_BYTES + bank.counts().committed as usize * LANDED_BYTES;
        let mut landed = bank.take_landed();
        landed.shrink();
        let checkpoint = self.checkpoint(chain, (bank.slot(), bank.height()), landed);
        chain.checkpoints.push_back(checkpoint);
        let root = self.rooted_slot.load(Relaxed);
        let oldest = chain.slot_at_end_of(self.shared.accounts.oldest_era()).max(root);
        while chain.checkpoints.get(1).is_some_and(|second| second.slot <= oldest) {
            chain.checkpoints.pop_front();
        }
        self.shared.statuses.keep_from(chain.checkpoints[0].height + 1);
        (bytes, chain.checkpoints[0].slot)
    }

    /// Rewinds to the end of the block of `slot`, which must be on the current fork and not below the root. Slots that
    /// began or ended after it are undone: their transactions may land again. A slot in progress is aborted: its
    /// running microblocks are waited for, and it accepts no more.
    ///
    /// Requests for slots, statuses or views of accounts wait meanwhile, for a time that depends on the accounts and
    /// transactions of the undone blocks (`cargo bench --bench bank -- forks`). Existing views remain readable, and
    /// return each account either in its old or in its new state. On an error nothing has changed.
    pub fn rewind(&self, slot: u64) -> Result<(), RewindError> {
        let _no_trials = self.shared.trials.write();
        let mut chain = self.chain_mut();
        let at = self.rewindable(&chain, slot)?;
        let (head, working) = (chain.last().slot, chain.working.take());
        let newest = working.as_ref().map_or(head, |bank| bank.slot());
        if newest == slot {
            return Ok(());
        }
        working.iter().for_each(|bank| bank.end());
        self.snapshots.get().into_iter().for_each(|snapshots| snapshots.went_back(slot));
        let era = chain.eras[at];
        self.shared.hashing.rewind(&self.shared.accounts, slot, era);
        let undone = chain.checkpoints.partition_point(|checkpoint| checkpoint.slot <= slot);
        let undone: Vec<_> = chain.checkpoints.drain(undone..).map(|checkpoint| checkpoint.landed).collect();
        let height = chain.blocks[at].height;
        let landed = undone.into_iter().chain(working.iter().map(|bank| bank.take_landed()));
        landed.for_each(|landed| self.shared.statuses.take_back(&landed, height + 1));
        // There may have been simulations in the next slot, which has not begun.
        self.shared.general.undone(slot + 1..=newest + 1);
        self.go_back(&mut chain, at);
        Ok(())
    }

    /// The index of the block of `slot`, if the ledger can rewind to it.
    fn rewindable(&self, chain: &Chain, slot: u64) -> Result<usize, RewindError> {
        if !self.shared.keeps_forks {
            return Err(RewindError::NotKept);
        }
        let (head, root) = (chain.last().slot, self.rooted_slot.load(Relaxed));
        let at = chain.blocks.binary_search_by_key(&slot, |block| block.slot);
        let at = at.map_err(|_| RewindError::NotOnLine { slot, head })?;
        if slot < root {
            return Err(RewindError::BelowRoot { slot, root });
        }
        // Forgetting happens only for ended blocks without a hash, so after this everything needed stays.
        self.shared.hashing.complete(&self.shared.accounts);
        let oldest = self.oldest_slot(chain);
        if slot < oldest { Err(RewindError::Forgotten { slot, oldest }) } else { Ok(at) }
    }

    /// The oldest possible rewind target.
    fn oldest_slot(&self, chain: &Chain) -> u64 {
        let kept = chain.slot_at_end_of(self.shared.accounts.oldest_era());
        let checkpoint = chain.checkpoints.front().map_or(chain.last().slot, |checkpoint| checkpoint.slot);
        kept.max(checkpoint).max(self.rooted_slot.load(Relaxed))
    }

    /// Restores everything but accounts, hashes and statuses to the end of a block.
    fn go_back(&self, chain: &mut Chain, at: usize) {
        chain.note_undone(at + 1, self.stored_slot.load(Relaxed));
        chain.blocks.truncate(at + 1);
        chain.eras.truncate(at + 1);
        let checkpoint = chain.checkpoints.back().expect("the block that is gone back to has one");
        let last = *chain.blocks.back().expect("a block is gone back to");
        assert_eq!(checkpoint.slot, last.slot, "blocks that may be gone back to have a checkpoint each");
        chain.blockhashes = Arc::clone(&checkpoint.blockhashes);
        chain.features = Arc::clone(&checkpoint.features);
        (chain.epochs, chain.samples) = (checkpoint.epochs.clone(), checkpoint.samples.clone());
        chain.rewards.truncate(chain.rewards.partition_point(|(slot, _)| *slot <= last.slot));
        self.burned_lamports.store(checkpoint.burned_lamports, Relaxed);
        self.shared.transaction_count.store(last.transaction_count, Relaxed);
        self.stored_slot.fetch_min(last.slot, Relaxed);
    }

    /// Whether the ledger can rewind to earlier blocks.
    pub fn keeps_forks(&self) -> bool {
        self.shared.keeps_forks
    }

    /// The data kept for rewinds; `None` if forks are not kept. If `bytes` approaches `bytes_max`, consensus has rooted
    /// nothing for long, and a leader should produce blocks of votes only.
    pub fn kept_forks(&self) -> Option<KeptForks> {
        let chain = self.chain();
        let oldest_slot = self.oldest_slot(&chain);
        let after = chain.blocks.partition_point(|block| block.slot <= oldest_slot);
        let (bytes, bytes_max) = self.shared.hashing.past_bytes();
        let blocks = chain.blocks.len() - after;
        self.shared.keeps_forks.then_some(KeptForks { oldest_slot, blocks, bytes, bytes_max })
    }

    /// Marks every block up to `slot` as confirmed: durable and, if the node does not vote, final 32 slots later.
    ///
    /// Where forks are kept consensus decides what is confirmed: `slot` must be a block of the current fork, otherwise
    /// nothing changes and this returns false.
    pub fn mark_stored(&self, slot: u64) -> bool {
        self.mark(slot, || self.stored_slot.fetch_max(slot, Relaxed))
    }

    /// Declares that the node votes: from now on a block is final once votes have rooted it. Where forks are kept this
    /// holds from the start, and the given root applies if [`Ledger::mark_rooted`] accepts it.
    pub fn begin_voting(&self, root: Option<u64>) {
        match self.shared.keeps_forks {
            true => drop(root.map(|root| self.mark_rooted(root))),
            false => self.rooted_slot.store(root.unwrap_or(0), Relaxed),
        }
    }

    /// Marks every block up to `slot` as final.
    ///
    /// Where forks are kept, `slot` must be a block of the current fork, otherwise nothing changes and this returns
    /// false: to root a block of another fork, switch to it first. What is rooted is confirmed, and the ledger never
    /// rewinds below it.
    pub fn mark_rooted(&self, slot: u64) -> bool {
        let is_there = self.mark(slot, || self.rooted_slot.fetch_max(slot, Relaxed));
        if is_there && self.shared.keeps_forks {
            self.stored_slot.fetch_max(slot, Relaxed);
        }
        is_there
    }

    fn mark(&self, slot: u64, mark: impl FnOnce() -> u64) -> bool {
        if !self.shared.keeps_forks {
            mark();
            return true;
        }
        // The current fork stays while this is held.
        let chain = self.chain();
        // A slot older than all known blocks was marked before.
        let is_there = slot < chain.blocks[0].slot || chain.find(slot).is_some();
        is_there.then(mark).is_some()
    }

    /// The newest final slot according to consensus; `None` if the node neither votes nor keeps forks.
    pub fn root(&self) -> Option<u64> {
        Some(self.rooted_slot.load(Relaxed)).filter(|root| *root != NO_VOTES)
    }

    /// A hashed block of the current fork that is not below the root; [`Ledger::hash_all`] hashes the newest. Only
    /// where forks are kept.
    pub fn frozen(&self, slot: u64) -> Option<FrozenBlock> {
        let chain = self.chain();
        let block = chain.blocks[chain.find(slot)?];
        let (bank_hash, mut votes) = self.shared.hashing.voted(slot)?;
        let epoch = |slot| self.epoch_schedule.epoch(slot);
        if epoch(block.parent) != epoch(slot) {
            votes = self.shared.hashing.vote_accounts_since(block.parent).into_iter().collect();
        }
        Some(FrozenBlock { slot, parent: block.parent, blockhash: block.blockhash, bank_hash, votes })
    }

    /// These vote accounts, or all, at the end of the block of `slot`, with their authorized voters in that block's
    /// epoch; the stake is the one effective in it. A requested account that no longer exists has neither votes nor
    /// stake. `None` if the current fork has no such block, or it is too old to be read.
    pub fn votes_at(&self, slot: u64, keys: Option<&[Pubkey]>) -> Option<Vec<(AccountVotes, Option<Pubkey>)>> {
        let (era, stakes) = {
            let chain = self.chain();
            // The stakes effective in an epoch are those that determine the leaders of the next.
            let leads = self.epoch_schedule.leader_schedule_epoch(slot);
            (chain.eras[chain.find(slot)?], chain.epochs.stakes(leads).cloned())
        };
        let (accounts, epoch) = (&self.shared.accounts, self.epoch_schedule.epoch(slot));
        let read = |key: &Pubkey| {
            let state = accounts.with_at(key, era, VoteState::of_account).flatten()?;
            let stake = stakes.as_ref().and_then(|stakes| stakes.vote(key)).map_or(0, |vote| vote.stake);
            let voter = state.voter(epoch);
            let VoteState { votes, root, last_timestamp, .. } = state;
            Some((AccountVotes { key: *key, stake, votes, root, last_timestamp }, voter))
        };
        let gone = |key: &Pubkey| (AccountVotes { key: *key, ..AccountVotes::default() }, None);
        let found = match keys {
            Some(keys) => keys.iter().map(|key| read(key).unwrap_or_else(|| gone(key))).collect(),
            None => self.shared.hashing.vote_accounts_since(slot).iter().filter_map(read).collect(),
        };
        (accounts.oldest_era() <= era).then_some(found)
    }
}

impl Chain {
    /// Remembers the blocks from an index on, which are about to be undone: the newest 512 of all. Those up to the
    /// slot `confirmed` are confirmed.
    fn note_undone(&mut self, from: usize, confirmed: u64) {
        for block in self.blocks.range(from..) {
            let (slot, blockhash) = (block.slot, block.blockhash);
            let is_confirmed = slot <= confirmed;
            match self.undone.iter_mut().find(|undone| undone.blockhash == blockhash) {
                Some(before) => before.is_confirmed |= is_confirmed,
                None => self.undone.push_back(UndoneBlock { slot, blockhash, is_confirmed }),
            }
        }
        self.undone.drain(..self.undone.len().saturating_sub(RECENT_BLOCKS));
    }

    /// Whether a blockhash is of a block above the root that was undone, and that had this commitment.
    pub(crate) fn may_return(&self, blockhash: &Hash, root: u64, commitment: Commitment) -> bool {
        let had = |block: &UndoneBlock| match commitment {
            Commitment::Processed => true,
            Commitment::Confirmed => block.is_confirmed,
            Commitment::Finalized => false,
        };
        self.undone.iter().any(|block| block.blockhash == *blockhash && block.slot > root && had(block))
    }

    /// The index of the block of `slot`.
    pub(crate) fn find(&self, slot: u64) -> Option<usize> {
        self.blocks.binary_search_by_key(&slot, |block| block.slot).ok()
    }

    /// The slot of the newest block that had ended at the end of an era; the oldest known if there was none.
    pub(crate) fn slot_at_end_of(&self, era: u32) -> u64 {
        let after = self.eras.partition_point(|of| *of <= era);
        self.blocks[after.max(1) - 1].slot
    }
}

#[cfg(test)]
mod tests;

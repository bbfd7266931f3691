//! forks: the ledger leaves a fork: it goes back to a block of its line, and others follow on that.
//!
//! reads   what consensus says is confirmed and final
//! writes  the state as it was at the end of a block; what a block that has ended did to the votes
//! memory  for each block above the root: 32 KB, 24 B a transaction and the places of its status, and what it replaced
//!         of accounts; at most [`Forks::bytes_max`]
//! drops   what is needed to go back below the root; beyond that many bytes also the oldest above it, and then going
//!         back there is a [`RewindError::Forgotten`]
//! source  docs/decisions/0012-one-hot-state-rewound.md
//!
//! There is one state, that at the end of the line, and banks execute on it at full speed. What a block changes is
//! noted anyway, to hash it and to read it as of other commitments; here the notes of all blocks above the root are
//! kept, and are applied backwards to leave them.
//!
//! [`Ledger::begin_slot`], [`Ledger::end_slot`], [`Ledger::rewind`] and the marks exclude one another: they may come
//! from several threads, and who comes second finds what the first has left, as a slot that was aborted and cannot end.
//! Microblocks that run are waited for, none begins after that.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::vote::AccountVotes;
use hearth_wire::{Hash, Pubkey};

use super::{Chain, Ledger, NO_VOTES};
use crate::bank::Bank;
use crate::blockhash::BlockhashQueue;
use crate::epochs::Epochs;
use crate::performance::Samples;
use crate::status_cache::LandedKeys;
use crate::vote_state::VoteState;

/// Bytes of a checkpoint: 151 blockhashes twice, in a table at most 7/8 full and in a list (20 KB), the sums of the
/// accounts (2 KB), the stakes' names, the block's summary and hash.
const CHECKPOINT_BYTES: usize = 32 << 10;
/// Bytes that a transaction takes until its block is rooted: two keys, and its places in the status cache.
const LANDED_BYTES: usize = 24 + 71;

/// How much is kept to leave forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forks {
    /// Bytes at most, of all blocks above the root. Beyond them the oldest are no longer kept: the chain goes on, and
    /// only if it has to go back that far does [`Ledger::rewind`] refuse. An empty block takes 190 KB: its sysvars of
    /// 131,097, 20,488 and 6,008 bytes, and a checkpoint.
    pub bytes_max: usize,
}

impl Default for Forks {
    /// 4 GiB: 22,000 empty blocks, which are 2.5 hours of 400 ms each; or 13 million transfers between accounts of
    /// their own, of which each takes two notes of 112 bytes and its keys.
    fn default() -> Self {
        Self { bytes_max: 4 << 30 }
    }
}

/// What is kept to leave forks by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptForks {
    /// The oldest slot that one may go back to: the root, or a later one where too much had to be kept.
    pub oldest_slot: u64,
    /// Blocks above it.
    pub blocks: usize,
    /// Bytes that they take, those of the newest left out while it is not hashed.
    pub bytes: usize,
    /// Bytes that they may take.
    pub bytes_max: usize,
}

/// Why the ledger cannot go back; then it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewindError {
    /// Forks are not kept.
    #[error("this ledger was not set up to leave forks")]
    NotKept,
    /// The line has no such block.
    #[error("the line that ends at slot {head} has no block of slot {slot}")]
    NotOnLine {
        /// The slot to go back to.
        slot: u64,
        /// The slot of the last block.
        head: u64,
    },
    /// The block is below what is final.
    #[error("slot {slot} is below the root, slot {root}")]
    BelowRoot {
        /// The slot to go back to.
        slot: u64,
        /// The newest that is final.
        root: u64,
    },
    /// More had to be kept than may be.
    #[error(
        "to go back to slot {slot} would have taken too much memory, the oldest kept is slot {oldest}: start the node \
         again, so that it executes the blocks from its snapshot on"
    )]
    Forgotten {
        /// The slot to go back to.
        slot: u64,
        /// The oldest to which the ledger can go back.
        oldest: u64,
    },
}

/// A block that has ended and is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Its slot.
    pub slot: u64,
    /// The slot of the block before.
    pub parent: u64,
    /// Its last hash.
    pub blockhash: Hash,
    /// The hash of its bank.
    pub bank_hash: Hash,
    /// The vote accounts, by address, that are otherwise than in its parent, those that are no more included: all of
    /// the block with which the ledger began, and of an epoch's first, since stakes change there.
    pub votes: Vec<Pubkey>,
}

/// A block that may be gone back to: what it left beside accounts and their hash.
pub(super) struct Checkpoint {
    slot: u64,
    height: u64,
    blockhashes: Arc<BlockhashQueue>,
    epochs: Epochs,
    samples: Samples,
    burned_lamports: u64,
    /// The transactions that landed in it.
    landed: LandedKeys,
}

impl Ledger {
    /// Keeps forks from now on, when the ledger is made. Its block is final.
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
            samples: chain.samples.clone(),
            burned_lamports: self.burned_lamports.load(Relaxed),
            landed,
        }
    }

    /// The last block has ended: returns the bytes kept to go back to it, and the oldest slot that may be gone back to.
    pub(super) fn add_checkpoint(&self, chain: &mut Chain, bank: &Bank) -> (usize, u64) {
        if !self.shared.keeps_forks {
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

    /// Goes back to the end of the block of `slot`, which is one of the line and not below the root. Slots that were
    /// begun or ended after it never were: what landed in them may land again. A slot in the making is aborted: the
    /// microblocks that run on it are waited for, then it takes no more.
    ///
    /// Who asks for slots, statuses or a view of accounts waits for the time that it takes, which goes with the
    /// accounts and transactions of the undone blocks (`cargo bench --bench bank -- forks`); who has a view goes on
    /// reading, and finds each account as it was or as it is. On an error nothing has changed.
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
        // Of a slot that has not begun there may have been trials.
        self.shared.general.undone(slot + 1..=newest + 1);
        self.go_back(&mut chain, at);
        Ok(())
    }

    /// Where among the blocks that of `slot` is, if the ledger can go back to it.
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
        // After this nobody forgets what is needed: that is done for blocks that have ended and are not hashed.
        self.shared.hashing.complete(&self.shared.accounts);
        let oldest = self.oldest_slot(chain);
        if slot < oldest { Err(RewindError::Forgotten { slot, oldest }) } else { Ok(at) }
    }

    /// The oldest slot that may be gone back to.
    fn oldest_slot(&self, chain: &Chain) -> u64 {
        let kept = chain.slot_at_end_of(self.shared.accounts.oldest_era());
        let checkpoint = chain.checkpoints.front().map_or(chain.last().slot, |checkpoint| checkpoint.slot);
        kept.max(checkpoint).max(self.rooted_slot.load(Relaxed))
    }

    /// Makes everything but accounts, hashes and statuses what it was at the end of a block.
    fn go_back(&self, chain: &mut Chain, at: usize) {
        chain.blocks.truncate(at + 1);
        chain.eras.truncate(at + 1);
        let checkpoint = chain.checkpoints.back().expect("the block that is gone back to has one");
        let last = *chain.blocks.back().expect("a block is gone back to");
        assert_eq!(checkpoint.slot, last.slot, "blocks that may be gone back to have a checkpoint each");
        chain.blockhashes = Arc::clone(&checkpoint.blockhashes);
        (chain.epochs, chain.samples) = (checkpoint.epochs.clone(), checkpoint.samples.clone());
        self.burned_lamports.store(checkpoint.burned_lamports, Relaxed);
        self.shared.transaction_count.store(last.transaction_count, Relaxed);
        self.stored_slot.fetch_min(last.slot, Relaxed);
    }

    /// Whether the ledger can go back to earlier blocks.
    pub fn keeps_forks(&self) -> bool {
        self.shared.keeps_forks
    }

    /// What is kept to leave forks; `None` where they are not kept. Where `bytes` comes near `bytes_max`, consensus has
    /// rooted nothing for long: who leads then does well to make blocks of votes alone.
    pub fn kept_forks(&self) -> Option<KeptForks> {
        let chain = self.chain();
        let oldest_slot = self.oldest_slot(&chain);
        let after = chain.blocks.partition_point(|block| block.slot <= oldest_slot);
        let (bytes, bytes_max) = self.shared.hashing.past_bytes();
        let blocks = chain.blocks.len() - after;
        self.shared.keeps_forks.then_some(KeptForks { oldest_slot, blocks, bytes, bytes_max })
    }

    /// Declares every block up to `slot` confirmed from now on: durable, and, where the node does not vote, final 32
    /// slots later.
    ///
    /// Where forks are kept, consensus says what is confirmed: `slot` must be of a block of the present line, else
    /// nothing changes and the answer is false.
    pub fn mark_stored(&self, slot: u64) -> bool {
        self.mark(slot, || self.stored_slot.fetch_max(slot, Relaxed))
    }

    /// The node votes from now on: a block is final once its votes have made it their root. Where forks are kept that
    /// is so from the start, and the root given counts if [`Ledger::mark_rooted`] takes it.
    pub fn begin_voting(&self, root: Option<u64>) {
        match self.shared.keeps_forks {
            true => drop(root.map(|root| self.mark_rooted(root))),
            false => self.rooted_slot.store(root.unwrap_or(0), Relaxed),
        }
    }

    /// Declares every block up to `slot` final.
    ///
    /// Where forks are kept, `slot` must be of a block of the present line, else nothing changes and the answer is
    /// false: who roots a block of another fork goes there first. What is rooted is confirmed, and the ledger never
    /// goes back below it any more.
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
        // While it is held the line stays.
        let chain = self.chain();
        // What is older than all that is known was declared before.
        let is_there = slot < chain.blocks[0].slot || chain.find(slot).is_some();
        is_there.then(mark).is_some()
    }

    /// The newest slot that is final, where consensus says so: where the node votes, or keeps forks.
    pub fn root(&self) -> Option<u64> {
        Some(self.rooted_slot.load(Relaxed)).filter(|root| *root != NO_VOTES)
    }

    /// A block of the line that is not below the root, once it is hashed; [`Ledger::hash_all`] hashes the newest. Only
    /// where forks are kept.
    pub fn frozen(&self, slot: u64) -> Option<Frozen> {
        let chain = self.chain();
        let block = chain.blocks[chain.find(slot)?];
        let (bank_hash, mut votes) = self.shared.hashing.voted(slot)?;
        let epoch = |slot| self.epoch_schedule.epoch(slot);
        if epoch(block.parent) != epoch(slot) {
            votes = self.shared.hashing.vote_accounts_since(block.parent).into_iter().collect();
        }
        Some(Frozen { slot, parent: block.parent, blockhash: block.blockhash, bank_hash, votes })
    }

    /// These vote accounts as they were at the end of the block of `slot`, or all that there were, and who may vote
    /// with them in that block's epoch; the stake is what counted in it. One that was asked for and is no more has
    /// neither votes nor stake. `None` where the line has no such block, or it is too old to be read.
    pub fn votes_at(&self, slot: u64, keys: Option<&[Pubkey]>) -> Option<Vec<(AccountVotes, Option<Pubkey>)>> {
        let (era, stakes) = {
            let chain = self.chain();
            // What counts in an epoch is known by what will lead the next.
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
    /// Where among the blocks that of `slot` is.
    pub(crate) fn find(&self, slot: u64) -> Option<usize> {
        self.blocks.binary_search_by_key(&slot, |block| block.slot).ok()
    }

    /// The slot of the newest block that had ended at the end of an era; the oldest that is known if none had.
    pub(crate) fn slot_at_end_of(&self, era: u32) -> u64 {
        let after = self.eras.partition_point(|of| *of <= era);
        self.blocks[after.max(1) - 1].slot
    }
}

#[cfg(test)]
mod tests;

//! Client queries at a commitment: balances, statuses, blockhashes, heights.
//!
//! reads   the ledger
//! source  `rpc.rs` of `solana-rpc` 4.2 for the meaning of the results
//!
//! Accounts are read in their state at the end of the block with the requested commitment or, if too much has changed
//! since to keep that state, at the end of the oldest later block that is kept: [`StateView::slot`] says which. The
//! state of a view stays readable until the view is dropped, within the memory for replaced values.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use hearth_wire::consts::MAX_BLOCKHASH_AGE_BLOCKS;
use hearth_wire::{Hash, Pubkey, Signature};
use solana_inflation::Inflation;

use crate::account::Account;
use crate::accounts::{Accounts, Pin};
use crate::block::{BlockRewards, BlockSummary};
use crate::blockhash::BlockhashQueue;
use crate::commitment::Commitment;
use crate::error::TransactionError;
use crate::ledger::{Chain, Ledger, RECENT_BLOCKS};
use crate::performance::PerformanceSample;

/// A blockhash that a transaction may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatestBlockhash {
    /// The slot of the answer.
    pub slot: u64,
    /// The newest blockhash at that slot.
    pub blockhash: Hash,
    /// As the cluster counts it: 150 blocks after [`Ledger::block_height`] of the same commitment. For an ended block
    /// that is one less than the last height at which a transaction that names the hash can actually land,
    /// [`last_valid_block_height`](crate::blockhash::last_valid_block_height).
    pub last_valid_block_height: u64,
}

/// The status of a transaction that landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureStatus {
    /// The slot in which it landed.
    pub slot: u64,
    /// Success, or why it failed.
    pub result: Result<(), TransactionError>,
    /// Slots since then; `None` once it is final.
    pub confirmations: Option<u64>,
    /// The commitment of its block.
    pub commitment: Commitment,
}

impl Ledger {
    /// The balance at an address, in lamports.
    pub fn balance(&self, key: &Pubkey) -> u64 {
        self.shared.accounts.with(key, |account| account.lamports).unwrap_or(0)
    }

    /// The account at an address.
    pub fn account(&self, key: &Pubkey) -> Option<Account> {
        self.shared.accounts.load(key)
    }

    /// The slot of answers at this commitment.
    pub fn slot(&self, commitment: Commitment) -> u64 {
        let chain = self.chain();
        match (commitment, &chain.working) {
            (Commitment::Processed, Some(bank)) => bank.slot(),
            _ => self.block(&chain, commitment).slot,
        }
    }

    /// The block height of answers at this commitment.
    pub fn block_height(&self, commitment: Commitment) -> u64 {
        let chain = self.chain();
        match (commitment, &chain.working) {
            (Commitment::Processed, Some(bank)) => bank.height(),
            _ => self.block(&chain, commitment).height,
        }
    }

    /// Transactions committed since genesis, failed ones included: up to now for `Processed`, else up to the end of the
    /// block at that commitment.
    pub fn transaction_count(&self, commitment: Commitment) -> u64 {
        match commitment {
            Commitment::Processed => self.shared.transaction_count.load(Relaxed),
            _ => self.block(&self.chain(), commitment).transaction_count,
        }
    }

    /// The newest blockhash at this commitment.
    pub fn latest_blockhash(&self, commitment: Commitment) -> LatestBlockhash {
        let chain = self.chain();
        let block = self.block(&chain, commitment);
        let (slot, height) = match (commitment, &chain.working) {
            (Commitment::Processed, Some(bank)) => (bank.slot(), bank.height()),
            _ => (block.slot, block.height),
        };
        LatestBlockhash { slot, blockhash: block.blockhash, last_valid_block_height: height + MAX_BLOCKHASH_AGE_BLOCKS }
    }

    /// Whether a transaction that names `blockhash` may still land.
    pub fn is_blockhash_valid(&self, blockhash: &Hash) -> bool {
        self.chain().blockhashes.height_of(blockhash).is_some()
    }

    /// Whether `blockhash` is of a block above the root that the current fork lacks. While the ledger executes another
    /// fork, that is so of blocks of the heaviest one, and of confirmed ones.
    pub fn may_return(&self, blockhash: &Hash) -> bool {
        let chain = self.chain();
        let is_here = chain.blockhashes.height_of(blockhash).is_some();
        !is_here && chain.may_return(blockhash, self.rooted(), Commitment::Processed)
    }

    /// The root; the largest slot if the node neither votes nor keeps forks.
    fn rooted(&self) -> u64 {
        self.root().unwrap_or(u64::MAX)
    }

    /// Whether a transaction that names `blockhash` could land on the block at this commitment. A hash that is too old
    /// for the newest block may still be valid for the finalized one, where a transaction that landed by it is not yet
    /// visible. The hash of a block that had this commitment, and that [may return](Self::may_return), is still valid.
    pub fn is_blockhash_valid_at(&self, blockhash: &Hash, commitment: Commitment) -> bool {
        let chain = self.chain();
        let older = || chain.blocks.iter().find(|block| block.blockhash == *blockhash).map(|block| block.height);
        let Some(height) = chain.blockhashes.height_of(blockhash).or_else(older) else {
            return chain.may_return(blockhash, self.rooted(), commitment);
        };
        let newest = self.block(&chain, commitment).height;
        height <= newest && newest - height <= MAX_BLOCKHASH_AGE_BLOCKS
    }

    /// The blockhashes that are valid in the slot after the last block.
    pub fn blockhashes(&self) -> Arc<BlockhashQueue> {
        Arc::clone(&self.chain().blockhashes)
    }

    /// The status of the transaction with this first signature, if it landed in the last 300 blocks.
    pub fn signature_status(&self, signature: &Signature) -> Option<SignatureStatus> {
        let chain = self.chain();
        let status = self.shared.statuses.status(signature, chain.height_now())?;
        let slot_of = |commitment| self.block(&chain, commitment).slot;
        let commitment = [Commitment::Finalized, Commitment::Confirmed]
            .into_iter()
            .find(|&commitment| status.slot <= slot_of(commitment))
            .unwrap_or(Commitment::Processed);
        let newest = chain.working.as_ref().map_or(chain.last().slot, |bank| bank.slot());
        let confirmations = (commitment != Commitment::Finalized).then(|| newest.saturating_sub(status.slot));
        Some(SignatureStatus { slot: status.slot, result: status.result, confirmations, commitment })
    }

    /// Lamports of all accounts at the end of the newest hashed slot.
    pub fn capitalization(&self) -> u64 {
        self.shared.hashing.capitalization()
    }

    /// The clock of a slot's block in Unix seconds, if the block is recent.
    pub fn block_time(&self, slot: u64) -> Option<i64> {
        let chain = self.chain();
        Some(chain.blocks[chain.find(slot)?].unix_timestamp)
    }

    /// The block of a slot, if it is recent.
    pub fn summary(&self, slot: u64) -> Option<BlockSummary> {
        let chain = self.chain();
        let block = chain.blocks[chain.find(slot)?];
        Some(BlockSummary { bank_hash: self.shared.hashing.hash_of(slot), ..block })
    }

    /// The rewards that inflation paid in this block of the current fork; `None` if it has none, or is no longer kept.
    pub fn rewards(&self, block: &BlockSummary) -> Option<Arc<BlockRewards>> {
        let chain = self.chain();
        let is_this = chain.find(block.slot).is_some_and(|at| chain.blocks[at].blockhash == block.blockhash);
        let at = chain.rewards.binary_search_by_key(&block.slot, |(slot, _)| *slot).ok().filter(|_| is_this)?;
        Some(Arc::clone(&chain.rewards[at].1))
    }

    /// The yearly rates of inflation.
    pub fn inflation(&self) -> Inflation {
        self.reward_rules(&self.chain().features).inflating.inflation
    }

    /// The years of inflation that have passed when an epoch begins, on which its rates depend.
    pub fn years_of_inflation(&self, epoch: u64) -> f64 {
        self.reward_rules(&self.chain().features).inflating.years(self.epoch_schedule(), epoch)
    }

    /// At most `count` performance samples, the newest first.
    pub fn performance_samples(&self, count: usize) -> Vec<PerformanceSample> {
        self.chain().samples.newest(count)
    }

    /// The last ended blocks, at most `count` and 512 of them, the newest first.
    pub fn recent_blocks(&self, count: usize) -> Vec<BlockSummary> {
        let with_hash =
            |block: &BlockSummary| BlockSummary { bank_hash: self.shared.hashing.hash_of(block.slot), ..*block };
        self.chain().blocks.iter().rev().take(count.min(RECENT_BLOCKS)).map(with_hash).collect()
    }

    /// The accounts at a commitment.
    pub fn state(&self, commitment: Commitment) -> StateView<'_> {
        let accounts = &self.shared.accounts;
        let chain = self.chain();
        if commitment == Commitment::Processed {
            let slot = chain.working.as_ref().map_or(chain.last().slot, |bank| bank.slot());
            return StateView { accounts, pin: None, slot };
        }
        let pin = accounts.pin(chain.eras[self.position(&chain, commitment)]);
        let slot = chain.slot_at_end_of(pin.era());
        StateView { accounts, pin: Some(pin), slot }
    }
}

/// The accounts at one moment of the chain.
pub struct StateView<'a> {
    accounts: &'a Accounts,
    /// The era at whose end they are read; `None`: now.
    pin: Option<Pin<'a>>,
    /// The slot of this state.
    pub slot: u64,
}

impl StateView<'_> {
    /// Calls `read` on the account at an address, without copying it.
    pub fn with<T>(&self, key: &Pubkey, read: impl FnOnce(&Account) -> T) -> Option<T> {
        match &self.pin {
            None => self.accounts.with(key, read),
            Some(pin) => self.accounts.with_at(key, pin.era(), read),
        }
    }

    /// The balance at an address, in lamports.
    pub fn balance(&self, key: &Pubkey) -> u64 {
        self.with(key, |account| account.lamports).unwrap_or(0)
    }

    /// The account at an address.
    pub fn account(&self, key: &Pubkey) -> Option<Account> {
        self.with(key, Account::clone)
    }

    /// Shows every account to `visit`, as [`Accounts::for_each`].
    pub fn for_each(&self, visit: impl FnMut(&Pubkey, &Account)) {
        match &self.pin {
            None => self.accounts.for_each(visit),
            Some(pin) => self.accounts.for_each_at(pin.era(), visit),
        }
    }

    /// Whether the state was kept so far. If not, for want of memory, some of what was read is of a later slot. The
    /// newest state is not kept, but read while it changes.
    pub fn is_kept(&self) -> bool {
        self.pin.as_ref().is_none_or(|pin| self.accounts.oldest_era() <= pin.era())
    }

    /// The lamports of all accounts together.
    pub fn total_lamports(&self) -> u128 {
        let mut total = 0u128;
        self.for_each(|_, account| total += u128::from(account.lamports));
        total
    }
}

impl Chain {
    fn height_now(&self) -> u64 {
        self.working.as_ref().map_or(self.last().height, |bank| bank.height())
    }
}

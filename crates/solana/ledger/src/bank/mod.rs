//! bank: one block in progress. Many threads run microblocks on it concurrently.
//!
//! reads   transactions, parsed and with verified signatures; the accounts
//! writes  one [`Outcome`] per transaction; accounts, statuses, counts
//! memory  a bank: 300 B and a share of the blockhashes, 24 B per transaction if the block may be undone; an
//!         [`Executor`]: the accounts of one microblock
//! drops   transactions that may not land, with the reason in their outcome, counted in [`BankCounts`]
//! source  `bank.rs` and `bank/check_transactions.rs` of `solana-runtime` 4.2: the checks and their order
//!
//! ```text
//! for all:  sanity, locks → lookups → budget → blockhash → claim on the status
//!                                                                     refused here: nothing happens
//! one load of every account
//! in order: payer → accounts, programs → instructions → rent           lands, fails or is refused
//! one write-back; statuses; counts
//! ```

mod checks;
mod executor;
mod lookup;
mod notify;
mod program_runtime;
mod record;
mod shared;
mod transfer;
mod working_set;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hearth_wire::vote::is_vote;
use hearth_wire::{Hash, Pubkey, Txn};
use parking_lot::{Mutex, RwLock};

pub use checks::advances_nonce;
pub use executor::{Executor, Simulation};
pub use lookup::LoadedAddresses;
pub use program_runtime::{
    AccountReader, NoProgramRuntime, ProgramRuntime, RuntimeBatch, RuntimeOutcome, RuntimeTransaction, RuntimeWorker,
};
pub use record::{InnerCall, Record, TokenAmount};
pub(crate) use shared::Shared;
pub use transfer::TransferRules;

use crate::account::Account;
use crate::blockhash::BlockhashQueue;
use crate::cost::{Cost, LandedCost, allocated_bytes};
use crate::error::TransactionError;
use crate::features::ActiveFeatures;
use crate::fees::Fee;
use crate::programs::is_reserved;
use crate::stakes::EpochStakes;
use crate::status_cache::{Claim, LandedKeys, LandedStatus, SignatureKey};

/// Identifies an account by a keyed hash of its address, for which nobody can construct collisions. Two accounts with
/// equal hashes are treated as one. That costs time, and they share the limit of an account in their block.
pub type AccountHash = u64;

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It landed and paid its fee.
    Committed(CommittedTransaction),
    /// It may not land; nothing has changed.
    NotCommitted(TransactionError),
    /// This node cannot run it; nothing has changed.
    Unsupported,
    /// The block had ended; nothing has changed.
    SlotEnded,
}

/// A transaction that landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedTransaction {
    /// The error, if it failed.
    pub err: Option<TransactionError>,
    /// The fee in lamports.
    pub fee: u64,
    /// Compute units used by its instructions.
    pub compute_units: u64,
    /// Bytes of account data that it loaded.
    pub loaded_bytes: u32,
}

impl Outcome {
    /// Whether the transaction is part of the block.
    pub fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }

    /// The cost of `txn` in compute units of the cost model; 0 if it did not land.
    pub fn cost(&self, txn: &Txn<'_>) -> u64 {
        match self {
            Self::Committed(landed) => Cost::actual(txn, landed.compute_units, landed.loaded_bytes).total(),
            _ => 0,
        }
    }
}

/// Transactions of a block by outcome, and their fees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BankCounts {
    /// Landed, failed ones included.
    pub committed: u64,
    /// Landed with an error; they paid their fees.
    pub failed: u64,
    /// Votes among those landed.
    pub votes: u64,
    /// Refused: they changed nothing and paid nothing.
    pub not_committed: u64,
    /// Transactions that need an engine that this node lacks.
    pub unsupported: u64,
    /// Signatures of landed transactions.
    pub signatures: u64,
    /// Fees of landed transactions.
    pub fees: Fee,
}

#[derive(Debug, Default)]
struct AtomicCounts {
    committed: AtomicU64,
    failed: AtomicU64,
    votes: AtomicU64,
    not_committed: AtomicU64,
    unsupported: AtomicU64,
    signatures: AtomicU64,
    signature_fees: AtomicU64,
    priority_fees: AtomicU64,
}

/// A block in progress, shared by the threads that run it.
pub struct Bank {
    shared: Arc<Shared>,
    slot: u64,
    parent: u64,
    height: u64,
    blockhashes: Arc<BlockhashQueue>,
    /// The stakes that are active in its epoch, which programs may ask for.
    stakes: Option<Arc<EpochStakes>>,
    features: Arc<ActiveFeatures>,
    /// Read-locked while a microblock runs, so that the block ends between microblocks.
    ended: RwLock<bool>,
    counts: AtomicCounts,
    /// For a bank whose slot has not begun: its future sysvars. Nothing lands on such a bank.
    ahead: Vec<(Pubkey, Account)>,
    /// The landed transactions, if the block may be undone.
    landed: Option<Mutex<LandedKeys>>,
}

impl Bank {
    /// A block on `parent`; `stakes` are those that are active in its epoch.
    pub(crate) fn new(
        shared: Arc<Shared>,
        slot: u64,
        parent: u64,
        blockhashes: Arc<BlockhashQueue>,
        features: Arc<ActiveFeatures>,
        stakes: Option<Arc<EpochStakes>>,
    ) -> Self {
        let (height, counts) = (blockhashes.last_height() + 1, AtomicCounts::default());
        let (ended, landed) = (RwLock::new(false), shared.keeps_forks.then(Mutex::default));
        Self { shared, slot, parent, height, blockhashes, features, stakes, ended, counts, ahead: vec![], landed }
    }

    /// Turns this into the bank of a slot that has not begun, for simulations.
    pub(crate) fn standing(self, ahead: Vec<(Pubkey, Account)>) -> Self {
        Self { ended: RwLock::new(true), ahead, ..self }
    }

    /// The slot of the block.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// The slot of the parent block.
    pub fn parent(&self) -> u64 {
        self.parent
    }

    /// The number of blocks before this one; genesis has height 0.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The last hash of the parent block, which is the newest that a transaction may name.
    pub fn parent_blockhash(&self) -> &Hash {
        self.blockhashes.last()
    }

    /// The features that are active in the block.
    pub fn features(&self) -> &Arc<ActiveFeatures> {
        &self.features
    }

    /// The counts of transactions so far.
    pub fn counts(&self) -> BankCounts {
        let counts = &self.counts;
        BankCounts {
            committed: counts.committed.load(Relaxed),
            failed: counts.failed.load(Relaxed),
            votes: counts.votes.load(Relaxed),
            not_committed: counts.not_committed.load(Relaxed),
            unsupported: counts.unsupported.load(Relaxed),
            signatures: counts.signatures.load(Relaxed),
            fees: Fee { signatures: counts.signature_fees.load(Relaxed), priority: counts.priority_fees.load(Relaxed) },
        }
    }

    /// Runs a microblock in order and commits the transactions that land. `outcomes` is cleared and gets one entry per
    /// transaction.
    ///
    /// Concurrent microblocks must not touch the same account if one of them writes it; the scheduler ensures this.
    pub fn execute(&self, executor: &mut Executor, txns: &[Txn<'_>], outcomes: &mut Vec<Outcome>) {
        outcomes.clear();
        let ended = self.ended.read();
        if *ended {
            outcomes.resize(txns.len(), Outcome::SlotEnded);
            return;
        }
        let wanted = self.shared.tap.wanted();
        let recording = executor.record_too(wanted.logs);
        executor.begin(self, txns);
        executor.run(self, txns, outcomes);
        executor.set_recording(recording);
        if wanted.any() {
            self.tell(executor, txns, outcomes, wanted);
        }
        txns.iter().for_each(|txn| self.shared.statuses.expect_record(txn.first_signature()));
        let mut counts = BankCounts::default();
        for ((txn, checked), outcome) in txns.iter().zip(&executor.checked).zip(outcomes.iter()) {
            if let Ok((checked, claim)) = checked
                && let Some(signature) = self.settle(txn, *claim, outcome)
            {
                counts.add_fee(checked.fee);
                if self.landed.is_some() {
                    executor.landed.push(*claim, signature);
                }
            }
            counts.add(txn, outcome);
        }
        if let Some(landed) = &self.landed {
            landed.lock().append(&mut executor.landed);
        }
        executor.set.write_back(&self.shared.accounts);
        self.add_counts(&counts);
    }

    /// Appends the accounts that a transaction touches, and whether it may write each, for the scheduling of replay.
    /// Its lookup tables yield the same addresses throughout the block.
    pub fn touched(&self, txn: &Txn<'_>, touched: &mut Vec<(AccountHash, bool)>) {
        let accounts = &self.shared.accounts;
        let hash = |key: &Pubkey| accounts.hashed(key).hash;
        touched.extend(txn.account_keys().iter().enumerate().map(|(at, key)| (hash(key), txn.is_writable(at))));
        if txn.loaded_count() == 0 {
            return;
        }
        touched.extend(txn.address_table_lookups().map(|lookup| (hash(lookup.account_key), false)));
        // As in execution, the slot hashes decide whether a deactivated table still counts.
        self.shared.hashing.complete(accounts);
        // If the lookup fails the transaction will not land.
        if let Ok(loaded) = LoadedAddresses::resolve(txn, accounts, self.slot) {
            touched.extend(loaded.writable().iter().map(|key| (hash(key), true)));
            touched.extend(loaded.readonly().iter().map(|key| (hash(key), false)));
        }
    }

    /// The part of the block's limits that a transaction of this block takes; nothing if it did not land.
    pub fn landed_cost(&self, txn: &Txn<'_>, outcome: &Outcome) -> LandedCost {
        if !outcome.is_committed() {
            return LandedCost::default();
        }
        let bounded = |amount: u64| u32::try_from(amount).unwrap_or(u32::MAX);
        let allocated = allocated_bytes(txn, self.features.rules.creates_prefunded);
        LandedCost { units: bounded(outcome.cost(txn)), allocated_bytes: bounded(allocated) }
    }

    /// Appends the accounts that a transaction may write, each of which its block charges for it. Neither reserved
    /// accounts nor the programs that it calls are among them, whatever its message says.
    pub fn charged(&self, txn: &Txn<'_>, charged: &mut Vec<AccountHash>) {
        let accounts = &self.shared.accounts;
        let mut loaded = LoadedAddresses::default();
        if txn.loaded_count() != 0 {
            self.shared.hashing.complete(accounts);
            // It has landed, so the lookup succeeds.
            loaded = LoadedAddresses::resolve(txn, accounts, self.slot).unwrap_or_default();
        }
        let writes = txn.write_locks(loaded.all(), is_reserved);
        let keys = txn.account_keys().iter().chain(loaded.all()).enumerate();
        let written = keys.filter(|(at, _)| writes.contains(*at)).map(|(_, key)| accounts.hashed(key).hash);
        charged.extend(written);
    }

    /// Simulates a transaction on the current state; nothing changes.
    pub fn simulate(&self, executor: &mut Executor, txn: &Txn<'_>) -> Simulation {
        let _still = self.shared.trials.read();
        executor.simulate(self, txn)
    }

    /// Records the status of a landed transaction, or releases the claim of one that did not land.
    #[inline]
    fn settle(&self, txn: &Txn<'_>, claim: Claim, outcome: &Outcome) -> Option<SignatureKey> {
        match outcome {
            Outcome::Committed(landed) => {
                let result = landed.err.map_or(Ok(()), Err);
                let status = LandedStatus { slot: self.slot, result };
                Some(self.shared.statuses.record(txn.first_signature(), status, self.height))
            }
            _ => {
                self.shared.statuses.release(claim, self.height);
                None
            }
        }
    }

    fn add_counts(&self, counts: &BankCounts) {
        let ours = &self.counts;
        ours.committed.fetch_add(counts.committed, Relaxed);
        ours.failed.fetch_add(counts.failed, Relaxed);
        ours.votes.fetch_add(counts.votes, Relaxed);
        ours.not_committed.fetch_add(counts.not_committed, Relaxed);
        ours.unsupported.fetch_add(counts.unsupported, Relaxed);
        ours.signatures.fetch_add(counts.signatures, Relaxed);
        ours.signature_fees.fetch_add(counts.fees.signatures, Relaxed);
        ours.priority_fees.fetch_add(counts.fees.priority, Relaxed);
        self.shared.transaction_count.fetch_add(counts.committed, Relaxed);
    }

    /// Whether the block has ended, so that nothing lands any more.
    pub fn has_ended(&self) -> bool {
        *self.ended.read()
    }

    /// Waits for running microblocks and prevents new ones.
    pub(crate) fn end(&self) {
        *self.ended.write() = true;
    }

    /// The transactions that landed since the last call, if the block may be undone.
    pub(crate) fn take_landed(&self) -> LandedKeys {
        let take = |landed: &Mutex<LandedKeys>| std::mem::take(&mut *landed.lock());
        self.landed.as_ref().map(take).unwrap_or_default()
    }
}

impl BankCounts {
    fn add(&mut self, txn: &Txn<'_>, outcome: &Outcome) {
        match outcome {
            Outcome::Committed(landed) => {
                self.committed += 1;
                self.failed += u64::from(landed.err.is_some());
                self.votes += u64::from(is_vote(txn));
                self.signatures += txn.signatures().len() as u64;
            }
            Outcome::NotCommitted(_) => self.not_committed += 1,
            Outcome::Unsupported => self.unsupported += 1,
            Outcome::SlotEnded => {}
        }
    }

    fn add_fee(&mut self, fee: Fee) {
        self.fees.signatures += fee.signatures;
        self.fees.priority += fee.priority;
    }
}

#[cfg(test)]
mod tests;

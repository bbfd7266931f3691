//! bank: one block in the making. Many threads run microblocks on it at once.
//!
//! reads   transactions, parsed and with their signatures checked; the accounts
//! writes  one [`Outcome`] per transaction; accounts, statuses, counts
//! memory  a bank: 300 B and a share of the blockhashes; an [`Executor`]: the accounts of one
//!         microblock
//! drops   what may not land, with the reason in its outcome, counted in [`BankCounts`]
//! source  `bank.rs` and `bank/check_transactions.rs` of `solana-runtime` 4.2: the checks and their
//!         order
//!
//! ```text
//! for all:  sanity, locks → budget → blockhash → claim on the status   refused here: nothing happens
//! one load of every account
//! in order: payer → accounts, programs → instructions → rent           lands, fails or is refused
//! one write-back; statuses; counts
//! ```

mod checks;
mod general;
mod transfer;
mod working_set;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use hearth_wire::{Hash, Pubkey, Txn};

pub use checks::advances_nonce;
pub use general::{AccountReader, GeneralOutcome, GeneralPath, GeneralRequest, NoGeneralPath};

use crate::account::Account;
use crate::accounts::Accounts;
use crate::blockhash::BlockhashQueue;
use crate::cost::Cost;
use crate::error::TransactionError;
use crate::fees::Fee;
use crate::ledger::Shared;
use crate::status_cache::{Claim, LandedStatus};
use checks::Checked;
use transfer::{Run, TouchedAccounts, Transfers};
use working_set::{Place, WorkingSet};

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It landed, and paid.
    Committed(Committed),
    /// It may not land; nothing has changed.
    NotCommitted(TransactionError),
    /// It needs what this node cannot run; nothing has changed.
    Unsupported,
    /// The block had ended; nothing has changed.
    SlotEnded,
}

/// A transaction that landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Why it failed, if it did.
    pub err: Option<TransactionError>,
    /// What it paid, in lamports.
    pub fee: u64,
    /// Compute units that its instructions used.
    pub compute_units: u64,
    /// Bytes of account data that it loaded.
    pub loaded_bytes: u32,
}

impl Outcome {
    /// Whether the transaction is part of the block.
    pub fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }

    /// What `txn` takes of the block, in compute units of the cost model; 0 if it did not land.
    pub fn cost(&self, txn: &Txn<'_>) -> u64 {
        match self {
            Self::Committed(landed) => Cost::actual(txn, landed.compute_units, landed.loaded_bytes).total(),
            _ => 0,
        }
    }
}

/// Transactions of a block by what became of them, and what they paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankCounts {
    /// Landed, failed ones included.
    pub committed: u64,
    /// Landed and failed.
    pub failed: u64,
    /// Refused.
    pub not_committed: u64,
    /// In need of the general path.
    pub unsupported: u64,
    /// Signatures of those landed.
    pub signatures: u64,
    /// Fees of those landed.
    pub fees: Fee,
}

#[derive(Debug, Default)]
struct AtomicCounts {
    committed: AtomicU64,
    failed: AtomicU64,
    not_committed: AtomicU64,
    unsupported: AtomicU64,
    signatures: AtomicU64,
    signature_fees: AtomicU64,
    priority_fees: AtomicU64,
}

/// One block in the making, shared by the threads that run it.
pub struct Bank {
    shared: Arc<Shared>,
    slot: u64,
    parent: u64,
    height: u64,
    blockhashes: Arc<BlockhashQueue>,
    /// Held for reading while a microblock runs, so that the block ends between microblocks.
    ended: RwLock<bool>,
    counts: AtomicCounts,
}

/// What one thread needs to run microblocks; keep it from one to the next.
#[derive(Debug, Default)]
pub struct Executor {
    set: WorkingSet,
    touched: TouchedAccounts,
    checked: Vec<Result<(Checked, Claim), TransactionError>>,
    places: Vec<Place>,
}

impl Executor {
    /// An executor without memory yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Bank {
    pub(crate) fn new(shared: Arc<Shared>, slot: u64, parent: u64, blockhashes: Arc<BlockhashQueue>) -> Self {
        let height = blockhashes.last_height() + 1;
        Self { shared, slot, parent, height, blockhashes, ended: RwLock::new(false), counts: AtomicCounts::default() }
    }

    /// The block's slot.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    /// The slot of the block before.
    pub fn parent(&self) -> u64 {
        self.parent
    }

    /// How many blocks precede this one; genesis has height 0.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// The last hash of the block before: the newest that a transaction may name.
    pub fn parent_blockhash(&self) -> &Hash {
        self.blockhashes.last()
    }

    /// What has become of the transactions so far.
    pub fn counts(&self) -> BankCounts {
        let counts = &self.counts;
        BankCounts {
            committed: counts.committed.load(Relaxed),
            failed: counts.failed.load(Relaxed),
            not_committed: counts.not_committed.load(Relaxed),
            unsupported: counts.unsupported.load(Relaxed),
            signatures: counts.signatures.load(Relaxed),
            fees: Fee { signatures: counts.signature_fees.load(Relaxed), priority: counts.priority_fees.load(Relaxed) },
        }
    }

    /// Runs a microblock, in order, and commits what lands. `outcomes` is cleared and gets one entry
    /// per transaction.
    ///
    /// Microblocks that run at the same time must not touch the same account, where one of them
    /// writes: the scheduler sees to it.
    pub fn execute(&self, executor: &mut Executor, txns: &[Txn<'_>], outcomes: &mut Vec<Outcome>) {
        outcomes.clear();
        let ended = self.ended.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *ended {
            outcomes.resize(txns.len(), Outcome::SlotEnded);
            return;
        }
        executor.checked.clear();
        executor.checked.extend(txns.iter().map(|txn| self.check_and_claim(txn)));
        let checked = std::mem::take(&mut executor.checked);
        let passed = txns.iter().zip(&checked).filter(|(_, checked)| checked.is_ok());
        executor.load(&self.shared.accounts, passed.map(|(txn, _)| txn));
        let mut counts = BankCounts::default();
        let mut first_place = 0;
        for (txn, checked) in txns.iter().zip(&checked) {
            let outcome = match *checked {
                Err(error) => Outcome::NotCommitted(error),
                Ok((checked, claim)) => {
                    let outcome = executor.run(self, txn, &checked, first_place, &mut counts);
                    first_place += txn.account_keys().len();
                    self.settle(txn, claim, &outcome);
                    outcome
                }
            };
            counts.add(txn, &outcome);
            outcomes.push(outcome);
        }
        executor.set.write_back(&self.shared.accounts);
        executor.checked = checked;
        self.add_counts(&counts);
    }

    /// What would become of a transaction now; nothing changes.
    pub fn simulate(&self, executor: &mut Executor, txn: &Txn<'_>) -> Outcome {
        let checked = match self.check(txn) {
            Ok(_) if self.shared.statuses.has_landed(txn, self.height) => {
                return Outcome::NotCommitted(TransactionError::AlreadyProcessed);
            }
            Ok(checked) => checked,
            Err(error) => return Outcome::NotCommitted(error),
        };
        executor.load(&self.shared.accounts, std::iter::once(txn));
        executor.run(self, txn, &checked, 0, &mut BankCounts::default())
    }

    /// Notes the status of what landed; gives back the claim of what did not.
    fn settle(&self, txn: &Txn<'_>, claim: Claim, outcome: &Outcome) {
        match outcome {
            Outcome::Committed(landed) => {
                let result = landed.err.map_or(Ok(()), Err);
                let status = LandedStatus { slot: self.slot, result };
                self.shared.statuses.record(txn.first_signature(), status, self.height);
            }
            _ => self.shared.statuses.release(claim, self.height),
        }
    }

    fn add_counts(&self, counts: &BankCounts) {
        let ours = &self.counts;
        ours.committed.fetch_add(counts.committed, Relaxed);
        ours.failed.fetch_add(counts.failed, Relaxed);
        ours.not_committed.fetch_add(counts.not_committed, Relaxed);
        ours.unsupported.fetch_add(counts.unsupported, Relaxed);
        ours.signatures.fetch_add(counts.signatures, Relaxed);
        ours.signature_fees.fetch_add(counts.fees.signatures, Relaxed);
        ours.priority_fees.fetch_add(counts.fees.priority, Relaxed);
        self.shared.transaction_count.fetch_add(counts.committed, Relaxed);
    }

    /// Waits for the microblocks that are running, and lets no other begin.
    pub(crate) fn end(&self) {
        *self.ended.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
    }
}

impl BankCounts {
    fn add(&mut self, txn: &Txn<'_>, outcome: &Outcome) {
        match outcome {
            Outcome::Committed(landed) => {
                self.committed += 1;
                self.failed += u64::from(landed.err.is_some());
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

impl Executor {
    /// Finds a place for every account of the transactions, and loads them.
    fn load<'a>(&mut self, accounts: &Accounts, txns: impl Iterator<Item = &'a Txn<'a>>) {
        self.set.clear();
        self.places.clear();
        for txn in txns {
            self.places.extend(txn.account_keys().iter().map(|key| self.set.place(accounts, key)));
        }
        self.set.load(accounts);
    }

    /// Runs one transaction, whose accounts begin at `first_place`.
    fn run(
        &mut self,
        bank: &Bank,
        txn: &Txn<'_>,
        checked: &Checked,
        first_place: usize,
        counts: &mut BankCounts,
    ) -> Outcome {
        if checked.is_general {
            return self.run_general(bank, txn, checked, counts);
        }
        let transfers = Transfers {
            txn,
            places: &self.places[first_place..first_place + txn.account_keys().len()],
            fee: checked.fee.total(),
            compute_unit_limit: checked.budget.compute_unit_limit.into(),
            loaded_bytes_limit: checked.budget.loaded_accounts_bytes,
        };
        match transfers.run(&mut self.set, &mut self.touched) {
            Run::General => self.run_general(bank, txn, checked, counts),
            Run::Refused(error) => Outcome::NotCommitted(error),
            Run::Landed { result, compute_units, loaded_bytes } => {
                counts.add_fee(checked.fee);
                let (err, fee) = (result.err(), checked.fee.total());
                Outcome::Committed(Committed { err, fee, compute_units, loaded_bytes })
            }
        }
    }

    #[cold]
    fn run_general(&mut self, bank: &Bank, txn: &Txn<'_>, checked: &Checked, counts: &mut BankCounts) -> Outcome {
        let accounts = &bank.shared.accounts;
        let outcome = bank.shared.general.execute(&GeneralRequest {
            txn,
            slot: bank.slot,
            height: bank.height,
            budget: checked.budget,
            fee: checked.fee,
            needs_nonce: checked.needs_nonce,
            accounts: &WorkingReader { set: &self.set, accounts },
        });
        match outcome {
            GeneralOutcome::Unsupported => Outcome::Unsupported,
            GeneralOutcome::Refused(error) => Outcome::NotCommitted(error),
            GeneralOutcome::Committed { result, fee, compute_units, loaded_bytes, writes } => {
                let places: Vec<Place> = writes.iter().map(|(key, _)| self.set.place(accounts, key)).collect();
                self.set.load(accounts);
                for ((_, account), place) in writes.into_iter().zip(places) {
                    *self.set.get_mut(place) = account;
                    self.set.commit(place);
                }
                counts.add_fee(fee);
                let (err, fee) = (result.err(), fee.total());
                Outcome::Committed(Committed { err, fee, compute_units, loaded_bytes })
            }
        }
    }
}

/// The accounts as a microblock has left them so far.
struct WorkingReader<'a> {
    set: &'a WorkingSet,
    accounts: &'a Accounts,
}

impl AccountReader for WorkingReader<'_> {
    fn load(&self, key: &Pubkey) -> Option<Account> {
        self.set.find(self.accounts, key)
    }
}

#[cfg(test)]
mod tests;

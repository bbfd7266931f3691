//! The seam for transactions that need more than transfers: another engine runs them, over the same
//! accounts, under the same checks, with the same commit.
//!
//! reads   runs of transactions that have passed the checks on their blockhash, age and status
//! writes  their results and the accounts that they changed; the bank commits them
//! memory  the accounts written, until they are committed
//! drops   with [`NoGeneralPath`] every transaction, as [`GeneralOutcome::Unsupported`], counted by
//!         the bank

use std::fmt::Debug;
use std::ops::RangeInclusive;

use hearth_wire::{Hash, Pubkey, Txn};

use super::lookup::LoadedAddresses;
use super::record::Record;
use crate::account::Account;
use crate::budget::Budget;
use crate::error::TransactionError;
use crate::fees::Fee;

/// Accounts as the transactions before this batch have left them.
pub trait AccountReader {
    /// The account at an address, if it has lamports.
    fn load(&self, key: &Pubkey) -> Option<Account>;
}

/// A transaction to be run.
#[derive(Clone, Copy, Debug)]
pub struct GeneralTxn<'a> {
    /// The transaction.
    pub txn: &'a Txn<'a>,
    /// The addresses that its lookup tables gave.
    pub loaded: &'a LoadedAddresses,
    /// What it asks for.
    pub budget: Budget,
    /// What it pays if it lands.
    pub fee: Fee,
    /// Whether its blockhash is not a recent one, so that it may land only by advancing a nonce that
    /// holds it.
    pub needs_nonce: bool,
}

/// Transactions to be run in their order; each sees what those before it did.
#[derive(Clone, Copy)]
pub struct GeneralBatch<'a> {
    /// The transactions.
    pub txns: &'a [GeneralTxn<'a>],
    /// The slot of the block.
    pub slot: u64,
    /// The newest blockhash that a transaction may name.
    pub blockhash: &'a Hash,
    /// The accounts.
    pub accounts: &'a dyn AccountReader,
    /// Whether to make a [`Record`] of each.
    pub recording: bool,
    /// Whether this is a trial: nothing of it may be remembered.
    pub trial: bool,
    /// Whether the slot has not begun: its sysvars are a guess, which nobody may use again.
    pub ahead: bool,
}

/// What became of a transaction.
#[derive(Debug)]
pub enum GeneralOutcome {
    /// The engine does not know how to run it; nothing happens.
    Unsupported,
    /// It may not land; nothing happens.
    Refused(TransactionError),
    /// It lands, and pays its fee.
    Committed {
        /// Success, or why it failed; `writes` then holds the payer and the nonce only.
        result: Result<(), TransactionError>,
        /// Compute units used.
        compute_units: u64,
        /// Bytes of account data loaded.
        loaded_bytes: u32,
        /// The accounts that it changed.
        writes: Vec<(Pubkey, Account)>,
        /// What it did, if that was asked for.
        record: Option<Box<Record>>,
    },
}

/// An engine for transactions that are not made of transfers alone.
pub trait GeneralPath: Send + Sync {
    /// A worker for one thread.
    fn worker(&self) -> Box<dyn GeneralWorker>;

    /// Whether it runs transfers too, and can say why one failed.
    fn knows_transfers(&self) -> bool {
        true
    }

    /// The chain has gone back: what happened in these slots, trials included, never did. Nothing runs meanwhile. The
    /// accounts are again as they were before.
    fn undone(&self, slots: RangeInclusive<u64>) {
        let _ = slots;
    }
}

/// What one thread needs to run transactions. Workers of an engine may run at once, never
/// conflicting transactions.
pub trait GeneralWorker: Send + Debug {
    /// Runs a batch; pushes one outcome for each transaction.
    fn execute(&mut self, batch: &GeneralBatch<'_>, outcomes: &mut Vec<GeneralOutcome>);
}

/// An engine that knows no transaction: the chain has transfers only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGeneralPath;

impl GeneralPath for NoGeneralPath {
    fn worker(&self) -> Box<dyn GeneralWorker> {
        Box::new(Self)
    }

    fn knows_transfers(&self) -> bool {
        false
    }
}

impl GeneralWorker for NoGeneralPath {
    fn execute(&mut self, batch: &GeneralBatch<'_>, outcomes: &mut Vec<GeneralOutcome>) {
        outcomes.extend(batch.txns.iter().map(|_| GeneralOutcome::Unsupported));
    }
}

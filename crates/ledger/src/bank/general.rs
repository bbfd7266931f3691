//! The seam for transactions that need more than transfers: another engine runs them, over the same
//! accounts, under the same checks, with the same commit.
//!
//! reads   one transaction that has passed the checks on its blockhash, age and status
//! writes  its result and the accounts that it changed; the bank commits them
//! memory  the accounts written, until they are committed
//! drops   with [`NoGeneralPath`] every transaction, as [`GeneralOutcome::Unsupported`], counted by
//!         the bank

use hearth_wire::{Pubkey, Txn};

use crate::account::Account;
use crate::budget::Budget;
use crate::error::TransactionError;
use crate::fees::Fee;

/// Accounts as the transactions before this one have left them.
pub trait AccountReader {
    /// The account at an address, if it has lamports.
    fn load(&self, key: &Pubkey) -> Option<Account>;
}

/// A transaction to be run.
pub struct GeneralRequest<'a> {
    /// The transaction.
    pub txn: &'a Txn<'a>,
    /// The slot of the block.
    pub slot: u64,
    /// The height of the block.
    pub height: u64,
    /// What the transaction asks for.
    pub budget: Budget,
    /// What it pays if it lands.
    pub fee: Fee,
    /// Whether its blockhash is not a recent one, so that it may land only by advancing a nonce that
    /// holds it.
    pub needs_nonce: bool,
    /// The accounts.
    pub accounts: &'a dyn AccountReader,
}

/// What became of a transaction.
#[derive(Debug)]
pub enum GeneralOutcome {
    /// The engine does not know how to run it; nothing happens.
    Unsupported,
    /// It may not land; nothing happens.
    Refused(TransactionError),
    /// It lands.
    Committed {
        /// Success, or why it failed; `writes` then holds the payer and the nonce only.
        result: Result<(), TransactionError>,
        /// What it paid.
        fee: Fee,
        /// Compute units used.
        compute_units: u64,
        /// Bytes of account data loaded.
        loaded_bytes: u32,
        /// The accounts that it changed.
        writes: Vec<(Pubkey, Account)>,
    },
}

/// An engine for transactions that are not made of transfers alone.
pub trait GeneralPath: Send + Sync {
    /// Runs one transaction. Called by many threads at once, never with conflicting transactions.
    fn execute(&self, request: &GeneralRequest<'_>) -> GeneralOutcome;
}

/// An engine that knows no transaction: the chain has transfers only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGeneralPath;

impl GeneralPath for NoGeneralPath {
    fn execute(&self, _request: &GeneralRequest<'_>) -> GeneralOutcome {
        GeneralOutcome::Unsupported
    }
}

//! The interface to the general engine, which runs transactions that need more than transfers: over the same accounts,
//! under the same checks, with the same commit.
//!
//! reads   runs of transactions that have passed the checks on their blockhash, age and status
//! writes  their results and the accounts that they changed; the bank commits them
//! memory  the written accounts, until they are committed
//! drops   with [`NoProgramRuntime`] every transaction, as [`RuntimeOutcome::Unsupported`], counted by the bank

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

use hearth_wire::{Hash, Pubkey, Txn};

use super::lookup::LoadedAddresses;
use super::record::Record;
use crate::account::Account;
use crate::budget::Budget;
use crate::error::TransactionError;
use crate::features::ActiveFeatures;
use crate::fees::Fee;
use crate::stakes::EpochStakes;

/// Read access to the accounts as the transactions before this batch have left them.
pub trait AccountReader {
    /// The account at an address; `None` if it has no lamports.
    fn load(&self, key: &Pubkey) -> Option<Account>;
}

/// A transaction to run.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeTransaction<'a> {
    /// The transaction, a view of its bytes.
    pub txn: &'a Txn<'a>,
    /// The addresses from its lookup tables.
    pub loaded: &'a LoadedAddresses,
    /// The compute budget that it requests.
    pub budget: Budget,
    /// The fee that it pays if it lands.
    pub fee: Fee,
    /// Whether its blockhash is not a recent one, so that it can land only by advancing a nonce with that value.
    pub needs_nonce: bool,
}

/// Transactions to run in order; each sees the effects of those before it.
#[derive(Clone, Copy)]
pub struct RuntimeBatch<'a> {
    /// The transactions, in order.
    pub txns: &'a [RuntimeTransaction<'a>],
    /// The slot of the block.
    pub slot: u64,
    /// The newest blockhash that a transaction may name.
    pub blockhash: &'a Hash,
    /// The price of that blockhash in lamports per signature, which nonces that advance store.
    pub price: u64,
    /// The features that are active in the block.
    pub features: &'a Arc<ActiveFeatures>,
    /// The accounts before the batch.
    pub accounts: &'a dyn AccountReader,
    /// The stakes that are active in the slot's epoch, by vote account; `None` if they are not known.
    pub stakes: Option<&'a EpochStakes>,
    /// Whether to make a [`Record`] of each transaction.
    pub recording: bool,
    /// Whether this is a simulation, after which the engine must not retain any result.
    pub trial: bool,
    /// Whether the slot has not begun: its sysvars are then a guess, and nothing derived from them may be reused.
    pub ahead: bool,
}

/// The outcome of a transaction.
#[derive(Debug)]
pub enum RuntimeOutcome {
    /// The engine cannot run it; nothing changes.
    Unsupported,
    /// It may not land; nothing changes.
    Refused(TransactionError),
    /// It lands, and pays its fee.
    Committed {
        /// Success, or the error; `writes` then contains only the payer and the nonce.
        result: Result<(), TransactionError>,
        /// Compute units that it used, which count for its cost.
        compute_units: u64,
        /// Bytes of account data loaded.
        loaded_bytes: u32,
        /// The accounts that it changed.
        writes: Vec<(Pubkey, Account)>,
        /// The record of its effects, if requested.
        record: Option<Box<Record>>,
    },
}

/// An engine for transactions that contain more than transfers.
pub trait ProgramRuntime: Send + Sync {
    /// Creates a worker for one thread.
    fn worker(&self) -> Box<dyn RuntimeWorker>;

    /// Whether it runs transfers too, and can produce the log of a failed one.
    fn knows_transfers(&self) -> bool {
        true
    }

    /// The chain was rewound: everything that happened in these slots, simulations included, is void. Nothing runs
    /// during the call, and the accounts are as they were before the slots.
    fn undone(&self, slots: RangeInclusive<u64>) {
        let _ = slots;
    }
}

/// The state that one thread needs to run transactions. Workers of one engine may run concurrently, but never on
/// conflicting transactions.
pub trait RuntimeWorker: Send + Debug {
    /// Runs a batch; pushes one outcome for each transaction.
    fn execute(&mut self, batch: &RuntimeBatch<'_>, outcomes: &mut Vec<RuntimeOutcome>);
}

/// An engine that supports no transaction: the chain then has transfers only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgramRuntime;

impl ProgramRuntime for NoProgramRuntime {
    fn worker(&self) -> Box<dyn RuntimeWorker> {
        Box::new(Self)
    }

    fn knows_transfers(&self) -> bool {
        false
    }
}

impl RuntimeWorker for NoProgramRuntime {
    fn execute(&mut self, batch: &RuntimeBatch<'_>, outcomes: &mut Vec<RuntimeOutcome>) {
        outcomes.extend(batch.txns.iter().map(|_| RuntimeOutcome::Unsupported));
    }
}

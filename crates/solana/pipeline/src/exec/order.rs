//! order: a worker's input and its report.
//!
//! memory  at most 64 transactions' places or 256 entries' hashes; a report holds the history of its batch
//! drops   nothing: every order gets exactly one report

use hearth_ledger::{LandedCost, Outcome};
use hearth_wire::Hash;

use crate::poh::check::ChainEntry;

/// Maximum entries whose hashes one order verifies.
pub const ORDER_ENTRIES: usize = 256;

/// Work for one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkOrder {
    /// Identifies the order; the report repeats it.
    pub id: u64,
    /// The slot of the block that is executed.
    pub slot: u64,
    /// The work to do.
    pub work: Work,
}

/// The two kinds of work on a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Verify the signatures of transactions and execute them, in order.
    Execute {
        /// The places of the transactions' bytes in the order's data, in order.
        txns: Vec<TransactionRange>,
        /// Whether the block was executed before: then its signatures are verified, and its costs are not needed.
        is_known: bool,
        /// Whether to report the history.
        records: bool,
    },
    /// Verify the hashes of entries.
    Hash {
        /// The hash before the first entry.
        before: Hash,
        /// The entries, in order.
        entries: Vec<ChainEntry>,
    },
}

/// The place of a transaction's bytes in the order's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRange {
    /// Offset of the first byte.
    pub at: u32,
    /// How many bytes the transaction has.
    pub len: u16,
}

impl TransactionRange {
    /// Returns the bytes from the order's data.
    #[inline]
    pub fn of(self, data: &[u8]) -> &[u8] {
        &data[self.at as usize..][..self.len.into()]
    }
}

/// The outcome of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The id of the order.
    pub id: u64,
    /// Why the block is wrong, if it is.
    pub failure: Option<Failure>,
    /// The history of every transaction before the failure, as one batch; empty if none is recorded.
    pub history: Vec<u8>,
    /// The cost of every transaction before the failure; empty if the block is known.
    pub costs: Vec<LandedCost>,
}

/// Why a block is invalid. Everything before this point in the order is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An entry's hash is wrong.
    Hash {
        /// The entry's index in the order.
        entry: u32,
    },
    /// A transaction's signature is wrong.
    Signature {
        /// The transaction's index in the order.
        txn: u32,
    },
    /// A transaction cannot land.
    Outcome {
        /// The transaction's index in the order.
        txn: u32,
        /// The outcome, which is never a committed one.
        outcome: Outcome,
    },
}

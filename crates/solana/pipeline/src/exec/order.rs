//! order: what a worker is given, and what it reports.
//!
//! memory  at most 64 transactions' places or 256 entries' hashes; a report holds the batch's history
//! drops   nothing: each order has one report

use hearth_ledger::Outcome;
use hearth_wire::Hash;

use crate::poh::check::ChainEntry;

/// Most entries whose hashes are checked by one order.
pub const ORDER_ENTRIES: usize = 256;

/// Work for one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Comes back with the report.
    pub id: u64,
    /// The block's slot.
    pub slot: u64,
    /// What to do.
    pub work: Work,
}

/// The two kinds of work on a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Checks the signatures of transactions and executes them, in order.
    Execute {
        /// Where their bytes are.
        txns: Vec<Place>,
        /// Whether the signatures need no check.
        is_known: bool,
        /// Whether to report the history.
        records: bool,
    },
    /// Checks the hashes of entries.
    Hash {
        /// The hash before the first.
        before: Hash,
        /// The entries.
        entries: Vec<ChainEntry>,
    },
}

/// Where a transaction's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte.
    pub at: u32,
    /// How many.
    pub len: u16,
}

impl Place {
    /// The bytes, out of all that the order is about.
    #[inline]
    pub fn of(self, data: &[u8]) -> &[u8] {
        &data[self.at as usize..][..self.len.into()]
    }
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The order's.
    pub id: u64,
    /// Why the block is wrong, if it is.
    pub failure: Option<Failure>,
    /// A batch of the history: every transaction before the failure. Empty where none is recorded.
    pub history: Vec<u8>,
}

/// Why a block is wrong. Everything before it in the order is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An entry's hash.
    Hash {
        /// Its place in the order.
        entry: u32,
    },
    /// A transaction's signature.
    Signature {
        /// Its place in the order.
        txn: u32,
    },
    /// A transaction does not land.
    Outcome {
        /// Its place in the order.
        txn: u32,
        /// What became of it.
        outcome: Outcome,
    },
}

//! shared: the state that all banks of a ledger and its readers share.
//!
//! memory  accounts and statuses, each bounded where it is kept

use std::sync::atomic::AtomicU64;

use parking_lot::RwLock;

use super::program_runtime::ProgramRuntime;
use crate::accounts::Accounts;
use crate::bank_hash::BankHasher;
use crate::notifier::Notifier;
use crate::status_cache::StatusCache;

/// The state that banks and readers share.
pub(crate) struct Shared {
    pub(crate) accounts: Accounts,
    pub(crate) statuses: StatusCache,
    pub(crate) general: Box<dyn ProgramRuntime>,
    pub(crate) transaction_count: AtomicU64,
    pub(crate) hashing: BankHasher,
    pub(crate) tap: Notifier,
    /// Whether blocks may be undone.
    pub(crate) keeps_forks: bool,
    /// Read-locked during a simulation, so that the chain is not rewound beneath it.
    pub(crate) trials: RwLock<()>,
}

//! ledger: the chain's state (accounts, statuses, blockhashes, blocks on disk) and the rules by which a transaction
//! changes it.
//!
//! reads   transactions (as `hearth_wire::Txn`), the genesis file, blocks
//! writes  accounts in memory, one outcome per transaction, blocks on disk
//! memory  accounts and statuses, each bounded where it is kept
//! drops   nothing silently: a transaction that does not land has an outcome with the reason
//!
//! A transaction passes through [`genesis`] → [`ledger`] (the life of a slot) → [`bank`] (a microblock) → its checks
//! ([`budget`], [`fees`], [`blockhash`], [`status_cache`]) → [`accounts`] → [`lattice`] (the hash of all accounts) →
//! [`view`] (client queries). [`sysvars`], [`stakes`], [`leaders`] and [`features`] make up an epoch. On disk:
//! [`blockstore`], and [`snapshot`], written by [`snapshot_taker`]; the form that the cluster's other nodes read is an
//! [`archive`], written by [`archiver`] and read by [`archive_start`].

pub mod account;
pub mod accounts;
pub mod archive;
pub mod archive_start;
pub mod archiver;
pub mod bank;
mod bank_hash;
pub mod block;
mod block_costs;
pub mod blockhash;
pub mod blockstore;
pub mod bootstrap;
pub mod budget;
#[doc(hidden)]
pub mod builders;
mod clock;
pub mod commitment;
pub mod cost;
pub mod drop_log;
pub mod epoch;
mod epochs;
pub mod error;
pub mod features;
pub mod fees;
pub mod genesis;
pub mod hard_forks;
pub mod history;
pub mod lattice;
pub mod leaders;
pub mod ledger;
pub mod notifier;
pub mod performance;
pub mod program_header;
pub mod programs;
pub mod rent;
mod rewards;
mod seed;
pub mod slot_history;
pub mod snapshot;
pub mod snapshot_taker;
pub mod stakes;
pub mod status_cache;
pub mod sysvars;
#[cfg(test)]
mod testing;
pub mod validators;
pub mod view;
pub mod vote_state;

pub use account::Account;
pub use accounts::Accounts;
pub use archive_start::ArchiveStart;
pub use bank::{AccountHash, Bank, BankCounts, CommittedTransaction, Executor, Outcome};
pub use block::{BlockRewards, BlockSummary, FeeReward, Reward, RewardKind};
pub use block_costs::BlockCosts;
pub use budget::Budget;
pub use commitment::Commitment;
pub use cost::{BlockLimits, Cost, LandedCost};
pub use drop_log::{DropReason, DropTable};
pub use error::{InstructionError, TransactionError};
pub use features::{ActiveFeatures, FeatureError};
pub use fees::Fee;
pub use genesis::{Genesis, GenesisConfig, GenesisError};
pub use ledger::{
    ChangedAccount, Forks, FrozenBlock, KeptForks, Ledger, LedgerConfig, RewindError, SlotChanges, SlotError,
};
pub use rewards::partition_of;
pub use seed::Seed;
pub use slot_history::SlotHistory;
pub use status_cache::{StatusCache, StatusCacheConfig};
pub use view::{LatestBlockhash, SignatureStatus, StateView};
pub use vote_state::VoteState;

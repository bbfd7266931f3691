//! archive: the state at the end of a rooted slot as the cluster's nodes exchange it.
//!
//! reads   `snapshot-SLOT-HASH.tar.zst`, `incremental-snapshot-BASE-SLOT-HASH.tar.zst`
//! writes  the same
//! memory  the bank's fields and statuses; for what all accounts are checked by, a slot an account
//! drops   nothing: the first fault ends it, and names the archive
//! source  `agave-snapshots` and `solana-runtime` 4.2, which write version 1.2.0 of the format; docs/snapshots.md
//!
//! An archive is a tar, packed by zstd, of four kinds of files: `version`; the bank's fields ([`BankFields`]); the
//! statuses of the last 300 rooted slots ([`SlotStatuses`]); and one file of accounts for each slot that has any. The
//! hash in its name is the checksum of the sum over all accounts, which the fields hold. [`read()`] passes its accounts
//! on as they come; [`read_state()`] puts a full and an incremental one together and checks all; [`NewArchive`] writes
//! one.

mod chain;
mod codec;
mod entry;
mod error;
mod errors;
mod fields;
mod name;
mod reader;
mod spool;
mod stakes;
mod state;
mod statuses;
mod storage;
mod writer;

#[cfg(test)]
mod tests;

pub use chain::ChainParameters;
pub use error::{ArchiveError, Fault};
pub use fields::{BankFields, BankStats, BlockhashQueue, QueuedHash, StorageInfo};
pub use name::ArchiveName;
pub use reader::{Contents, Limits, Progress, Sink, read, read_unpacked};
pub(crate) use spool::Spool;
pub use stakes::{BankStakes, EpochStakes, NodeVotes, StakeDelegation, StakeOfEpoch, StakedVote, read_stake_history};
pub use state::{AccountReceiver, State, read_fields, read_state};
pub use statuses::{HashStatuses, KEY_SIZE, KeyedStatus, SLOTS_MAX, SlotStatuses};
pub use storage::{STORAGE_MAX, stored_size};
pub(crate) use writer::PART_PREFIX;
pub use writer::{ArchiveWriter, NewArchive};

//! types: the scheduler's inputs, configuration, results and totals.
//!
//! memory  plain values
//! drops   nothing; [`Counts`] says what the scheduler dropped
//! source  the caller chooses the cluster's limits

use hearth_ledger::drop_log::DropReason;
use hearth_wire::AccountSet;
use hearth_wire::consts::Pubkey;

/// Largest transaction in bytes: the cluster's packet size.
pub const TXN_BYTES: usize = hearth_wire::consts::PACKET_DATA_SIZE;
/// Maximum accounts that a transaction may lock; the cluster rejects more.
pub const TXN_LOCKS: usize = hearth_wire::consts::MAX_ACCOUNT_LOCKS;

/// A transaction as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Wire bytes, at most [`TXN_BYTES`].
    pub bytes: &'a [u8],
    /// Keyed 64-bit hash of the first signature; equal tags are treated as equal transactions.
    pub tag: u64,
    /// Lamports paid to the leader.
    pub reward: u64,
    /// Compute units to reserve: an upper bound of its cost.
    pub cost: u32,
    /// Bytes of account data that it may allocate.
    pub growth: u32,
    /// Expiry by the clock of `Scheduler::expire`: the height of the last block in which it is valid.
    pub expires_at: u64,
    /// When it entered the node, in microseconds; 0 if unknown.
    pub origin_us: u32,
    /// Digest of the accounts that lookup tables resolved, if any; passed on with the transaction.
    pub loaded: Option<u64>,
    /// Its distinct accounts, those from lookup tables last: at least one, at most [`TXN_LOCKS`].
    pub keys: &'a [Pubkey],
    /// Accounts to lock for writing, by index in `keys`.
    pub writes: AccountSet,
    /// Accounts that no transaction may write, so that they need no lock.
    pub unlocked: AccountSet,
}

/// Limits of a block and of a microblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compute units per block.
    pub block_cost: u64,
    /// Compute units per block of transactions that write one account; below 2^31.
    pub account_cost: u32,
    /// Entry bytes per block.
    pub block_bytes: u64,
    /// Bytes by which a block's transactions may grow accounts.
    pub block_growth: u64,
    /// Compute units of a microblock with several transactions, because a bank executes it in one go.
    pub microblock_cost: u64,
    /// Maximum transactions of a microblock.
    pub microblock_txns: usize,
    /// Bytes of a microblock's transactions, each with [`SchedulerConfig::TXN_HEADER`].
    pub microblock_bytes: usize,
}

/// How fast to fill a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// As fast as the banks go.
    #[default]
    None,
    /// Spend the block's cost evenly until the slot's end, so that transactions that arrive late and pay better find
    /// room.
    Even,
}

/// Parameters of a scheduler.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerConfig {
    /// Maximum pending transactions, for which the pool has memory.
    pub capacity: usize,
    /// Maximum accounts that pending and executing transactions name.
    pub accounts: usize,
    /// How many banks execute microblocks side by side.
    pub banks: usize,
    /// Maximum microblocks in flight per bank.
    pub flights_per_bank: u32,
    /// Limits of blocks and microblocks.
    pub limits: Limits,
    /// Whether reserved but unused compute is returned to the block.
    pub use_consumed_cus: bool,
    /// How fast to fill a block.
    pub pacing: Pacing,
    /// Keys the hashes of accounts, so that attackers cannot choose addresses that collide.
    pub secret: u64,
}

impl SchedulerConfig {
    /// Bytes before each transaction in a microblock.
    pub const TXN_HEADER: usize = 10;
    /// Additional bytes before a transaction with accounts from lookup tables.
    pub const LOADED_HEADER: usize = 8;

    /// The maximum locks of one microblock.
    pub(super) fn microblock_locks(&self) -> usize {
        self.limits.microblock_txns * TXN_LOCKS
    }
}

/// Why a transaction was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// It has more than [`TXN_BYTES`] bytes.
    #[error("the transaction is too long")]
    TooLong,
    /// It names no account, or more than [`TXN_LOCKS`].
    #[error("the transaction locks too many accounts")]
    TooManyAccounts,
    /// It names an account twice, which the cluster rejects.
    #[error("the transaction names an account twice")]
    AccountTwice,
    /// It costs more than a block's limit, or the limit for writing one account.
    #[error("the transaction costs more than a block may")]
    TooCostly,
    /// Its blockhash is too old.
    #[error("the transaction has expired")]
    Expired,
    /// It is already pending.
    #[error("the transaction is pending already")]
    Duplicate,
    /// No slot is free, and no pending transaction pays worse.
    #[error("the pool is full of transactions that pay as well or better")]
    PoolFull,
    /// No room for its accounts, and evicting worse-paying transactions did not free enough.
    #[error("the pool has no room for its accounts")]
    AccountsFull,
}

impl From<RejectReason> for DropReason {
    fn from(why: RejectReason) -> Self {
        match why {
            RejectReason::TooLong | RejectReason::TooManyAccounts => Self::PackSize,
            RejectReason::AccountTwice => Self::PackAccountTwice,
            RejectReason::TooCostly => Self::PackTooCostly,
            RejectReason::Expired => Self::PackExpired,
            RejectReason::Duplicate => Self::PackDuplicate,
            RejectReason::PoolFull => Self::PackPoolFull,
            RejectReason::AccountsFull => Self::PackAccountsFull,
        }
    }
}

/// The limit that a block reached before its slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockLimit {
    /// Compute units of all transactions together.
    Compute,
    /// Entry bytes, which the block's maximum of shreds limits too.
    Bytes,
    /// Growth of account data.
    Growth,
    /// Microblocks that poh can mix in.
    Microblocks,
    /// Compute units for writing one account; other transactions still fit.
    Account,
}

/// Why there is no microblock now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// No leader slot is in progress.
    NoSlot,
    /// The bank has its maximum of microblocks in flight.
    BankBusy,
    /// Everything pending waits for accounts, or nothing is pending.
    NothingReady,
    /// The block has reached a limit, which may lift when compute is returned.
    BlockFull,
    /// The block is ahead of its pace.
    Paced {
        /// When to ask again, on the host's clock, in nanoseconds.
        until_ns: u64,
    },
    /// The whole budget went to transactions that have to wait: ask again.
    OutOfBudget,
}

/// Totals of a scheduler. `offered` = `scheduled` + everything refused, evicted or expired + pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that were offered, whatever became of them.
    pub offered: u64,
    /// Transactions that were put into microblocks.
    pub scheduled: u64,
    /// Microblocks handed to banks; none is empty.
    pub microblocks: u64,
    /// Refused: longer than a transaction may be.
    pub too_long: u64,
    /// Refused: no account or too many.
    pub too_many_accounts: u64,
    /// Refused: an account named twice.
    pub account_twice: u64,
    /// Refused: costs more than a block may.
    pub too_costly: u64,
    /// Refused: expired on arrival.
    pub expired_on_arrival: u64,
    /// Refused: it is pending already.
    pub duplicate: u64,
    /// Refused: no slot free, and none pays worse.
    pub pool_full: u64,
    /// Refused: no room for its accounts.
    pub accounts_full: u64,
    /// Evicted while pending by one that pays better.
    pub evicted: u64,
    /// Dropped while pending: its blockhash expired.
    pub expired: u64,
    /// Times a transaction was deferred by an account's write limit.
    pub put_off_account_limit: u64,
    /// Times a transaction joined an account's queue.
    pub waited: u64,
    /// Ready transactions that were examined for a microblock, those that did not fit included.
    pub looked_at: u64,
    /// Compute units reserved, not used and returned to the block.
    pub cost_given_back: u64,
}

impl Counts {
    /// The counter for a refusal.
    pub(super) fn refused_mut(&mut self, why: RejectReason) -> &mut u64 {
        match why {
            RejectReason::TooLong => &mut self.too_long,
            RejectReason::TooManyAccounts => &mut self.too_many_accounts,
            RejectReason::AccountTwice => &mut self.account_twice,
            RejectReason::TooCostly => &mut self.too_costly,
            RejectReason::Expired => &mut self.expired_on_arrival,
            RejectReason::Duplicate => &mut self.duplicate,
            RejectReason::PoolFull => &mut self.pool_full,
            RejectReason::AccountsFull => &mut self.accounts_full,
        }
    }

    /// All transactions dropped, on arrival or later.
    pub fn dropped(&self) -> u64 {
        let on_arrival = [
            self.too_long,
            self.too_many_accounts,
            self.account_twice,
            self.too_costly,
            self.expired_on_arrival,
            self.duplicate,
            self.pool_full,
            self.accounts_full,
        ];
        on_arrival.iter().sum::<u64>() + self.evicted + self.expired
    }
}

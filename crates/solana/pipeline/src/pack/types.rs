//! The types of the scheduler: what it is given, how it is made, what it answers and counts.
//!
//! memory  plain values
//! drops   nothing; [`Counts`] says what the scheduler dropped
//! source  the cluster's limits are the caller's to choose

use hearth_ledger::drop_log::DropReason;
use hearth_wire::AccountSet;
use hearth_wire::consts::Pubkey;

/// Largest transaction, bytes: the cluster's packet size.
pub const TXN_BYTES: usize = hearth_wire::consts::PACKET_DATA_SIZE;
/// The most accounts that a transaction may lock: the cluster refuses more.
pub const TXN_LOCKS: usize = hearth_wire::consts::MAX_ACCOUNT_LOCKS;

/// A transaction as the scheduler sees it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Wire bytes, at most [`TXN_BYTES`].
    pub bytes: &'a [u8],
    /// Keyed 64-bit hash of the first signature; equal tags are taken for equal transactions.
    pub tag: u64,
    /// Lamports that it pays to the leader.
    pub reward: u64,
    /// Compute units to reserve: at least what it can cost.
    pub cost: u32,
    /// Bytes of account data that it may allocate.
    pub growth: u32,
    /// The end of its time, by the clock of `Scheduler::expire`: the height of the last block in which it is valid.
    pub expires_at: u64,
    /// When it entered the node, microseconds; 0 where that is not known.
    pub origin_us: u32,
    /// Digest of those of its accounts that lookup tables gave, if any did: handed on with it.
    pub loaded: Option<u64>,
    /// Its accounts, each once, those of lookup tables last: one at least, [`TXN_LOCKS`] at most.
    pub keys: &'a [Pubkey],
    /// Those locked for writing, by their index among the keys.
    pub writes: AccountSet,
    /// Those that no transaction may write, so that nobody need lock them.
    pub unlocked: AccountSet,
}

/// What a block and a microblock may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Compute units of a block.
    pub block_cost: u64,
    /// Compute units, within a block, of transactions that write one account; below 2^31.
    pub account_cost: u32,
    /// Entry bytes of a block.
    pub block_bytes: u64,
    /// Bytes by which a block's transactions may make accounts grow.
    pub block_growth: u64,
    /// Compute units of a microblock of several transactions: a bank executes it in one go.
    pub microblock_cost: u64,
    /// Transactions of a microblock.
    pub microblock_txns: usize,
    /// Bytes of a microblock's transactions, each with [`SchedulerConfig::TXN_HEADER`].
    pub microblock_bytes: usize,
}

/// How fast a block is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// As fast as the banks go.
    #[default]
    None,
    /// So that the block's cost is used up at the slot's end and no sooner: transactions that pay
    /// better and come late find room.
    Even,
}

/// How a scheduler is made.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerConfig {
    /// Pending transactions at a time.
    pub capacity: usize,
    /// Accounts that pending and executing transactions name, at a time.
    pub accounts: usize,
    /// Banks.
    pub banks: usize,
    /// Microblocks that a bank may have before it completes the first.
    pub flights_per_bank: u32,
    /// Limits of blocks and microblocks.
    pub limits: Limits,
    /// Whether reserved compute that a microblock did not use may be used again in the block.
    pub use_consumed_cus: bool,
    /// How fast a block is filled.
    pub pacing: Pacing,
    /// Keys the hashes of accounts, so that nobody can choose addresses that collide.
    pub secret: u64,
}

impl SchedulerConfig {
    /// Bytes before each transaction in a microblock.
    pub const TXN_HEADER: usize = 10;
    /// Bytes more before each that has accounts from lookup tables.
    pub const LOADED_HEADER: usize = 8;

    /// The most locks that one microblock can hold.
    pub(super) fn microblock_locks(&self) -> usize {
        self.limits.microblock_txns * TXN_LOCKS
    }
}

/// Why a transaction was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// More than [`TXN_BYTES`].
    #[error("the transaction is too long")]
    TooLong,
    /// No account, or more than [`TXN_LOCKS`].
    #[error("the transaction locks too many accounts")]
    TooManyAccounts,
    /// An account is named twice, which the cluster refuses.
    #[error("the transaction names an account twice")]
    AccountTwice,
    /// It costs more than a block, or writing one account, may.
    #[error("the transaction costs more than a block may")]
    TooCostly,
    /// Its blockhash is too old.
    #[error("the transaction has expired")]
    Expired,
    /// It is pending already.
    #[error("the transaction is pending already")]
    Duplicate,
    /// No slot is free and none pays worse.
    #[error("the pool is full of transactions that pay as well or better")]
    PoolFull,
    /// There is no memory for its accounts, and too few pay worse.
    #[error("the pool has no room for its accounts")]
    AccountsFull,
}

impl From<Refused> for DropReason {
    fn from(why: Refused) -> Self {
        match why {
            Refused::TooLong | Refused::TooManyAccounts => Self::PackSize,
            Refused::AccountTwice => Self::PackAccountTwice,
            Refused::TooCostly => Self::PackTooCostly,
            Refused::Expired => Self::PackExpired,
            Refused::Duplicate => Self::PackDuplicate,
            Refused::PoolFull => Self::PackPoolFull,
            Refused::AccountsFull => Self::PackAccountsFull,
        }
    }
}

/// What a block ran out of before its slot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockLimit {
    /// Compute units.
    Compute,
    /// Entry bytes, which the shreds of a block bound too.
    Bytes,
    /// Growth of accounts.
    Growth,
    /// Microblocks that poh can mix in.
    Microblocks,
    /// Compute units of those that write one account: others find room.
    Account,
}

/// Why there is no microblock now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// No leader slot is under way.
    NoSlot,
    /// The bank has as many microblocks as it may.
    BankBusy,
    /// Everything pending waits for accounts, or nothing is pending.
    NothingReady,
    /// The block has reached a limit, which may lift when compute is given back.
    BlockFull,
    /// The block is ahead of its pace.
    Paced {
        /// When to ask again, on the host's clock, nanoseconds.
        until_ns: u64,
    },
    /// The budget was spent on transactions that have to wait: ask again.
    OutOfBudget,
}

/// What a scheduler did. `offered` = `scheduled` + everything refused, evicted or expired + pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that came in.
    pub offered: u64,
    /// Transactions in microblocks.
    pub scheduled: u64,
    /// Microblocks.
    pub microblocks: u64,
    /// Refused: too long.
    pub too_long: u64,
    /// Refused: no account or too many.
    pub too_many_accounts: u64,
    /// Refused: an account named twice.
    pub account_twice: u64,
    /// Refused: costs more than a block may.
    pub too_costly: u64,
    /// Refused: expired when it came.
    pub expired_on_arrival: u64,
    /// Refused: pending already.
    pub duplicate: u64,
    /// Refused: no slot free and none pays worse.
    pub pool_full: u64,
    /// Refused: no room for its accounts.
    pub accounts_full: u64,
    /// Dropped while pending, for one that pays better.
    pub evicted: u64,
    /// Dropped while pending: its blockhash became too old.
    pub expired: u64,
    /// Times a transaction was put off because of an account's write limit.
    pub put_off_account_limit: u64,
    /// Times a transaction joined an account's queue.
    pub waited: u64,
    /// Ready transactions looked at.
    pub looked_at: u64,
    /// Compute units reserved, not used and given back to the block.
    pub cost_given_back: u64,
}

impl Counts {
    /// The counter of a refusal.
    pub(super) fn refused_mut(&mut self, why: Refused) -> &mut u64 {
        match why {
            Refused::TooLong => &mut self.too_long,
            Refused::TooManyAccounts => &mut self.too_many_accounts,
            Refused::AccountTwice => &mut self.account_twice,
            Refused::TooCostly => &mut self.too_costly,
            Refused::Expired => &mut self.expired_on_arrival,
            Refused::Duplicate => &mut self.duplicate,
            Refused::PoolFull => &mut self.pool_full,
            Refused::AccountsFull => &mut self.accounts_full,
        }
    }

    /// Everything that was dropped, on arrival or later.
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

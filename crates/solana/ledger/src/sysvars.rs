//! Sysvars: accounts through which the chain's state is visible to programs.
//!
//! reads   the account store
//! writes  the sysvars' accounts, in the layouts that programs know
//! memory  the accounts; the largest is the slot history with 131,097 bytes
//! source  `bank.rs`, `bank/recent_blockhashes_account.rs` of `solana-runtime` 4.2 for when each is
//!         written, every feature active (so there is no fees sysvar); `solana-clock`,
//!         `solana-slot-hashes`, … for the layouts
//!
//! | sysvar | written |
//! |---|---|
//! | slot hashes | when a slot begins, as soon as its parent's bank hash is known |
//! | clock | when a slot begins |
//! | stake history, epoch rewards | when an epoch begins; see [`crate::stakes`] |
//! | recent blockhashes, slot history | when a slot ends |
//! | last restart slot | at genesis, and when the slot of a hard fork begins; see [`crate::hard_forks`] |
//! | rent, epoch schedule | at genesis |

use hearth_wire::consts::*;
use hearth_wire::{Hash, Pubkey};

use crate::account::Account;
use crate::accounts::Accounts;
use crate::epoch::EpochSchedule;
use crate::rent::{ACCOUNT_OVERHEAD_BYTES, LAMPORTS_PER_BYTE};

/// Number of slot hashes that are kept.
pub const MAX_SLOT_HASHES: usize = 512;
/// Number of recent blockhashes that are listed.
pub const MAX_RECENT_BLOCKHASHES: usize = 150;
/// Number of epochs in the stake history.
pub const MAX_STAKE_HISTORY: usize = 512;
/// Number of slots in the slot history.
pub const SLOT_HISTORY_SLOTS: u64 = 1024 * 1024;

const SLOT_HASH_BYTES: usize = 8 + 32;
const SLOT_HASHES_BYTES: usize = 8 + MAX_SLOT_HASHES * SLOT_HASH_BYTES;
const RECENT_BLOCKHASHES_BYTES: usize = 8 + MAX_RECENT_BLOCKHASHES * (32 + 8);
pub(crate) const STAKE_HISTORY_BYTES: usize = 8 + MAX_STAKE_HISTORY * 32;
const EPOCH_REWARDS_BYTES: usize = 81;
/// An option tag, the word count, the words, the bit count, the next slot.
const SLOT_HISTORY_BYTES: usize = 1 + 8 + (SLOT_HISTORY_SLOTS / 8) as usize + 8 + 8;

const _: () = assert!(SLOT_HASHES_BYTES == 20_488 && RECENT_BLOCKHASHES_BYTES == 6_008);
const _: () = assert!(STAKE_HISTORY_BYTES == 16_392 && SLOT_HISTORY_BYTES == 131_097);

/// The clock sysvar: the time that programs see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// The slot in progress.
    pub slot: u64,
    /// Start of the epoch, in Unix seconds.
    pub epoch_start_timestamp: i64,
    /// The epoch of the slot.
    pub epoch: u64,
    /// The newest epoch whose leaders are computed.
    pub leader_schedule_epoch: u64,
    /// The chain's time in Unix seconds.
    pub unix_timestamp: i64,
}

impl Clock {
    /// The clock of a chain that begins with `slot` at `now`, in Unix seconds. Its epoch started earlier by the
    /// duration of the epoch's slots before `slot`.
    pub(crate) fn at_genesis(schedule: &EpochSchedule, slot: u64, slot_ns: u64, now: i64) -> Self {
        let (epoch, index) = schedule.epoch_and_index(slot);
        let since_ns = u128::from(index) * u128::from(slot_ns);
        Self {
            slot,
            epoch_start_timestamp: now.saturating_sub((since_ns / 1_000_000_000) as i64),
            epoch,
            leader_schedule_epoch: schedule.leader_schedule_epoch(slot),
            unix_timestamp: now,
        }
    }

    /// Reads the clock of the slot in progress.
    pub fn load(accounts: &Accounts) -> Self {
        accounts.with(&SYSVAR_CLOCK, |account| Self::read(account.data())).unwrap_or_default()
    }

    fn read(data: &[u8]) -> Self {
        let word = |at: usize| u64_at(data, 8 * at);
        Self {
            slot: word(0),
            epoch_start_timestamp: word(1) as i64,
            epoch: word(2),
            leader_schedule_epoch: word(3),
            unix_timestamp: word(4) as i64,
        }
    }

    pub(crate) fn store(&self, accounts: &Accounts) {
        write(accounts, &SYSVAR_CLOCK, &self.encode());
    }

    fn encode(&self) -> Vec<u8> {
        let words = [
            self.slot,
            self.epoch_start_timestamp as u64,
            self.epoch,
            self.leader_schedule_epoch,
            self.unix_timestamp as u64,
        ];
        words.map(u64::to_le_bytes).concat()
    }
}

/// The epoch rewards sysvar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EpochRewards {
    /// The block height at which distribution begins.
    pub distribution_starting_block_height: u64,
    /// Number of blocks over which rewards are distributed.
    pub num_partitions: u64,
    /// The last blockhash before the epoch.
    pub parent_blockhash: Hash,
    /// Sum of the points of all stakes.
    pub total_points: u128,
    /// Lamports of all rewards of the epoch, distributed or not.
    pub total_rewards: u64,
    /// Lamports distributed so far.
    pub distributed_rewards: u64,
    /// Whether distribution is in progress.
    pub active: bool,
}

impl EpochRewards {
    /// Reads the sysvar; the default, without rewards, if it does not exist.
    pub(crate) fn load(accounts: &Accounts) -> Self {
        accounts.with(&SYSVAR_EPOCH_REWARDS, |account| Self::read(account.data())).flatten().unwrap_or_default()
    }

    fn read(data: &[u8]) -> Option<Self> {
        let data: &[u8; EPOCH_REWARDS_BYTES] = data.first_chunk()?;
        Some(Self {
            distribution_starting_block_height: u64_at(data, 0),
            num_partitions: u64_at(data, 8),
            parent_blockhash: *data[16..].first_chunk()?,
            total_points: u128::from_le_bytes(*data[48..].first_chunk()?),
            total_rewards: u64_at(data, 64),
            distributed_rewards: u64_at(data, 72),
            active: data[80] != 0,
        })
    }

    /// Burns what the sysvar holds above the minimum balance.
    pub(crate) fn burn_excess(accounts: &Accounts) {
        let most = least(accounts, EPOCH_REWARDS_BYTES);
        accounts.update(&SYSVAR_EPOCH_REWARDS, |account| account.lamports = account.lamports.min(most));
    }

    pub(crate) fn store(&self, accounts: &Accounts) {
        let mut data = Vec::with_capacity(EPOCH_REWARDS_BYTES);
        data.extend(self.distribution_starting_block_height.to_le_bytes());
        data.extend(self.num_partitions.to_le_bytes());
        data.extend(self.parent_blockhash);
        data.extend(self.total_points.to_le_bytes());
        data.extend(self.total_rewards.to_le_bytes());
        data.extend(self.distributed_rewards.to_le_bytes());
        data.push(self.active.into());
        write(accounts, &SYSVAR_EPOCH_REWARDS, &data);
    }
}

/// Writes the sysvars of a new chain, as the end of its first slot leaves them: `rent` as that sysvar's data, the
/// blockhashes with the newest first.
pub(crate) fn begin_chain<'a>(
    accounts: &Accounts,
    schedule: &EpochSchedule,
    clock: &Clock,
    rent: &[u8],
    blockhashes: impl Iterator<Item = (&'a Hash, u64)>,
) {
    // The balances of all sysvars, its own included, depend on it, so it is there first.
    let new = || {
        let mut account = Account::with_data(1, SYSVAR_OWNER, rent);
        account.rent_epoch = 0;
        account
    };
    let mut account = accounts.load(&SYSVAR_RENT).unwrap_or_else(new);
    account.set_data(rent);
    accounts.store(&SYSVAR_RENT, account);
    write(accounts, &SYSVAR_RENT, rent);
    let words = [schedule.first_normal_epoch, schedule.first_normal_slot].map(u64::to_le_bytes).concat();
    let lengths = [schedule.slots_per_epoch, schedule.leader_schedule_slot_offset].map(u64::to_le_bytes).concat();
    write(accounts, &SYSVAR_EPOCH_SCHEDULE, &[&lengths[..], &[schedule.warmup.into()], &words].concat());
    write(accounts, &SYSVAR_LAST_RESTART_SLOT, &0u64.to_le_bytes());
    write(accounts, &SYSVAR_STAKE_HISTORY, &[0; STAKE_HISTORY_BYTES]);
    EpochRewards::default().store(accounts);
    clock.store(accounts);
    end_slot(accounts, clock.slot, blockhashes);
}

/// The lamports that an account must hold for each byte; `None` before the sysvars exist.
pub(crate) fn lamports_per_byte(accounts: &Accounts) -> Option<u64> {
    accounts.with(&SYSVAR_RENT, |account| u64_at(account.data(), 0))
}

/// Sets the lamports that an account must hold for each byte. If they rise, so does the balance of the rent sysvar.
pub(crate) fn set_lamports_per_byte(accounts: &Accounts, lamports: u64) {
    let Some(mut data) = accounts.with(&SYSVAR_RENT, |account| account.data().to_vec()) else { return };
    if let Some(first) = data.first_chunk_mut() {
        *first = lamports.to_le_bytes();
    }
    // The least balance of what is written is by the rent that the account says.
    accounts.update(&SYSVAR_RENT, |account| account.set_data(&data));
    write(accounts, &SYSVAR_RENT, &data);
}

/// Writes the sysvars of a slot's end: the recent blockhashes with their prices, the newest first, and the history.
pub(crate) fn end_slot<'a>(accounts: &Accounts, slot: u64, blockhashes: impl Iterator<Item = (&'a Hash, u64)>) {
    let (mut data, mut count) = (vec![0; RECENT_BLOCKHASHES_BYTES], 0u64);
    let places = data[8..].as_chunks_mut::<40>().0;
    for (place, (hash, price)) in places.iter_mut().zip(blockhashes) {
        place[..32].copy_from_slice(hash);
        place[32..].copy_from_slice(&price.to_le_bytes());
        count += 1;
    }
    data[..8].copy_from_slice(&count.to_le_bytes());
    write(accounts, &SYSVAR_RECENT_BLOCKHASHES, &data);

    let history = accounts.with(&SYSVAR_SLOT_HISTORY, |account| account.data().to_vec());
    let mut history = history.unwrap_or_else(empty_slot_history);
    add_to_history(&mut history, slot);
    write(accounts, &SYSVAR_SLOT_HISTORY, &history);
}

/// Prepends the bank hash of `slot` to the slot hashes.
pub(crate) fn add_slot_hash(accounts: &Accounts, slot: u64, hash: &Hash) {
    write(accounts, &SYSVAR_SLOT_HASHES, &slot_hashes_with(accounts, slot, hash));
}

fn slot_hashes_with(accounts: &Accounts, slot: u64, hash: &Hash) -> Vec<u8> {
    let before = accounts.with(&SYSVAR_SLOT_HASHES, |account| account.data().to_vec());
    let mut data = before.unwrap_or_else(|| vec![0; SLOT_HASHES_BYTES]);
    let count = (u64_at(&data, 0) as usize).saturating_add(1).min(MAX_SLOT_HASHES);
    data.copy_within(8..8 + (count - 1) * SLOT_HASH_BYTES, 8 + SLOT_HASH_BYTES);
    data[..8].copy_from_slice(&(count as u64).to_le_bytes());
    data[8..16].copy_from_slice(&slot.to_le_bytes());
    data[16..48].copy_from_slice(hash);
    data
}

/// The sysvars that a slot on `parent`, whose bank has that hash, would begin with and that the accounts lack so far.
/// Its time is the parent's: votes and the wall clock advance it only when it begins.
pub(crate) fn ahead(
    accounts: &Accounts,
    schedule: &EpochSchedule,
    slot: u64,
    parent: (u64, &Hash),
) -> Vec<(Pubkey, Account)> {
    let (epoch, leader_schedule_epoch) = (schedule.epoch(slot), schedule.leader_schedule_epoch(slot));
    let clock = Clock { slot, epoch, leader_schedule_epoch, ..Clock::load(accounts) };
    let hashes = slot_hashes_with(accounts, parent.0, parent.1);
    [(SYSVAR_CLOCK, clock.encode()), (SYSVAR_SLOT_HASHES, hashes)]
        .map(|(key, data)| (key, with_data(accounts, &key, &data)))
        .into()
}

fn empty_slot_history() -> Vec<u8> {
    let mut data = vec![0; SLOT_HISTORY_BYTES];
    data[0] = 1;
    data[1..9].copy_from_slice(&(SLOT_HISTORY_SLOTS / 64).to_le_bytes());
    data[9] = 1; // Slot 0.
    data[SLOT_HISTORY_BYTES - 16..SLOT_HISTORY_BYTES - 8].copy_from_slice(&SLOT_HISTORY_SLOTS.to_le_bytes());
    data[SLOT_HISTORY_BYTES - 8..].copy_from_slice(&1u64.to_le_bytes());
    data
}

fn add_to_history(data: &mut [u8], slot: u64) {
    let next = u64_at(data, SLOT_HISTORY_BYTES - 8);
    let (bits, end) = data[9..].split_at_mut((SLOT_HISTORY_SLOTS / 8) as usize);
    let place = |slot: u64| ((slot % SLOT_HISTORY_SLOTS / 8) as usize, 1u8 << (slot % 8));
    if slot > next && slot - next >= SLOT_HISTORY_SLOTS {
        bits.fill(0);
    } else {
        for skipped in next..slot {
            let (byte, bit) = place(skipped);
            bits[byte] &= !bit;
        }
    }
    let (byte, bit) = place(slot);
    bits[byte] |= bit;
    end[8..16].copy_from_slice(&(slot + 1).to_le_bytes());
}

/// Writes a sysvar's account, and raises its balance to the minimum for its size.
pub(crate) fn write(accounts: &Accounts, key: &Pubkey, data: &[u8]) {
    accounts.store(key, with_data(accounts, key, data));
}

/// The minimum balance in lamports of a sysvar with this many bytes, by the rent of now.
fn least(accounts: &Accounts, data_len: usize) -> u64 {
    // The rent of another node's archive may be anything.
    (ACCOUNT_OVERHEAD_BYTES + data_len as u64).saturating_mul(lamports_per_byte(accounts).unwrap_or(LAMPORTS_PER_BYTE))
}

fn with_data(accounts: &Accounts, key: &Pubkey, data: &[u8]) -> Account {
    let before = accounts.with(key, |account| (account.lamports, account.rent_epoch));
    let (lamports, rent_epoch) = before.unwrap_or((1, 0));
    let lamports = lamports.max(least(accounts, data.len()));
    let mut account = Account::with_data(lamports, SYSVAR_OWNER, data);
    account.rent_epoch = rent_epoch;
    account
}

/// The little-endian `u64` at an offset; 0 if the data ends before.
pub(crate) fn u64_at(data: &[u8], at: usize) -> u64 {
    data.get(at..at + 8).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("8 bytes")))
}

#[cfg(test)]
mod tests;

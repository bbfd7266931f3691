//! fields: all of a bank that is not in its accounts, as in the file `snapshots/SLOT/SLOT` of an archive.
//!
//! reads   the file
//! writes  the same
//! memory  the fields; the stakes are nearly all of it
//! drops   fields that the cluster no longer uses: read over, and written as it writes them, as zeros
//! source  `solana-runtime` 4.2, `serde_snapshot.rs` and what it names: `DeserializableVersionedBank`, then
//!         `AccountsDbFields`, then `ExtraFieldsToDeserialize`; `blockhash_queue.rs` of `solana-accounts-db` 4.2

use std::io::Read;

use hearth_crypto::sha256::sha256;
use hearth_wire::{Hash, Pubkey};
use solana_fee_calculator::FeeRateGovernor;
use solana_inflation::Inflation;

use super::codec::{Decoder, Encoder};
use super::error::Fault;
use super::stakes::{BankStakes, EpochStakes};
use crate::epoch::EpochSchedule;
use crate::lattice::Lattice;

/// The last slot that is taken: what computes with slots then does not overflow.
const SLOT_MAX: u64 = 1 << 48;
/// Bytes of the lattice hash.
const LATTICE_SIZE: usize = 2048;

/// A blockhash that transactions may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedHash {
    /// The hash of a block's last entry, or that of the genesis.
    pub hash: Hash,
    /// The price of a signature in transactions that name it, lamports.
    pub lamports_per_signature: u64,
    /// Its number; the genesis hash has 0.
    pub index: u64,
    /// When its node registered it, milliseconds of Unix time. No rule reads it.
    pub timestamp: u64,
}

/// The recent blockhashes, each with its price and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockhashQueue {
    /// Number of the last hash.
    pub last_index: u64,
    /// The last hash; a bank without one is none.
    pub last: Option<Hash>,
    /// The hashes, in no order.
    pub hashes: Vec<QueuedHash>,
    /// How many numbers a hash may be behind the last one before it is dropped.
    pub max_age: u64,
}

/// Counts of what a block did, which the cluster keeps beside the bank's hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BankStats {
    /// Accounts that were written.
    pub updated_accounts: u64,
    /// Accounts that were removed.
    pub removed_accounts: u64,
    /// Lamports in what was written.
    pub lamports_stored: u64,
    /// Bytes of data in what was written.
    pub data_len: u64,
    /// Programs among what was written.
    pub executable_accounts: u64,
}

/// An account file as the fields list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageInfo {
    /// The slot whose accounts it holds.
    pub slot: u64,
    /// A number that its node gave it.
    pub id: u64,
    /// Bytes that hold accounts.
    pub len: u64,
}

/// The fields of a bank.
#[derive(Clone, Debug, PartialEq)]
pub struct BankFields {
    /// The queue of recent blockhashes, with the price of a signature for each.
    pub blockhashes: BlockhashQueue,
    /// The hash of the bank, on which validators vote.
    pub hash: Hash,
    /// The hash of its parent.
    pub parent_hash: Hash,
    /// The slot of its parent.
    pub parent_slot: u64,
    /// Slots from which the chain is another one, and how many forks each stands for.
    pub hard_forks: Vec<(u64, u64)>,
    /// Transactions since the genesis.
    pub transaction_count: u64,
    /// Ticks since the genesis.
    pub tick_height: u64,
    /// Signatures in the block.
    pub signature_count: u64,
    /// Lamports of all accounts.
    pub capitalization: u64,
    /// The tick that ends the slot.
    pub max_tick_height: u64,
    /// Hashes in a tick; `None` where ticks come by the clock.
    pub hashes_per_tick: Option<u64>,
    /// Ticks in a slot.
    pub ticks_per_slot: u64,
    /// The time of a slot, nanoseconds.
    pub ns_per_slot: u128,
    /// When the chain began, Unix time in seconds.
    pub genesis_creation_time: i64,
    /// Slots in a year.
    pub slots_per_year: f64,
    /// Bytes of data in all accounts.
    pub accounts_data_len: u64,
    /// The slot of the bank, at whose end it was captured.
    pub slot: u64,
    /// Blocks since the genesis.
    pub block_height: u64,
    /// The node that made the block.
    pub leader: Pubkey,
    /// How the price of a signature moves. Its price now is that of [`BankFields::lamports_per_signature`].
    pub fee_rate_governor: FeeRateGovernor,
    /// Which slots are which epoch.
    pub epoch_schedule: EpochSchedule,
    /// The yearly rates of inflation.
    pub inflation: Inflation,
    /// The stakes in the bank's epoch.
    pub stakes: BankStakes,
    /// Whether the bank has taken a transaction or a tick.
    pub is_delta: bool,
    /// The account files of the archive.
    pub storages: Vec<StorageInfo>,
    /// Counts of the accounts that the block wrote.
    pub stats: BankStats,
    /// The price of a signature now, lamports.
    pub lamports_per_signature: u64,
    /// The stakes by which each epoch's leaders are drawn.
    pub epoch_stakes: Vec<EpochStakes>,
    /// The sum of the hashes of all accounts.
    pub lattice: Lattice,
    /// The block's id; banks of older nodes have none.
    pub block_id: Option<Hash>,
}

impl BankFields {
    /// The bank's hash as it follows from the fields.
    pub fn computed_hash(&self) -> Hash {
        let last = self.blockhashes.last.unwrap_or_default();
        let hash = self.lattice.bank_hash(&self.parent_hash, self.signature_count, &last);
        let begins = |(fork, _): &&(u64, u64)| self.parent_slot < *fork && self.slot >= *fork;
        match self.hard_forks.iter().filter(begins).map(|(_, count)| *count).fold(0, u64::saturating_add) {
            0 => hash,
            forks => sha256(&[&hash, &forks.to_le_bytes()]),
        }
    }

    /// The fields as a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        self.encode_bank(&mut to);
        self.encode_storages(&mut to);
        to.u64(self.lamports_per_signature);
        // The state at the last full snapshot, and the hash of all accounts in an epoch: both unused.
        to.flag(false);
        to.flag(false);
        to.many(&self.epoch_stakes, |to, stakes| stakes.encode(to));
        to.option(Some(&self.lattice), |to, lattice| to.raw(&lattice.to_bytes()));
        to.option(self.block_id.as_ref(), |to, id| to.raw(id));
        to.0
    }

    fn encode_bank(&self, to: &mut Encoder) {
        encode_blockhashes(&self.blockhashes, to);
        to.u64(0); // Ancestors, unused.
        to.raw(&self.hash);
        to.raw(&self.parent_hash);
        to.u64(self.parent_slot);
        to.many(&self.hard_forks, |to, (slot, count)| {
            to.u64(*slot);
            to.u64(*count);
        });
        for value in [self.transaction_count, self.tick_height, self.signature_count, self.capitalization] {
            to.u64(value);
        }
        to.u64(self.max_tick_height);
        to.option(self.hashes_per_tick.as_ref(), |to, hashes| to.u64(*hashes));
        to.u64(self.ticks_per_slot);
        to.raw(&self.ns_per_slot.to_le_bytes());
        to.raw(&self.genesis_creation_time.to_le_bytes());
        to.raw(&self.slots_per_year.to_le_bytes());
        to.u64(self.accounts_data_len);
        to.u64(self.slot);
        to.u64(0); // Epoch, unused.
        to.u64(self.block_height);
        to.raw(&self.leader);
        to.u64(0); // Collected fees, unused.
        to.u64(0); // Fee calculator, unused.
        encode_governor(&self.fee_rate_governor, to);
        to.u64(0); // Collected rent, unused.
        to.raw(&[0; RENT_COLLECTOR_SIZE]);
        encode_schedule(&self.epoch_schedule, to);
        to.raw(&bincode::serialize(&self.inflation).expect("numbers alone"));
        self.stakes.encode(to);
        to.raw(&[0; 3 * 8]); // Two sets and a map of accounts, unused.
        to.u64(0); // Stakes of epochs in an older form, unused.
        to.flag(self.is_delta);
    }

    fn encode_storages(&self, to: &mut Encoder) {
        to.many(&self.storages, |to, storage| {
            to.u64(storage.slot);
            to.u64(1); // A slot has one file.
            to.u64(storage.id);
            to.u64(storage.len);
        });
        to.u64(0); // Write version, unused.
        to.u64(self.slot);
        to.raw(&[0; 2 * 32]); // Two hashes of accounts, unused.
        let BankStats { updated_accounts, removed_accounts, lamports_stored, data_len, executable_accounts } =
            self.stats;
        for count in [updated_accounts, removed_accounts, lamports_stored, data_len, executable_accounts] {
            to.u64(count);
        }
        to.raw(&[0; 2 * 8]); // Two lists of roots, unused.
    }

    /// Reads a file of `len` bytes.
    pub fn decode(from: impl Read, len: u64) -> Result<Self, Fault> {
        let mut from = Decoder::new(from, len);
        let mut fields = Self::decode_bank(&mut from)?;
        fields.decode_storages(&mut from)?;
        // Fields that were added later: a file may end before each of them.
        fields.lamports_per_signature = from.or_end(Decoder::u64)?;
        from.or_end(|from| from.option(|from| from.array::<88>()))?;
        from.or_end(|from| from.option(|from| from.array::<32>()))?;
        fields.epoch_stakes = from.or_end(|from| from.many(EpochStakes::SIZE_MIN, EpochStakes::decode))?;
        let lattice = from.or_end(|from| from.option(|from| from.array::<LATTICE_SIZE>()))?;
        let lattice = lattice.ok_or(Fault::Missing("the lattice hash of its accounts"))?;
        fields.lattice = Lattice::from_bytes(&lattice).expect("of this length");
        fields.block_id = from.or_end(|from| from.option(|from| from.array()))?;
        from.end()?;
        fields.fee_rate_governor.lamports_per_signature = fields.lamports_per_signature;
        Ok(fields)
    }

    fn decode_bank<R: Read>(from: &mut Decoder<R>) -> Result<Self, Fault> {
        let blockhashes = decode_blockhashes(from)?;
        from.many(16, |from| from.array::<16>())?; // Ancestors.
        // A struct's fields are evaluated in the order in which they stand here, which is that of the file.
        let fields = Self {
            blockhashes,
            hash: from.array()?,
            parent_hash: from.array()?,
            parent_slot: from.u64()?,
            hard_forks: from.many(16, |from| Ok((from.u64()?, from.u64()?)))?,
            transaction_count: from.u64()?,
            tick_height: from.u64()?,
            signature_count: from.u64()?,
            capitalization: from.u64()?,
            max_tick_height: from.u64()?,
            hashes_per_tick: from.option(Decoder::u64)?,
            ticks_per_slot: from.u64()?,
            ns_per_slot: from.u128()?,
            genesis_creation_time: from.i64()?,
            slots_per_year: from.f64()?,
            accounts_data_len: from.u64()?,
            slot: from.u64()?,
            block_height: from.array::<16>().map(|both| u64::from_le_bytes(both[8..].try_into().expect("8 bytes")))?,
            leader: from.array()?,
            fee_rate_governor: decode_governor(from)?,
            epoch_schedule: decode_schedule(from)?,
            inflation: decode_inflation(from)?,
            stakes: BankStakes::decode(from)?,
            is_delta: decode_is_delta(from)?,
            storages: vec![],
            stats: BankStats::default(),
            lamports_per_signature: 0,
            epoch_stakes: vec![],
            lattice: Lattice::default(),
            block_id: None,
        };
        if fields.slot > SLOT_MAX || fields.parent_slot > fields.slot {
            return Err(Fault::Malformed("a slot that no chain reaches, or one before its parent"));
        }
        Ok(fields)
    }

    fn decode_storages<R: Read>(&mut self, from: &mut Decoder<R>) -> Result<(), Fault> {
        let storages = from.many(16, |from| {
            let slot = from.u64()?;
            from.many(16, |from| Ok(StorageInfo { slot, id: from.u64()?, len: from.u64()? }))
        })?;
        self.storages = storages.into_iter().flatten().collect();
        from.u64()?; // Write version.
        let slot = from.u64()?;
        if slot != self.slot {
            return Err(Fault::Malformed("the accounts are of another slot than the bank"));
        }
        from.array::<64>()?; // Hashes of accounts.
        self.stats = BankStats {
            updated_accounts: from.u64()?,
            removed_accounts: from.u64()?,
            lamports_stored: from.u64()?,
            data_len: from.u64()?,
            executable_accounts: from.u64()?,
        };
        from.or_end(|from| from.many(8, Decoder::u64))?; // Roots.
        from.or_end(|from| from.many(40, |from| from.array::<40>()))?; // Roots with hashes.
        Ok(())
    }
}

fn encode_blockhashes(queue: &BlockhashQueue, to: &mut Encoder) {
    to.u64(queue.last_index);
    to.option(queue.last.as_ref(), |to, hash| to.raw(hash));
    to.many(&queue.hashes, |to, hash| {
        to.raw(&hash.hash);
        to.u64(hash.lamports_per_signature);
        to.u64(hash.index);
        to.u64(hash.timestamp);
    });
    to.u64(queue.max_age);
}

fn decode_blockhashes<R: Read>(from: &mut Decoder<R>) -> Result<BlockhashQueue, Fault> {
    let last_index = from.u64()?;
    let last = from.option(|from| from.array())?;
    let hashes = from.many(56, |from| {
        let hash = from.array()?;
        let (lamports_per_signature, index) = (from.u64()?, from.u64()?);
        if index > last_index {
            return Err(Fault::Malformed("a blockhash later than the last"));
        }
        Ok(QueuedHash { hash, lamports_per_signature, index, timestamp: from.u64()? })
    })?;
    Ok(BlockhashQueue { last_index, last, hashes, max_age: from.u64()? })
}

/// Bytes of what once collected rent: an epoch, an epoch schedule, a number and the rent.
const RENT_COLLECTOR_SIZE: usize = 8 + SCHEDULE_SIZE + 8 + 17;
/// Bytes of an epoch schedule.
const SCHEDULE_SIZE: usize = 4 * 8 + 1;
/// Bytes of a fee-rate governor.
const GOVERNOR_SIZE: usize = 4 * 8 + 1;
/// Bytes of an inflation.
const INFLATION_SIZE: usize = 6 * 8;

fn encode_governor(governor: &FeeRateGovernor, to: &mut Encoder) {
    to.raw(&bincode::serialize(governor).expect("numbers alone"));
}

fn decode_governor<R: Read>(from: &mut Decoder<R>) -> Result<FeeRateGovernor, Fault> {
    from.array::<16>()?; // Collected fees, fee calculator.
    let bytes = from.array::<GOVERNOR_SIZE>()?;
    from.array::<{ 8 + RENT_COLLECTOR_SIZE }>()?; // Collected rent, and what collected it.
    bincode::deserialize(&bytes).map_err(|_| Fault::Malformed("the fee-rate governor"))
}

fn encode_schedule(schedule: &EpochSchedule, to: &mut Encoder) {
    to.u64(schedule.slots_per_epoch);
    to.u64(schedule.leader_schedule_slot_offset);
    to.flag(schedule.warmup);
    to.u64(schedule.first_normal_epoch);
    to.u64(schedule.first_normal_slot);
}

fn decode_schedule<R: Read>(from: &mut Decoder<R>) -> Result<EpochSchedule, Fault> {
    let schedule = EpochSchedule {
        slots_per_epoch: from.u64()?,
        leader_schedule_slot_offset: from.u64()?,
        warmup: from.flag()?,
        first_normal_epoch: from.u64()?,
        first_normal_slot: from.u64()?,
    };
    // What computes with a schedule shifts by its epochs and divides by its slots.
    let is_valid = schedule.slots_per_epoch > 0
        && schedule.leader_schedule_slot_offset <= 1 << 48
        && schedule.first_normal_epoch < 48
        && schedule.first_normal_slot == ((1 << schedule.first_normal_epoch) - 1) * FIRST_EPOCH_SLOTS;
    if is_valid { Ok(schedule) } else { Err(Fault::Malformed("the epoch schedule")) }
}

/// Slots of the first epoch, while epochs double in length.
const FIRST_EPOCH_SLOTS: u64 = 32;

fn decode_inflation<R: Read>(from: &mut Decoder<R>) -> Result<Inflation, Fault> {
    let bytes = from.array::<INFLATION_SIZE>()?;
    bincode::deserialize(&bytes).map_err(|_| Fault::Malformed("the inflation"))
}

fn decode_is_delta<R: Read>(from: &mut Decoder<R>) -> Result<bool, Fault> {
    from.many(32, |from| from.array::<32>())?;
    from.many(32, |from| from.array::<32>())?;
    from.many(40, |from| from.array::<40>())?;
    if from.u64()? != 0 {
        return Err(Fault::Malformed("stakes of epochs in a form that is no longer used"));
    }
    from.flag()
}

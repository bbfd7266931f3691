//! chain: whether a bank is of a chain.
//!
//! reads   the file `genesis.bin`, the fields of banks
//! memory  the genesis, while it is parsed
//! source  `Bank::new_from_snapshot` of `solana-runtime` 4.2, which stops a node where these differ

use solana_genesis_config::GenesisConfig;

use super::error::Fault;
use super::fields::BankFields;
use crate::epoch::EpochSchedule;

/// The parameters with which a chain begins, and which every bank of it states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainParameters {
    /// Unix time in seconds.
    pub creation_time: i64,
    /// Ticks in a slot.
    pub ticks_per_slot: u64,
    /// Which slots are which epoch.
    pub epoch_schedule: EpochSchedule,
}

impl ChainParameters {
    /// The parameters of the chain with this `genesis.bin`.
    pub fn of_genesis(bytes: &[u8]) -> Result<Self, Fault> {
        let genesis: GenesisConfig =
            bincode::deserialize(bytes).map_err(|_| Fault::Malformed("it is not a genesis of the cluster"))?;
        let epoch_schedule = EpochSchedule {
            slots_per_epoch: genesis.epoch_schedule.slots_per_epoch,
            leader_schedule_slot_offset: genesis.epoch_schedule.leader_schedule_slot_offset,
            warmup: genesis.epoch_schedule.warmup,
            first_normal_epoch: genesis.epoch_schedule.first_normal_epoch,
            first_normal_slot: genesis.epoch_schedule.first_normal_slot,
        };
        Ok(Self { creation_time: genesis.creation_time, ticks_per_slot: genesis.ticks_per_slot, epoch_schedule })
    }

    /// The parameters of a bank's chain.
    pub fn of_bank(fields: &BankFields) -> Self {
        Self {
            creation_time: fields.genesis_creation_time,
            ticks_per_slot: fields.ticks_per_slot,
            epoch_schedule: fields.epoch_schedule,
        }
    }

    /// Succeeds if a bank is of a chain that begins so.
    pub fn check(&self, fields: &BankFields) -> Result<(), Fault> {
        let found = Self::of_bank(fields);
        if found.creation_time != self.creation_time {
            return Err(Fault::OtherChain("the time of its genesis"));
        }
        if found.epoch_schedule != self.epoch_schedule {
            return Err(Fault::OtherChain("the epoch schedule"));
        }
        if found.ticks_per_slot != self.ticks_per_slot {
            return Err(Fault::OtherChain("the number of ticks in a slot"));
        }
        Ok(())
    }
}

/// Succeeds if a newer bank can be of the chain of an older one.
pub(super) fn same(older: &BankFields, newer: &BankFields) -> Result<(), Fault> {
    ChainParameters::of_bank(older).check(newer)?;
    if older.block_height > newer.block_height || older.transaction_count > newer.transaction_count {
        return Err(Fault::OtherChain("what the chain did before"));
    }
    Ok(())
}

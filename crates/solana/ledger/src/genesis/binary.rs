//! The layout of `genesis.bin`.
//!
//! reads   the bytes of a file, of any origin
//! writes  the same bytes as the cluster's tools for the same chain
//! memory  the accounts; a length that the file does not hold allocates nothing
//! drops   a file that is truncated, has extra bytes, or has settings that this program cannot run: the error names
//!         them
//! source  `solana-genesis-config` 4.0: the bincode of `GenesisConfig`
//!
//! ```text
//! creation time i64
//! accounts      count u64, each: address 32, account; sorted by address
//! processors    count u64, each: name (length u64, bytes), address 32; has no effect today
//! reward pools  as accounts; none here
//! settings      see `Settings`
//! account       lamports u64, data (length u64, bytes), owner 32, executable u8, rent epoch u64
//! ```

use std::time::Duration;

use bincode::Options;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use serde::{Deserialize, Serialize};
use solana_cluster_type::ClusterType;
use solana_fee_calculator::FeeRateGovernor;
use solana_inflation::Inflation;
use solana_rent::Rent;

use super::GenesisConfig;
use super::config::check;
use crate::account::Account;
use crate::epoch::EpochSchedule;
use crate::rent::MAX_DATA_BYTES;

/// The value of a field that is no longer read.
const UNUSED: u64 = 1024;

/// The fields after the accounts, in the file's order.
#[derive(Serialize, Deserialize)]
struct Settings {
    ticks_per_slot: u64,
    unused: u64,
    tick: Duration,
    tick_count: Option<u64>,
    hashes_per_tick: Option<u64>,
    unused_too: u64,
    fee_rate_governor: FeeRateGovernor,
    rent: Rent,
    inflation: Inflation,
    epochs: Epochs,
    cluster_type: ClusterType,
}

/// The epoch schedule, in the file's order.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Epochs {
    slots_per_epoch: u64,
    leader_schedule_slot_offset: u64,
    warmup: bool,
    first_normal_epoch: u64,
    first_normal_slot: u64,
}

impl From<EpochSchedule> for Epochs {
    fn from(schedule: EpochSchedule) -> Self {
        let EpochSchedule {
            slots_per_epoch,
            leader_schedule_slot_offset,
            warmup,
            first_normal_epoch,
            first_normal_slot,
        } = schedule;
        Self { slots_per_epoch, leader_schedule_slot_offset, warmup, first_normal_epoch, first_normal_slot }
    }
}

/// Encodes a genesis with these accounts, which must be sorted by address.
pub(super) fn encode(config: &GenesisConfig, accounts: &[(Pubkey, Account)]) -> Vec<u8> {
    let mut bytes = config.creation_time.to_le_bytes().to_vec();
    bytes.extend((accounts.len() as u64).to_le_bytes());
    for (key, account) in accounts {
        bytes.extend(key);
        bytes.extend(account.lamports.to_le_bytes());
        bytes.extend((account.data().len() as u64).to_le_bytes());
        bytes.extend(account.data());
        bytes.extend(account.owner);
        bytes.push(account.executable.into());
        bytes.extend(account.rent_epoch.to_le_bytes());
    }
    // No processors, and no reward pools.
    bytes.extend([0; 16]);
    let settings = Settings {
        ticks_per_slot: config.ticks_per_slot,
        unused: UNUSED,
        tick: Duration::from_nanos(config.tick_ns()),
        tick_count: None,
        hashes_per_tick: config.hashes_per_tick,
        unused_too: 0,
        fee_rate_governor: config.fee_rate_governor.clone(),
        rent: config.rent.clone(),
        inflation: config.inflation,
        epochs: Epochs::from(config.epoch_schedule()),
        cluster_type: config.cluster_type,
    };
    bytes.extend(bincode::serialize(&settings).expect("numbers are encoded into memory"));
    bytes
}

/// Decodes a genesis. All its accounts are among the extra ones; identity and faucet, which it does not name, are
/// zeros.
pub(super) fn decode(bytes: &[u8]) -> Result<GenesisConfig, String> {
    let mut file = Bytes { bytes, at: 0 };
    let creation_time = file.number("the creation time")?;
    let extra_accounts = file.accounts()?;
    file.processors()?;
    if file.number("the number of reward pools")? != 0 {
        return Err("it has reward pools, which this program does not know".to_owned());
    }
    let at = file.at;
    let settings = bincode::DefaultOptions::new().with_fixint_encoding().deserialize::<Settings>(&bytes[at..]);
    let settings = settings.map_err(|why| format!("the settings that begin at byte {at}: {why}"))?;
    let tick_ns = u64::try_from(settings.tick.as_nanos()).map_err(|_| "a tick takes centuries".to_owned())?;
    let mut config = GenesisConfig {
        fund_initial_accounts: 0,
        initial_lamports: 0,
        identity_lamports: 0,
        faucet_lamports: 0,
        hashes_per_tick: settings.hashes_per_tick,
        ticks_per_slot: settings.ticks_per_slot,
        slots_per_epoch: settings.epochs.slots_per_epoch,
        warmup_epochs: settings.epochs.warmup,
        fee_rate_governor: settings.fee_rate_governor,
        rent: settings.rent,
        inflation: settings.inflation,
        cluster_type: settings.cluster_type,
        extra_accounts,
        ..GenesisConfig::development([0; 32], [0; 32], creation_time)
    };
    config.set_tick_ns(tick_ns);
    check(&config)?;
    if settings.epochs != Epochs::from(config.epoch_schedule()) {
        let length = config.slots_per_epoch;
        return Err(format!(
            "its epoch schedule is none of epochs of {length} slots whose leaders are known an epoch ahead"
        ));
    }
    Ok(config)
}

/// A file that is read from its beginning.
struct Bytes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    fn take(&mut self, length: u64, what: &str) -> Result<&'a [u8], String> {
        let rest = &self.bytes[self.at..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(format!("at byte {}, {what} takes {length} bytes and {} are left", self.at, rest.len())),
        }
    }

    fn number(&mut self, what: &str) -> Result<u64, String> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("8 bytes were taken")))
    }

    fn key(&mut self, what: &str) -> Result<Pubkey, String> {
        Ok(self.take(32, what)?.try_into().expect("32 bytes were taken"))
    }

    fn accounts(&mut self) -> Result<Vec<(Pubkey, Account)>, String> {
        let count = self.number("the number of accounts")?;
        let mut accounts: Vec<(Pubkey, Account)> = vec![];
        for _ in 0..count {
            let key = self.key("an account's address")?;
            if accounts.last().is_some_and(|(before, _)| *before >= key) {
                return Err(format!("the account {} comes before one with a lower address", encode_32(&key)));
            }
            let account = self.account().map_err(|why| format!("the account {}: {why}", encode_32(&key)))?;
            accounts.push((key, account));
        }
        Ok(accounts)
    }

    fn account(&mut self) -> Result<Account, String> {
        let lamports = self.number("its balance")?;
        let length = self.number("the length of its data")?;
        let data = self.take(length, "its data")?;
        let owner = self.key("its owner")?;
        let executable = match self.take(1, "whether it is a program")? {
            [0] => false,
            [1] => true,
            other => return Err(format!("its executable flag is {}, neither 0 nor 1", other[0])),
        };
        let rent_epoch = self.number("its rent epoch")?;
        if lamports == 0 {
            return Err("it has no lamports".to_owned());
        }
        if data.len() > MAX_DATA_BYTES {
            return Err(format!("it has {length} bytes of data, at most {MAX_DATA_BYTES} are possible"));
        }
        let mut account = Account::with_data(lamports, owner, data);
        (account.rent_epoch, account.executable) = (rent_epoch, executable);
        Ok(account)
    }

    fn processors(&mut self) -> Result<(), String> {
        for _ in 0..self.number("the number of processors")? {
            let length = self.number("the length of a processor's name")?;
            self.take(length, "a processor's name")?;
            self.key("a processor's address")?;
        }
        Ok(())
    }
}

//! The configuration of a genesis from the options.
//!
//! reads   the options, and the files that they name
//! writes  a configuration whose accounts are all extra ones
//! memory  the accounts
//! drops   an account that a later option overrides, as `solana-genesis` does
//!
//! The order in which accounts are added is that of `solana-genesis`: of several with one address the last counts.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use hearth_crypto::sha256::sha256_chain;
use hearth_ledger::bootstrap::Bootstrap;
use hearth_ledger::genesis::{FeeRateGovernor, Inflation};
use hearth_ledger::rent::{LAMPORTS_PER_BYTE, minimum_balance};
use hearth_ledger::stakes::STAKE_STATE_BYTES;
use hearth_ledger::{Account, GenesisConfig, features};
use hearth_ring::unix_time;
use hearth_svm::programs::{genesis_accounts_with, upgradeable_program};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use hearth_wire::consts::{
    BPF_LOADER_UPGRADEABLE, CONFIG_PROGRAM, FEATURE_PROGRAM, LAMPORTS_PER_SOL, SYSVAR_EPOCH_REWARDS, SYSVAR_OWNER,
};

use super::options::{Kind, Options, Rate};
use super::{date, files};
use crate::developer::{FlagError, address, read_program};

/// Hashes of a tick on the public clusters.
const HASHES_PER_TICK: u64 = 62_500;
/// Slots of an epoch on the public clusters, and on others.
const SLOTS_PER_EPOCH: u64 = 432_000;
const SLOTS_PER_EPOCH_OF_DEVELOPMENT: u64 = 8_192;
/// Hashes by which the speed of this machine is measured.
const MEASURED_HASHES: u64 = 1_000_000;
/// Bytes of the epoch rewards sysvar.
const EPOCH_REWARDS_BYTES: usize = 81;
/// The upgrade authority of an immutable program.
const NOBODY: Pubkey = [0; 32];

/// The configuration that the options describe.
pub fn config(options: &Options) -> Result<GenesisConfig, FlagError> {
    let mut config = settings(options)?;
    let mut accounts = Accounts(vec![]);
    if let (Some(faucet), Some(lamports)) = (&options.faucet_pubkey, options.faucet_lamports) {
        accounts.add(address("--faucet-pubkey", faucet)?, Account::wallet(lamports));
    }
    accounts.usual(options)?;
    for path in &options.primordial_accounts_file {
        let flag = "--primordial-accounts-file";
        accounts.0.extend(files::accounts(path).map_err(|why| FlagError::value(flag, why))?);
    }
    accounts.validators(options)?;
    accounts.programs(options)?;
    config.extra_accounts = accounts.0;
    Ok(config)
}

/// The configuration without accounts.
fn settings(options: &Options) -> Result<GenesisConfig, FlagError> {
    let creation_time = match &options.creation_time {
        None => unix_time().as_secs(),
        Some(text) => date::unix_time(text).ok_or_else(|| {
            FlagError::value("--creation-time", format!("`{text}` is not a point in time such as 2026-01-31T12:00:00Z"))
        })?,
    };
    let price = options.target_lamports_per_signature;
    if price > LAMPORTS_PER_SOL {
        return Err(FlagError::value("--target-lamports-per-signature", "it must be at most 1,000,000,000"));
    }
    let usual_epoch = match options.cluster_type {
        Kind::Development => SLOTS_PER_EPOCH_OF_DEVELOPMENT,
        Kind::Devnet | Kind::Testnet | Kind::MainnetBeta => SLOTS_PER_EPOCH,
    };
    let mut config = GenesisConfig {
        fund_initial_accounts: 0,
        initial_lamports: 0,
        identity_lamports: 0,
        faucet_lamports: 0,
        hashes_per_tick: hashes_per_tick(options)?,
        ticks_per_slot: options.ticks_per_slot,
        slots_per_epoch: options.slots_per_epoch.unwrap_or(usual_epoch),
        warmup_epochs: options.enable_warmup_epochs,
        fee_rate_governor: FeeRateGovernor {
            // The file does not say the current price.
            lamports_per_signature: 0,
            burn_percent: options.fee_burn_percentage,
            ..FeeRateGovernor::new(price, options.target_signatures_per_slot)
        },
        inflation: match options.inflation {
            None => Inflation::default(),
            Some(Rate::Pico) => Inflation::pico(),
            Some(Rate::Full) => Inflation::full(),
            Some(Rate::Off) => Inflation::new_disabled(),
        },
        cluster_type: options.cluster_type.cluster_type(),
        ..GenesisConfig::development(NOBODY, NOBODY, creation_time)
    };
    config.set_tick_ns(options.target_tick_duration.saturating_mul(1_000));
    config.set_rent(options.lamports_per_byte, options.rent_exemption_threshold, options.rent_burn_percentage);
    let per_byte = config.lamports_per_byte();
    if per_byte != LAMPORTS_PER_BYTE {
        let what = format!(
            "the rent comes to {per_byte} lamports a byte, and the accounts made here hold {LAMPORTS_PER_BYTE}"
        );
        return Err(FlagError::value("--lamports-per-byte", what));
    }
    Ok(config)
}

fn hashes_per_tick(options: &Options) -> Result<Option<u64>, FlagError> {
    let tick_us = options.target_tick_duration;
    match (options.hashes_per_tick.as_str(), options.cluster_type) {
        ("sleep", _) => Ok(None),
        ("auto", Kind::Development) => Ok(Some((hashes_in(tick_us) / 2).max(2))),
        ("auto", _) => Ok(Some(HASHES_PER_TICK)),
        (number, _) => number.parse().map(Some).map_err(|_| {
            FlagError::value("--hashes-per-tick", format!("`{number}` is neither a number nor `auto` nor `sleep`"))
        }),
    }
}

/// How many hashes, one after the other, this machine can do in so many microseconds.
fn hashes_in(micros: u64) -> u64 {
    let began = Instant::now();
    std::hint::black_box(sha256_chain([0; 32], MEASURED_HASHES));
    let took = began.elapsed().as_micros().max(1);
    u64::try_from(u128::from(micros) * u128::from(MEASURED_HASHES) / took).unwrap_or(u64::MAX)
}

/// Accounts in the making.
struct Accounts(Vec<(Pubkey, Account)>);

impl Accounts {
    /// Adds an account as the cluster's tools write it.
    fn add(&mut self, key: Pubkey, mut account: Account) {
        account.rent_epoch = 0;
        self.0.push((key, account));
    }

    /// Adds what every genesis has: the former configuration of stakes, the epoch rewards, and the features.
    fn usual(&mut self, options: &Options) -> Result<(), FlagError> {
        let (mut off, flag) = (BTreeSet::new(), "--deactivate-feature");
        for text in &options.deactivate_feature {
            off.insert(address(flag, text)?);
        }
        let rewards = Account::with_data(minimum_balance(EPOCH_REWARDS_BYTES), SYSVAR_OWNER, &[0; EPOCH_REWARDS_BYTES]);
        self.0.push((SYSVAR_EPOCH_REWARDS, rewards));
        for (key, account) in genesis_accounts_with(features::supported()) {
            match account.owner {
                FEATURE_PROGRAM if off.remove(&key) => {}
                FEATURE_PROGRAM | CONFIG_PROGRAM => self.add(key, account),
                _ if options.usual_programs => self.0.push((key, account)),
                _ => {}
            }
        }
        // What this program does not support is off already.
        off.retain(|id| features::of_id(id).is_none());
        match off.first() {
            Some(unknown) => {
                Err(FlagError::value(flag, format!("{} is not a feature of this release", encode_32(unknown))))
            }
            None => Ok(()),
        }
    }

    /// Adds the nodes with stake.
    fn validators(&mut self, options: &Options) -> Result<(), FlagError> {
        let flag = "--bootstrap-validator";
        let authority = options.bootstrap_stake_authorized_pubkey.as_ref();
        let authority = authority.map(|text| address("--bootstrap-stake-authorized-pubkey", text)).transpose()?;
        let (lamports, stake_lamports) =
            (options.bootstrap_validator_lamports, options.bootstrap_validator_stake_lamports);
        let mut seen = BTreeSet::new();
        for texts in options.bootstrap_validator.chunks_exact(3) {
            let mut keys = [NOBODY; 3];
            for (key, text) in keys.iter_mut().zip(texts) {
                *key = address(flag, text)?;
                if !seen.insert(*key) {
                    return Err(FlagError::value(flag, format!("{} is named twice", encode_32(key))));
                }
            }
            self.validator(flag, options, files::StakedNode { keys, lamports, stake_lamports }, authority)?;
        }
        for path in &options.validator_accounts_file {
            let flag = "--validator-accounts-file";
            for staked in files::validators(path).map_err(|why| FlagError::value(flag, why))? {
                self.validator(flag, options, staked, None)?;
            }
        }
        Ok(())
    }

    fn validator(
        &mut self,
        flag: &'static str,
        options: &Options,
        staked: files::StakedNode,
        authority: Option<Pubkey>,
    ) -> Result<(), FlagError> {
        let files::StakedNode { keys: [identity, vote, stake], lamports, stake_lamports } = staked;
        let least = minimum_balance(STAKE_STATE_BYTES);
        if stake_lamports < least {
            let what = format!("a stake of {stake_lamports} lamports is below the {least} that its account must have");
            return Err(FlagError::value(flag, what));
        }
        let bootstrap = Bootstrap {
            identity,
            vote,
            stake,
            lamports,
            stake_lamports,
            stake_authority: authority.unwrap_or(identity),
            commission_percent: options.vote_commission_percentage,
        };
        for (key, account) in bootstrap.accounts() {
            self.add(key, account);
        }
        Ok(())
    }

    /// Adds the programs of `--bpf-program` and `--upgradeable-program`.
    fn programs(&mut self, options: &Options) -> Result<(), FlagError> {
        let flag = "--bpf-program";
        for texts in options.bpf_program.chunks_exact(3) {
            let (key, loader) = (address(flag, &texts[0])?, address(flag, &texts[1])?);
            let elf = read_program(Path::new(&texts[2])).map_err(|why| FlagError::value(flag, why))?;
            let mut program = Account::with_data(minimum_balance(elf.len()), loader, &elf);
            program.executable = true;
            self.add(key, program);
        }
        let flag = "--upgradeable-program";
        for texts in options.upgradeable_program.chunks_exact(4) {
            if address(flag, &texts[1])? != BPF_LOADER_UPGRADEABLE {
                let what = format!(
                    "`{}` is not the loader of such programs, {}",
                    texts[1],
                    encode_32(&BPF_LOADER_UPGRADEABLE)
                );
                return Err(FlagError::value(flag, what));
            }
            let authority = if texts[3] == "none" { NOBODY } else { address(flag, &texts[3])? };
            let elf = read_program(Path::new(&texts[2])).map_err(|why| FlagError::value(flag, why))?;
            for (key, account) in upgradeable_program(&address(flag, &texts[0])?, &elf, &authority) {
                self.add(key, account);
            }
        }
        Ok(())
    }
}

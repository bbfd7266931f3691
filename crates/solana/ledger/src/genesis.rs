//! Genesis: the files, the hash, slot 0, and the funded accounts of a development chain.
//!
//! reads   a [`GenesisConfig`], or `genesis.bin` as the cluster's tools write it
//! writes  `genesis.bin`, `chain.json` and `hard-forks.json` beside it, `genesis.tar.bz2`; the accounts and the ticks
//!         of slot 0
//! memory  32 bytes per funded account, the additional accounts, and the hashes of slot 0's ticks
//! drops   a file that is cut, altered or says what this program cannot run: a [`GenesisError`] that says so
//! source  `solana-genesis-config` 4.0 for file and hash, `solana-shred-version` 3.0, `create_new_ledger` of
//!         `solana-ledger` 4.2 for slot 0
//!
//! The funded accounts of a development chain have public seeds: anyone who knows the number of one can sign for it.
//! That is their purpose; such a chain holds no value.

mod archive;
mod binary;
mod config;
mod file;
mod forks_file;
mod funded;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::OnceLock;

use hearth_crypto::sha256::{sha256, sha256_chain};
use hearth_wire::{Hash, Pubkey};

use crate::account::Account;
use crate::programs::builtin_accounts;

pub use archive::{ARCHIVE_NAME, GENESIS_NAME, pack, unpack};
pub use config::{GenesisConfig, SLOT_HASHES_MAX, SLOT_MS_MAX, SLOTS_PER_EPOCH_MAX, TICKS_PER_SLOT_MAX};
pub use file::{CHAIN_BYTES_MAX, CHAIN_NAME, GENESIS_BYTES_MAX, is_ours};
pub use forks_file::{HARD_FORKS_NAME, forget_hard_forks, read_hard_forks, save_hard_forks};
pub use funded::{derive_funded_accounts, funded_account_key, funded_account_seed};
pub use solana_cluster_type::ClusterType;
pub use solana_fee_calculator::FeeRateGovernor;
pub use solana_inflation::Inflation;

/// Why a genesis cannot be created or loaded.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The file cannot be read or written.
    #[error("cannot {action} the genesis file {}: {source}", path.display())]
    Io {
        /// The verb of the message: `read` or `write`.
        action: &'static str,
        /// The path of the genesis file or of its archive.
        path: PathBuf,
        /// Why that failed, as the system says it.
        source: std::io::Error,
    },
    /// The file is damaged.
    #[error(
        "the genesis file {} is damaged: {what}; restore it from a copy or another node of the chain",
        path.display()
    )]
    Damaged {
        /// The path of the file.
        path: PathBuf,
        /// The kind of damage.
        what: String,
    },
    /// The chain has other files, but the genesis is missing or incomplete.
    #[error(
        "the genesis file {} is missing, and {} is of a chain that began with it; restore it from a copy or another \
         node of the chain",
        path.display(),
        file.display()
    )]
    Missing {
        /// The genesis file's path.
        path: PathBuf,
        /// An existing file of the chain.
        file: PathBuf,
    },
    /// The folder has the chain of an older version.
    #[error(
        "{} is the genesis of a chain of an older version, which this program cannot continue; `hearth run --reset`, \
         with the options that name this folder, begins a new chain",
        path.display()
    )]
    Older {
        /// The older genesis file's path.
        path: PathBuf,
    },
    /// The configuration is invalid.
    #[error("no such chain can begin: {0}")]
    Config(String),
}

impl GenesisError {
    /// Whether the error is about damaged or missing files.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Missing { .. })
    }
}

/// The genesis of a chain.
#[derive(Clone, Debug)]
pub struct Genesis {
    config: GenesisConfig,
    funded: Vec<Pubkey>,
    hash: Hash,
    /// The hashes of slot 0's ticks, once they are computed.
    ticks: OnceLock<Vec<Hash>>,
}

/// Equal are two of one file with the same knowledge beside it.
impl PartialEq for Genesis {
    fn eq(&self, other: &Self) -> bool {
        let beside = |genesis: &Self| {
            let GenesisConfig { identity, faucet, genesis_slot, .. } = genesis.config;
            (identity, faucet, genesis_slot)
        };
        self.hash == other.hash && self.funded == other.funded && beside(self) == beside(other)
    }
}

impl Genesis {
    /// Creates the genesis of `config` and derives the funded accounts; `progress` as in [`derive_funded_accounts`].
    pub fn create(config: GenesisConfig, progress: impl FnMut(usize)) -> Result<Self, GenesisError> {
        config::check(&config).and_then(|()| config.check_blocks()).map_err(GenesisError::Config)?;
        let funded = derive_funded_accounts(config.fund_initial_accounts, progress);
        let hash = sha256(&[&binary::encode(&config, &file_accounts(&config, &funded))]);
        Ok(Self::begun(config, funded, hash))
    }

    fn begun(config: GenesisConfig, funded: Vec<Pubkey>, hash: Hash) -> Self {
        Self { config, funded, hash, ticks: OnceLock::new() }
    }

    /// The configuration of the chain.
    pub fn config(&self) -> &GenesisConfig {
        &self.config
    }

    /// The addresses of the funded accounts, by number. Empty for a chain that began elsewhere.
    pub fn funded_accounts(&self) -> &[Pubkey] {
        &self.funded
    }

    /// The chain's identity and first blockhash: SHA-256 of `genesis.bin`.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The 16 bits by which a node recognizes the shreds of its chain, if that has no hard forks.
    pub fn shred_version(&self) -> u16 {
        shred_version(&self.hash)
    }

    /// Every account at the end of slot 0 but the sysvars, sorted by address: those of the file, and the builtin
    /// programs. A program's account that is already there stays; what else is at its address makes room for it.
    pub fn accounts(&self) -> Vec<(Pubkey, Account)> {
        let mut accounts = file_accounts(&self.config, &self.funded);
        for (key, program) in builtin_accounts() {
            match accounts.binary_search_by_key(&key, |(key, _)| *key) {
                Ok(at) if !accounts[at].1.executable => accounts[at].1 = program,
                Ok(_) => {}
                Err(at) => accounts.insert(at, (key, program)),
            }
        }
        accounts
    }

    /// The hashes of slot 0's ticks, at least one, computed at the first call. In low power a tick of slot 0 has no
    /// hash of its own.
    pub fn ticks(&self) -> &[Hash] {
        self.ticks.get_or_init(|| {
            let hashes = self.config.hashes_per_tick.unwrap_or(0);
            let next = |hash: &mut Hash, _: u64| {
                *hash = sha256_chain(*hash, hashes);
                Some(*hash)
            };
            (0..self.config.ticks_per_slot).scan(self.hash, next).collect()
        })
    }

    /// The last hash of slot 0, on which the next block is built.
    pub fn slot_0_hash(&self) -> &Hash {
        self.ticks().last().expect("a slot has ticks")
    }
}

/// Folds a hash into a shred version: the genesis hash, into which a chain with hard forks has mixed those.
pub fn shred_version(hash: &Hash) -> u16 {
    let folded = hash.as_chunks::<2>().0.iter().fold([0; 2], |sum, pair| [sum[0] ^ pair[0], sum[1] ^ pair[1]]);
    u16::from_be_bytes(folded).saturating_add(1)
}

/// The accounts of `genesis.bin`, sorted by address.
fn file_accounts(config: &GenesisConfig, funded: &[Pubkey]) -> Vec<(Pubkey, Account)> {
    let mut accounts: Vec<_> = config.extra_accounts.iter().rev().cloned().collect();
    accounts.push((config.identity, Account::wallet(config.identity_lamports)));
    accounts.push((config.faucet, Account::wallet(config.faucet_lamports)));
    accounts.extend(funded.iter().map(|key| (*key, Account::wallet(config.initial_lamports))));
    accounts.retain(|(_, account)| account.lamports != 0);
    accounts.sort_by_key(|(key, _)| *key);
    // The sort is stable, so of several accounts with one address the first counts.
    accounts.dedup_by_key(|(key, _)| *key);
    accounts
}

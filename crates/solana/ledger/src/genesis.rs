//! Genesis: the file, its hash, and the funded accounts of a development chain.
//!
//! reads   a [`GenesisConfig`], or a genesis file
//! writes  the genesis file, and beside it a file of the additional accounts; the accounts of height 0
//! memory  32 bytes per funded account, and the additional accounts
//! drops   a file that is truncated, altered or of another version: a [`GenesisError`] that says so
//! source  the hash is SHA-256 of our own serialisation (see [`Genesis::hash`]); the shred version is folded from it as
//!         in `solana-shred-version`
//!
//! The funded accounts of a development chain have public seeds: anyone who knows the number of one can sign for it.
//! That is their purpose; such a chain holds no value.

mod config;
mod extra;
mod file;
mod funded;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use hearth_crypto::sha256::sha256;
use hearth_wire::{Hash, Pubkey};

use crate::account::Account;
use crate::programs::builtin_accounts;

pub use config::{GenesisConfig, SLOT_HASHES_MAX, SLOT_MS_MAX, SLOTS_PER_EPOCH_MAX, TICKS_PER_SLOT_MAX};
pub use funded::{derive_funded_accounts, funded_account_key, funded_account_seed};

/// Domain prefix of the hashed serialisation, so that the hash cannot equal one of other data.
const HASH_DOMAIN: &[u8] = b"hearth genesis 2";

/// Why a genesis cannot be created or loaded.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The file cannot be read or written.
    #[error("cannot {action} the genesis file {}: {source}", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file's path.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is damaged.
    #[error(
        "the genesis file {} is damaged: {what}; restore it from a copy or another node of the chain",
        path.display()
    )]
    Damaged {
        /// The file's path.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Genesis {
    config: GenesisConfig,
    funded: Vec<Pubkey>,
    hash: Hash,
}

impl Genesis {
    /// Creates the genesis of `config` and derives the funded accounts; `progress` as in [`derive_funded_accounts`].
    pub fn create(config: GenesisConfig, progress: impl FnMut(usize)) -> Result<Self, GenesisError> {
        config::check(&config).map_err(GenesisError::Config)?;
        let funded = derive_funded_accounts(config.fund_initial_accounts, progress);
        let hash = hash_of(&config, &funded);
        Ok(Self { config, funded, hash })
    }

    /// The configuration of the chain.
    pub fn config(&self) -> &GenesisConfig {
        &self.config
    }

    /// The addresses of the funded accounts, by number.
    pub fn funded_accounts(&self) -> &[Pubkey] {
        &self.funded
    }

    /// The chain's identity and first blockhash: SHA-256 over the text `hearth genesis 2`, then, each as 8 bytes little
    /// endian, hashes per tick (0 for none), ticks per slot, milliseconds per slot, slots per epoch, creation time, and
    /// the number of accounts; then each account, sorted by address: address, lamports, owner, executable (1 byte),
    /// length of its data (8 bytes), data. At the end the genesis slot, unless it is 0.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The 16 bits by which a node recognizes the shreds of its chain.
    pub fn shred_version(&self) -> u16 {
        shred_version(&self.hash)
    }

    /// Every account of height 0, sorted by address.
    pub fn accounts(&self) -> Vec<(Pubkey, Account)> {
        accounts_of(&self.config, &self.funded)
    }
}

/// The shred version of a chain without hard forks.
pub fn shred_version(genesis_hash: &Hash) -> u16 {
    let folded = genesis_hash.as_chunks::<2>().0.iter().fold([0; 2], |sum, pair| [sum[0] ^ pair[0], sum[1] ^ pair[1]]);
    u16::from_be_bytes(folded).saturating_add(1)
}

fn accounts_of(config: &GenesisConfig, funded: &[Pubkey]) -> Vec<(Pubkey, Account)> {
    let mut accounts: Vec<_> = config.extra_accounts.iter().rev().cloned().collect();
    accounts.extend(builtin_accounts());
    accounts.push((config.identity, Account::wallet(config.identity_lamports)));
    accounts.push((config.faucet, Account::wallet(config.faucet_lamports)));
    accounts.extend(funded.iter().map(|key| (*key, Account::wallet(config.initial_lamports))));
    accounts.retain(|(_, account)| account.lamports != 0);
    accounts.sort_by_key(|(key, _)| *key);
    // The sort is stable, so of several accounts with one address the first counts.
    accounts.dedup_by_key(|(key, _)| *key);
    accounts
}

fn hash_of(config: &GenesisConfig, funded: &[Pubkey]) -> Hash {
    let accounts = accounts_of(config, funded);
    let mut bytes = HASH_DOMAIN.to_vec();
    for number in [
        config.hashes_per_tick.unwrap_or(0),
        config.ticks_per_slot,
        config.slot_ms,
        config.slots_per_epoch,
        config.creation_time,
        accounts.len() as u64,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for (key, account) in &accounts {
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&account.lamports.to_le_bytes());
        bytes.extend_from_slice(&account.owner);
        bytes.push(account.executable.into());
        bytes.extend_from_slice(&(account.data().len() as u64).to_le_bytes());
        bytes.extend_from_slice(account.data());
    }
    if config.genesis_slot > 0 {
        bytes.extend_from_slice(&config.genesis_slot.to_le_bytes());
    }
    sha256(&[&bytes])
}

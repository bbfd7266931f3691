//! Genesis: how a chain begins. Its file, its hash, and the accounts that a development chain funds.
//!
//! reads   a [`GenesisConfig`], or a genesis file
//! writes  the genesis file, and beside it a file of the further accounts; the accounts of height 0
//! memory  32 bytes a funded account, and the further accounts
//! drops   a file that is cut, changed or of another version: a [`GenesisError`] that says so
//! source  the hash is SHA-256 of our own serialisation (see [`Genesis::hash`]); the shred version is
//!         folded from it as `solana-shred-version` does
//!
//! The funded accounts of a development chain have public seeds: whoever knows the number of one can
//! sign for it. That is their purpose; such a chain holds no value.

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

/// What begins the serialisation that is hashed, so that the hash is of nothing else.
const HASH_DOMAIN: &[u8] = b"hearth genesis 2";

/// Why there is no genesis.
#[derive(Debug, thiserror::Error)]
pub enum GenesisError {
    /// The file cannot be read or written.
    #[error("cannot {action} the genesis file {}: {source}", path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what this program writes.
    #[error(
        "the genesis file {} is damaged: {what}; restore it from a copy or another node of the chain",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There are other files of the chain, and no genesis, or not all of it.
    #[error(
        "the genesis file {} is missing, and {} is of a chain that began with it; restore it from a copy or another \
         node of the chain",
        path.display(),
        file.display()
    )]
    Missing {
        /// The genesis file.
        path: PathBuf,
        /// A file of the chain.
        file: PathBuf,
    },
    /// The configuration makes no chain.
    #[error("no such chain can begin: {0}")]
    Config(String),
}

impl GenesisError {
    /// Whether files are not as they were written.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::Missing { .. })
    }
}

/// How a chain began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    config: GenesisConfig,
    funded: Vec<Pubkey>,
    hash: Hash,
}

impl Genesis {
    /// A chain as `config` says. Derives the funded accounts; `progress` as in
    /// [`derive_funded_accounts`].
    pub fn create(config: GenesisConfig, progress: impl FnMut(usize)) -> Result<Self, GenesisError> {
        config::check(&config).map_err(GenesisError::Config)?;
        let funded = derive_funded_accounts(config.fund_initial_accounts, progress);
        let hash = hash_of(&config, &funded);
        Ok(Self { config, funded, hash })
    }

    /// What the chain was made from.
    pub fn config(&self) -> &GenesisConfig {
        &self.config
    }

    /// The addresses of the funded accounts, by number.
    pub fn funded_accounts(&self) -> &[Pubkey] {
        &self.funded
    }

    /// Names the chain, and is its first blockhash: SHA-256 over the text `hearth genesis 2`, then,
    /// each as 8 bytes little endian, hashes per tick (0 for none), ticks per slot, milliseconds a
    /// slot, slots an epoch, creation time, and the count of accounts; then each account by address:
    /// address, lamports, owner, executable (1 byte), length of its data (8 bytes), data. At the end the genesis slot,
    /// where it is not 0.
    pub fn hash(&self) -> &Hash {
        &self.hash
    }

    /// The 16 bits by which a node knows the shreds of its chain.
    pub fn shred_version(&self) -> u16 {
        shred_version(&self.hash)
    }

    /// Every account of height 0, by address.
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
    // The sort keeps the order of what has one address: the first counts.
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

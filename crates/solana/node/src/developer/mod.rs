//! The development options of `hearth run`: genesis accounts and node settings.
//!
//! reads   options; files of accounts and programs; accounts of another node's RPC
//! writes  the configuration; the genesis accounts; removes the chain for `--reset`
//! memory  the requested accounts
//! drops   nothing: an option that cannot be applied is a [`FlagError`] that names it
//! source  the options of `solana-test-validator` 4.2; `docs/solana-test-validator.md` compares them one by one

mod dump;
mod feature_set;
mod flags;
mod genesis_overrides;
mod overrides;
mod remote;
mod reset;

use std::path::PathBuf;

use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};

pub(crate) use dump::read_program;
pub use flags::Flags;
pub(crate) use flags::{port, shreds};
pub use genesis_overrides::GenesisOverrides;
pub(crate) use genesis_overrides::address;
pub(crate) use overrides::SHRED_BYTES;
pub use reset::reset;

/// Why options cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// A value is invalid.
    #[error("{flag}: {what}")]
    Value {
        /// The option with its dashes, such as `--mint`.
        flag: &'static str,
        /// The problem, and what is expected.
        what: String,
    },
    /// The chain exists, and was created differently.
    #[error(
        "{flag}: the chain in {} has begun, {what}; add --reset to start a new chain (its blocks are deleted), or leave {flag} out",
        folder.display()
    )]
    Began {
        /// The option with its dashes, such as `--mint`.
        flag: &'static str,
        /// The folder of the existing chain.
        folder: PathBuf,
        /// How it was created.
        what: String,
    },
    /// The configuration with the options is invalid.
    #[error("these options with the configuration make `{key}` wrong: {what}")]
    Together {
        /// The configuration key as a dotted path.
        key: &'static str,
        /// The problem with its value.
        what: String,
    },
    /// The old chain cannot be removed.
    #[error("--reset: cannot remove {}: {source}", path.display())]
    Remove {
        /// The file or folder.
        path: PathBuf,
        /// Why it cannot be removed, as the system says it.
        source: std::io::Error,
    },
    /// The folder contains other files.
    #[error(
        "--reset: there is no chain in {}, but other files; nothing was deleted. Name the chain's folder (--ledger), or \
         leave --reset out to begin a chain there",
        folder.display()
    )]
    NoChain {
        /// The folder with the other files.
        folder: PathBuf,
    },
    /// The old chain's blocks cannot be removed, or a node runs on them.
    #[error("--reset: {0}")]
    Blocks(#[from] hearth_ledger::blockstore::StoreError),
}

impl ExitCode for FlagError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Remove { .. } | Self::Blocks(_) => FAILED,
            _ => WRONG_USE,
        }
    }
}

impl FlagError {
    /// The error for an invalid value.
    pub fn value(flag: &'static str, what: impl Into<String>) -> Self {
        Self::Value { flag, what: what.into() }
    }
}

//! What a developer asks of `hearth run` on the command line: the chain's beginning and the node's settings.
//!
//! reads   options; files of accounts and programs; accounts of another node's RPC
//! writes  the configuration; what the genesis shall hold; removes the chain for `--reset`
//! memory  the accounts asked for
//! drops   nothing: what cannot be done is a [`FlagError`] that names the option
//! source  the options of `solana-test-validator` 4.2; `docs/solana-test-validator.md` compares them one by one

mod dump;
mod flags;
mod genesis_overrides;
mod overrides;
mod remote;
mod reset;

use std::path::PathBuf;

use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};

pub use flags::Flags;
pub use genesis_overrides::Beginning;
pub use reset::reset;

/// Why options cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// A value.
    #[error("{flag}: {what}")]
    Value {
        /// The option.
        flag: &'static str,
        /// What is wrong with it, and what was meant.
        what: String,
    },
    /// The chain exists, and it began otherwise.
    #[error(
        "{flag}: the chain in {} has begun, {what}; add --reset to begin anew (its blocks are deleted), or leave {flag} out",
        folder.display()
    )]
    Began {
        /// The option.
        flag: &'static str,
        /// The chain's folder.
        folder: PathBuf,
        /// How it began.
        what: String,
    },
    /// The configuration with the options.
    #[error("these options with the configuration make `{key}` wrong: {what}")]
    Together {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The old chain cannot be removed.
    #[error("--reset: cannot remove {}: {source}", path.display())]
    Remove {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Somebody's files.
    #[error(
        "--reset: there is no chain in {}, but other files; nothing was deleted. Name the chain's folder (--ledger), or \
         leave --reset out to begin a chain there",
        folder.display()
    )]
    NoChain {
        /// The folder.
        folder: PathBuf,
    },
    /// The old chain's blocks, or a node that runs on them.
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
    /// A value that is wrong.
    pub fn value(flag: &'static str, what: impl Into<String>) -> Self {
        Self::Value { flag, what: what.into() }
    }
}

//! `hearth genesis`: makes the genesis of a cluster, and shows one.
//!
//! reads   options, the files that they name; a `genesis.bin`
//! writes  `genesis.bin` and `genesis.tar.bz2` in a ledger folder
//! memory  the accounts
//! drops   nothing: an option that cannot be applied is an error that names it
//! source  `solana-genesis` 4.2, whose options have the same names here
//!
//! `options` is the command line, `files` reads lists of accounts, `build` makes the configuration of both, and `show`
//! describes a genesis.

mod build;
mod date;
mod files;
mod options;
mod show;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use hearth_command::exit_code::{ExitCode, FAILED, WRONG_USE};
use hearth_command::output::CommandOutput;
use hearth_ledger::genesis::{ARCHIVE_NAME, GENESIS_NAME, read_hard_forks};
use hearth_ledger::{Genesis, GenesisError};

use crate::developer::FlagError;

pub use options::Command;

/// Why a genesis cannot be made or shown.
#[derive(Debug, thiserror::Error)]
pub enum GenesisFailure {
    /// An option is invalid.
    #[error(transparent)]
    Flag(#[from] FlagError),
    /// The folder has a chain.
    #[error("{} exists: a genesis is never overwritten; name another folder (--ledger), or remove the chain", path.display())]
    Exists {
        /// The genesis, or its archive, that is there.
        path: PathBuf,
    },
    /// The ledger folder cannot be made.
    #[error("cannot make the folder {}: {source}", path.display())]
    Folder {
        /// The ledger folder to be made.
        path: PathBuf,
        /// Why it cannot be made, as the system says it.
        source: std::io::Error,
    },
    /// The genesis cannot be created, read or written.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
}

impl ExitCode for GenesisFailure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Flag(why) => why.exit_code(),
            Self::Genesis(GenesisError::Config(_)) => WRONG_USE,
            _ => FAILED,
        }
    }
}

/// Runs a subcommand of `hearth genesis`.
pub fn run(command: &Command, say: &CommandOutput) -> Result<(), GenesisFailure> {
    match command {
        Command::Create(options) => {
            let path = options.ledger.join(GENESIS_NAME);
            Genesis::refuse_older(&options.ledger)?;
            let there = [path.clone(), options.ledger.join(ARCHIVE_NAME)].into_iter().find(|path| path.exists());
            if let Some(path) = there {
                return Err(GenesisFailure::Exists { path });
            }
            let genesis = Genesis::create(build::config(options)?, |_| {})?;
            let failed = |source| GenesisFailure::Folder { path: options.ledger.clone(), source };
            std::fs::create_dir_all(&options.ledger).map_err(failed)?;
            genesis.save_alone(&path)?;
            Genesis::write_archive(&path)?;
            show::genesis(&genesis, &[], say);
        }
        Command::Show { file } => {
            let (path, hard_forks) = match file.is_dir() {
                true => (file.join(GENESIS_NAME), read_hard_forks(file)?.unwrap_or_default()),
                false => (file.clone(), vec![]),
            };
            show::genesis(&Genesis::load(&path)?, &hard_forks, say);
        }
    }
    Ok(())
}

//! `hearth keys`: makes key pairs, and shows public keys.
//!
//! reads   a key file
//! writes  a key file, readable by the owner alone

use std::path::PathBuf;

use clap::Subcommand;
use hearth_command::output::CommandOutput;
use hearth_keys::{KeyError, create, read};

/// The subcommands of `hearth keys`.
#[derive(Subcommand)]
pub enum Command {
    /// Make a key pair.
    New {
        /// The file to write; it must not exist.
        path: PathBuf,
    },
    /// Show a key pair's public key.
    Pubkey {
        /// The key file.
        path: PathBuf,
    },
}

/// Runs a `hearth keys` subcommand.
pub fn run(command: &Command, say: &CommandOutput) -> Result<(), KeyError> {
    match command {
        Command::New { path } => say.line(format_args!("{}  {}", create(path)?.address(), path.display())),
        Command::Pubkey { path } => say.line(read(path)?.address()),
    }
    Ok(())
}

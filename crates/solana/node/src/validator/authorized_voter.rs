//! `hearth validator authorized-voter`: changes which keys sign the votes of a running node.
//!
//! reads   the path of a key, which the node reads
//! writes  requests to the node's admin socket

use std::path::{Path, PathBuf};

use clap::Subcommand;
use hearth_command::output::CommandOutput;

use super::ValidatorError;
use crate::admin::AdminClient;

/// The subcommands of `hearth validator authorized-voter`.
#[derive(Subcommand)]
pub enum AuthorizedVoter {
    /// Let another key sign votes.
    ///
    /// A vote is signed by the key that the vote account names as its authorized voter in that epoch.
    Add {
        /// The key, a JSON file that the node may read.
        #[arg(value_name = "KEYPAIR")]
        path: PathBuf,
    },
    /// Remove all keys, the identity's too: the node sends no votes until one is added.
    RemoveAll,
}

impl AuthorizedVoter {
    /// Asks the node of this ledger folder.
    pub(super) fn run(&self, folder: &Path, say: &CommandOutput) -> Result<(), ValidatorError> {
        match self {
            Self::Add { path } => {
                // The node may run in another folder.
                let failed = |source| ValidatorError::KeyFile { path: path.clone(), source };
                let absolute = path.canonicalize().map_err(failed)?;
                let mut admin = AdminClient::connect(folder)?;
                admin.call_with("addAuthorizedVoter", &[&absolute.to_string_lossy()])?;
                say.line(format_args!("Added the authorized voter of {}", path.display()));
            }
            Self::RemoveAll => {
                AdminClient::connect(folder)?.call("removeAllAuthorizedVoters")?;
                say.line("Removed all authorized voters; the node sends no votes");
            }
        }
        Ok(())
    }
}

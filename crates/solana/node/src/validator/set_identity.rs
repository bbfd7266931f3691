//! `hearth validator set-identity`: another identity for a node that runs.
//!
//! reads   the path of a key, which the node reads; how far the change is
//! writes  a request to the node's admin socket

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hearth_command::output::CommandOutput;
use hearth_command::progress::Progress;
use serde_json::{Value, json};

use super::ValidatorError;
use crate::admin::AdminClient;

/// Interval of looks whether the identity has changed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The arguments of `hearth validator set-identity`.
#[derive(Args)]
pub struct SetIdentity {
    /// The key, a JSON file that the node may read.
    #[arg(value_name = "KEYPAIR")]
    pub path: PathBuf,
    /// Refuse unless the ledger folder has the tower of this identity: `tower.bin`, `tower-IDENTITY.bin`, or Agave's
    /// `tower-1_9-IDENTITY.bin`.
    #[arg(long)]
    pub require_tower: bool,
}

impl SetIdentity {
    /// Asks the node of this ledger folder, and waits until it has the identity.
    pub(super) fn run(&self, folder: &Path, say: &CommandOutput) -> Result<(), ValidatorError> {
        // The node may run in another folder.
        let failed = |source| ValidatorError::KeyFile { path: self.path.clone(), source };
        let absolute = self.path.canonicalize().map_err(failed)?;
        let mut admin = AdminClient::connect(folder)?;
        let old = identity_in(&admin.call("identityStatus")?)?;
        say.line(format_args!("New validator identity path: {}", absolute.display()));
        admin.call_json("setIdentity", &json!([absolute.to_string_lossy(), self.require_tower, true]))?;
        let mut shown = Progress::new();
        loop {
            let status = admin.call("identityStatus")?;
            if status["isChanging"] != true {
                shown.clear();
                return report(folder, &old, &status, say);
            }
            shown.tell(|| "waiting for the end of a block of the old identity".to_owned());
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Says which identity the node has, and where the tower of the old one is.
fn report(folder: &Path, old: &str, status: &Value, say: &CommandOutput) -> Result<(), ValidatorError> {
    if let Some(why) = status["failure"].as_str() {
        return Err(ValidatorError::IdentityStays { identity: old.to_owned(), why: why.to_owned() });
    }
    let new = identity_in(status)?;
    say.line(format_args!("Identity set to {new}"));
    let tower = folder.join(format!("tower-{old}.bin"));
    if new != old && tower.metadata().is_ok_and(|file| file.len() > 0) {
        say.line(format_args!("The tower of {old} is in {}", tower.display()));
    }
    Ok(())
}

fn identity_in(status: &Value) -> Result<String, ValidatorError> {
    let garbled = || ValidatorError::Garbled { method: "identityStatus", answer: status.to_string() };
    status["identity"].as_str().map(str::to_owned).ok_or_else(garbled)
}

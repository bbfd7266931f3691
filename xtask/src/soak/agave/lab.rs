//! What every scenario needs: folders, programs, keys, and how long things may take.
//!
//! writes  keys and files into the scenario's folder

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::run;

/// A node has this long to start and to be found by the other.
const SETTLES_WITHIN: Duration = Duration::from_secs(180);
/// A part under load is no shorter: it has slots of each leader.
const PART_MIN_S: u64 = 7;

/// The folders and settings that every scenario needs.
pub struct Lab {
    pub folder: PathBuf,
    /// The folder of agave-validator, solana-genesis and solana.
    pub programs: PathBuf,
    pub hearth: PathBuf,
    /// Seconds under load, of a whole scenario.
    pub seconds: u64,
    /// Transactions a second of each load.
    pub rate: u64,
    pub slot_ms: u64,
    /// Slots of an epoch, if given.
    pub epoch_slots: Option<u64>,
    /// Slots for which a node is stopped before it must catch up.
    pub behind: u64,
    /// Nodes of each kind in the scenario of faults.
    pub nodes: u64,
    /// The folder below which nodes of ours record their sessions, if they do.
    pub sessions: Option<PathBuf>,
}

impl Lab {
    /// The file of a key of this name, made by [`Self::keys`].
    pub fn key(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }

    /// Makes the keys of the nodes and the faucet's.
    pub fn keys(&self) -> Result<(), String> {
        self.new_key("faucet")?;
        for name in ["agave", "agave2", "ours", "ours2"] {
            for kind in ["id", "vote", "stake"] {
                self.new_key(&format!("{name}-{kind}"))?;
            }
        }
        Ok(())
    }

    /// Makes a key, unless there is one of this name.
    pub fn new_key(&self, name: &str) -> Result<PathBuf, String> {
        let file = self.key(name);
        if !file.exists() {
            run::output(Command::new(&self.hearth).args(["keys", "new"]).arg(&file))?;
        }
        Ok(file)
    }

    /// The address of a key.
    pub fn address(&self, name: &str) -> Result<String, String> {
        let address = run::output(Command::new(&self.hearth).args(["keys", "pubkey"]).arg(self.key(name)))?;
        Ok(address.trim().to_owned())
    }

    /// Writes a file of the scenario, and returns its path.
    pub fn written(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = self.folder.join(name);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    pub fn epoch_slots(&self, default: u64) -> u64 {
        self.epoch_slots.unwrap_or(default)
    }

    /// Within which so many slots must have gone by: twice their time, and a start.
    pub fn within(&self, slots: u64) -> Duration {
        SETTLES_WITHIN + Duration::from_millis(2 * slots * self.slot_ms)
    }

    /// Seconds under load of each of so many parts.
    pub fn part(&self, parts: u64) -> u64 {
        (self.seconds / parts).max(PART_MIN_S)
    }
}

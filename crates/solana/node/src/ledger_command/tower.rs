//! `hearth ledger tower`: shows, imports and exports a node's tower, also as Agave's file.
//!
//! reads   `tower.bin` in the ledger folder, or Agave's file; the identity's key
//! writes  the other of the two, atomically and synced
//! memory  two towers
//! drops   nothing: a file that is not a tower of the node, or older than the existing one, is an error
//!
//! No node may run on the folder during an import or export: it would continue to vote.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hearth_command::output::{CommandOutput, plural};
use hearth_command::time::utc;
use hearth_consensus::{AgaveError, SavedErrorKind, Tower};
use hearth_keys::{self as keys, Identity, KeyError};
use hearth_ledger::blockstore::BlockStore;
use hearth_pipeline::tower::{SavedError, save_file, save_tower, saved_tower};
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
use hearth_wire::tower_file::FILE_MAX;

use super::LedgerError;
use super::command::TowerCommand;
use crate::config::Config;

/// Why a tower cannot be shown, imported or exported.
#[derive(Debug, thiserror::Error)]
pub enum TowerFailure {
    /// The identity's key cannot be read.
    #[error("{0}; --identity names the key of the node whose tower is meant")]
    Key(#[from] KeyError),
    /// The ledger folder's tower cannot be read.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// There is no tower.
    #[error("there is no tower.bin in {}: a node that has not voted in a cluster has none", folder.display())]
    NoTower {
        /// The ledger folder that was searched.
        folder: PathBuf,
    },
    /// A file or folder cannot be used.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why that failed, as the system says it.
        source: io::Error,
    },
    /// The file is longer than any of Agave's.
    #[error("{}: no tower of Agave: it has more than {} bytes", path.display(), FILE_MAX)]
    TooLong {
        /// The path of the file that was given.
        path: PathBuf,
    },
    /// Agave's file is invalid.
    #[error("{}: {source}", path.display())]
    Agave {
        /// The path of the file that was given.
        path: PathBuf,
        /// Why it is not a tower file of this node.
        source: AgaveError,
    },
    /// The node already has a tower.
    #[error("there is a tower.bin of this node in {}; with --replace the file takes its place", folder.display())]
    Exists {
        /// The ledger folder with that tower.
        folder: PathBuf,
    },
    /// The tower to be replaced is newer.
    #[error("{} has a newer vote, for slot {there}, than the tower that would take its place, {given}", path.display())]
    Newer {
        /// The file that stays.
        path: PathBuf,
        /// The newest slot of the tower in it.
        there: u64,
        /// The newest slot of the other tower.
        given: u64,
    },
}

/// `hearth ledger tower …`
pub fn run(command: &TowerCommand, config: &Config, say: &CommandOutput) -> Result<(), LedgerError> {
    let folder = config.expand(&config.ledger.path);
    let identity = identity(config, &folder, command.of().identity.as_deref()).map_err(TowerFailure::from)?;
    let node = identity.public;
    // Held until the end.
    let _lock = match command {
        TowerCommand::Show { .. } => None,
        TowerCommand::Import { .. } | TowerCommand::Export { .. } => BlockStore::lock(&folder.join("blocks"))?,
    };
    match command {
        TowerCommand::Show { file, .. } => show(&folder, &node, file.as_deref(), say)?,
        TowerCommand::Import { file, replace, .. } => import(&folder, &node, file, *replace, say)?,
        TowerCommand::Export { file, .. } => export(&folder, &identity, file.as_deref(), say)?,
    }
    Ok(())
}

/// The identity of the node whose tower it is.
pub(super) fn identity(config: &Config, folder: &Path, given: Option<&Path>) -> Result<Identity, KeyError> {
    let configured = config.expand(&config.consensus.identity_path);
    match given {
        Some(path) => keys::read(path),
        None if configured.as_os_str().is_empty() => keys::read(&folder.join("identity.json")),
        None => keys::read(&configured),
    }
}

fn show(folder: &Path, node: &Pubkey, file: Option<&Path>, say: &CommandOutput) -> Result<(), TowerFailure> {
    let tower = match file {
        Some(file) => read(file, node)?,
        None => own(folder, node)?,
    };
    say.line(format_args!("node      {}", encode_32(node)));
    say.line(format_args!("tower     {}", summary(&tower)));
    if let Some(last) = tower.last_vote() {
        let (hash, id) = (encode_32(&last.id.hash), encode_32(&last.block_id));
        say.line(format_args!("last vote slot {}, bank hash {hash}, block id {id}", last.id.slot));
    }
    if let Some((slot, unix_s)) = tower.last_timestamp() {
        say.line(format_args!("timestamp {}, of the vote for slot {slot}", utc(unix_s)));
    }
    say.line(format_args!("{:>12} {:>13} {:>12}", "slot", "confirmations", "binds until"));
    for vote in &tower.lockouts().votes {
        let (slot, count, until) = (vote.slot, vote.confirmation_count, vote.last_locked_out_slot());
        say.line(format_args!("{slot:>12} {count:>13} {until:>12}"));
    }
    Ok(())
}

/// A one-line summary of a tower.
fn summary(tower: &Tower) -> String {
    let count = tower.lockouts().votes.len() as u64;
    let slot = |slot: Option<u64>| slot.map_or("none".into(), |slot| format!("slot {slot}"));
    let last = slot(tower.last_vote().map(|last| last.id.slot));
    format!("{count} {}, last vote {last}, root {}", plural(count, "vote"), slot(tower.lockouts().root))
}

fn import(folder: &Path, node: &Pubkey, file: &Path, replace: bool, say: &CommandOutput) -> Result<(), TowerFailure> {
    let tower = read(file, node)?;
    match saved_tower(folder, node) {
        Ok(None) => {}
        // A damaged tower contains no known binding votes. Another node's is intact, and may be the only copy.
        Err(SavedError::Tower { source, .. }) if replace && source.kind != SavedErrorKind::Node => {}
        Ok(Some(own)) if replace => is_no_older(&tower, &own, &folder.join("tower.bin"))?,
        Ok(Some(own)) if own == tower => {}
        Ok(Some(_)) => return Err(TowerFailure::Exists { folder: folder.into() }),
        Err(why) => return Err(why.into()),
    }
    fs::create_dir_all(folder).map_err(|source| io("make", folder, source))?;
    save_tower(folder, &tower.save(node))?;
    say.line(format_args!("the tower of {}: {}", encode_32(node), summary(&tower)));
    say.line(format_args!("is in {} now; Agave must not vote with this identity any more", folder.display()));
    Ok(())
}

fn export(folder: &Path, identity: &Identity, file: Option<&Path>, say: &CommandOutput) -> Result<(), TowerFailure> {
    let node = identity.public;
    let tower = own(folder, &node)?;
    let name = format!("tower-1_9-{}.bin", encode_32(&node));
    let path = match file {
        None => folder.join(name),
        Some(given) if given.is_dir() => given.join(name),
        Some(given) => given.into(),
    };
    let written = tower.to_agave(&node, |data| identity.keypair.sign(data));
    let bytes = written.map_err(|source| TowerFailure::Agave { path: folder.join("tower.bin"), source })?;
    if path.exists() {
        is_no_older(&tower, &read(&path, &node)?, &path)?;
    }
    save_file(&path, &bytes)?;
    say.line(format_args!("the tower of {}: {}", encode_32(&node), summary(&tower)));
    say.line(format_args!(
        "is in {} now; no node of this program may vote with this identity any more",
        path.display()
    ));
    Ok(())
}

/// The tower in the ledger folder.
fn own(folder: &Path, node: &Pubkey) -> Result<Tower, TowerFailure> {
    saved_tower(folder, node)?.ok_or_else(|| TowerFailure::NoTower { folder: folder.into() })
}

/// The tower in Agave's file.
fn read(path: &Path, node: &Pubkey) -> Result<Tower, TowerFailure> {
    let mut bytes = vec![];
    let opened = fs::File::open(path).and_then(|file| file.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes));
    opened.map_err(|source| io("read", path, source))?;
    if bytes.len() > FILE_MAX {
        return Err(TowerFailure::TooLong { path: path.into() });
    }
    Tower::from_agave(&bytes, node).map_err(|source| TowerFailure::Agave { path: path.into(), source })
}

/// Refuses to replace a tower by an older one.
fn is_no_older(tower: &Tower, there: &Tower, path: &Path) -> Result<(), TowerFailure> {
    let (given, there) = (tower.newest_slot().unwrap_or(0), there.newest_slot().unwrap_or(0));
    if there > given { Err(TowerFailure::Newer { path: path.into(), there, given }) } else { Ok(()) }
}

fn io(doing: &'static str, path: &Path, source: io::Error) -> TowerFailure {
    TowerFailure::Io { doing, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use hearth_consensus::{BankId, LastVote};

    use super::*;

    /// A tower with votes for slots 1 to `last`, and the timestamp of the last.
    fn voted(last: u64) -> Tower {
        let mut tower = Tower::new(BankId { slot: 0, hash: [0; 32] });
        for slot in 1..=last {
            tower.vote(LastVote { id: BankId { slot, hash: [slot as u8; 32] }, block_id: [9; 32] });
        }
        tower.with_timestamp(last, 1_700_000_000)
    }

    fn config(folder: &Path) -> Config {
        let mut config = Config::default();
        config.ledger.path = folder.into();
        config
    }

    fn did(config: &Config, command: &TowerCommand) -> Result<(), String> {
        run(command, config, &CommandOutput::nothing()).map_err(|why| why.to_string())
    }

    fn taken(file: &Path, replace: bool) -> TowerCommand {
        TowerCommand::Import { of: Default::default(), file: file.into(), replace }
    }

    fn given(file: Option<&Path>) -> TowerCommand {
        TowerCommand::Export { of: Default::default(), file: file.map(Path::to_path_buf) }
    }

    #[test]
    fn a_tower_goes_to_agave_and_comes_back() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let node = keys::create(&here.path().join("identity.json")).unwrap().public;
        let config = config(here.path());
        assert!(did(&config, &given(None)).unwrap_err().contains("there is no tower.bin"));
        save_tower(here.path(), &voted(40).save(&node)).unwrap();
        did(&config, &given(Some(there.path()))).unwrap();
        did(&config, &given(None)).unwrap();
        let name = format!("tower-1_9-{}.bin", encode_32(&node));
        let file = there.path().join(&name);
        assert_eq!(fs::read(&file).unwrap(), fs::read(here.path().join(&name)).unwrap());
        did(&config, &TowerCommand::Show { of: Default::default(), file: Some(file.clone()) }).unwrap();
        // The tower is removed here and restored.
        fs::remove_file(here.path().join("tower.bin")).unwrap();
        did(&config, &taken(&file, false)).unwrap();
        let back = saved_tower(here.path(), &node).unwrap().unwrap();
        let before = voted(40);
        assert_eq!((back.lockouts(), back.last_vote()), (before.lockouts(), before.last_vote()));
        assert_eq!((back.last_timestamp(), back.root()), (before.last_timestamp(), None), "the root's hash is unknown");
        did(&config, &taken(&file, false)).unwrap();
        did(&config, &TowerCommand::Show { of: Default::default(), file: None }).unwrap();
    }

    #[test]
    fn an_older_tower_takes_no_newer_ones_place() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let node = keys::create(&here.path().join("identity.json")).unwrap().public;
        let (config, file) = (config(here.path()), there.path().join("tower.bin"));
        save_tower(here.path(), &voted(40).save(&node)).unwrap();
        did(&config, &given(Some(&file))).unwrap();
        save_tower(here.path(), &voted(41).save(&node)).unwrap();
        assert!(did(&config, &taken(&file, false)).unwrap_err().contains("--replace"));
        let newer = did(&config, &taken(&file, true)).unwrap_err();
        assert!(newer.contains("slot 41") && newer.contains("place, 40"), "{newer}");
        save_tower(here.path(), &voted(39).save(&node)).unwrap();
        assert!(did(&config, &given(Some(&file))).unwrap_err().contains("slot 40"));
        did(&config, &taken(&file, true)).unwrap();
        assert_eq!(saved_tower(here.path(), &node).unwrap().unwrap().last_vote(), voted(40).last_vote());
    }

    #[test]
    fn a_damaged_tower_is_replaced_and_another_nodes_is_not() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let node = keys::create(&here.path().join("identity.json")).unwrap().public;
        let (config, file) = (config(here.path()), there.path().join("file"));
        save_tower(here.path(), &voted(40).save(&node)).unwrap();
        did(&config, &given(Some(&file))).unwrap();
        let other = voted(3).save(&[9; 32]);
        fs::write(here.path().join("tower.bin"), &other).unwrap();
        let refused = did(&config, &taken(&file, true)).unwrap_err();
        assert!(refused.contains("another node's tower"), "{refused}");
        assert_eq!(fs::read(here.path().join("tower.bin")).unwrap(), other);
        fs::write(here.path().join("tower.bin"), &other[1..]).unwrap();
        assert!(did(&config, &taken(&file, false)).is_err());
        did(&config, &taken(&file, true)).unwrap();
        assert_eq!(saved_tower(here.path(), &node).unwrap().unwrap().last_vote(), voted(40).last_vote());
    }

    #[test]
    fn files_that_are_no_tower_of_the_node_change_nothing() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let node = keys::create(&here.path().join("identity.json")).unwrap().public;
        keys::create(&there.path().join("identity.json")).unwrap();
        let file = there.path().join("file");
        save_tower(here.path(), &voted(40).save(&node)).unwrap();
        did(&config(here.path()), &given(Some(&file))).unwrap();
        let refused = || {
            let why = did(&config(there.path()), &taken(&file, false)).unwrap_err();
            assert!(!there.path().join("tower.bin").exists());
            why
        };
        assert!(refused().contains(&format!("the tower of {}", encode_32(&node))));
        fs::write(&file, [0; 100]).unwrap();
        assert!(refused().contains("at byte"), "{}", refused());
        fs::write(&file, vec![0u8; FILE_MAX + 1]).unwrap();
        assert!(refused().contains("more than 8192 bytes"), "{}", refused());
        fs::remove_file(&file).unwrap();
        assert!(refused().contains("cannot read"), "{}", refused());
    }
}

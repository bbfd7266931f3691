//! `--reset`: removes a chain, so that the next start creates a new one.
//!
//! reads   the ledger folder
//! writes  removes the node's files in it except the keys: identity, vote account and faucet stay the same. The tower
//!         stays if the node joins a cluster
//! memory  a name at a time
//! drops   nothing: files that are not the node's are left alone
//!
//! The genesis is removed last: a kill leaves a chain without blocks, never blocks without their genesis.

use std::io::ErrorKind;
use std::path::Path;

use hearth_ledger::archive::ArchiveName;
use hearth_ledger::blockstore::BlockStore;
use hearth_ledger::genesis::{ARCHIVE_NAME, CHAIN_NAME, GENESIS_NAME, HARD_FORKS_NAME, is_ours};

use super::FlagError;
use crate::config::Config;
use crate::restore;

/// Removes the chain in `folder`, if there is one. No node may run on it.
pub fn reset(config: &Config, folder: &Path) -> Result<(), FlagError> {
    if !folder.exists() {
        return Ok(());
    }
    if !is_chain(folder)? {
        return Err(FlagError::NoChain { folder: std::path::absolute(folder).unwrap_or_else(|_| folder.into()) });
    }
    // Done first, because it finds out whether a node is running.
    BlockStore::clear(&folder.join("blocks"))?;
    snapshots(&restore::folder(config, folder))?;
    snapshots(&restore::archive_folder(config, folder))?;
    remove_if_exists(&folder.join("history"), |path| std::fs::remove_dir_all(path))?;
    // With the old chain's root, a start would take the new chain's blocks up to that slot for final.
    remove_if_exists(&folder.join("root.bin"), |path| std::fs::remove_file(path))?;
    // A new chain has no block of the tower's, and the node would wait for the tower's root for ever. A node that joins
    // may join the same chain again, where its votes bind.
    if !config.joins() {
        remove_if_exists(&folder.join("tower.bin"), |path| std::fs::remove_file(path))?;
    }
    // A genesis without the file beside it would be taken for one of the cluster's tools, so that file goes later. The
    // last two are of older versions; another program's file of that name stays.
    let older = folder.join("genesis.json");
    let is_older = is_ours(&older);
    for name in [HARD_FORKS_NAME, ARCHIVE_NAME, GENESIS_NAME, CHAIN_NAME, "genesis.accounts"] {
        remove_if_exists(&folder.join(name), |path| std::fs::remove_file(path))?;
    }
    if is_older { remove_if_exists(&older, |path| std::fs::remove_file(path)) } else { Ok(()) }
}

/// Whether the folder is empty, or has or had a chain of this program. `history`, `blocks`, `genesis.bin` and a
/// `genesis.json` may belong to others; that file of our older versions starts with its checksum.
fn is_chain(folder: &Path) -> Result<bool, FlagError> {
    let failed = |source| FlagError::Remove { path: folder.into(), source };
    let is_empty = std::fs::read_dir(folder).map_err(failed)?.next().is_none();
    Ok(is_empty
        || [CHAIN_NAME, "genesis.accounts", "faucet.json"].iter().any(|name| folder.join(name).exists())
        || is_ours(&folder.join("genesis.json")))
}

/// The folder may be elsewhere, and contain other files.
fn snapshots(folder: &Path) -> Result<(), FlagError> {
    let failed = |source| FlagError::Remove { path: folder.into(), source };
    let entries = match std::fs::read_dir(folder) {
        Err(none) if none.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let is_slot = path.file_stem().is_some_and(|stem| stem.to_string_lossy().parse::<u64>().is_ok());
        let ours = ["snapshot", "part", "refused"].iter().any(|ours| path.extension().is_some_and(|e| e == *ours));
        // Those of the cluster's kind that are there are of this chain: this program made them.
        if (is_slot && ours) || ArchiveName::of_path(&path).is_ok() {
            remove_if_exists(&path, |path| std::fs::remove_file(path))?;
        }
    }
    Ok(())
}

fn remove_if_exists(path: &Path, remove: impl Fn(&Path) -> std::io::Result<()>) -> Result<(), FlagError> {
    match remove(path) {
        Err(source) if source.kind() != ErrorKind::NotFound => Err(FlagError::Remove { path: path.into(), source }),
        _ => Ok(()),
    }
}

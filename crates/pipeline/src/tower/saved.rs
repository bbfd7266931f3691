//! saved: the tower and the root on disk.
//!
//! reads   `tower.bin`, `root.bin` in the ledger's folder
//! writes  the same, each whole or not at all
//! memory  481 B
//! drops   a root that is damaged: the tower's is as good, and that of a snapshot or the genesis only older
//! source  `hearth_cluster::consensus`, `tower/saved.rs`
//!
//! The tower must be on disk before the vote is sent. The root says up to where blocks are final, so that a start
//! executes them without looking for forks; it may be an older one, and never a newer: above it a block may be of a
//! fork that the cluster has left.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_cluster::consensus::{BankId, SavedError as TowerError, Tower};
use hearth_crypto::sha256::sha256;
use hearth_wire::Pubkey;

const TOWER: &str = "tower.bin";
const ROOT: &str = "root.bin";

/// Where the tower and the root are kept.
pub trait Files {
    /// Puts a tower on disk, durably.
    ///
    /// # Errors
    /// The disk does not take it: then its vote must not be sent.
    fn save_tower(&mut self, bytes: &[u8]) -> Result<(), SavedError>;

    /// Puts a root on disk.
    ///
    /// # Errors
    /// The disk does not take it.
    fn save_root(&mut self, root: BankId) -> Result<(), SavedError>;
}

/// The files in the ledger's folder.
pub struct Folder(pub PathBuf);

impl Files for Folder {
    fn save_tower(&mut self, bytes: &[u8]) -> Result<(), SavedError> {
        save_tower(&self.0, bytes)
    }

    fn save_root(&mut self, root: BankId) -> Result<(), SavedError> {
        save_root(&self.0, root)
    }
}

/// What can be wrong with the tower's file.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The system.
    #[error("cannot {doing} {}: {source}", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes.
    #[error(
        "{}: {source}. Without its tower a node may vote against its own votes; restore the file, or give the node another vote account",
        file.display()
    )]
    Tower {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: TowerError,
    },
}

impl SavedError {
    /// Whether the disk has no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::StorageFull)
    }
}

/// The tower in a folder, if there is one.
///
/// # Errors
/// It cannot be read, or is no tower of this node.
pub fn tower(folder: &Path, node: &Pubkey) -> Result<Option<Tower>, SavedError> {
    let file = folder.join(TOWER);
    let bytes = match fs::read(&file) {
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SavedError::Io { doing: "read", file, source }),
        Ok(bytes) => bytes,
    };
    Tower::restore(&bytes, node).map(Some).map_err(|source| SavedError::Tower { file, source })
}

/// Puts a tower on disk.
///
/// # Errors
/// The disk does not take it: then its vote must not be sent.
pub fn save_tower(folder: &Path, bytes: &[u8]) -> Result<(), SavedError> {
    save(folder, TOWER, bytes, true)
}

/// The slot of the root in a folder, if there is one.
pub fn root(folder: &Path) -> Option<BankId> {
    let bytes: [u8; 72] = fs::read(folder.join(ROOT)).ok()?.try_into().ok()?;
    let (said, sum) = bytes.split_at(40);
    let (slot, hash) = said.split_first_chunk()?;
    (sha256(&[said]) == *sum).then_some(BankId { slot: u64::from_le_bytes(*slot), hash: hash.try_into().ok()? })
}

/// Whether there is a root's file that is not whole. It is not synced, so a power failure may leave one.
pub fn is_root_damaged(folder: &Path) -> bool {
    folder.join(ROOT).exists() && root(folder).is_none()
}

/// The slot up to which what a node has on disk is final: that of its root, or else of its tower's. `None` where it has
/// neither: then nothing is known to be.
///
/// # Errors
/// There is no root, and the tower cannot be read.
pub fn final_slot(folder: &Path, node: &Pubkey) -> Result<Option<u64>, SavedError> {
    let root = match root(folder) {
        None => tower(folder, node)?.and_then(|tower| tower.root()),
        root => root,
    };
    Ok(root.map(|root| root.slot))
}

/// How long ago a root was put on disk, if one was and the clock did not go back.
pub fn final_since(folder: &Path) -> Option<Duration> {
    fs::metadata(folder.join(ROOT)).ok()?.modified().ok()?.elapsed().ok()
}

/// Puts a root on disk.
///
/// # Errors
/// The disk does not take it.
pub fn save_root(folder: &Path, root: BankId) -> Result<(), SavedError> {
    let said = [&root.slot.to_le_bytes()[..], &root.hash].concat();
    let bytes = [&said[..], &sha256(&[&said])].concat();
    save(folder, ROOT, &bytes, false)
}

/// What is durable is on disk before it is in the old one's place: a power failure leaves one of both whole. Of what is
/// not it may leave none.
fn save(folder: &Path, name: &str, bytes: &[u8], durable: bool) -> Result<(), SavedError> {
    let (file, part) = (folder.join(name), folder.join(format!("{name}.part")));
    let write = || {
        let mut file = File::create(&part)?;
        file.write_all(bytes)?;
        if durable {
            file.sync_all()?;
        }
        drop(file);
        fs::rename(&part, folder.join(name))?;
        if durable { File::open(folder)?.sync_all() } else { Ok(()) }
    };
    write().map_err(|source| SavedError::Io { doing: "write", file, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_found_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(root(folder.path()).is_none() && tower(folder.path(), &[1; 32]).unwrap().is_none());
        let id = BankId { slot: 7, hash: [3; 32] };
        save_root(folder.path(), id).unwrap();
        assert_eq!(root(folder.path()), Some(id));
        let kept = Tower::new(id);
        save_tower(folder.path(), &kept.save(&[1; 32])).unwrap();
        assert_eq!(tower(folder.path(), &[1; 32]).unwrap(), Some(kept));
        assert!(matches!(tower(folder.path(), &[2; 32]), Err(SavedError::Tower { .. })), "another node's");
        let path = folder.path().join(ROOT);
        let mut bytes = fs::read(&path).unwrap();
        bytes[3] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(root(folder.path()), None);
        assert!(matches!(save_root(&folder.path().join("none"), id), Err(SavedError::Io { .. })));
    }

    #[test]
    fn where_there_is_no_root_the_towers_counts() {
        let (folder, node) = (tempfile::tempdir().unwrap(), [1; 32]);
        let last = || final_slot(folder.path(), &node).unwrap();
        assert_eq!(last(), None);
        save_tower(folder.path(), &Tower::new(BankId { slot: 9, hash: [3; 32] }).save(&node)).unwrap();
        assert_eq!(last(), Some(9));
        save_root(folder.path(), BankId { slot: 7, hash: [3; 32] }).unwrap();
        assert_eq!(last(), Some(7));
        // Torn by a power failure.
        fs::write(folder.path().join(ROOT), [0; 72]).unwrap();
        assert_eq!(last(), Some(9));
        fs::write(folder.path().join(TOWER), [0; 72]).unwrap();
        assert!(matches!(final_slot(folder.path(), &node), Err(SavedError::Tower { .. })));
    }

    #[test]
    fn damage_of_either_file_is_found() {
        use hearth_testkit::damage::Mutation;
        use hearth_testkit::random::Random;
        let (folder, node) = (tempfile::tempdir().unwrap(), [1; 32]);
        let id = BankId { slot: 70_000, hash: [3; 32] };
        let kept = Tower::new(id);
        let mut random = Random(5);
        for _ in 0..300 {
            save_tower(folder.path(), &kept.save(&node)).unwrap();
            save_root(folder.path(), id).unwrap();
            for name in [TOWER, ROOT] {
                let path = folder.path().join(name);
                let mutation = Mutation::random(&mut random, fs::metadata(&path).unwrap().len());
                let changed = mutation.apply(&path).unwrap();
                if name == ROOT {
                    assert_eq!((root(folder.path()).is_none(), is_root_damaged(folder.path())), (changed, changed));
                    continue;
                }
                match tower(folder.path(), &node) {
                    Ok(found) => assert!(!changed && found.as_ref() == Some(&kept), "{mutation}"),
                    Err(why) => assert!(changed && why.to_string().contains(TOWER), "{mutation}: {why}"),
                }
            }
        }
    }
}

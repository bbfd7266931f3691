//! folder: the files of a snapshot folder.
//!
//! reads   the folder
//! writes  removes part files at startup and old snapshots later
//! memory  one name per file
//! drops   nothing: other files are left alone
//! source  rename(2) replaces a name atomically; fsync(2) of the folder makes it durable

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::error::SnapshotError;

const WHOLE: &str = "snapshot";
const PART: &str = "part";

/// A folder of snapshots.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// A snapshot file by name. Whether it is valid is known only after reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// The slot at whose end the state was captured.
    pub slot: u64,
    /// The path, whose file name is the slot in twelve digits.
    pub path: PathBuf,
}

impl Folder {
    /// Opens the folder at `dir`, creating it if necessary, and removes a part file left by a kill: only one process
    /// may have the chain open.
    pub fn open(dir: &Path) -> Result<Self, SnapshotError> {
        fs::create_dir_all(dir).map_err(|e| SnapshotError::io("creating", dir, e))?;
        let folder = Self(dir.to_path_buf());
        for part in folder.named(PART)? {
            fs::remove_file(&part.path).map_err(|e| SnapshotError::io("removing", &part.path, e))?;
        }
        Ok(folder)
    }

    /// The folder at `dir`, read-only; `None` if it does not exist.
    pub fn existing(dir: &Path) -> Option<Self> {
        dir.is_dir().then(|| Self(dir.to_path_buf()))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The snapshots, the newest first.
    pub fn files(&self) -> Result<Vec<SnapshotFile>, SnapshotError> {
        self.named(WHOLE)
    }

    /// Removes all but the `keep` newest; returns the oldest that remains.
    pub fn prune(&self, keep: usize) -> Result<Option<SnapshotFile>, SnapshotError> {
        let mut files = self.files()?;
        for old in files.drain(keep.max(1).min(files.len())..) {
            fs::remove_file(&old.path).map_err(|e| SnapshotError::io("removing", &old.path, e))?;
        }
        Ok(files.pop())
    }

    /// The names of a snapshot: while it is written, and when it is complete.
    pub(super) fn names(&self, slot: u64) -> (PathBuf, PathBuf) {
        let name = |extension| self.0.join(format!("{slot:012}.{extension}"));
        (name(PART), name(WHOLE))
    }

    /// Renames a part file to its final name, durably.
    pub(super) fn publish(&self, part: &Path, path: &Path) -> Result<(), SnapshotError> {
        fs::rename(part, path).map_err(|e| SnapshotError::io("renaming", part, e))?;
        File::open(&self.0).and_then(|dir| dir.sync_all()).map_err(|e| SnapshotError::io("syncing", &self.0, e))
    }

    fn named(&self, extension: &str) -> Result<Vec<SnapshotFile>, SnapshotError> {
        let failed = |e| SnapshotError::io("listing", &self.0, e);
        let mut files = vec![];
        for entry in fs::read_dir(&self.0).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let slot = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
            if let Some(slot) = slot
                && path.extension().is_some_and(|e| e == extension)
            {
                files.push(SnapshotFile { slot, path });
            }
        }
        files.sort_unstable_by_key(|file| std::cmp::Reverse(file.slot));
        Ok(files)
    }
}

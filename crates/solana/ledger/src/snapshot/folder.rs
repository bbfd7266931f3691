//! folder: the files of a snapshot folder by name.
//!
//! reads   the folder
//! writes  removes part files at the start and old snapshots later
//! memory  one name a file
//! drops   files that are no snapshots are left alone
//! source  rename(2) replaces a name at once; fsync(2) of the folder makes it last

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::error::SnapshotError;

const WHOLE: &str = "snapshot";
const PART: &str = "part";

/// A folder of snapshots.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

/// A snapshot by its name: whether it is good is found by reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// The slot at whose end the state was such.
    pub slot: u64,
    /// The file.
    pub path: PathBuf,
}

impl Folder {
    /// The folder at `dir`, made when it is not there. A part file that a kill left is removed: one process alone
    /// may have the chain open.
    pub fn open(dir: &Path) -> Result<Self, SnapshotError> {
        fs::create_dir_all(dir).map_err(|e| SnapshotError::io("creating", dir, e))?;
        let folder = Self(dir.to_path_buf());
        for part in folder.named(PART)? {
            fs::remove_file(&part.path).map_err(|e| SnapshotError::io("removing", &part.path, e))?;
        }
        Ok(folder)
    }

    /// The folder at `dir`, to read only; `None` when it is not there.
    pub fn existing(dir: &Path) -> Option<Self> {
        dir.is_dir().then(|| Self(dir.to_path_buf()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The snapshots, the newest first.
    pub fn files(&self) -> Result<Vec<SnapshotFile>, SnapshotError> {
        self.named(WHOLE)
    }

    /// Removes all but the `keep` newest; returns the oldest left.
    pub fn prune(&self, keep: usize) -> Result<Option<SnapshotFile>, SnapshotError> {
        let mut files = self.files()?;
        for old in files.drain(keep.max(1).min(files.len())..) {
            fs::remove_file(&old.path).map_err(|e| SnapshotError::io("removing", &old.path, e))?;
        }
        Ok(files.pop())
    }

    /// The names of a snapshot: while it is written, and when it is whole.
    pub(super) fn names(&self, slot: u64) -> (PathBuf, PathBuf) {
        let name = |extension| self.0.join(format!("{slot:012}.{extension}"));
        (name(PART), name(WHOLE))
    }

    /// Gives a part file its final name, for good.
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

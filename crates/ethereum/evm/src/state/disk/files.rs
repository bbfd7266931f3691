//! Which files there are: the lock, checkpoints and logs, each named by the records before it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use hearth_wal::{files, store_file};

use super::{StateError, io};

const CHECKPOINT: &str = "checkpoint";
const LOG: &str = "log";
/// The ending of a file that is being written and does not count yet.
pub(super) const UNFINISHED: &str = "unfinished";

/// The directory of a state, locked for this process.
pub(crate) struct Files {
    dir: PathBuf,
    /// Held while the state is open.
    _lock: File,
}

impl Files {
    /// Creates the directory if needed, and locks it. Unfinished files of a killed process are removed.
    pub(crate) fn open(dir: &Path) -> Result<Self, StateError> {
        fs::create_dir_all(dir).map_err(io("cannot make", dir))?;
        let path = dir.join("lock");
        let lock = files::lock(&path).map_err(|error| match error {
            TryLockError::WouldBlock => StateError::InUse(dir.to_path_buf()),
            TryLockError::Error(error) => io("cannot lock", &path)(error),
        })?;
        let files = Self { dir: dir.to_path_buf(), _lock: lock };
        for number in files.numbered(UNFINISHED)? {
            let path = dir.join(format!("{number:020}.{UNFINISHED}"));
            store_file::remove(&path).map_err(io("cannot remove", &path))?;
        }
        Ok(files)
    }

    fn numbered(&self, ending: &str) -> Result<Vec<u64>, StateError> {
        files::numbered(&self.dir, ending).map_err(io("cannot list", &self.dir))
    }

    /// The checkpoints that are whole, by the number of the last record in them, oldest first.
    pub(crate) fn checkpoints(&self) -> Result<Vec<u64>, StateError> {
        self.numbered(CHECKPOINT)
    }

    /// The logs by the number of the last record before each, oldest first.
    pub(crate) fn logs(&self) -> Result<Vec<u64>, StateError> {
        self.numbered(LOG)
    }

    /// Returns the checkpoint's path.
    pub(crate) fn checkpoint(&self, sequence: u64) -> PathBuf {
        self.dir.join(format!("{sequence:020}.{CHECKPOINT}"))
    }

    /// Returns the log's path.
    pub(crate) fn log(&self, before: u64) -> PathBuf {
        self.dir.join(format!("{before:020}.{LOG}"))
    }

    /// Removes files that are not needed to open a state from `base`, or from a newer checkpoint.
    pub(crate) fn remove_before(&self, base: u64) -> Result<(), StateError> {
        let remove = |path: PathBuf| store_file::remove(&path).map_err(io("cannot remove", &path));
        // Checkpoints first: while one is there, the logs after it must be.
        for sequence in self.checkpoints()?.into_iter().filter(|sequence| *sequence < base) {
            remove(self.checkpoint(sequence))?;
        }
        files::sync_dir(&self.dir).map_err(io("cannot sync", &self.dir))?;
        let logs = self.logs()?;
        for pair in logs.windows(2).filter(|pair| pair[1] <= base) {
            remove(self.log(pair[0]))?;
        }
        Ok(())
    }
}

/// Renames a complete and synced file to its final name, atomically.
pub(super) fn finish(unfinished: &Path, path: &Path) -> Result<(), StateError> {
    files::finish(unfinished, path).map_err(io("cannot rename to", path))
}

//! The folder of a log: listing, locking, and durable renames.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use crate::mount::volume_at;

/// Returns the numbers of the files in `dir` that are named `NUMBER.extension`, ascending. Other files are passed over.
///
/// # Errors
/// The folder cannot be listed.
pub fn numbered(dir: &Path, extension: &str) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let number: Option<u64> = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if path.extension().is_some_and(|found| found == extension) {
            numbers.extend(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Creates and locks the file at `path`. The lock lasts until the returned file is closed.
///
/// # Errors
/// [`TryLockError::WouldBlock`] if another process has it, else the file system's.
pub fn lock(path: &Path) -> Result<File, TryLockError> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

/// Brings the names of the files in `dir` to stable storage.
///
/// # Errors
/// The file system's.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    volume_at(dir).sync_dir(dir)
}

/// Renames a complete and synced file in one step, replacing an existing one: a crash at any moment leaves one of the
/// two.
///
/// # Errors
/// The file system's.
pub fn finish(unfinished: &Path, path: &Path) -> io::Result<()> {
    volume_at(path).rename(unfinished, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

//! Files that a command writes when it has ended.
//!
//! reads   whether they can be written, before
//! writes  nothing that stays

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the result to {}: {source}", path.display())]
pub struct Unwritable {
    /// Where to.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Whether a result is for standard output: `-`.
pub fn is_stdout(path: Option<&Path>) -> bool {
    path.is_some_and(|path| path.as_os_str() == "-")
}

/// A result that cannot be written is better known now than after the run. Leaves no file that was not there.
pub fn can_be_written(path: &Path) -> Result<(), Unwritable> {
    let failed = |source| Unwritable { path: path.into(), source };
    let is_new = !path.exists();
    fs::OpenOptions::new().create(true).append(true).open(path).map_err(failed)?;
    if is_new { fs::remove_file(path).map_err(failed) } else { Ok(()) }
}

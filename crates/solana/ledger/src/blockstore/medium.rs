//! medium: the few file operations the log needs to write, so that a full or failing disk can be tested.
//!
//! reads   nothing
//! writes  segment files, in append mode only
//! memory  none
//! source  write(2) in append mode, ftruncate(2), fdatasync(2)

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::Path;
use std::sync::Arc;

/// Where segments are kept.
pub(super) trait Volume: Send + Sync {
    /// A new, empty segment file; an error when one of that name exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Medium>>;
    /// An existing segment file, to go on appending.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Medium>>;
}

/// One segment file that is being written.
pub(super) trait Medium: Send + Sync {
    /// Appends as many bytes of `parts` as the file takes in one go; returns how many.
    fn append(&self, parts: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Cuts the file to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Waits until what was appended is on stable storage.
    fn sync(&self) -> io::Result<()>;
}

/// The file system.
pub(super) struct FileSystem;

impl Volume for FileSystem {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        Ok(Arc::new(OpenOptions::new().append(true).create_new(true).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Medium>> {
        Ok(Arc::new(OpenOptions::new().append(true).open(path)?))
    }
}

impl Medium for File {
    fn append(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut file = self;
        file.write_vectored(parts)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Appends all of `parts`. On an error some of the bytes may have been written.
pub(super) fn append_all(medium: &dyn Medium, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match medium.append(parts) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut parts, n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

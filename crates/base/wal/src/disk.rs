//! The file operations of a log, as traits, so that tests can use a file that fills up, tears or does not sync.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::source::Source;

/// A file that is written.
pub trait Disk: Send + Sync {
    /// Writes as many bytes of `parts` at offset `at` as the file takes in one call; returns how many.
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<usize>;

    /// Cuts the file to `length` bytes.
    fn cut(&self, length: u64) -> io::Result<()>;

    /// Returns when everything written is on stable storage.
    fn sync(&self) -> io::Result<()>;
}

/// The file system in which a log's files are made.
pub trait Volume: Send + Sync {
    /// Makes a new, empty file; an error when one of that name exists.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>>;

    /// Opens an existing file for writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn Disk>>;

    /// Gives a file another name, in place of the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Takes a file away.
    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Returns when the names of the files in `dir` are on stable storage.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

/// Writes all of `parts` at offset `at`.
///
/// # Errors
/// The disk's; some of the bytes may have been written by then.
pub fn write_all(disk: &dyn Disk, mut parts: &mut [IoSlice<'_>], mut at: u64) -> io::Result<()> {
    // Parts that are empty go, so that the loop ends.
    IoSlice::advance_slices(&mut parts, 0);
    while !parts.is_empty() {
        match disk.write(parts, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                at += count as u64;
                IoSlice::advance_slices(&mut parts, count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The file must not be in append mode, where the kernel ignores offsets.
impl Disk for File {
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        Ok(rustix::io::pwritev(self, parts, at)?)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// The real file system.
pub struct FileSystem;

impl Volume for FileSystem {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(OpenOptions::new().write(true).create_new(true).open(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(OpenOptions::new().write(true).open(path)?))
    }
}

/// A file in memory, for logs that are not persisted.
#[derive(Default)]
pub struct Memory(Mutex<Vec<u8>>);

impl Disk for Memory {
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        let mut bytes = self.0.lock();
        let mut end = usize::try_from(at).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let begin = end;
        for part in parts {
            let needed = bytes.len().max(end + part.len());
            bytes.resize(needed, 0);
            bytes[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        Ok(end - begin)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.0.lock().resize(length, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Memory {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.lock().len() as u64)
    }

    fn read(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.0.lock()[..].read(into, at)
    }
}

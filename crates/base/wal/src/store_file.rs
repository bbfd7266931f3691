//! A store's file: read directly, and written through the volume of its folder.
//!
//! writes  the store's data, through [`mount`](crate::mount)
//! memory  two handles

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, write_all};
use crate::files;
use crate::mount::{mounted_at, volume_at};

/// How to open a file: whether it must exist, and whether to keep its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// There is no file of this name.
    New,
    /// The file must exist.
    Existing,
    /// The file is created if it does not exist.
    Any,
    /// Like [`OpenMode::Any`], but existing contents are discarded.
    Empty,
}

/// An open file, with a handle for reading and one for writing.
#[derive(Clone)]
pub struct StoreFile {
    file: Arc<File>,
    disk: Arc<dyn Disk>,
}

impl StoreFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// The volume's; also where the file is there although it must be new, or the other way round.
    pub fn open(path: &Path, opening: OpenMode) -> io::Result<Self> {
        let Some(volume) = mounted_at(path) else {
            let mut options = OpenOptions::new();
            let options = options.read(true).write(true);
            let options = match opening {
                OpenMode::New => options.create_new(true),
                OpenMode::Existing => options,
                OpenMode::Any => options.create(true).truncate(false),
                OpenMode::Empty => options.create(true).truncate(true),
            };
            let file = Arc::new(options.open(path)?);
            return Ok(Self { disk: file.clone(), file });
        };
        let is_made = match opening {
            OpenMode::New => true,
            OpenMode::Existing => false,
            OpenMode::Any | OpenMode::Empty => !path.exists(),
        };
        let disk = if is_made { volume.create(path)? } else { volume.open(path)? };
        if opening == OpenMode::Empty && !is_made {
            disk.cut(0)?;
        }
        Ok(Self { file: Arc::new(File::open(path)?), disk })
    }

    /// The file, to be read.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The file, to be written.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Writes all of `bytes` at offset `at`.
    ///
    /// # Errors
    /// The disk's; some of the bytes may have been written by then.
    pub fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        write_all(&*self.disk, &mut [IoSlice::new(bytes)], at)
    }

    /// Makes the file `length` bytes long; new bytes are zeros.
    ///
    /// # Errors
    /// The disk's.
    pub fn cut(&self, length: u64) -> io::Result<()> {
        self.disk.cut(length)
    }

    /// Returns when everything written is on stable storage.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
}

/// Writes a new file from its beginning to its end.
pub struct StoreWriter {
    file: StoreFile,
    end: u64,
}

impl StoreWriter {
    /// Makes the file at `path`, or empties it.
    ///
    /// # Errors
    /// The volume's.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self { file: StoreFile::open(path, OpenMode::Empty)?, end: 0 })
    }

    /// Returns when everything written is on stable storage.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

impl Write for StoreWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.disk.write(&[IoSlice::new(bytes)], self.end)?;
        self.end += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Puts a file of these bytes in the place of the one at `path`: it is written at `unfinished`, synced, and renamed in
/// one step. Both paths are in one folder.
///
/// # Errors
/// The volume's; the file that was there stays.
pub fn put(unfinished: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = StoreFile::open(unfinished, OpenMode::Empty)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    files::finish(unfinished, path)
}

/// Takes the file at `path` away.
///
/// # Errors
/// The volume's.
pub fn remove(path: &Path) -> io::Result<()> {
    volume_at(path).remove(path)
}

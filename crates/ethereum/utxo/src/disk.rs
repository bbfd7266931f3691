//! What a store does with the file that it appends to, so that tests can have one that fills up or does not sync.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file that is written.
pub trait Disk: Send + Sync {
    /// Writes all bytes at an offset.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts the file.
    fn cut(&self, len: u64) -> io::Result<()>;
    /// Returns when everything written is on disk.
    fn sync(&self) -> io::Result<()>;
}

impl Disk for File {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

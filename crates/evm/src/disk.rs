//! What a store does with the file that it appends to, so that tests can have one that fills up or does not sync.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file that is written.
pub(crate) trait Disk: Send + Sync {
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

#[cfg(test)]
pub(crate) use filling::Filling;

#[cfg(test)]
mod filling {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use super::*;

    /// A disk with so many bytes left, which may refuse to sync or to cut.
    pub(crate) struct Filling {
        file: File,
        left: AtomicU64,
        broken: AtomicBool,
    }

    impl Filling {
        pub(crate) fn new(file: File, left: u64) -> Self {
            Self { file, left: AtomicU64::new(left), broken: AtomicBool::new(false) }
        }

        /// From now on so many bytes are left.
        pub(crate) fn leave(&self, left: u64) {
            self.left.store(left, Ordering::Relaxed);
        }

        /// Whether it neither cuts nor syncs from now on.
        pub(crate) fn set_broken(&self, broken: bool) {
            self.broken.store(broken, Ordering::Relaxed);
        }

        fn if_whole(&self) -> io::Result<()> {
            if self.broken.load(Ordering::Relaxed) { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
        }
    }

    impl Disk for Filling {
        fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let fits = self.left.load(Ordering::Relaxed).min(bytes.len() as u64);
            self.left.fetch_sub(fits, Ordering::Relaxed);
            Disk::write(&self.file, &bytes[..fits as usize], offset)?;
            if fits < bytes.len() as u64 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn cut(&self, len: u64) -> io::Result<()> {
            self.if_whole()?;
            Disk::cut(&self.file, len)
        }

        fn sync(&self) -> io::Result<()> {
            self.if_whole()?;
            Disk::sync(&self.file)
        }
    }
}

//! The files that the stores append to, and for tests one that fills up or does not sync.

pub(crate) use hearth_utxo::disk::Disk;

#[cfg(test)]
pub(crate) use filling::Filling;

#[cfg(test)]
mod filling {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    use std::fs::File;
    use std::io;

    use super::Disk;

    /// A disk with so many bytes left, which may refuse to sync or to cut.
    pub(crate) struct Filling {
        file: File,
        left: AtomicU64,
        no_cuts: AtomicBool,
        no_syncs: AtomicBool,
    }

    impl Filling {
        pub(crate) fn new(file: File, left: u64) -> Self {
            Self { file, left: AtomicU64::new(left), no_cuts: AtomicBool::default(), no_syncs: AtomicBool::default() }
        }

        /// From now on so many bytes are left.
        pub(crate) fn leave(&self, left: u64) {
            self.left.store(left, Ordering::Relaxed);
        }

        /// Whether it refuses to cut from now on.
        pub(crate) fn refuse_cuts(&self, refuse: bool) {
            self.no_cuts.store(refuse, Ordering::Relaxed);
        }

        /// Whether it refuses to sync from now on.
        pub(crate) fn refuse_syncs(&self, refuse: bool) {
            self.no_syncs.store(refuse, Ordering::Relaxed);
        }
    }

    fn unless(refused: &AtomicBool) -> io::Result<()> {
        if refused.load(Ordering::Relaxed) { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
    }

    impl Disk for Filling {
        fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let fits = self.left.load(Ordering::Relaxed).min(bytes.len() as u64);
            self.left.fetch_sub(fits, Ordering::Relaxed);
            Disk::write(&self.file, &bytes[..fits as usize], offset)?;
            if fits < bytes.len() as u64 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn cut(&self, len: u64) -> io::Result<()> {
            unless(&self.no_cuts)?;
            Disk::cut(&self.file, len)
        }

        fn sync(&self) -> io::Result<()> {
            unless(&self.no_syncs)?;
            Disk::sync(&self.file)
        }
    }
}

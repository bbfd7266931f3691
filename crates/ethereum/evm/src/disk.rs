//! The files that the stores append to, and for tests one that fills up or does not sync.

pub(crate) use hearth_utxo::disk::Disk;

#[cfg(test)]
pub(crate) use filling::Filling;
#[cfg(test)]
pub(crate) use slow::{Pace, Slow};

#[cfg(test)]
mod slow {
    use std::fs::File;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::{Condvar, Mutex};

    use super::Disk;

    /// How many syncs may still end, of all files that share it.
    #[derive(Default)]
    pub(crate) struct Pace {
        left: Mutex<u64>,
        more: Condvar,
    }

    impl Pace {
        /// Lets so many more syncs end.
        pub(crate) fn allow(&self, syncs: u64) {
            let mut left = self.left.lock();
            *left = left.saturating_add(syncs);
            self.more.notify_all();
        }

        fn wait(&self) {
            let mut left = self.left.lock();
            self.more.wait_while(&mut left, |left| *left == 0);
            *left -= 1;
        }
    }

    /// A file whose syncs take until a [`Pace`] lets them end. It knows how much of it a sync has covered.
    pub(crate) struct Slow {
        file: File,
        pace: Arc<Pace>,
        written: AtomicU64,
        covered: AtomicU64,
    }

    impl Slow {
        /// Everything that is in the file counts as synced.
        pub(crate) fn new(file: File, pace: &Arc<Pace>) -> Self {
            let length = file.metadata().expect("a file").len();
            let (written, covered) = (AtomicU64::new(length), AtomicU64::new(length));
            Self { file, pace: pace.clone(), written, covered }
        }

        /// How many bytes of the file survive a power loss for certain.
        pub(crate) fn covered(&self) -> u64 {
            self.covered.load(Ordering::SeqCst)
        }
    }

    impl Disk for Slow {
        fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            Disk::write(&self.file, bytes, offset)?;
            self.written.store(offset + bytes.len() as u64, Ordering::SeqCst);
            Ok(())
        }

        fn cut(&self, len: u64) -> io::Result<()> {
            Disk::cut(&self.file, len)?;
            self.written.store(len, Ordering::SeqCst);
            self.covered.fetch_min(len, Ordering::SeqCst);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            // What is written from here on is not covered.
            let written = self.written.load(Ordering::SeqCst);
            self.pace.wait();
            self.covered.fetch_max(written, Ordering::SeqCst);
            Ok(())
        }
    }
}

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

//! For tests: a file that fails on demand.
//!
//! It can be full, refuse to write, to truncate or to sync, accept a write in pieces, lose the rest of a write that it
//! acknowledged, misdirect a write, and sync only when permitted.

use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::{Condvar, Mutex};

use crate::disk::{Disk, FileSystem, Volume, write_all};
use crate::source::Source;

/// Faults of all files that share it. Initially there are none.
pub struct Faults {
    plan: Mutex<Plan>,
    changed: Condvar,
}

struct Plan {
    /// Bytes that there is room for.
    left: u64,
    /// The most that one write takes.
    piece: u64,
    /// Bytes that still reach the file; later ones are acknowledged and lost.
    kept: u64,
    /// Offset where the next write goes instead of its own.
    misdirected: Option<u64>,
    refuses_writes: bool,
    refuses_cuts: bool,
    refuses_syncs: bool,
    /// Syncs that may end; `u64::MAX` for all.
    syncs: u64,
}

impl Default for Faults {
    fn default() -> Self {
        let plan = Plan {
            left: u64::MAX,
            piece: u64::MAX,
            kept: u64::MAX,
            misdirected: None,
            refuses_writes: false,
            refuses_cuts: false,
            refuses_syncs: false,
            syncs: u64::MAX,
        };
        Self { plan: Mutex::new(plan), changed: Condvar::new() }
    }
}

impl Faults {
    /// Leaves room for this many more bytes.
    pub fn leave(&self, bytes: u64) {
        self.plan.lock().left = bytes;
    }

    /// Limits a write to this many bytes per call.
    pub fn shorten(&self, bytes: u64) {
        self.plan.lock().piece = bytes;
    }

    /// Lets this many more bytes reach the file. Later ones are lost silently, as in a power loss.
    pub fn tear_after(&self, bytes: u64) {
        self.plan.lock().kept = bytes;
    }

    /// Sends the next write to offset `at` silently.
    pub fn misdirect(&self, at: u64) {
        self.plan.lock().misdirected = Some(at);
    }

    /// Sets whether writes fail.
    pub fn refuse_writes(&self, refuse: bool) {
        self.plan.lock().refuses_writes = refuse;
    }

    /// Sets whether truncations fail.
    pub fn refuse_cuts(&self, refuse: bool) {
        self.plan.lock().refuses_cuts = refuse;
    }

    /// Sets whether syncs fail.
    pub fn refuse_syncs(&self, refuse: bool) {
        self.plan.lock().refuses_syncs = refuse;
    }

    /// No sync ends before it is allowed to.
    pub fn hold_syncs(&self) {
        self.plan.lock().syncs = 0;
    }

    /// Lets this many more syncs finish; `u64::MAX` for all.
    pub fn allow_syncs(&self, count: u64) {
        let mut plan = self.plan.lock();
        plan.syncs = plan.syncs.saturating_add(count);
        self.changed.notify_all();
    }

    fn sync(&self) -> io::Result<()> {
        let mut plan = self.plan.lock();
        self.changed.wait_while(&mut plan, |plan| plan.syncs == 0);
        if plan.syncs != u64::MAX {
            plan.syncs -= 1;
        }
        unless(plan.refuses_syncs)
    }
}

fn unless(refused: bool) -> io::Result<()> {
    if refused { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
}

/// A file with faults. It tracks how much of it a sync has covered.
pub struct Faulty {
    disk: Arc<dyn Disk>,
    faults: Arc<Faults>,
    written: AtomicU64,
    covered: AtomicU64,
}

impl Faulty {
    /// Creates a file with faults of its own.
    pub fn new(file: File) -> Self {
        Self::sharing(file, &Arc::default())
    }

    /// A file with the faults of others.
    pub fn sharing(file: File, faults: &Arc<Faults>) -> Self {
        let length = file.length().expect("a file has a length");
        Self::over(Arc::new(file), length, faults)
    }

    /// Another disk with the faults of others. Its `length` bytes count as synced.
    pub fn over(disk: Arc<dyn Disk>, length: u64, faults: &Arc<Faults>) -> Self {
        let (written, covered) = (AtomicU64::new(length), AtomicU64::new(length));
        Self { disk, faults: faults.clone(), written, covered }
    }

    /// The faults of this file.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// How many bytes of the file survive a power loss for certain.
    pub fn covered(&self) -> u64 {
        self.covered.load(SeqCst)
    }
}

impl Disk for Faulty {
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let mut plan = self.faults.plan.lock();
        unless(plan.refuses_writes)?;
        let taken = (bytes.len() as u64).min(plan.piece).min(plan.left);
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let kept = taken.min(plan.kept);
        plan.left -= taken;
        plan.kept -= kept;
        let place = plan.misdirected.take().unwrap_or(at);
        drop(plan);
        write_all(&*self.disk, &mut [IoSlice::new(&bytes[..kept as usize])], place)?;
        self.written.store(at + taken, SeqCst);
        Ok(taken as usize)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        unless(self.faults.plan.lock().refuses_cuts)?;
        self.disk.cut(length)?;
        self.written.store(length, SeqCst);
        self.covered.fetch_min(length, SeqCst);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // The sync does not cover later writes.
        let written = self.written.load(SeqCst);
        self.faults.sync()?;
        self.disk.sync()?;
        self.covered.fetch_max(written, SeqCst);
        Ok(())
    }
}

/// A file system whose files all share these faults.
#[derive(Clone, Default)]
pub struct FaultyVolume(pub Arc<Faults>);

impl Volume for FaultyVolume {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(Faulty::over(FileSystem.create(path)?, 0, &self.0)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let length = fs::metadata(path)?.len();
        Ok(Arc::new(Faulty::over(FileSystem.open(path)?, length, &self.0)))
    }
}

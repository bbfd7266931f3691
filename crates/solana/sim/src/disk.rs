//! A node's disk: real files, whose writes fail, tear, go astray and are lost with the power.
//!
//! reads   which faults there are, and the node's clock
//! writes  the files of a node's folder
//! memory  a handle for each file of the log; the tower that is being written
//!
//! The block store's log goes by the fault-injecting file of `hearth-wal`. Tower and root go by [`TowerDisk`], in the
//! place of the thread that writes them: a tower is on disk once a sync's time has passed.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;

use hearth_consensus::{BankId, Tower};
use hearth_pipeline::tower::{Files, SavedError, save_root, save_tower};
use hearth_tile::Clock;
use hearth_wal::faulty::{Faults, Faulty};
use hearth_wal::{Disk, FileSystem, Volume};
use hearth_wire::Pubkey;
use parking_lot::Mutex;

/// A sync's time where the disk is not slow, nanoseconds.
const SYNC_NS: u64 = 2_000_000;

/// How the disk is, beside the faults of its log.
struct State {
    /// The files of the log that were written since the node started.
    files: BTreeMap<PathBuf, Arc<Faulty>>,
    /// Writes until the power goes.
    writes_left: Option<u64>,
    /// The power has gone: nothing reaches the disk any more.
    is_off: bool,
    is_full: bool,
    refuses_writes: bool,
    sync_ns: u64,
    random: fastrand::Rng,
}

/// The disk of a node, over all of its starts.
pub struct SimDisk {
    faults: Arc<Faults>,
    state: Mutex<State>,
}

impl SimDisk {
    /// A disk without faults; `seed` draws where writes tear.
    pub fn new(seed: u64) -> Arc<Self> {
        let state = State {
            files: BTreeMap::new(),
            writes_left: None,
            is_off: false,
            is_full: false,
            refuses_writes: false,
            sync_ns: SYNC_NS,
            random: fastrand::Rng::with_seed(seed),
        };
        Arc::new(Self { faults: Arc::default(), state: Mutex::new(state) })
    }

    /// There is room for so many bytes more; `None`: for all.
    pub fn leave(&self, bytes: Option<u64>) {
        self.faults.leave(bytes.unwrap_or(u64::MAX));
        self.state.lock().is_full = bytes.is_some();
    }

    /// Sets whether every write from now on fails with an error.
    pub fn refuse_writes(&self, refuse: bool) {
        self.faults.refuse_writes(refuse);
        self.state.lock().refuses_writes = refuse;
    }

    /// A sync takes so long; `None`: as long as usual.
    pub fn slow(&self, sync_ns: Option<u64>) {
        self.state.lock().sync_ns = sync_ns.unwrap_or(SYNC_NS);
    }

    /// The next write lands in another place, where the log has any.
    pub fn misdirect(&self) {
        let mut state = self.state.lock();
        let length =
            state.files.keys().next_back().and_then(|path| fs::metadata(path).ok()).map_or(0, |data| data.len());
        let at = state.random.u64(0..length.max(1));
        self.faults.misdirect(at);
    }

    /// The power goes in the middle of the write after so many.
    pub fn lose_power_after(&self, writes: u64) {
        self.state.lock().writes_left = Some(writes);
    }

    /// Whether the power has gone.
    pub fn is_off(&self) -> bool {
        self.state.lock().is_off
    }

    /// Whether a snapshot can be written: not while the power is off, the disk is full or refuses writes.
    pub fn takes_snapshots(&self) -> bool {
        let state = self.state.lock();
        !state.is_off && !state.is_full && !state.refuses_writes
    }

    /// How long a sync takes now, nanoseconds.
    pub fn sync_ns(&self) -> u64 {
        self.state.lock().sync_ns
    }

    /// The node is down, and starts again on what the disk has. Where the power went, what was not synced is torn: some
    /// of it is there, and of that the last bytes may be others.
    ///
    /// # Errors
    /// The file system's.
    pub fn restart(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        let files = std::mem::take(&mut state.files);
        if state.is_off {
            for (path, file) in files {
                tear(&path, file.covered(), &mut state.random)?;
            }
        }
        (state.is_off, state.writes_left) = (false, None);
        self.faults.tear_after(u64::MAX);
        Ok(())
    }

    fn watch(self: &Arc<Self>, path: &Path, file: Arc<dyn Disk>, length: u64) -> Arc<dyn Disk> {
        let file = Arc::new(Faulty::over(file, length, &self.faults));
        self.state.lock().files.insert(path.to_owned(), Arc::clone(&file));
        Arc::new(WatchedFile { file, disk: Arc::clone(self) })
    }

    /// A write of so many bytes begins: the power may go in the middle of it.
    fn begin_write(&self, bytes: usize) {
        let mut state = self.state.lock();
        let Some(left) = state.writes_left else { return };
        if left > 0 {
            state.writes_left = Some(left - 1);
        } else if !state.is_off {
            state.is_off = true;
            let kept = state.random.u64(0..=bytes as u64);
            self.faults.tear_after(kept);
        }
    }
}

/// Leaves some of what is behind the first `covered` bytes of a file, with other bytes at its end.
fn tear(path: &Path, covered: u64, random: &mut fastrand::Rng) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let length = file.metadata()?.len();
    if length <= covered {
        return Ok(());
    }
    let kept = covered + random.u64(0..=length - covered);
    file.set_len(kept)?;
    let torn = random.u64(0..=(kept - covered).min(64));
    let noise: Vec<u8> = (0..torn).map(|_| random.u8(..)).collect();
    hearth_wal::write_all(&file, &mut [IoSlice::new(&noise)], kept - torn)
}

/// Folders for the nodes, in memory where the machine has such a place.
pub(crate) fn folders() -> tempfile::TempDir {
    let in_memory = tempfile::Builder::new().prefix("hearth-sim-").tempdir_in("/dev/shm");
    in_memory.or_else(|_| tempfile::tempdir()).expect("there is a place for temporary files")
}

/// The disk as the block store sees it.
pub struct SimVolume(pub Arc<SimDisk>);

impl Volume for SimVolume {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let file = FileSystem.create(path)?;
        Ok(self.0.watch(path, file, 0))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn Disk>> {
        let (file, length) = (FileSystem.open(path)?, fs::metadata(path)?.len());
        Ok(self.0.watch(path, file, length))
    }
}

struct WatchedFile {
    file: Arc<Faulty>,
    disk: Arc<SimDisk>,
}

impl Disk for WatchedFile {
    fn write(&self, parts: &[IoSlice<'_>], at: u64) -> io::Result<usize> {
        self.disk.begin_write(parts.iter().map(|part| part.len()).sum());
        self.file.write(parts, at)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.file.cut(length)
    }

    fn sync(&self) -> io::Result<()> {
        if self.disk.is_off() { Ok(()) } else { self.file.sync() }
    }
}

/// The state of the tower's file, for the world: when a tower that is being written is on disk, by the node's
/// clock, and the votes whose towers are.
#[derive(Clone, Default)]
pub struct TowerDue(Arc<Mutex<(Option<u64>, Vec<BankId>)>>);

impl TowerDue {
    /// The time, where a tower is being written.
    pub fn get(&self) -> Option<u64> {
        self.0.lock().0
    }

    /// The votes whose towers have come to disk since the last call.
    pub fn take_votes(&self) -> Vec<BankId> {
        std::mem::take(&mut self.0.lock().1)
    }

    fn set(&self, due: Option<u64>) {
        self.0.lock().0 = due;
    }
}

/// The files in which a node keeps its tower and its root.
pub struct TowerDisk {
    folder: PathBuf,
    node: Pubkey,
    disk: Arc<SimDisk>,
    clock: Clock,
    asked: Vec<u8>,
    due: TowerDue,
}

impl TowerDisk {
    /// In a folder, of the node with this identity; what is returned beside says when a tower is on disk.
    pub fn new(folder: &Path, node: &Pubkey, disk: &Arc<SimDisk>, clock: &Clock) -> (Self, TowerDue) {
        let due = TowerDue::default();
        let files = Self {
            folder: folder.to_owned(),
            node: *node,
            disk: Arc::clone(disk),
            clock: clock.clone(),
            asked: vec![],
            due: due.clone(),
        };
        (files, due)
    }

    /// Why the disk takes nothing now, if that is so.
    fn refusal(&self, name: &str) -> Option<SavedError> {
        let state = self.disk.state.lock();
        let kind = match (state.is_full, state.refuses_writes) {
            (true, _) => io::ErrorKind::StorageFull,
            (_, true) => io::ErrorKind::Other,
            _ => return None,
        };
        Some(SavedError::Io { doing: "write", file: self.folder.join(name), source: kind.into() })
    }
}

impl Files for TowerDisk {
    fn save_tower(&mut self, bytes: &[u8]) -> Poll<Result<(), SavedError>> {
        let due = self.due.get().filter(|_| self.asked == bytes);
        let Some(due) = due else {
            self.asked = bytes.to_vec();
            self.due.set(Some(self.clock.now() + self.disk.sync_ns()));
            return Poll::Pending;
        };
        if self.clock.now() < due || self.disk.is_off() {
            return Poll::Pending;
        }
        self.due.set(None);
        self.asked.clear();
        match self.refusal("tower.bin") {
            Some(why) => Poll::Ready(Err(why)),
            None => {
                let vote = Tower::restore(bytes, &self.node).ok().and_then(|tower| tower.last_vote());
                self.due.0.lock().1.extend(vote.map(|vote| vote.id));
                Poll::Ready(save_tower(&self.folder, bytes))
            }
        }
    }

    fn save_root(&mut self, root: BankId) -> Result<(), SavedError> {
        if self.disk.is_off() {
            return Ok(());
        }
        self.refusal("root.bin").map_or_else(|| save_root(&self.folder, root), Err)
    }

    fn has_finished(&self) -> bool {
        self.due.get().is_some_and(|due| self.clock.now() >= due) && !self.disk.is_off()
    }
}

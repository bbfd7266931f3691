//! saved: the tower and the root on disk.
//!
//! reads   `tower.bin`, `root.bin` in the ledger's folder
//! writes  the same, each whole or not at all
//! memory  four towers of 481 B
//! drops   a root that is damaged: the tower's is as good, and that of a snapshot or the genesis only older
//! source  `hearth_consensus`, `tower/saved.rs`
//!
//! The tower must be on disk before the vote is sent. The root says up to where blocks are final, so that a start
//! executes them without looking for forks; it may be an older one, and never a newer: above it a block may be of a
//! fork that the cluster has left.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use hearth_consensus::{BankId, SavedError as TowerError, Tower};
use hearth_crypto::sha256::sha256;
use hearth_tile::wake::Waker;
use hearth_wire::Pubkey;
use parking_lot::{Condvar, Mutex, MutexGuard};

const TOWER: &str = "tower.bin";
const ROOT: &str = "root.bin";

/// Where the tower and the root are kept.
pub trait Files {
    /// Puts a tower on disk, durably. Where that is under way the caller goes on, and asks again with the same tower
    /// until it is done.
    ///
    /// # Errors
    /// The disk does not take it: then its vote must not be sent.
    fn save_tower(&mut self, bytes: &[u8]) -> Poll<Result<(), SavedError>>;

    /// Puts a root on disk, now or soon.
    ///
    /// # Errors
    /// The disk does not take it, or has not taken the one before.
    fn save_root(&mut self, root: BankId) -> Result<(), SavedError>;

    /// Whether a tower that was under way is on disk, or was refused, and the caller has not asked since.
    fn has_finished(&self) -> bool {
        false
    }

    /// Whom to wake then.
    fn on_finished(&mut self, _waker: Waker) {}
}

/// What is to be written, and what became of what was.
#[derive(Default)]
struct Jobs {
    /// The newest tower, with its number.
    tower: Option<(u64, Vec<u8>)>,
    root: Option<BankId>,
    /// What became of the tower with this number.
    saved: Option<(u64, Result<(), SavedError>)>,
    root_refused: Option<SavedError>,
    waker: Option<Waker>,
    must_end: bool,
}

/// The jobs, and the thread that waits for them.
#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    changed: Condvar,
    /// There is something in `saved`.
    has_finished: AtomicBool,
}

/// The files in the ledger's folder, written by a thread: each write is synced, which takes milliseconds.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The tower that was asked for last, and its number.
    asked: (u64, Vec<u8>),
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(folder: PathBuf) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let thread = thread::Builder::new().name("tower-disk".into()).spawn({
            let shared = Arc::clone(&shared);
            move || shared.write_all(&folder)
        })?;
        Ok(Self { shared, thread: Some(thread), asked: (0, vec![]) })
    }
}

impl Files for Writer {
    fn save_tower(&mut self, bytes: &[u8]) -> Poll<Result<(), SavedError>> {
        let mut jobs = self.shared.lock();
        let number = self.asked.0;
        if self.asked.1 == bytes && number > 0 {
            return match jobs.saved.take_if(|(saved, _)| *saved == number) {
                Some((_, result)) => {
                    self.shared.has_finished.store(false, SeqCst);
                    // A disk that was full may have room later: then it is asked anew.
                    self.asked.1.clear();
                    Poll::Ready(result)
                }
                None => Poll::Pending,
            };
        }
        self.asked = (number + 1, bytes.to_vec());
        jobs.tower = Some(self.asked.clone());
        jobs.saved = None;
        self.shared.has_finished.store(false, SeqCst);
        self.shared.changed.notify_one();
        Poll::Pending
    }

    fn save_root(&mut self, root: BankId) -> Result<(), SavedError> {
        let mut jobs = self.shared.lock();
        jobs.root = Some(root);
        self.shared.changed.notify_one();
        jobs.root_refused.take().map_or(Ok(()), Err)
    }

    fn has_finished(&self) -> bool {
        self.shared.has_finished.load(SeqCst)
    }

    fn on_finished(&mut self, waker: Waker) {
        self.shared.lock().waker = Some(waker);
    }
}

/// What was asked for is written first.
impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().must_end = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock()
    }

    /// The thread.
    fn write_all(&self, folder: &Path) {
        let mut jobs = self.lock();
        loop {
            if let Some((number, bytes)) = jobs.tower.take() {
                drop(jobs);
                let result = save_tower(folder, &bytes);
                jobs = self.lock();
                // One that a newer one has replaced meanwhile is of no interest.
                if jobs.tower.is_none() {
                    jobs.saved = Some((number, result));
                    self.has_finished.store(true, SeqCst);
                    jobs.waker.iter().for_each(Waker::wake);
                }
            } else if let Some(root) = jobs.root.take() {
                drop(jobs);
                let result = save_root(folder, root);
                jobs = self.lock();
                jobs.root_refused = result.err();
            } else if jobs.must_end {
                return;
            } else {
                self.changed.wait(&mut jobs);
            }
        }
    }
}

/// What can be wrong with the tower's file.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The system.
    #[error("cannot {doing} {}: {source}", file.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes.
    #[error(
        "{}: {source}. Without its tower a node may vote against its own votes; restore the file, or give the node another vote account",
        file.display()
    )]
    Tower {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: TowerError,
    },
}

impl SavedError {
    /// Whether the disk has no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::StorageFull)
    }
}

/// The tower in a folder, if there is one.
///
/// # Errors
/// It cannot be read, or is no tower of this node.
pub fn tower(folder: &Path, node: &Pubkey) -> Result<Option<Tower>, SavedError> {
    let file = folder.join(TOWER);
    let bytes = match fs::read(&file) {
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SavedError::Io { doing: "read", file, source }),
        Ok(bytes) => bytes,
    };
    Tower::restore(&bytes, node).map(Some).map_err(|source| SavedError::Tower { file, source })
}

/// Puts a tower on disk.
///
/// # Errors
/// The disk does not take it: then its vote must not be sent.
pub fn save_tower(folder: &Path, bytes: &[u8]) -> Result<(), SavedError> {
    save(&folder.join(TOWER), bytes, true)
}

/// Puts bytes into a file durably, in place of what it had.
///
/// # Errors
/// The disk does not take them.
pub fn save_file(file: &Path, bytes: &[u8]) -> Result<(), SavedError> {
    save(file, bytes, true)
}

/// The slot of the root in a folder, if there is one.
pub fn root(folder: &Path) -> Option<BankId> {
    let bytes: [u8; 72] = fs::read(folder.join(ROOT)).ok()?.try_into().ok()?;
    let (said, sum) = bytes.split_at(40);
    let (slot, hash) = said.split_first_chunk()?;
    (sha256(&[said]) == *sum).then_some(BankId { slot: u64::from_le_bytes(*slot), hash: hash.try_into().ok()? })
}

/// Whether there is a root's file that is not whole. It is not synced, so a power failure may leave one.
pub fn is_root_damaged(folder: &Path) -> bool {
    folder.join(ROOT).exists() && root(folder).is_none()
}

/// The slot up to which what a node has on disk is final: that of its root, or else of its tower's. `None` where it has
/// neither: then nothing is known to be.
///
/// # Errors
/// There is no root, and the tower cannot be read.
pub fn final_slot(folder: &Path, node: &Pubkey) -> Result<Option<u64>, SavedError> {
    let root = match root(folder) {
        None => tower(folder, node)?.and_then(|tower| tower.root()),
        root => root,
    };
    Ok(root.map(|root| root.slot))
}

/// When a root was put on disk, if one was.
pub fn root_saved_at(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder.join(ROOT)).ok()?.modified().ok()
}

/// Puts a root on disk.
///
/// # Errors
/// The disk does not take it.
pub fn save_root(folder: &Path, root: BankId) -> Result<(), SavedError> {
    let said = [&root.slot.to_le_bytes()[..], &root.hash].concat();
    let bytes = [&said[..], &sha256(&[&said])].concat();
    save(&folder.join(ROOT), &bytes, false)
}

/// What is durable is on disk before it is in the old one's place: a power failure leaves one of both whole. Of what is
/// not it may leave none.
fn save(file: &Path, bytes: &[u8], durable: bool) -> Result<(), SavedError> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let mut written = File::create(part)?;
        written.write_all(bytes)?;
        if durable {
            written.sync_all()?;
        }
        drop(written);
        fs::rename(part, file)?;
        if durable { File::open(folder)?.sync_all() } else { Ok(()) }
    };
    write().map_err(|source| SavedError::Io { doing: "write", file: file.into(), source })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_is_saved_is_found_and_what_is_damaged_is_not() {
        let folder = tempfile::tempdir().unwrap();
        assert!(root(folder.path()).is_none() && tower(folder.path(), &[1; 32]).unwrap().is_none());
        let id = BankId { slot: 7, hash: [3; 32] };
        save_root(folder.path(), id).unwrap();
        assert_eq!(root(folder.path()), Some(id));
        let kept = Tower::new(id);
        save_tower(folder.path(), &kept.save(&[1; 32])).unwrap();
        assert_eq!(tower(folder.path(), &[1; 32]).unwrap(), Some(kept));
        assert!(matches!(tower(folder.path(), &[2; 32]), Err(SavedError::Tower { .. })), "another node's");
        let path = folder.path().join(ROOT);
        let mut bytes = fs::read(&path).unwrap();
        bytes[3] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(root(folder.path()), None);
        assert!(matches!(save_root(&folder.path().join("none"), id), Err(SavedError::Io { .. })));
    }

    #[test]
    fn the_writer_has_the_newest_tower_on_disk_when_it_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::start(folder.path().into()).unwrap();
        let ready = |writer: &mut Writer, bytes: &[u8]| {
            let begun = Instant::now();
            loop {
                match writer.save_tower(bytes) {
                    Poll::Ready(result) => return result,
                    Poll::Pending => assert!(begun.elapsed() < Duration::from_secs(60), "it never ends"),
                }
            }
        };
        let bytes = |slot: u64| Tower::new(BankId { slot, hash: [3; 32] }).save(&[1; 32]);
        let on_disk = || fs::read(folder.path().join(TOWER)).unwrap();
        for slot in 0..50 {
            // The older one is replaced, whether or not it is written by then.
            assert!(writer.save_tower(&bytes(2 * slot)).is_pending());
            ready(&mut writer, &bytes(2 * slot + 1)).unwrap();
            assert_eq!(on_disk(), bytes(2 * slot + 1));
            assert!(!writer.has_finished());
        }
        // What the disk refused is tried again.
        fs::remove_file(folder.path().join(TOWER)).unwrap();
        fs::create_dir(folder.path().join(TOWER)).unwrap();
        assert!(ready(&mut writer, &bytes(200)).is_err());
        fs::remove_dir(folder.path().join(TOWER)).unwrap();
        ready(&mut writer, &bytes(200)).unwrap();
        assert_eq!(on_disk(), bytes(200));
        writer.save_root(BankId { slot: 7, hash: [3; 32] }).unwrap();
        drop(writer);
        assert_eq!(root(folder.path()), Some(BankId { slot: 7, hash: [3; 32] }), "it was asked for");
    }

    #[test]
    fn where_there_is_no_root_the_towers_counts() {
        let (folder, node) = (tempfile::tempdir().unwrap(), [1; 32]);
        let last = || final_slot(folder.path(), &node).unwrap();
        assert_eq!(last(), None);
        save_tower(folder.path(), &Tower::new(BankId { slot: 9, hash: [3; 32] }).save(&node)).unwrap();
        assert_eq!(last(), Some(9));
        save_root(folder.path(), BankId { slot: 7, hash: [3; 32] }).unwrap();
        assert_eq!(last(), Some(7));
        // Torn by a power failure.
        fs::write(folder.path().join(ROOT), [0; 72]).unwrap();
        assert_eq!(last(), Some(9));
        fs::write(folder.path().join(TOWER), [0; 72]).unwrap();
        assert!(matches!(final_slot(folder.path(), &node), Err(SavedError::Tower { .. })));
    }

    #[test]
    fn damage_of_either_file_is_found() {
        use hearth_testkit::damage::Mutation;
        use hearth_testkit::random::Random;
        let (folder, node) = (tempfile::tempdir().unwrap(), [1; 32]);
        let id = BankId { slot: 70_000, hash: [3; 32] };
        let kept = Tower::new(id);
        let mut random = Random(5);
        for _ in 0..300 {
            save_tower(folder.path(), &kept.save(&node)).unwrap();
            save_root(folder.path(), id).unwrap();
            for name in [TOWER, ROOT] {
                let path = folder.path().join(name);
                let mutation = Mutation::random(&mut random, fs::metadata(&path).unwrap().len());
                let changed = mutation.apply(&path).unwrap();
                if name == ROOT {
                    assert_eq!((root(folder.path()).is_none(), is_root_damaged(folder.path())), (changed, changed));
                    continue;
                }
                match tower(folder.path(), &node) {
                    Ok(found) => assert!(!changed && found.as_ref() == Some(&kept), "{mutation}"),
                    Err(why) => assert!(changed && why.to_string().contains(TOWER), "{mutation}: {why}"),
                }
            }
        }
    }
}

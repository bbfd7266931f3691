//! saved: the tower and the root on disk.
//!
//! reads   `tower.bin`, `root.bin` in the ledger's folder
//! writes  the same, each atomically
//! memory  four towers of 481 B
//! drops   a damaged root file: the tower's root serves as well, and that of a snapshot or the genesis is only older
//! source  `hearth_consensus`, `tower/saved.rs`
//!
//! The tower must be on disk before the vote is sent. The root says up to where blocks are final, so that a restart
//! executes them without looking for forks. It may be older than the truth but never newer: a block above the real root
//! may belong to a fork that the cluster has left.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use hearth_consensus::{BankId, SavedError as TowerError, SavedErrorKind, Tower};
use hearth_crypto::sha256::sha256;
use hearth_tile::wake::Waker;
use hearth_wire::Pubkey;
use parking_lot::{Condvar, Mutex, MutexGuard};

const TOWER: &str = "tower.bin";
const ROOT: &str = "root.bin";

/// Stores the tower and the root.
pub trait Files {
    /// Writes a tower to disk, durably. While that is pending, the caller continues and calls again with the same tower
    /// until it is done.
    ///
    /// # Errors
    /// The write failed: the tower's vote must not be sent.
    fn save_tower(&mut self, bytes: &[u8]) -> Poll<Result<(), SavedError>>;

    /// Writes a root to disk, now or soon.
    ///
    /// # Errors
    /// The write failed, or the previous one did.
    fn save_root(&mut self, root: BankId) -> Result<(), SavedError>;

    /// Whether a pending write of a tower has finished, successfully or not, and the caller has not asked since.
    fn has_finished(&self) -> bool {
        false
    }

    /// Sets whom to wake when one finishes.
    fn on_finished(&mut self, _waker: Waker) {}
}

/// Pending writes, and the results of finished ones.
#[derive(Default)]
struct Jobs {
    /// The newest tower, with its number.
    tower: Option<(u64, Vec<u8>)>,
    root: Option<BankId>,
    /// The result for the tower with this number.
    saved: Option<(u64, Result<(), SavedError>)>,
    root_refused: Option<SavedError>,
    waker: Option<Waker>,
    must_end: bool,
}

/// The jobs, and the condition on which the thread waits.
#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    changed: Condvar,
    /// Whether there is a result in `saved`.
    has_finished: AtomicBool,
}

/// Writes the files in the ledger's folder on a thread of its own: each write is synced, which takes milliseconds.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The tower last requested, and its number.
    asked: (u64, Vec<u8>),
}

impl Writer {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot start another thread.
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
                    // A full disk may have room later: the next call is a new request.
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

/// Finishes pending writes first.
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

    /// Body of the thread: writes until the writer is dropped.
    fn write_all(&self, folder: &Path) {
        let mut jobs = self.lock();
        loop {
            if let Some((number, bytes)) = jobs.tower.take() {
                drop(jobs);
                let result = save_tower(folder, &bytes);
                jobs = self.lock();
                // A tower that a newer one has replaced meanwhile needs no result.
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

/// Why the tower's file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// An I/O error of the system.
    #[error("cannot {doing} {}: {source}", file.display())]
    Io {
        /// The failed operation.
        doing: &'static str,
        /// The path of the file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file's contents are invalid.
    #[error(
        "{}: {source}. Without its tower a node may vote against its own votes; {}",
        file.display(),
        cure(source)
    )]
    Tower {
        /// The path of the file.
        file: PathBuf,
        /// The decoding error.
        source: TowerError,
    },
}

/// What to do about a tower's file.
fn cure(error: &TowerError) -> &'static str {
    match error.kind {
        SavedErrorKind::Node => {
            "name another folder (--ledger), or put the tower of this node's identity in the place of that file, which \
             its own node needs"
        }
        _ => "restore the file, or give the node another vote account",
    }
}

impl SavedError {
    /// Whether the disk has no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::StorageFull)
    }
}

/// Reads the tower in a folder, if there is one.
///
/// # Errors
/// It cannot be read, or is not a tower of this node.
pub fn tower(folder: &Path, node: &Pubkey) -> Result<Option<Tower>, SavedError> {
    let file = folder.join(TOWER);
    let bytes = match fs::read(&file) {
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SavedError::Io { doing: "read", file, source }),
        Ok(bytes) => bytes,
    };
    Tower::restore(&bytes, node).map(Some).map_err(|source| SavedError::Tower { file, source })
}

/// Writes a tower to disk.
///
/// # Errors
/// The write failed: the tower's vote must not be sent.
pub fn save_tower(folder: &Path, bytes: &[u8]) -> Result<(), SavedError> {
    save(&folder.join(TOWER), bytes, true)
}

/// Replaces the contents of a file, durably.
///
/// # Errors
/// The write failed.
pub fn save_file(file: &Path, bytes: &[u8]) -> Result<(), SavedError> {
    save(file, bytes, true)
}

/// Reads the root in a folder, if there is one.
pub fn root(folder: &Path) -> Option<BankId> {
    let bytes: [u8; 72] = fs::read(folder.join(ROOT)).ok()?.try_into().ok()?;
    let (said, sum) = bytes.split_at(40);
    let (slot, hash) = said.split_first_chunk()?;
    (sha256(&[said]) == *sum).then_some(BankId { slot: u64::from_le_bytes(*slot), hash: hash.try_into().ok()? })
}

/// Whether the root's file is incomplete. It is not synced, so a power failure may leave it so.
pub fn is_root_damaged(folder: &Path) -> bool {
    folder.join(ROOT).exists() && root(folder).is_none()
}

/// Returns the slot up to which a node's data on disk is final: that of its root, or else of its tower. `None` if it
/// has neither: then nothing is known to be final.
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

/// When the root was last written to disk, if ever.
pub fn root_saved_at(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder.join(ROOT)).ok()?.modified().ok()
}

/// Writes a root to disk.
///
/// # Errors
/// The write failed.
pub fn save_root(folder: &Path, root: BankId) -> Result<(), SavedError> {
    let said = [&root.slot.to_le_bytes()[..], &root.hash].concat();
    let bytes = [&said[..], &sha256(&[&said])].concat();
    save(&folder.join(ROOT), &bytes, false)
}

/// Replaces a file by rename. If `durable`, the contents are synced first, so a power failure leaves either the old or
/// the new file whole; otherwise it may leave neither.
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
            // It replaces the older one, whether or not that is written by then.
            assert!(writer.save_tower(&bytes(2 * slot)).is_pending());
            ready(&mut writer, &bytes(2 * slot + 1)).unwrap();
            assert_eq!(on_disk(), bytes(2 * slot + 1));
            assert!(!writer.has_finished());
        }
        // Retries what the disk refused.
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

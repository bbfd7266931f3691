//! saved: the tower and the root on disk.
//!
//! reads   `tower.bin`, `root.bin` in the ledger's folder; `tower-IDENTITY.bin` of an identity that the node has had,
//!         `tower-1_9-IDENTITY.bin` of Agave
//! writes  the same but Agave's, each atomically
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

use hearth_consensus::{AgaveError, BankId, SavedError as TowerError, SavedErrorKind, Tower};
use hearth_crypto::sha256::sha256;
use hearth_tile::wake::Waker;
use hearth_wire::Pubkey;
use hearth_wire::base58::encode_32;
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

    /// Puts the tower of a node away that takes another identity, durably, for the day on which it takes this one
    /// again. While that is pending, the caller continues and calls again.
    ///
    /// # Errors
    /// The tower stays where it is.
    fn leave(&mut self, _node: &Pubkey) -> Poll<Result<(), SavedError>> {
        Poll::Ready(Ok(()))
    }

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
    /// The identity whose tower is put away, and the result of that.
    leaving: Option<Pubkey>,
    left: Option<Result<(), SavedError>>,
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
    /// Whether a tower is put away whose result the caller has not.
    is_leaving: bool,
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
        Ok(Self { shared, thread: Some(thread), asked: (0, vec![]), is_leaving: false })
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

    fn leave(&mut self, node: &Pubkey) -> Poll<Result<(), SavedError>> {
        let mut jobs = self.shared.lock();
        if let Some(left) = jobs.left.take() {
            self.is_leaving = false;
            return Poll::Ready(left);
        }
        if !self.is_leaving {
            self.is_leaving = true;
            jobs.leaving = Some(*node);
            self.shared.changed.notify_one();
        }
        Poll::Pending
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
        let mut owner = None;
        let mut jobs = self.lock();
        loop {
            if let Some((number, bytes)) = jobs.tower.take() {
                drop(jobs);
                let result = make_way(folder, &bytes, &mut owner).and_then(|()| write_tower(folder, &bytes));
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
            } else if let Some(node) = jobs.leaving.take() {
                drop(jobs);
                let result = leave(folder, &node);
                owner = None;
                jobs = self.lock();
                jobs.left = Some(result);
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
        /// The operation that failed: `read`, `write` or `remove`.
        doing: &'static str,
        /// The path of the file.
        file: PathBuf,
        /// Why it failed, as the system says it.
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
        /// Why the contents are no tower of this node.
        source: TowerError,
    },
    /// A tower of Agave is invalid.
    #[error("{}: {source}", file.display())]
    Agave {
        /// The path of the file.
        file: PathBuf,
        /// Why the contents are no tower in Agave's format.
        source: AgaveError,
    },
}

/// Advice on a tower's file that cannot be used.
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

/// Reads the tower in a folder, if there is one. One that was put away counts too, if it is newer, or if the node has
/// run with another identity since.
///
/// # Errors
/// It cannot be read, or is not a tower of this node.
pub fn tower(folder: &Path, node: &Pubkey) -> Result<Option<Tower>, SavedError> {
    let (file, away) = (folder.join(TOWER), file_of(folder, node));
    let put_away = read(&away)?;
    let has_left = put_away.is_some();
    let older = restore_away(away, put_away, node)?;
    let Some(bytes) = read(&file)? else { return Ok(older) };
    match Tower::restore(&bytes, node) {
        Ok(tower) => Ok(newest([older, Some(tower)])),
        Err(TowerError { kind: SavedErrorKind::Node, .. }) if has_left => Ok(older),
        Err(source) => Err(SavedError::Tower { file, source }),
    }
}

/// Reads the newest tower of a node in the folder of a node that may run with another identity: its own, one that was
/// put away or that the operator has put there under that name, or Agave's.
///
/// # Errors
/// One of them cannot be read, or is invalid.
pub fn tower_of(folder: &Path, node: &Pubkey) -> Result<Option<Tower>, SavedError> {
    let (file, away) = (folder.join(TOWER), file_of(folder, node));
    let own = read(&file)?.filter(|bytes| Tower::node_of(bytes) == Some(*node));
    let own = own.map(|bytes| Tower::restore(&bytes, node)).transpose();
    let own = own.map_err(|source| SavedError::Tower { file, source })?;
    let put_away = read(&away)?;
    let put_away = restore_away(away, put_away, node)?;
    let file = folder.join(format!("tower-1_9-{}.bin", encode_32(node)));
    let agave = read(&file)?.map(|bytes| Tower::from_agave(&bytes, node)).transpose();
    let agave = agave.map_err(|source| SavedError::Agave { file, source })?;
    Ok(newest([agave, put_away, own]))
}

/// Where the tower of a node is while the node runs with another identity. It is empty if the node had none.
pub fn file_of(folder: &Path, node: &Pubkey) -> PathBuf {
    folder.join(format!("tower-{}.bin", encode_32(node)))
}

fn restore_away(file: PathBuf, bytes: Option<Vec<u8>>, node: &Pubkey) -> Result<Option<Tower>, SavedError> {
    let bytes = bytes.filter(|bytes| !bytes.is_empty());
    let restored = bytes.map(|bytes| Tower::restore(&bytes, node)).transpose();
    restored.map_err(|source| SavedError::Tower { file, source })
}

/// The tower with the newest vote or root; of several, the last. Agave's lacks the hash of its root.
fn newest<const N: usize>(towers: [Option<Tower>; N]) -> Option<Tower> {
    towers.into_iter().flatten().max_by_key(Tower::newest_slot)
}

/// Reads a file, if it is there.
fn read(file: &Path) -> Result<Option<Vec<u8>>, SavedError> {
    match fs::read(file) {
        Err(source) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SavedError::Io { doing: "read", file: file.into(), source }),
        Ok(bytes) => Ok(Some(bytes)),
    }
}

/// Puts away the tower of a node that takes another identity.
fn leave(folder: &Path, node: &Pubkey) -> Result<(), SavedError> {
    put_away(folder)?;
    let file = file_of(folder, node);
    // It says that the node has had this identity, and no tower.
    if file.exists() { Ok(()) } else { save(&file, &[], true) }
}

/// Moves another node's tower out of the way of one that is about to be written. `owner` is whose was written last.
fn make_way(folder: &Path, bytes: &[u8], owner: &mut Option<Pubkey>) -> Result<(), SavedError> {
    let node = Tower::node_of(bytes);
    if *owner != node {
        let found = read(&folder.join(TOWER))?.and_then(|bytes| Tower::node_of(&bytes));
        if found.is_some() && found != node {
            put_away(folder)?;
        }
        *owner = node;
    }
    Ok(())
}

/// Moves a tower to the file with its node's name, unless a newer one is there.
fn put_away(folder: &Path) -> Result<(), SavedError> {
    let file = folder.join(TOWER);
    let Some(bytes) = read(&file)? else { return Ok(()) };
    let Some(node) = Tower::node_of(&bytes) else { return Ok(()) };
    let away = file_of(folder, &node);
    let newest = |bytes: &[u8]| Tower::restore(bytes, &node).ok().and_then(|tower| tower.newest_slot());
    if read(&away)?.is_none_or(|known| newest(&known) <= newest(&bytes)) {
        save(&away, &bytes, true)?;
    }
    let removed = fs::remove_file(&file);
    removed.map_err(|source| SavedError::Io { doing: "remove", file, source })
}

/// Writes a tower to disk. Another node's that is in its place is put away.
///
/// # Errors
/// The write failed: the tower's vote must not be sent.
pub fn save_tower(folder: &Path, bytes: &[u8]) -> Result<(), SavedError> {
    make_way(folder, bytes, &mut None)?;
    write_tower(folder, bytes)
}

fn write_tower(folder: &Path, bytes: &[u8]) -> Result<(), SavedError> {
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
    fn saved_tower_is_read_and_damage_refused() {
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

    /// A tower of a node whose newest slot is this one.
    fn tower_at(slot: u64) -> Tower {
        Tower::new(BankId { slot, hash: [3; 32] })
    }

    #[test]
    fn tower_of_each_identity_waits_under_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, [a, b]) = (folder.path(), [[1; 32], [2; 32]]);
        let mut writer = Writer::start(folder.into()).unwrap();
        let mut done = |action: &mut dyn FnMut(&mut Writer) -> Poll<Result<(), SavedError>>| {
            let mut done = None;
            hearth_testkit::wait_until("the disk", || {
                if let Poll::Ready(result) = action(&mut writer) {
                    done = Some(result);
                }
                done.is_some()
            });
            done.expect("it is ready").unwrap();
        };
        done(&mut |writer| writer.save_tower(&tower_at(7).save(&a)));
        done(&mut |writer| writer.leave(&a));
        assert!(!folder.join(TOWER).exists());
        assert_eq!(fs::read(file_of(folder, &a)).unwrap(), tower_at(7).save(&a));
        assert_eq!(tower_of(folder, &a).unwrap(), Some(tower_at(7)));
        assert_eq!((tower(folder, &a).unwrap(), tower(folder, &b).unwrap()), (Some(tower_at(7)), None));
        // The other one has no tower so far, and then one.
        done(&mut |writer| writer.leave(&b));
        assert_eq!((tower(folder, &b).unwrap(), tower_of(folder, &b).unwrap()), (None, None));
        done(&mut |writer| writer.save_tower(&tower_at(9).save(&b)));
        assert_eq!(tower(folder, &b).unwrap(), Some(tower_at(9)));
        assert_eq!(tower(folder, &a).unwrap(), Some(tower_at(7)), "it has run here");
        assert!(matches!(tower(folder, &[3; 32]), Err(SavedError::Tower { .. })), "it has not");
        // A start with the first identity moves the tower of the other one out of the way.
        let mut writer = Writer::start(folder.into()).unwrap();
        let bytes = tower_at(10).save(&a);
        hearth_testkit::wait_until("the disk", || writer.save_tower(&bytes).is_ready());
        assert_eq!(fs::read(folder.join(TOWER)).unwrap(), bytes);
        assert_eq!(tower(folder, &b).unwrap(), Some(tower_at(9)));
        // The newer file counts, whichever it is.
        fs::write(file_of(folder, &a), tower_at(12).save(&a)).unwrap();
        assert_eq!(tower(folder, &a).unwrap(), Some(tower_at(12)));
        assert_eq!(tower_of(folder, &a).unwrap(), Some(tower_at(12)));
        hearth_testkit::wait_until("the disk", || writer.leave(&a).is_ready());
        assert_eq!(tower(folder, &a).unwrap(), Some(tower_at(12)), "the older one does not replace it");
        fs::write(file_of(folder, &a), [7; 90]).unwrap();
        assert!(matches!(tower_of(folder, &a), Err(SavedError::Tower { .. })));
    }

    #[test]
    fn tower_of_agave_is_found_by_its_signature() {
        use hearth_crypto::ed25519::SigningKey;
        use hearth_wire::tower_file::{SavedTower, SavedVote};
        use hearth_wire::vote::Lockout;
        let folder = tempfile::tempdir().unwrap();
        let key = SigningKey::from_seed(&[4; 32]);
        let node = key.public_key();
        let saved = SavedTower {
            node,
            votes: vec![Lockout { slot: 30, confirmation_count: 1 }],
            root: Some(20),
            last: Some(SavedVote { slot: 30, bank_hash: [5; 32], block_id: None }),
            timestamp: (0, 0),
        };
        let file = folder.path().join(format!("tower-1_9-{}.bin", encode_32(&node)));
        fs::write(&file, saved.write(|bytes| key.sign(bytes))).unwrap();
        assert_eq!(tower_of(folder.path(), &node).unwrap().and_then(|tower| tower.newest_slot()), Some(30));
        let other = SigningKey::from_seed(&[5; 32]);
        fs::write(&file, saved.write(|bytes| other.sign(bytes))).unwrap();
        let why = tower_of(folder.path(), &node).unwrap_err().to_string();
        assert!(why.contains("tower-1_9-") && why.contains("its signature is not that of"), "{why}");
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

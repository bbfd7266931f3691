//! The log: a file of checksummed records that only grows, until a checkpoint makes it needless.
//!
//! writes  a header, and records of 12 bytes and what a block set; each record in one write
//! source  what a crash may leave is a tail that was never synced: it is cut off. A record that is not whole although
//!         a later one says that it was synced is damage: it is named and refused

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::B256;
use parking_lot::Mutex;

use super::bytes::{Take, checksum};
use super::files::{UNFINISHED, finish};
use super::{Record, StateError, damaged, io};
use crate::disk::Disk;

const MAGIC: [u8; 8] = *b"hearthL1";
/// Magic, the hash of block zero, records before, salt, checksum.
const HEADER: usize = 8 + 32 + 8 + 8 + 4;
/// Every record begins with this, so that one can be found behind a damaged one.
const MARK: [u8; 4] = *b"\xf1rec";
/// Mark, length and checksum of what follows.
const FRAME: usize = 12;

/// The log file that is written now.
pub(crate) struct Log {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    salt: u64,
    len: u64,
    /// Whether bytes of a record that failed may lie behind the end.
    rest: bool,
    syncer: Syncer,
}

/// Brings what was written to disk. May be used from any thread while the state goes on.
#[derive(Clone)]
pub struct Syncer(Option<Arc<Shared>>);

struct Shared {
    /// The file written now and the last record in it.
    current: Mutex<(Arc<dyn Disk>, PathBuf, u64)>,
    synced: AtomicU64,
}

impl Syncer {
    /// Of a state in memory: there is nothing to do.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Returns when every block committed before the call is on disk. What is committed meanwhile may not be.
    pub fn sync(&self) -> Result<(), StateError> {
        let Some(shared) = &self.0 else { return Ok(()) };
        let (disk, path, last) = shared.current.lock().clone();
        if shared.synced.load(Ordering::Acquire) < last {
            disk.sync().map_err(io("cannot sync", &path))?;
            shared.synced.fetch_max(last, Ordering::AcqRel);
        }
        Ok(())
    }

    fn synced(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.synced.load(Ordering::Acquire))
    }
}

impl Log {
    /// A new log file, after `before` records of others, all of which are on disk.
    pub(crate) fn create(path: &Path, genesis: B256, before: u64) -> Result<Self, StateError> {
        let unfinished = path.with_extension(UNFINISHED);
        let salt = rand_salt();
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(genesis.as_slice());
        header.extend_from_slice(&before.to_le_bytes());
        header.extend_from_slice(&salt.to_le_bytes());
        header.extend_from_slice(&checksum(salt, &header).to_le_bytes());
        let file = File::options().create(true).truncate(true).write(true).read(true).open(&unfinished);
        let mut file = file.map_err(io("cannot create", &unfinished))?;
        file.write_all(&header).and_then(|()| file.sync_all()).map_err(io("cannot write", &unfinished))?;
        finish(&unfinished, path)?;
        Ok(Self::over(path, Arc::new(file), salt, HEADER as u64, before))
    }

    fn over(path: &Path, disk: Arc<dyn Disk>, salt: u64, len: u64, last: u64) -> Self {
        let current = Mutex::new((disk.clone(), path.to_path_buf(), last));
        let syncer = Syncer(Some(Arc::new(Shared { current, synced: AtomicU64::new(last) })));
        Self { path: path.to_path_buf(), disk, salt, len, rest: false, syncer }
    }

    /// Appends a record whose bytes from [`Record::encode`] come after room for the frame: see [`Log::room`]. Where
    /// that fails, nothing was appended.
    pub(crate) fn append(&mut self, sequence: u64, framed: &mut [u8]) -> Result<(), StateError> {
        if self.rest {
            self.disk.cut(self.len).map_err(io("cannot cut", &self.path))?;
            self.rest = false;
        }
        let (frame, record) = framed.split_at_mut(FRAME);
        let len = u32::try_from(record.len()).map_err(|_| {
            io("cannot write", &self.path)(std::io::Error::other("a block of more than 4 GiB of changes"))
        })?;
        frame[..4].copy_from_slice(&MARK);
        frame[4..8].copy_from_slice(&len.to_le_bytes());
        frame[8..].copy_from_slice(&checksum(self.salt, record).to_le_bytes());
        if let Err(error) = self.disk.write(framed, self.len) {
            self.rest = self.disk.cut(self.len).is_err();
            return Err(io("cannot write", &self.path)(error));
        }
        self.len += framed.len() as u64;
        let shared = self.syncer.0.as_ref().expect("a log has a file");
        shared.current.lock().2 = sequence;
        Ok(())
    }

    /// Bytes to leave before a record.
    pub(crate) fn room() -> Vec<u8> {
        vec![0; FRAME]
    }

    /// Goes on in a new file; everything in this one is brought to disk first. Who holds a syncer keeps it.
    pub(crate) fn rotate(&mut self, path: &Path, genesis: B256, before: u64) -> Result<(), StateError> {
        self.syncer.sync()?;
        let next = Self::create(path, genesis, before)?;
        let shared = self.syncer.0.as_ref().expect("a log has a file");
        *shared.current.lock() = (next.disk.clone(), path.to_path_buf(), before);
        *self = Self { syncer: self.syncer.clone(), ..next };
        Ok(())
    }

    /// Bytes of records in the file.
    pub(crate) fn size(&self) -> u64 {
        self.len - HEADER as u64
    }

    /// Up to which record everything is on disk.
    pub(crate) fn synced(&self) -> u64 {
        self.syncer.synced()
    }

    /// What brings this log to disk.
    pub(crate) fn syncer(&self) -> Syncer {
        self.syncer.clone()
    }

    /// Reads a log and calls `each` with every record's bytes and offset, then opens it where it is the `last` one, to
    /// go on behind its last whole record. `before` records are in the logs before.
    pub(crate) fn read(
        path: &Path,
        genesis: B256,
        before: u64,
        last: bool,
        mut each: impl FnMut(&[u8], usize) -> Result<(), StateError>,
    ) -> Result<(u64, Option<Self>), StateError> {
        let bytes = std::fs::read(path).map_err(io("cannot read", path))?;
        let salt = header(path, &bytes, genesis, before)?;
        let (mut at, mut sequence) = (HEADER, before);
        while at < bytes.len() {
            match record(&bytes, at, salt) {
                Ok((head, payload)) if head.sequence == sequence + 1 => {
                    each(payload, at)?;
                    at += FRAME + payload.len();
                    sequence += 1;
                }
                Ok((head, _)) => {
                    let what = format!("record {} where {} belongs", head.sequence, sequence + 1);
                    return Err(damaged(path, at, what));
                }
                Err(what) => {
                    if !last || synced_later(&bytes, at, salt) > sequence {
                        return Err(damaged(path, at, what));
                    }
                    break;
                }
            }
        }
        if !last {
            return Ok((sequence, None));
        }
        let file = File::options().write(true).read(true).open(path).map_err(io("cannot open", path))?;
        if at < bytes.len() {
            let lost = bytes.len() - at;
            tracing::warn!(file = %path.display(), offset = at, bytes = lost, "cut off what was never synced");
            file.set_len(at as u64).map_err(io("cannot cut", path))?;
        }
        // What is in the file may be in the system's memory alone; from here on it counts as synced.
        file.sync_all().map_err(io("cannot sync", path))?;
        Ok((sequence, Some(Self::over(path, Arc::new(file), salt, at as u64, sequence))))
    }

    #[cfg(test)]
    pub(crate) fn put_disk(&mut self, disk: Arc<dyn Disk>) {
        let shared = self.syncer.0.as_ref().expect("a log has a file");
        shared.current.lock().0 = disk.clone();
        self.disk = disk;
    }
}

/// Checks a log's header; gives its salt.
fn header(path: &Path, bytes: &[u8], genesis: B256, before: u64) -> Result<u64, StateError> {
    let read = || {
        let mut take = Take(bytes);
        Some((take.array()?, take.array()?, take.u64()?, take.u64()?, take.u32()?))
    };
    let Some((magic, found, first, salt, sum)) = read() else {
        return Err(damaged(path, 0, format!("{} bytes are no header", bytes.len())));
    };
    if magic != MAGIC {
        return Err(damaged(path, 0, "not a log of the state"));
    }
    if checksum(salt, &bytes[..HEADER - 4]) != sum {
        return Err(damaged(path, 0, "the header's checksum is wrong"));
    }
    if B256::from(found) != genesis {
        return Err(StateError::OtherChain { path: path.to_path_buf(), found: found.into(), expected: genesis });
    }
    if first != before {
        return Err(damaged(path, 0, format!("{first} records are before it, and {before} were found")));
    }
    Ok(salt)
}

/// The record at an offset, or what is wrong with it.
fn record(bytes: &[u8], at: usize, salt: u64) -> Result<(Record, &[u8]), String> {
    let mut take = Take(&bytes[at..]);
    let (mark, len, sum) = (take.array(), take.u32(), take.u32());
    let (Some(mark), Some(len), Some(sum)) = (mark, len, sum) else {
        return Err(format!("{} bytes are no record", bytes.len() - at));
    };
    if mark != MARK {
        return Err("no record begins here".into());
    }
    let Some(payload) = take.slice(len as usize) else {
        return Err(format!("a record of {len} bytes, of which {} are there", take.0.len()));
    };
    if checksum(salt, payload) != sum {
        return Err(format!("the checksum of a record of {len} bytes is wrong"));
    }
    let head = Record::head(&mut Take(payload)).ok_or_else(|| format!("a record of {len} bytes is too short"))?;
    Ok((head, payload))
}

/// How far the log was synced, by what whole records say that lie behind a damaged one at `at`.
fn synced_later(bytes: &[u8], at: usize, salt: u64) -> u64 {
    let mut synced = 0;
    let mut from = at + 1;
    while let Some(found) = bytes.get(from..).and_then(|rest| rest.windows(4).position(|some| some == MARK)) {
        from += found;
        match record(bytes, from, salt) {
            Ok((head, payload)) => {
                synced = synced.max(head.synced);
                from += FRAME + payload.len();
            }
            Err(_) => from += 1,
        }
    }
    synced
}

/// Random enough that nobody outside knows it.
fn rand_salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

//! The log: a file of checksummed records that only grows, until a checkpoint replaces it.
//!
//! ```text
//! file    magic 8 | hash of block zero 32 | records before u64 | salt u64 | checksum u32, then records
//! record  mark 4 | length u32 | checksum of the body u32 | body
//! ```
//!
//! A checksum is keyed by the file's salt, so that foreign bytes cannot pass for a record. Each record says how far the
//! log was synced when it was written. A crash may leave an unsynced tail, which is truncated. An incomplete record is
//! damage if a later one says that it was synced: it is refused with its place.
//!
//! memory  at the start a window over the file, later one record

use std::fs::File;
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alloy_primitives::B256;
use hearth_wal::store_file::{OpenMode, StoreFile};
use hearth_wal::{Appender, Disk, Fault, Framing, Source, Step, Walk};
use parking_lot::Mutex;

use super::bytes::{ByteReader, checksum};
use super::files::{UNFINISHED, finish};
use super::{Record, StateError, damaged, io};

const MAGIC: [u8; 8] = *b"hearthL1";
/// Magic, the hash of block zero, records before, salt, checksum.
const HEADER: usize = 8 + 32 + 8 + 8 + 4;
/// Every record begins with this, so that one can be found behind a damaged one.
const MARK: [u8; 4] = *b"\xf1rec";
/// Mark, length and checksum of what follows.
const FRAME: usize = 12;

/// The bytes around a record in a file of this salt.
#[derive(Clone, Copy)]
struct Frame {
    salt: u64,
}

impl Framing for Frame {
    const HEAD: usize = FRAME;
    const MARK: &'static [u8] = &MARK;

    fn length(&self, head: &[u8], _: u64) -> Result<u64, Fault> {
        let mut take = ByteReader(head);
        let (mark, length) = (take.array::<4>(), take.u32());
        let length = length.filter(|_| mark == Some(MARK)).ok_or(Fault::Magic)?;
        Ok(FRAME as u64 + u64::from(length))
    }

    fn verify(&self, record: &[u8], _: u64) -> Result<(), Fault> {
        let (frame, body) = record.split_at(FRAME);
        let stored = ByteReader(&frame[8..]).u32().ok_or(Fault::HeaderCut)?;
        Fault::unless_equal(stored, checksum(self.salt, body))?;
        Record::head(&mut ByteReader(body)).map(|_| ()).ok_or(Fault::Length(body.len() as u32))
    }
}

/// The log file that is written now.
pub(crate) struct Log {
    path: PathBuf,
    end: Appender,
    salt: u64,
    syncer: Syncer,
}

/// Syncs the log. May be used from any thread while the state is written.
#[derive(Clone)]
pub struct Syncer(Option<Arc<Shared>>);

struct Shared {
    /// The file written now and the last record in it.
    current: Mutex<(Arc<dyn Disk>, PathBuf, u64)>,
    synced: AtomicU64,
    /// Whether a sync has failed; locked while one is under way. The next one would not say so again.
    has_failed: Mutex<bool>,
}

impl Syncer {
    /// The syncer of a state in memory: there is nothing to do.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Returns when every block committed before the call is on disk; later ones may not be. After a failed sync
    /// nothing more is written: the kernel treats what it could not write as written.
    pub fn sync(&self) -> Result<(), StateError> {
        let Some(shared) = &self.0 else { return Ok(()) };
        let (disk, path, last) = shared.current.lock().clone();
        if shared.synced.load(Ordering::Acquire) >= last {
            return Ok(());
        }
        let mut has_failed = shared.has_failed.lock();
        let earlier = || std::io::Error::other("an earlier sync failed, and what it was for may be lost");
        let synced = if *has_failed { Err(earlier()) } else { disk.sync() };
        *has_failed = synced.is_err();
        synced.map_err(io("cannot sync", &path))?;
        shared.synced.fetch_max(last, Ordering::AcqRel);
        Ok(())
    }

    fn synced(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.synced.load(Ordering::Acquire))
    }
}

impl Log {
    /// Creates a log file, after `before` records in earlier logs, all of which are on disk.
    pub(crate) fn create(path: &Path, genesis: B256, before: u64) -> Result<Self, StateError> {
        let unfinished = path.with_extension(UNFINISHED);
        let salt = rand_salt();
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(genesis.as_slice());
        header.extend_from_slice(&before.to_le_bytes());
        header.extend_from_slice(&salt.to_le_bytes());
        header.extend_from_slice(&checksum(salt, &header).to_le_bytes());
        let file = StoreFile::open(&unfinished, OpenMode::Empty).map_err(io("cannot create", &unfinished))?;
        file.write_at(&header, 0).and_then(|()| file.sync()).map_err(io("cannot write", &unfinished))?;
        finish(&unfinished, path)?;
        Ok(Self::over(path, file.disk().clone(), salt, HEADER as u64, before))
    }

    fn over(path: &Path, disk: Arc<dyn Disk>, salt: u64, len: u64, last: u64) -> Self {
        let current = Mutex::new((disk.clone(), path.to_path_buf(), last));
        let (synced, has_failed) = (AtomicU64::new(last), Mutex::new(false));
        let syncer = Syncer(Some(Arc::new(Shared { current, synced, has_failed })));
        Self { path: path.to_path_buf(), end: Appender::new(disk, len), salt, syncer }
    }

    /// Appends a record whose bytes from [`Record::encode`] come after room for the frame: see [`Log::room`]. On an
    /// error, nothing was appended.
    pub(crate) fn append(&mut self, sequence: u64, framed: &mut [u8]) -> Result<(), StateError> {
        let (frame, record) = framed.split_at_mut(FRAME);
        let len = u32::try_from(record.len()).map_err(|_| {
            io("cannot write", &self.path)(std::io::Error::other("a block of more than 4 GiB of changes"))
        })?;
        frame[..4].copy_from_slice(&MARK);
        frame[4..8].copy_from_slice(&len.to_le_bytes());
        frame[8..].copy_from_slice(&checksum(self.salt, record).to_le_bytes());
        self.end.append(&mut [IoSlice::new(framed)]).map_err(io("cannot write", &self.path))?;
        let shared = self.syncer.0.as_ref().expect("a log has a file");
        shared.current.lock().2 = sequence;
        Ok(())
    }

    /// Bytes to leave before a record.
    pub(crate) fn room() -> Vec<u8> {
        vec![0; FRAME]
    }

    /// Continues in a new file, after syncing this one. Existing syncers stay valid.
    pub(crate) fn rotate(&mut self, path: &Path, genesis: B256, before: u64) -> Result<(), StateError> {
        self.syncer.sync()?;
        let next = Self::create(path, genesis, before)?;
        let shared = self.syncer.0.as_ref().expect("a log has a file");
        *shared.current.lock() = (next.end.disk().clone(), path.to_path_buf(), before);
        *self = Self { syncer: self.syncer.clone(), ..next };
        Ok(())
    }

    /// Bytes of records in the file.
    pub(crate) fn size(&self) -> u64 {
        self.end.end() - HEADER as u64
    }

    /// Up to which record everything is on disk.
    pub(crate) fn synced(&self) -> u64 {
        self.syncer.synced()
    }

    /// Returns a handle that brings this log to disk.
    pub(crate) fn syncer(&self) -> Syncer {
        self.syncer.clone()
    }

    /// Reads a log and calls `each` with every record's bytes and offset. Opens the `last` one for appending after its
    /// last complete record. `before` records are in earlier logs.
    pub(crate) fn read(
        path: &Path,
        genesis: B256,
        before: u64,
        last: bool,
        mut each: impl FnMut(&[u8], usize) -> Result<(), StateError>,
    ) -> Result<(u64, Option<Self>), StateError> {
        let opened = if last { StoreFile::open(path, OpenMode::Existing).map(Some) } else { Ok(None) };
        let opened = opened.map_err(io("cannot open", path))?;
        let file = opened.as_ref().map_or_else(|| File::open(path).map(Arc::new), |opened| Ok(opened.file().clone()));
        let file = file.map_err(io("cannot open", path))?;
        let length = file.length().map_err(io("cannot read", path))?;
        let salt = header(path, &file, genesis, before)?;
        let mut walk = Walk::new(&*file, Frame { salt }, HEADER as u64, length);
        let mut sequence = before;
        let bad = loop {
            match walk.step().map_err(io("cannot read", path))? {
                Step::End | Step::Skipped => break None,
                Step::Damage(bad) => break Some(bad),
                Step::Record { bytes, at, .. } => {
                    let body = &bytes[FRAME..];
                    let found = sequence_of(body);
                    if found != sequence + 1 {
                        let what = format!("record {found} where {} belongs", sequence + 1);
                        return Err(damaged(path, at as usize, what));
                    }
                    each(body, at as usize)?;
                    sequence = found;
                }
            }
        };
        let mut end = length;
        if let Some(bad) = bad {
            // How far the log was synced, by what whole records behind the bad one say.
            let mut synced = 0;
            let behind = walk.rest(|bytes, _| {
                synced = Record::head(&mut ByteReader(&bytes[FRAME..])).map_or(synced, |head| synced.max(head.synced));
            });
            behind.map_err(io("cannot read", path))?;
            if !last || synced > sequence {
                return Err(damaged(path, bad.at as usize, bad.fault.to_string()));
            }
            end = bad.at;
        }
        let Some(opened) = opened else { return Ok((sequence, None)) };
        if end < length {
            tracing::warn!(file = %path.display(), offset = end, bytes = length - end, "cut off what was never synced");
            opened.cut(end).map_err(io("cannot cut", path))?;
        }
        // The file's contents may be in the system's memory only; after this they count as synced.
        opened.sync().map_err(io("cannot sync", path))?;
        Ok((sequence, Some(Self::over(path, opened.disk().clone(), salt, end, sequence))))
    }

    /// Has the file written through another, as tests of a full disk do.
    pub(crate) fn put_disk(&mut self, disk: Arc<dyn Disk>) {
        let shared = self.syncer.0.as_ref().expect("a log has a file");
        shared.current.lock().0 = disk.clone();
        self.end.put_disk(disk);
    }
}

/// Returns the number of the record with this body, which has been verified.
fn sequence_of(body: &[u8]) -> u64 {
    Record::head(&mut ByteReader(body)).expect("a record that verifies has a head").sequence
}

/// Verifies a log's header; returns its salt.
fn header(path: &Path, file: &File, genesis: B256, before: u64) -> Result<u64, StateError> {
    let mut bytes = [0; HEADER];
    let have = Source::read(file, &mut bytes, 0).map_err(io("cannot read", path))?;
    let bytes = &bytes[..have];
    let read = || {
        let mut take = ByteReader(bytes);
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

/// Returns an unpredictable salt: the hash's key is drawn from the system's randomness.
fn rand_salt() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

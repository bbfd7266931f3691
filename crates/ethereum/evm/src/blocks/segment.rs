//! One file of the log.
//!
//! ```text
//! file    magic 8 | chain id u64 | hash of block zero 32 | first block u64 | salt u32 | checksum u32, then records
//! record  mark u32 | length u32 | number u64 | synced u64 | checksum of the body u32 | checksum of these u32 | body
//! ```
//!
//! Each record says up to which block everything was on disk when it was written. At the end of the program, a record
//! without a body says so; the next record overwrites it. Numbers are little endian. Checksums are CRC-32, for records
//! seeded with the file's salt, so that a block's contents cannot be mistaken for a record.
//!
//! source  a power failure may leave an unsynced tail, which is truncated. An incomplete record is damage if a later
//!         one, or the last run's [`status`](super::status), says that it was synced: it is refused with its place

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{B256, Bloom};
use hearth_wal::store_file::{self, OpenMode, StoreFile};
use hearth_wal::{Appender, Disk, Fault, Framing, Step, Walk, crc, files, is_blank};

use super::record::{self, Hashes};
use super::status::LastRun;
use super::{AHEAD_MAX, BlocksError};
use crate::block::Block;
use crate::state::Changes;

const MAGIC: &[u8; 8] = b"HRTHBLK2";
const HEAD_BYTES: usize = 64;
const MARK: [u8; 4] = 0x4b4c_4248_u32.to_le_bytes();
const RECORD_HEAD_BYTES: usize = 32;

/// The chain whose blocks a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub chain_id: u64,
    /// The hash of block zero.
    pub zero: B256,
}

impl SegmentHead {
    fn encode(&self, first: u64, salt: u32) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.chain_id.to_le_bytes());
        bytes[16..48].copy_from_slice(self.zero.as_slice());
        bytes[48..56].copy_from_slice(&first.to_le_bytes());
        bytes[56..60].copy_from_slice(&salt.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// The head of a record.
#[derive(Clone, Copy)]
struct RecordHead {
    /// Length of the body, in bytes.
    length: u32,
    number: u64,
    synced: u64,
    checksum: u32,
}

impl RecordHead {
    fn encode(&self, salt: u32) -> [u8; RECORD_HEAD_BYTES] {
        let mut bytes = [0; RECORD_HEAD_BYTES];
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.synced.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = checksum(salt, &bytes[..28]);
        bytes[28..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the head of a record that has been verified.
    fn of(record: &[u8]) -> Self {
        let (length, checksum) = (word(record, 4), word(record, 24));
        Self { length, number: long(record, 8), synced: long(record, 16), checksum }
    }
}

/// The bytes around a record in a file of this salt.
#[derive(Clone, Copy)]
struct Frame {
    salt: u32,
}

impl Framing for Frame {
    const HEAD: usize = RECORD_HEAD_BYTES;
    const MARK: &'static [u8] = &MARK;

    fn length(&self, head: &[u8], _: u64) -> Result<u64, Fault> {
        let is_whole = head[..4] == MARK && checksum(self.salt, &head[..28]) == word(head, 28);
        if is_whole { Ok(RECORD_HEAD_BYTES as u64 + u64::from(word(head, 4))) } else { Err(Fault::Magic) }
    }

    fn verify(&self, record: &[u8], _: u64) -> Result<(), Fault> {
        Fault::unless_equal(word(record, 24), checksum(self.salt, &record[RECORD_HEAD_BYTES..]))
    }
}

/// A file as it was found.
pub(super) struct SegmentScan {
    pub segment: Segment,
    /// Up to which block everything was on disk, as far as the file and the last run say.
    pub synced: u64,
    /// The newest block with a complete record, even if it follows a damaged one.
    pub seen: u64,
}

/// An open file of the log.
pub(super) struct Segment {
    path: PathBuf,
    file: Arc<File>,
    /// The same file, for writing.
    end: Appender,
    salt: u32,
    first: u64,
    /// The offsets of the records.
    offsets: Vec<u64>,
}

/// The means of writing the next record, so that readers can use the segment meanwhile.
pub(super) struct SegmentTail {
    pub path: PathBuf,
    end: Appender,
    salt: u32,
}

impl SegmentTail {
    /// Returns the file that records are appended to.
    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        self.end.disk().clone()
    }

    /// Bytes to leave before a record's body.
    pub(super) fn room() -> Vec<u8> {
        vec![0; RECORD_HEAD_BYTES]
    }

    /// Writes a record whose body begins at [`SegmentTail::room`].
    pub(super) fn append(&mut self, number: u64, synced: u64, record: &mut [u8]) -> Result<(), BlocksError> {
        let (head, body) = record.split_at_mut(RECORD_HEAD_BYTES);
        let length = u32::try_from(body.len()).expect("a block is below 4 GiB");
        let checksum = checksum(self.salt, body);
        head.copy_from_slice(&RecordHead { length, number, synced, checksum }.encode(self.salt));
        let written = self.end.append(&mut [IoSlice::new(record)]);
        written.map_err(|source| BlocksError::Io { what: "write", path: self.path.clone(), source })
    }

    /// Says behind the last record that everything up to block `synced` is on disk.
    pub(super) fn close(&mut self, synced: u64) -> Result<(), BlocksError> {
        let head = RecordHead { length: 0, number: synced, synced, checksum: checksum(self.salt, &[]) };
        let written = self.end.append(&mut [IoSlice::new(&head.encode(self.salt))]);
        let written = written.and_then(|()| self.end.disk().sync());
        written.map_err(|source| BlocksError::Io { what: "write", path: self.path.clone(), source })
    }
}

/// The place of a record.
pub(super) struct RecordPlace {
    path: PathBuf,
    file: Arc<File>,
    salt: u32,
    offset: u64,
    bytes: usize,
}

impl RecordPlace {
    /// Reads the block there, and those of its changes that no execution makes.
    pub(super) fn read(&self) -> Result<(Block, Changes), BlocksError> {
        record::decode(&self.payload()?).map_err(|what| self.damaged(what))
    }

    /// The hashes of the block there, without decoding all of it.
    pub(super) fn hashes(&self) -> Result<Hashes, BlocksError> {
        Hashes::read(&self.payload()?).map_err(|_| self.damaged("the record is not a block"))
    }

    /// The bloom of the block there.
    pub(super) fn bloom(&self) -> Result<Bloom, BlocksError> {
        record::bloom(&self.beginning(record::BLOOM_WITHIN)?).ok_or_else(|| self.damaged("the record is not a block"))
    }

    /// The header of the block there, by its first bytes alone: no checksum says that these are as they were written.
    pub(super) fn header(&self) -> Result<Header, BlocksError> {
        match record::header(&self.beginning(record::HEADER_WITHIN)?) {
            Some(header) => Ok(header),
            None => Ok(self.read()?.0.header),
        }
    }

    /// Reads this many first bytes of the record, or all of them.
    fn beginning(&self, bytes: usize) -> Result<Vec<u8>, BlocksError> {
        let mut bytes = vec![0; bytes.min(self.bytes.saturating_sub(RECORD_HEAD_BYTES))];
        let read = self.file.read_exact_at(&mut bytes, self.offset + RECORD_HEAD_BYTES as u64);
        read.map_err(|source| BlocksError::Io { what: "read", path: self.path.clone(), source })?;
        Ok(bytes)
    }

    fn payload(&self) -> Result<Vec<u8>, BlocksError> {
        let mut bytes = vec![0; self.bytes];
        let read = self.file.read_exact_at(&mut bytes, self.offset);
        read.map_err(|source| BlocksError::Io { what: "read", path: self.path.clone(), source })?;
        Frame { salt: self.salt }.verify(&bytes, self.offset).map_err(|fault| self.damaged(fault.what()))?;
        Ok(bytes.split_off(RECORD_HEAD_BYTES))
    }

    fn damaged(&self, what: &'static str) -> BlocksError {
        BlocksError::Damaged { path: self.path.clone(), offset: self.offset, what }
    }
}

/// With which block a file begins, by its name.
pub(super) fn first_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

/// The files of a folder, oldest first.
pub(super) fn paths(dir: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(files::numbered(dir, "blocks")?.into_iter().map(|first| path_of(dir, first)).collect())
}

fn path_of(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:020}.blocks"))
}

impl SegmentScan {
    /// Refuses a last file that ends before what was synced: that is no torn tail.
    fn check_end(&self, last: &LastRun) -> Result<(), BlocksError> {
        let newest = self.segment.next() - 1;
        let what = match () {
            () if newest < last.synced => "blocks are missing behind it that were on disk",
            () if newest + AHEAD_MAX < last.newest => "more blocks are missing behind it than the disk can have lost",
            () => return Ok(()),
        };
        Err(BlocksError::Damaged { path: self.segment.path.clone(), offset: self.segment.bytes(), what })
    }
}

impl Segment {
    /// A new file that begins with block `first`.
    pub(super) fn create(dir: &Path, head: &SegmentHead, first: u64) -> Result<Self, BlocksError> {
        let path = path_of(dir, first);
        let failed = |source| BlocksError::Io { what: "write", path: path.clone(), source };
        let file = StoreFile::open(&path, OpenMode::New).map_err(failed)?;
        let salt = salt();
        let begun = file.write_at(&head.encode(first, salt), 0).and_then(|()| file.sync());
        // The name itself lasts, too.
        let begun = begun.and_then(|()| files::sync_dir(dir));
        if let Err(error) = begun {
            // Else the next attempt would find it there.
            let _ = store_file::remove(&path);
            return Err(failed(error));
        }
        Ok(Self::over(path, &file, salt, first))
    }

    fn over(path: PathBuf, file: &StoreFile, salt: u32, first: u64) -> Self {
        let end = Appender::new(file.disk().clone(), HEAD_BYTES as u64);
        Self { path, file: file.file().clone(), end, salt, first, offsets: Vec::new() }
    }

    /// Reads a file that begins with block `first`; calls `found` with the hashes of each block. An unsynced tail of
    /// the last file is truncated.
    pub(super) fn open(
        path: &Path,
        wanted: &SegmentHead,
        first: u64,
        last: Option<&LastRun>,
        mut found: impl FnMut(u64, &Hashes),
    ) -> Result<SegmentScan, BlocksError> {
        let failed = |source| BlocksError::Io { what: "read", path: path.to_owned(), source };
        let file = StoreFile::open(path, OpenMode::Existing).map_err(failed)?;
        let length = file.file().metadata().map_err(failed)?.len();
        if let Some(last) = last
            && (length < HEAD_BYTES as u64 || is_blank(&**file.file()).map_err(failed)?)
        {
            return Self::begin_again(path, &file, wanted, first, last);
        }
        let salt = check_head(path, file.file(), wanted, first)?;
        let mut segment = Self::over(path.to_owned(), &file, salt, first);
        // Of the files before the last, everything is on disk.
        let mut synced = last.map_or(first - 1, |last| last.synced.max(first - 1));
        let mut seen = first - 1;
        let (handle, mut end) = (segment.file.clone(), segment.bytes());
        let mut walk = Walk::new(&*handle, Frame { salt }, end, length);
        let bad = loop {
            let number = segment.next();
            let (record, at, behind) = match walk.step().map_err(failed)? {
                Step::Record { bytes, at, end } => (bytes, at, end),
                Step::Damage(bad) => break Some((bad.at, bad.fault.what())),
                Step::End | Step::Skipped => break None,
            };
            let head = RecordHead::of(record);
            if head.length == 0 && head.number.checked_add(1) == Some(number) {
                synced = synced.max(head.synced);
                continue;
            }
            if head.number != number || end != at {
                break Some((at, "the numbers of blocks do not follow each other"));
            }
            let hashes = Hashes::read(&record[RECORD_HEAD_BYTES..]);
            let wrong =
                |_| BlocksError::Damaged { path: path.to_owned(), offset: at, what: "the record is not a block" };
            found(number, &hashes.map_err(wrong)?);
            synced = synced.max(head.synced);
            seen = seen.max(number);
            segment.offsets.push(at);
            end = behind;
        };
        if let Some((offset, what)) = bad {
            let number = segment.next();
            let mut newest = 0;
            let later = walk.rest(|record, _| {
                let head = RecordHead::of(record);
                synced = synced.max(head.synced);
                newest = newest.max(head.number);
            });
            later.map_err(failed)?;
            if last.is_none() || synced >= number {
                return Err(BlocksError::Damaged { path: path.to_owned(), offset, what });
            }
            seen = seen.max(newest);
            let bytes = length - offset;
            tracing::warn!(file = %path.display(), offset, bytes, what, "cut off what was never synced");
            file.cut(offset).map_err(failed)?;
        }
        // What says at a run's end how much is on disk is shorter than any block, and the next one takes its place.
        segment.end = Appender::new(file.disk().clone(), end);
        let opened = SegmentScan { segment, synced, seen };
        last.map_or(Ok(()), |last| opened.check_end(last))?;
        Ok(opened)
    }

    /// Begins a file again whose head was being written when the program or the machine ended. A head is synced before
    /// the first record is written, so a file with a known block has one.
    fn begin_again(
        path: &Path,
        file: &StoreFile,
        wanted: &SegmentHead,
        first: u64,
        last: &LastRun,
    ) -> Result<SegmentScan, BlocksError> {
        if last.newest >= first {
            let what = "the file's head is missing, and blocks were written behind it";
            return Err(BlocksError::Damaged { path: path.to_owned(), offset: 0, what });
        }
        let salt = salt();
        let begun = file.cut(0).and_then(|()| file.write_at(&wanted.encode(first, salt), 0));
        begun.map_err(|source| BlocksError::Io { what: "write", path: path.to_owned(), source })?;
        let segment = Self::over(path.to_owned(), file, salt, first);
        Ok(SegmentScan { segment, synced: first - 1, seen: first - 1 })
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number that the next block here has.
    pub(super) fn next(&self) -> u64 {
        self.first + self.offsets.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.end.end()
    }

    /// Returns the error that blocks are missing behind the last.
    pub(super) fn ends_early(&self) -> BlocksError {
        let what = "the blocks between it and the next file are missing";
        BlocksError::Damaged { path: self.path.clone(), offset: self.bytes(), what }
    }

    /// Has the file written through another, as tests of a full disk do.
    pub(super) fn put_disk(&mut self, disk: Arc<dyn Disk>) {
        self.end.put_disk(disk);
    }

    /// Returns the means of writing the next record.
    pub(super) fn tail(&self) -> SegmentTail {
        SegmentTail { path: self.path.clone(), end: self.end.clone(), salt: self.salt }
    }

    /// Records the new state of [`Segment::tail`]: a record was written, or failed.
    pub(super) fn set_tail(&mut self, tail: &SegmentTail) {
        if tail.end.end() > self.end.end() {
            self.offsets.push(self.end.end());
        }
        self.end = tail.end.clone();
    }

    pub(super) fn find(&self, number: u64) -> Option<RecordPlace> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let offset = *self.offsets.get(at)?;
        let end = self.offsets.get(at + 1).copied().unwrap_or(self.bytes());
        let (path, file, bytes) = (self.path.clone(), self.file.clone(), (end - offset) as usize);
        Some(RecordPlace { path, file, salt: self.salt, offset, bytes })
    }

    /// Removes all blocks after `number`; returns whether there were some.
    pub(super) fn truncate(&mut self, number: u64) -> Result<bool, BlocksError> {
        let keep = (number + 1).saturating_sub(self.first) as usize;
        let Some(&end) = self.offsets.get(keep) else { return Ok(false) };
        self.end.cut(end).map_err(|source| BlocksError::Io { what: "write", path: self.path.clone(), source })?;
        self.offsets.truncate(keep);
        Ok(true)
    }

    pub(super) fn remove(self) -> Result<(), BlocksError> {
        store_file::remove(&self.path).map_err(|source| BlocksError::Io { what: "remove", path: self.path, source })
    }
}

/// Checks that a file is of this chain and begins with block `first`; returns its salt.
fn check_head(path: &Path, file: &File, wanted: &SegmentHead, first: u64) -> Result<u32, BlocksError> {
    let damaged = |what| BlocksError::Damaged { path: path.to_owned(), offset: 0, what };
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, 0).map_err(|_| damaged("the file is too short"))?;
    if head[..8] != MAGIC[..] || crc32fast::hash(&head[..60]) != word(&head, 60) {
        return Err(damaged("it does not begin as a file of blocks does"));
    }
    let (found_id, found) = (long(&head, 8), B256::from_slice(&head[16..48]));
    if (found_id, found) != (wanted.chain_id, wanted.zero) {
        let path = path.to_owned();
        let SegmentHead { chain_id: wanted_id, zero: wanted } = *wanted;
        return Err(BlocksError::OtherChain { path, found_id, found, wanted_id, wanted });
    }
    if long(&head, 48) != first {
        return Err(damaged("the blocks before these are missing"));
    }
    Ok(word(&head, 56))
}

/// Returns an unpredictable salt: the hash's key is drawn from the system's randomness.
fn salt() -> u32 {
    RandomState::new().hash_one(0) as u32
}

fn checksum(salt: u32, bytes: &[u8]) -> u32 {
    crc(&[&salt.to_le_bytes(), bytes])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

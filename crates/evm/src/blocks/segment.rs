//! One file of the log.
//!
//! A file begins with 64 B that say whose it is; each record has 24 B before it: a mark, its length and number, and
//! checksums of itself and of these.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alloy_primitives::B256;

use super::BlocksError;
use super::record::{self, Hashes};
use crate::block::Block;
use crate::disk::Disk;
use crate::state::Changes;

const MAGIC: &[u8; 8] = b"HRTHBLK1";
const HEAD_BYTES: usize = 64;
const MARK: u32 = 0x4b4c_4248;
const RECORD_HEAD_BYTES: usize = 24;

/// Whose blocks a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub chain_id: u64,
    /// The hash of block zero.
    pub zero: B256,
}

impl SegmentHead {
    fn encode(&self, first: u64) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.chain_id.to_le_bytes());
        bytes[16..48].copy_from_slice(self.zero.as_slice());
        bytes[48..56].copy_from_slice(&first.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// An open file of the log.
pub(super) struct Segment {
    path: PathBuf,
    file: Arc<File>,
    /// The same file, for writing.
    disk: Arc<dyn Disk>,
    first: u64,
    /// Where each record begins.
    offsets: Vec<u64>,
    /// Where the next record begins.
    end: u64,
    /// Whether bytes of a record that failed may lie behind the end.
    rest: bool,
}

/// Where a record is.
pub(super) struct Place {
    path: PathBuf,
    file: Arc<File>,
    offset: u64,
    bytes: usize,
}

impl Place {
    /// The block there, and what no execution gives of its changes.
    pub(super) fn read(&self) -> Result<(Block, Changes), BlocksError> {
        let mut bytes = vec![0; self.bytes];
        let read = self.file.read_exact_at(&mut bytes, self.offset);
        read.map_err(|source| BlocksError::Io { what: "read", path: self.path.clone(), source })?;
        let damaged = |what| BlocksError::Damaged { path: self.path.clone(), offset: self.offset, what };
        let (head, payload) = bytes.split_at(RECORD_HEAD_BYTES);
        if crc32fast::hash(payload) != word(head, 16) {
            return Err(damaged("a block's checksum is wrong"));
        }
        record::decode(payload).map_err(damaged)
    }
}

/// The files of a folder, oldest first.
pub(super) fn paths(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "blocks") {
            paths.push(path);
        }
    }
    // The names hold numbers of one width.
    paths.sort();
    Ok(paths)
}

impl Segment {
    /// A new file that begins with block `first`.
    pub(super) fn create(dir: &Path, head: &SegmentHead, first: u64) -> Result<Self, BlocksError> {
        let path = dir.join(format!("{first:020}.blocks"));
        let failed = |source| BlocksError::Io { what: "write", path: path.clone(), source };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(failed)?;
        file.write_all_at(&head.encode(first), 0).map_err(failed)?;
        // The name itself lasts, too.
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)?;
        Ok(Self::over(path, file, first, HEAD_BYTES as u64))
    }

    fn over(path: PathBuf, file: File, first: u64, end: u64) -> Self {
        let file = Arc::new(file);
        Self { path, disk: file.clone(), file, first, offsets: Vec::new(), end, rest: false }
    }

    /// Reads a file that begins with block `first`; tells the hashes of each block to `found`. What the last file ends
    /// with and was not written to its end is cut off.
    pub(super) fn open(
        path: &Path,
        wanted: &SegmentHead,
        first: u64,
        last: bool,
        mut found: impl FnMut(u64, &Hashes),
    ) -> Result<Self, BlocksError> {
        let failed = |source| BlocksError::Io { what: "read", path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut segment = Self::over(path.to_owned(), file, first, length);
        if length < HEAD_BYTES as u64 && last {
            // It was being made when the program ended.
            segment.file.write_all_at(&wanted.encode(first), 0).map_err(failed)?;
            segment.end = HEAD_BYTES as u64;
            return Ok(segment);
        }
        let handle = segment.file.clone();
        let mut reader = BufReader::with_capacity(1 << 20, &*handle);
        segment.check_head(&mut reader, wanted)?;
        let mut offset = HEAD_BYTES as u64;
        let mut payload = Vec::new();
        while offset < length {
            let damaged = |what| BlocksError::Damaged { path: path.to_owned(), offset, what };
            let left = length - offset;
            let mut head = [0; RECORD_HEAD_BYTES];
            let torn = if left < RECORD_HEAD_BYTES as u64 {
                true
            } else {
                reader.read_exact(&mut head).map_err(failed)?;
                if word(&head, 0) != MARK || crc32fast::hash(&head[..20]) != word(&head, 20) {
                    return Err(damaged("no record begins here"));
                }
                left - (RECORD_HEAD_BYTES as u64) < u64::from(word(&head, 4))
            };
            if torn {
                if !last {
                    return Err(damaged("the file ends within a record, and another follows"));
                }
                segment.file.set_len(offset).map_err(failed)?;
                break;
            }
            payload.resize(word(&head, 4) as usize, 0);
            reader.read_exact(&mut payload).map_err(failed)?;
            let number = segment.next();
            if crc32fast::hash(&payload) != word(&head, 16) {
                return Err(damaged("a block's checksum is wrong"));
            }
            if long(&head, 8) != number {
                return Err(damaged("the numbers of blocks do not follow each other"));
            }
            found(number, &Hashes::read(&payload).map_err(|_| damaged("the record is no block"))?);
            segment.offsets.push(offset);
            offset += (RECORD_HEAD_BYTES + payload.len()) as u64;
        }
        segment.end = offset;
        Ok(segment)
    }

    fn check_head(&self, reader: &mut impl Read, wanted: &SegmentHead) -> Result<(), BlocksError> {
        let damaged = |what| BlocksError::Damaged { path: self.path.clone(), offset: 0, what };
        let mut head = [0; HEAD_BYTES];
        reader.read_exact(&mut head).map_err(|_| damaged("the file is too short"))?;
        if head[..8] != MAGIC[..] || crc32fast::hash(&head[..60]) != word(&head, 60) {
            return Err(damaged("it does not begin as a file of blocks does"));
        }
        let (found_id, found) = (long(&head, 8), B256::from_slice(&head[16..48]));
        if (found_id, found) != (wanted.chain_id, wanted.zero) {
            let path = self.path.clone();
            let SegmentHead { chain_id: wanted_id, zero: wanted } = *wanted;
            return Err(BlocksError::OtherChain { path, found_id, found, wanted_id, wanted });
        }
        if long(&head, 48) != self.first {
            return Err(damaged("the blocks before these are missing"));
        }
        Ok(())
    }

    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// The number that the next block here has.
    pub(super) fn next(&self) -> u64 {
        self.first + self.offsets.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.end
    }

    pub(super) fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    #[cfg(test)]
    pub(super) fn put_disk(&mut self, disk: Arc<dyn Disk>) {
        self.disk = disk;
    }

    /// Appends a block's record. Where that fails, nothing was appended.
    pub(super) fn append(&mut self, number: u64, payload: &[u8]) -> Result<(), BlocksError> {
        let mut record = Vec::with_capacity(RECORD_HEAD_BYTES + payload.len());
        record.extend(MARK.to_le_bytes());
        record.extend(u32::try_from(payload.len()).expect("a block is below 4 GiB").to_le_bytes());
        record.extend(number.to_le_bytes());
        record.extend(crc32fast::hash(payload).to_le_bytes());
        record.extend(crc32fast::hash(&record).to_le_bytes());
        record.extend(payload);
        let failed = |source| BlocksError::Io { what: "write", path: self.path.clone(), source };
        if self.rest {
            self.disk.cut(self.end).map_err(failed)?;
            self.rest = false;
        }
        if let Err(error) = self.disk.write(&record, self.end) {
            // A shorter record over these bytes would leave some of them behind itself.
            self.rest = self.disk.cut(self.end).is_err();
            return Err(failed(error));
        }
        self.offsets.push(self.end);
        self.end += record.len() as u64;
        Ok(())
    }

    pub(super) fn find(&self, number: u64) -> Option<Place> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let offset = *self.offsets.get(at)?;
        let end = self.offsets.get(at + 1).copied().unwrap_or(self.end);
        Some(Place { path: self.path.clone(), file: self.file.clone(), offset, bytes: (end - offset) as usize })
    }

    /// Lets go of all blocks after `number`.
    pub(super) fn truncate(&mut self, number: u64) -> Result<(), BlocksError> {
        let keep = (number + 1).saturating_sub(self.first) as usize;
        if let Some(&end) = self.offsets.get(keep) {
            let failed = |source| BlocksError::Io { what: "write", path: self.path.clone(), source };
            self.disk.cut(end).map_err(failed)?;
            self.offsets.truncate(keep);
            self.end = end;
        }
        Ok(())
    }

    pub(super) fn remove(self) -> Result<(), BlocksError> {
        fs::remove_file(&self.path).map_err(|source| BlocksError::Io { what: "remove", path: self.path, source })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

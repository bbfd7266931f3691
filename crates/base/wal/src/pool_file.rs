//! Persists the transactions that wait in a pool, so that they survive a restart of the program.
//!
//! reads   the file of an earlier run: [`frames`], whose bytes the pool interprets
//! writes  records of accepted or dropped transactions, before that is acknowledged
//! memory  the file while it opens; a buffer of the largest burst. The file is at most [`BYTES_MAX`] and a block's
//!         transactions, or twice what the pool held
//! drops   a record that was being written when the program ended: it was never acknowledged. Any other invalid record
//!         is refused, with the file's name and the offset
//!
//! Nothing here waits for the disk: a power loss may cost the writes that it has not performed yet.

use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::appender::Appender;
use crate::disk::Disk;
use crate::frames;
use crate::mount::volume_at;
use crate::store_file::{OpenMode, StoreFile};

/// From how many bytes on the file is emptied when the pool is.
const EMPTY_BYTES: u64 = 1 << 20;
/// File size from which transactions no longer in the pool are compacted away.
const BYTES_MAX: u64 = 64 << 20;

/// Why the file of a pool does not serve.
#[derive(Debug, thiserror::Error)]
pub enum PoolFileError {
    /// Reading or writing the file failed.
    #[error("cannot keep the pool in {}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Why the file could not be read or written, as the system says it.
        source: io::Error,
    },
    /// It is damaged, and not at its end alone.
    #[error(
        "{} at byte {offset}: damaged, or of an older version; restore it, or move it away to go on without the \
         transactions that waited",
        path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Byte offset in the file.
        offset: u64,
    },
}

/// The open file, which any thread may append to.
pub struct PoolFile {
    path: PathBuf,
    written: Mutex<WriteState>,
}

/// Records that are about to be written.
pub struct Records {
    bytes: Vec<u8>,
    /// Offset in the file at which the records begin, bytes.
    begin: u64,
}

impl Records {
    /// Adds one of these bytes.
    pub fn push(&mut self, parts: &[&[u8]]) {
        frames::push(&mut self.bytes, self.begin, parts);
    }
}

struct WriteState {
    /// The end of the records, which the next ones are appended to.
    end: Appender,
    /// Size of the file after its last rewrite, in bytes.
    kept: u64,
    buffer: Vec<u8>,
}

impl PoolFile {
    /// Opens the file. `read` converts its records, each with its offset, for the pool, or returns the offset of one
    /// that the pool cannot have written.
    pub fn open<T>(
        path: PathBuf,
        read: impl FnOnce(&[(u64, &[u8])]) -> Result<T, u64>,
    ) -> Result<(Self, T), PoolFileError> {
        let failed = |source| PoolFileError::Io { path: path.clone(), source };
        let file = StoreFile::open(&path, OpenMode::Any).map_err(failed)?;
        let mut bytes = Vec::new();
        let mut reader: &File = file.file();
        reader.read_to_end(&mut bytes).map_err(failed)?;
        let damaged = |offset| PoolFileError::Damaged { path: path.clone(), offset };
        let frames::FileContents { records, whole } = frames::read(&bytes).map_err(damaged)?;
        let found = read(&records).map_err(damaged)?;
        if whole < bytes.len() as u64 {
            let lost = bytes.len() as u64 - whole;
            tracing::warn!(file = %path.display(), offset = whole, bytes = lost, "cut off what was being written");
            file.cut(whole).map_err(failed)?;
        }
        let written = Mutex::new(WriteState::of(&file, whole));
        Ok((Self { path, written }, found))
    }

    /// Appends the records from `put`, which may inspect the pool while this file is locked: code that drops a
    /// transaction seen there records that afterwards.
    pub fn append(&self, put: impl FnOnce(&mut Records)) -> Result<(), PoolFileError> {
        self.written().append(put).map_err(|source| self.failed(source))
    }

    /// Compacts the file if that is worth it: `put` writes the transactions that are still in the pool.
    pub fn shrink(&self, is_empty: impl FnOnce() -> bool, put: impl FnOnce(&mut Records)) -> Result<(), PoolFileError> {
        // Transactions that enter the pool meanwhile wait for this lock to be appended.
        let mut written = self.written();
        // Twice the last rewritten size: otherwise a full pool would be rewritten with every block.
        let full = written.end.end() >= BYTES_MAX.max(2 * written.kept);
        if !full && (written.end.end() < EMPTY_BYTES || !is_empty()) {
            return Ok(());
        }
        written.rewrite(&self.path, put).map_err(|source| self.failed(source))
    }

    /// Rewrites the file with only the records from `put`, the pool's contents.
    pub fn rewrite(&self, put: impl FnOnce(&mut Records)) -> Result<(), PoolFileError> {
        let mut written = self.written();
        if written.end.end() == 0 {
            return Ok(());
        }
        written.rewrite(&self.path, put).map_err(|source| self.failed(source))
    }

    /// Has the file written through another, as tests of a full disk do.
    pub fn put_disk(&self, disk: Arc<dyn Disk>) {
        self.written().end.put_disk(disk);
    }

    fn failed(&self, source: io::Error) -> PoolFileError {
        PoolFileError::Io { path: self.path.clone(), source }
    }

    fn written(&self) -> MutexGuard<'_, WriteState> {
        self.written.lock()
    }
}

impl WriteState {
    fn of(file: &StoreFile, length: u64) -> Self {
        Self { end: Appender::new(file.disk().clone(), length), kept: 0, buffer: Vec::new() }
    }

    fn append(&mut self, put: impl FnOnce(&mut Records)) -> io::Result<()> {
        let mut records = Records { bytes: std::mem::take(&mut self.buffer), begin: self.end.end() };
        records.bytes.clear();
        put(&mut records);
        self.buffer = records.bytes;
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.end.append(&mut [IoSlice::new(&self.buffer)])
    }

    /// Puts another file in the place of this one: there is a whole one at any time.
    fn rewrite(&mut self, path: &Path, put: impl FnOnce(&mut Records)) -> io::Result<()> {
        let next = path.with_extension("next");
        let file = StoreFile::open(&next, OpenMode::Empty)?;
        let mut fresh = Self { buffer: std::mem::take(&mut self.buffer), ..Self::of(&file, 0) };
        fresh.append(put)?;
        volume_at(path).rename(&next, path)?;
        // Release the buffer that one large burst needed.
        *self = Self { kept: fresh.end.end(), buffer: Vec::new(), ..fresh };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::disk::write_all;

    use super::*;

    fn open(dir: &tempfile::TempDir) -> Result<(PoolFile, Vec<Vec<u8>>), PoolFileError> {
        let all = |records: &[(u64, &[u8])]| Ok(records.iter().map(|(_, bytes)| bytes.to_vec()).collect());
        PoolFile::open(dir.path().join("some.pool"), all)
    }

    fn append(file: &PoolFile, records: &[Vec<u8>]) -> Result<(), PoolFileError> {
        file.append(|out| records.iter().for_each(|bytes| out.push(&[bytes])))
    }

    #[test]
    fn kept_records_are_read_except_a_torn_one() {
        let dir = tempfile::tempdir().unwrap();
        let records: Vec<Vec<u8>> = (1..9u8).map(|n| vec![n; usize::from(n)]).collect();
        let (file, none) = open(&dir).unwrap();
        assert!(none.is_empty());
        append(&file, &records[..3]).unwrap();
        append(&file, &records[3..]).unwrap();
        assert_eq!(open(&dir).unwrap().1, records);
        let path = dir.path().join("some.pool");
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (file, found) = open(&dir).unwrap();
            assert!(records.starts_with(&found), "{length}");
            append(&file, &records[7..]).unwrap();
            assert_eq!(open(&dir).unwrap().1.last(), records.last(), "{length}");
        }
    }

    #[test]
    fn damage_before_what_was_acknowledged_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (file, _) = open(&dir).unwrap();
        append(&file, &(1..9u8).map(|n| vec![n; 50]).collect::<Vec<_>>()).unwrap();
        let path = dir.path().join("some.pool");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[150] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = open(&dir).err().unwrap().to_string();
        assert!(error.contains("some.pool at byte 124"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "it is left as it is");
        bytes[150] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let refused = PoolFile::open(path.clone(), |records| Err::<(), _>(records[2].0));
        assert!(matches!(refused, Err(PoolFileError::Damaged { offset: 124, .. })));
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "it is left as it is");
    }

    #[test]
    fn failed_write_is_reported_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (file, _) = open(&dir).unwrap();
        let records: Vec<Vec<u8>> = (1..4u8).map(|n| vec![n; 50]).collect();
        append(&file, &records[..1]).unwrap();
        let right = file.written().end.put_disk(Arc::new(File::open(&file.path).unwrap()));
        assert!(matches!(append(&file, &records[1..]), Err(PoolFileError::Io { .. })));
        // As if some of it had been written, which could not be cut off either.
        let length = file.written().end.end();
        write_all(&*right, &mut [IoSlice::new(&[9; 500])], length).unwrap();
        file.put_disk(right);
        append(&file, &records[2..]).unwrap();
        assert_eq!(open(&dir).unwrap().1, [records[0].clone(), records[2].clone()]);
    }

    #[test]
    fn only_what_waits_is_kept_of_a_long_file() {
        let dir = tempfile::tempdir().unwrap();
        let (file, _) = open(&dir).unwrap();
        let two = [vec![1; 9], vec![2; 9]];
        let keep = |out: &mut Records| out.push(&[&two[1]]);
        append(&file, &two).unwrap();
        file.shrink(|| true, keep).unwrap();
        assert_eq!(open(&dir).unwrap().1, two, "too short to be worth it");
        append(&file, &vec![vec![7; 1 << 16]; 17]).unwrap();
        file.shrink(|| false, keep).unwrap();
        assert_eq!(open(&dir).unwrap().1.len(), 19, "too short to be worth it while something waits");
        file.shrink(|| true, keep).unwrap();
        assert_eq!(open(&dir).unwrap().1, two[1..]);
        append(&file, &two[..1]).unwrap();
        assert_eq!(open(&dir).unwrap().1, [two[1].clone(), two[0].clone()]);
        // However much waits, a file of long ago goes; but not again before it has doubled.
        File::options().write(true).open(&file.path).unwrap().set_len(BYTES_MAX).unwrap();
        file.written().end.move_to(BYTES_MAX);
        file.shrink(|| false, keep).unwrap();
        assert_eq!(open(&dir).unwrap().1, two[1..]);
        let mut written = file.written();
        written.end.move_to(BYTES_MAX);
        written.kept = BYTES_MAX;
        drop(written);
        file.shrink(|| false, keep).unwrap();
        assert_eq!(file.written().end.end(), BYTES_MAX);
    }
}

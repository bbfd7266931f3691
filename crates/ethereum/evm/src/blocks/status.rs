//! How the last run on a folder ended: the file `status` beside the blocks.
//!
//! ```text
//! magic 8 | kind u64 (0 running, 1 stopped) | boot id 16 | synced u64 | newest u64 | crc u32
//! ```
//!
//! The file is synced when a run begins, when the chain goes back, and when the run stops in order. In between each
//! block overwrites both numbers without a sync. The end of the process keeps them, so the next start knows exactly how
//! far the chain was; the end of the machine may keep older ones.
//!
//! `synced` is a floor: every block up to it was on disk when the number was written. A start that finds fewer blocks
//! faces damage, not a torn tail. Numbers are little endian.
//!
//! memory  a few words

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hearth_wal::files;
use hearth_wal::store_file::{OpenMode, StoreFile};
use parking_lot::{Mutex, MutexGuard};

use super::BlocksError;

const MAGIC: &[u8; 8] = b"HRTHRUN1";
const NAME: &str = "status";
const BYTES: usize = 8 + 8 + 16 + 8 + 8 + 4;
const RUNNING: u64 = 0;
const STOPPED: u64 = 1;

/// How the last run on a folder ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// In order: everything is on disk.
    Stopped,
    /// The process ended and the machine went on: every write has survived.
    Killed,
    /// The machine has restarted since: unsynced data may be gone.
    MachineStopped,
    /// Nothing says: a new folder, or one of an older version.
    Unknown,
}

/// The contents of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastRun {
    pub end: RunEnd,
    /// Every block up to this one was on disk.
    pub synced: u64,
    /// The newest block that the run is known to have made.
    pub newest: u64,
}

#[derive(Clone, Copy)]
struct Record {
    kind: u64,
    boot: [u8; 16],
    synced: u64,
    newest: u64,
}

impl Record {
    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.kind.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.boot);
        bytes[32..40].copy_from_slice(&self.synced.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.newest.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..48]);
        bytes[48..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let checksum = u32::from_le_bytes(bytes[48..].try_into().expect("four bytes"));
        let whole = bytes[..8] == MAGIC[..] && crc32fast::hash(&bytes[..48]) == checksum;
        let boot = bytes[16..32].try_into().expect("sixteen bytes");
        whole.then(|| Self { kind: long(8), boot, synced: long(32), newest: long(40) })
    }
}

impl LastRun {
    /// Reads the folder's file. A damaged file counts as missing, and the log names it.
    pub fn read(dir: &Path) -> Result<Self, BlocksError> {
        let path = dir.join(NAME);
        let unknown = Self { end: RunEnd::Unknown, synced: 0, newest: 0 };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(unknown),
            Err(source) => return Err(BlocksError::Io { what: "read", path, source }),
        };
        let Some(Record { kind, boot, synced, newest }) = Record::decode(&bytes) else {
            tracing::warn!(
                file = %path.display(),
                offset = 0,
                "the file is damaged: how the last run ended is not known, and the file is written again"
            );
            return Ok(unknown);
        };
        let end = match kind {
            STOPPED => RunEnd::Stopped,
            _ if boot != [0; 16] && boot == boot_id() => RunEnd::Killed,
            _ => RunEnd::MachineStopped,
        };
        Ok(Self { end, synced, newest })
    }
}

/// The file of this run.
pub(super) struct Status {
    path: PathBuf,
    file: StoreFile,
    record: Mutex<Record>,
}

impl Status {
    /// A run begins with block `newest`; all up to `synced` is on disk.
    pub fn begin(dir: &Path, synced: u64, newest: u64) -> Result<Self, BlocksError> {
        let path = dir.join(NAME);
        let failed = |source| BlocksError::Io { what: "write", path: path.clone(), source };
        let file = StoreFile::open(&path, OpenMode::Any).map_err(failed)?;
        let record = Record { kind: RUNNING, boot: boot_id(), synced, newest };
        // Truncated first: a longer foreign file would stay longer.
        let begun = file.cut(BYTES as u64).and_then(|()| file.write_at(&record.encode(), 0));
        let begun = begun.and_then(|()| file.sync()).and_then(|()| files::sync_dir(dir));
        begun.map_err(failed)?;
        Ok(Self { path, file, record: Mutex::new(record) })
    }

    /// Block `newest` is made, and all up to `synced` is on disk.
    pub fn note(&self, newest: u64, synced: u64) {
        let mut record = self.lock();
        record.newest = newest;
        record.synced = record.synced.max(synced);
        // A number that is not written makes the next start's report less exact, and nothing else.
        let _ = self.file.write_at(&record.encode(), 0);
    }

    /// The chain is about to go back to block `number`: no later block counts as missing.
    pub fn go_back(&self, number: u64) -> Result<(), BlocksError> {
        self.write(|record| {
            record.synced = record.synced.min(number);
            record.newest = record.newest.min(number);
        })
    }

    /// The run stops with block `newest`, and everything is on disk.
    pub fn stop(&self, newest: u64) -> Result<(), BlocksError> {
        self.write(|record| {
            record.kind = STOPPED;
            record.synced = newest;
            record.newest = newest;
        })
    }

    fn write(&self, change: impl FnOnce(&mut Record)) -> Result<(), BlocksError> {
        let mut record = self.lock();
        change(&mut record);
        let written = self.file.write_at(&record.encode(), 0).and_then(|()| self.file.sync());
        written.map_err(|source| BlocksError::Io { what: "write", path: self.path.clone(), source })
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock()
    }
}

/// Differs after each start of the machine; zeros where the system does not say.
fn boot_id() -> [u8; 16] {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Vec<u8> = digits.chunks_exact(2).filter_map(byte).collect();
    bytes.try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_leaves_how_it_ended() {
        let dir = tempfile::tempdir().expect("a folder");
        let read = || LastRun::read(dir.path()).expect("it is read");
        assert_eq!(read(), LastRun { end: RunEnd::Unknown, synced: 0, newest: 0 });
        let status = Status::begin(dir.path(), 3, 4).expect("written");
        status.note(9, 3);
        let end = if boot_id() == [0; 16] { RunEnd::MachineStopped } else { RunEnd::Killed };
        assert_eq!(read(), LastRun { end, synced: 3, newest: 9 });
        status.note(10, 7);
        assert_eq!(read(), LastRun { end, synced: 7, newest: 10 });
        status.go_back(2).expect("written");
        assert_eq!(read(), LastRun { end, synced: 2, newest: 2 });
        status.stop(5).expect("written");
        assert_eq!(read(), LastRun { end: RunEnd::Stopped, synced: 5, newest: 5 });
    }

    #[test]
    fn another_boot_is_the_machines_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let record = Record { kind: RUNNING, boot: [7; 16], synced: 1, newest: 2 };
        fs::write(dir.path().join(NAME), record.encode()).expect("written");
        let found = LastRun::read(dir.path()).expect("it is read");
        assert_eq!(found, LastRun { end: RunEnd::MachineStopped, synced: 1, newest: 2 });
    }

    #[test]
    fn a_damaged_file_says_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let whole = Record { kind: STOPPED, boot: [7; 16], synced: 1, newest: 2 }.encode();
        for at in 0..BYTES {
            let mut bytes = whole;
            bytes[at] ^= 1;
            for bytes in [&bytes[..], &whole[..at]] {
                fs::write(dir.path().join(NAME), bytes).expect("written");
                assert_eq!(LastRun::read(dir.path()).expect("it is read").end, RunEnd::Unknown, "byte {at}");
            }
        }
    }
}

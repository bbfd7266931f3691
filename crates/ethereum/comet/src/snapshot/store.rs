//! The snapshots on this node's disk, served to nodes that join.
//!
//! reads   the chunks of its folder
//! writes  one folder per snapshot, named after its height: chunks 0, 1, …, and `hashes`, written last; until then
//!         the folder's name ends in `.part`
//! memory  one chunk, and 32 B for each chunk on disk
//! drops   all but the newest snapshots, and [`FETCHED_MAX`] older ones of which a chunk was fetched within
//!         [`FETCHED_FOR`]; incomplete snapshots

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use alloy_consensus::Header;
use alloy_primitives::B256;
use bytes::Bytes;
use hearth_abci::types::Snapshot;
use parking_lot::{Mutex, MutexGuard};

use super::codec::{Entry, FORMAT, Writer, chunk_hash, encode_headers};

/// How long a snapshot stays after one of its chunks was fetched: a peer requests each chunk within some seconds.
const FETCHED_FOR: Duration = Duration::from_secs(120);
/// How many stay for that reason only, so that a peer which keeps requesting old ones cannot fill the disk.
const FETCHED_MAX: usize = 2;

/// A snapshot on disk.
#[derive(Clone, Debug)]
struct StoredSnapshot {
    height: u64,
    hashes: Vec<B256>,
    /// When a chunk of it was last requested.
    fetched: Option<Instant>,
}

/// The snapshots on disk.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    kept_max: usize,
    fetched_for: Duration,
    /// The snapshots, lowest height first.
    kept: Mutex<Vec<StoredSnapshot>>,
}

/// A snapshot's name among its equals: of the hashes of its chunks.
pub(super) fn snapshot_hash(hashes: &[B256]) -> B256 {
    chunk_hash(&joined(hashes))
}

fn joined(hashes: &[B256]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

/// The hashes of chunks out of a snapshot's metadata.
pub(super) fn split(metadata: &[u8]) -> Option<Vec<B256>> {
    let (hashes, rest) = metadata.as_chunks::<32>();
    rest.is_empty().then(|| hashes.iter().map(|hash| B256::from(*hash)).collect())
}

/// Writes a file, to the disk: a snapshot with a name is whole, whenever the machine ends.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

impl Store {
    /// Opens the snapshots of a folder, of which at most `kept_max` are kept.
    pub fn open(folder: &Path, kept_max: usize) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut kept = Vec::new();
        for found in fs::read_dir(folder)? {
            let path = found?.path();
            let height = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
            let Some(height) = height else {
                if path.extension().is_some_and(|end| end == "part") {
                    fs::remove_dir_all(&path)?;
                }
                continue;
            };
            // Without hashes it is incomplete, because the machine stopped while writing.
            match fs::read(path.join("hashes")).ok().and_then(|bytes| split(&bytes)).filter(|hashes| hashes.len() > 1) {
                Some(hashes) => kept.push(StoredSnapshot { height, hashes, fetched: None }),
                None => fs::remove_dir_all(&path)?,
            }
        }
        kept.sort_by_key(|kept| kept.height);
        let (folder, kept_max, kept) = (folder.into(), kept_max.max(1), Mutex::new(kept));
        Ok(Self { folder, kept_max, fetched_for: FETCHED_FOR, kept })
    }

    fn kept(&self) -> MutexGuard<'_, Vec<StoredSnapshot>> {
        self.kept.lock()
    }

    /// Path for an incomplete file or folder, removed at the next start.
    pub fn part(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.part"))
    }

    /// The heights of all snapshots, lowest first.
    pub fn heights(&self) -> Vec<u64> {
        self.kept().iter().map(|kept| kept.height).collect()
    }

    /// The height of the oldest.
    pub fn oldest(&self) -> Option<u64> {
        self.kept().first().map(|kept| kept.height)
    }

    /// Writes a snapshot: the block's header and those before it, newest first, then the entries. Calls `is_written`
    /// before anybody sees the snapshot in the list. On failure nothing stays, and `is_written` is dropped.
    pub fn take(
        &self,
        headers: &[Header],
        entries: impl IntoIterator<Item = io::Result<Entry>>,
        is_written: impl FnOnce(),
    ) -> io::Result<()> {
        let height = headers.first().map_or(0, |header| header.number);
        let taken = self.write(headers, entries, is_written);
        if taken.is_err() {
            let _ = fs::remove_dir_all(self.part(&height.to_string()));
        }
        taken
    }

    fn write(
        &self,
        headers: &[Header],
        entries: impl IntoIterator<Item = io::Result<Entry>>,
        is_written: impl FnOnce(),
    ) -> io::Result<()> {
        let height = headers.first().map_or(0, |header| header.number);
        if self.kept().iter().any(|kept| kept.height == height) {
            return Ok(());
        }
        let part = self.part(&height.to_string());
        if part.exists() {
            fs::remove_dir_all(&part)?;
        }
        fs::create_dir(&part)?;
        let mut hashes = Vec::new();
        let mut put = |chunk: &[u8]| {
            write_synced(&part.join(hashes.len().to_string()), chunk)?;
            hashes.push(chunk_hash(chunk));
            io::Result::Ok(())
        };
        put(&encode_headers(headers))?;
        let mut writer = Writer::default();
        for entry in entries {
            if let Some(chunk) = writer.push(&entry?) {
                put(&chunk)?;
            }
        }
        if let Some(chunk) = writer.close() {
            put(&chunk)?;
        }
        write_synced(&part.join("hashes"), &joined(&hashes))?;
        File::open(&part)?.sync_all()?;
        fs::rename(&part, self.folder.join(height.to_string()))?;
        File::open(&self.folder)?.sync_all()?;
        let gone: Vec<StoredSnapshot> = {
            let mut kept = self.kept();
            is_written();
            kept.push(StoredSnapshot { height, hashes, fetched: None });
            kept.sort_by_key(|kept| kept.height);
            self.let_go(&mut kept)
        };
        gone.iter().try_for_each(|kept| fs::remove_dir_all(self.folder.join(kept.height.to_string())))
    }

    /// Removes snapshots beyond the newest, except those that a peer is fetching.
    fn let_go(&self, kept: &mut Vec<StoredSnapshot>) -> Vec<StoredSnapshot> {
        let is_fetched = |kept: &StoredSnapshot| kept.fetched.is_some_and(|last| last.elapsed() < self.fetched_for);
        let newest = kept.split_off(kept.len().saturating_sub(self.kept_max));
        let (mut fetched, mut gone): (Vec<StoredSnapshot>, Vec<StoredSnapshot>) =
            std::mem::take(kept).into_iter().partition(is_fetched);
        // The newest of them: there is most left to be fetched.
        gone.extend(fetched.drain(..fetched.len().saturating_sub(FETCHED_MAX)));
        kept.extend(fetched.into_iter().chain(newest));
        gone
    }

    /// Lists the snapshots in CometBFT's form.
    pub fn list(&self) -> Vec<Snapshot> {
        let kept = self.kept();
        let listed = kept.iter().map(|StoredSnapshot { height, hashes, .. }| Snapshot {
            height: *height,
            format: FORMAT,
            chunks: hashes.len() as u32,
            hash: Bytes::copy_from_slice(snapshot_hash(hashes).as_slice()),
            metadata: joined(hashes).into(),
        });
        listed.collect()
    }

    /// A chunk, if it is here and whole.
    pub fn chunk(&self, height: u64, format: u32, index: u32) -> Option<Bytes> {
        let hash = {
            let mut kept = self.kept();
            let kept = kept.iter_mut().find(|kept| kept.height == height && format == FORMAT)?;
            let hash = *kept.hashes.get(index as usize)?;
            kept.fetched = Some(Instant::now());
            hash
        };
        let chunk = fs::read(self.folder.join(height.to_string()).join(index.to_string())).ok()?;
        (chunk_hash(&chunk) == hash).then(|| chunk.into())
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, U256};

    use super::*;

    fn account(number: u8) -> Entry {
        let (address, balance) = (Address::repeat_byte(number), U256::from(number));
        Entry::Account { address, nonce: 0, balance, code: Bytes::new() }
    }

    fn headers(number: u64) -> Vec<Header> {
        vec![Header { number, ..Default::default() }]
    }

    #[test]
    fn snapshots_are_kept_up_to_a_bound_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), 2).unwrap();
        for height in [10, 20, 30] {
            store.take(&headers(height), [account(1), account(2)].map(Ok), || ()).unwrap();
        }
        let listed = store.list();
        assert_eq!(listed.iter().map(|snapshot| snapshot.height).collect::<Vec<_>>(), [20, 30]);
        assert_eq!(listed[0].chunks, 2);
        assert!(store.chunk(10, FORMAT, 0).is_none() && store.chunk(20, FORMAT + 1, 0).is_none());
        assert!(store.chunk(20, FORMAT, 2).is_none());
        fs::create_dir(folder.path().join("40.part")).unwrap();
        let again = Store::open(folder.path(), 2).unwrap();
        assert_eq!((again.list(), again.oldest()), (listed, Some(20)));
        let cut = [Ok(account(1)), Err(io::Error::other("stopped"))];
        assert!(again.take(&headers(50), cut, || panic!("it is not written")).is_err());
        assert!(!again.part("50").exists() && again.oldest() == Some(20));
        assert!(!folder.path().join("40.part").exists());
        // A snapshot whose bytes have changed is not served.
        assert!(again.chunk(30, FORMAT, 1).is_some());
        fs::write(folder.path().join("30/1"), b"else").unwrap();
        assert!(again.chunk(30, FORMAT, 1).is_none());
    }

    #[test]
    fn snapshot_is_in_the_list_once_the_next_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), 2).unwrap();
        let mut was_locked = false;
        store.take(&headers(10), [Ok(account(1))], || was_locked = store.kept.try_lock().is_none()).unwrap();
        assert!(was_locked, "nobody reads the list meanwhile");
        assert_eq!(store.heights(), [10]);
    }

    #[test]
    fn fetched_snapshot_stays_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(folder.path(), 1).unwrap();
        let take =
            |store: &Store, height| store.take(&headers(height), [account(1), account(2)].map(Ok), || ()).unwrap();
        take(&store, 10);
        assert!(store.chunk(10, FORMAT, 0).is_some());
        take(&store, 20);
        take(&store, 30);
        assert_eq!(store.heights(), [10, 30], "nobody has asked for the second");
        assert!(store.chunk(10, FORMAT, 1).is_some());
        // Not any number of them.
        for height in [40, 50, 60] {
            assert!(store.chunk(height - 10, FORMAT, 1).is_some());
            take(&store, height);
        }
        assert_eq!(store.heights(), [40, 50, 60]);
        assert!(!folder.path().join("10").exists());
        // Nor for ever.
        store.fetched_for = Duration::ZERO;
        take(&store, 70);
        assert_eq!(store.heights(), [70]);
    }

    #[test]
    fn equal_states_make_equal_snapshots() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let listed = folders.map(|folder| {
            let store = Store::open(folder.path(), 1).unwrap();
            store.take(&headers(5), (1..200).map(account).map(Ok), || ()).unwrap();
            store.list()
        });
        assert_eq!(listed[0], listed[1]);
    }
}

//! Blocks and their receipts on disk.
//!
//! reads   the folder of an earlier run
//! writes  an append-only log in segments, each record with checksums; synced by a thread of its own, so that the
//!         disk works while the next block is made
//! memory  8 B for each block, about 30 B for each transaction: where it is
//! drops   a record that was being written when the program ended; everything else that is not as it was written is
//!         refused, with the file's name
//!
//! A block is in the kernel's hands before anybody sees it, so the end of the program loses none; the end of the
//! machine may lose those of the last moment, and those are the newest ones.

mod record;
mod segment;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use alloy_primitives::B256;

use crate::block::Block;
use crate::disk::Disk;
use crate::state::Changes;
use record::Hashes;
use segment::{Place, Segment, SegmentHead};

/// Bytes from which on a segment is not written to any more.
const SEGMENT_BYTES: u64 = 256 << 20;
/// Bits of an entry of the index that hold a transaction's place in its block.
const INDEX_BITS: u32 = 24;

/// What is wrong with the blocks' folder.
#[derive(Debug, thiserror::Error)]
pub enum BlocksError {
    /// The system does not read or write.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process uses the folder.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The folder is another chain's.
    #[error("{} holds blocks of chain {found_id} with genesis {found}, not of chain {wanted_id} with genesis {wanted}",
        path.display())]
    OtherChain {
        /// The file.
        path: PathBuf,
        /// EIP-155.
        found_id: u64,
        /// The hash of its block zero.
        found: B256,
        /// EIP-155.
        wanted_id: u64,
        /// The hash of the block zero that was asked for.
        wanted: B256,
    },
    /// A file is not as it was written.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

/// The blocks of one chain, from 1 on.
pub struct BlockStore {
    dir: PathBuf,
    head: SegmentHead,
    inner: Arc<Mutex<Inner>>,
    /// Wakes the thread that syncs; taken at the end.
    sync: Option<SyncSender<()>>,
    syncer: Option<JoinHandle<()>>,
    _lock: File,
}

struct Inner {
    segments: Vec<Segment>,
    /// By a keyed hash of a block's hash: its number.
    by_hash: HashMap<u64, u64>,
    /// By a keyed hash of a transaction's hash: its block's number and its place there.
    by_tx: HashMap<u64, u64>,
    /// Nobody can choose hashes that meet in it.
    key: RandomState,
    /// What the thread syncs next.
    unsynced: Option<Arc<dyn Disk>>,
}

impl BlockStore {
    /// Opens the folder, or makes it, for the chain of that id and block zero. The thread that syncs calls `then` each
    /// time after that: what must not be on disk before the blocks is synced there.
    pub fn open(dir: &Path, chain_id: u64, zero: B256, then: impl Fn() + Send + 'static) -> Result<Self, BlocksError> {
        let failed = |what| move |source| BlocksError::Io { what, path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed("make the folder"))?;
        let file = File::create(dir.join("lock")).map_err(failed("lock"))?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => BlocksError::InUse(dir.to_owned()),
            TryLockError::Error(error) => failed("lock")(error),
        })?;
        let head = SegmentHead { chain_id, zero };
        let mut inner = Inner {
            segments: Vec::new(),
            by_hash: HashMap::new(),
            by_tx: HashMap::new(),
            key: RandomState::new(),
            unsynced: None,
        };
        let paths = segment::paths(dir).map_err(failed("read"))?;
        for (at, path) in paths.iter().enumerate() {
            let last = at + 1 == paths.len();
            let next = inner.segments.last().map_or(1, Segment::next);
            let segment = Segment::open(path, &head, next, last, |number, hashes| inner.index(number, hashes))?;
            inner.segments.push(segment);
        }
        let inner = Arc::new(Mutex::new(inner));
        let (sync, wakes) = sync_channel(1);
        let syncs = inner.clone();
        let run = move || {
            while wakes.recv().is_ok() {
                let file = lock(&syncs).unsynced.take();
                if let Some(Err(error)) = file.map(|file| file.sync()) {
                    tracing::error!(%error, "blocks cannot be synced to the disk");
                }
                then();
            }
        };
        let thread = std::thread::Builder::new().name("block-sync".into());
        let syncer = thread.spawn(run).map_err(failed("start the thread that syncs"))?;
        Ok(Self { dir: dir.to_owned(), head, inner, sync: Some(sync), syncer: Some(syncer), _lock: file })
    }

    /// Number of the newest block; 0 where there is none.
    pub fn newest(&self) -> u64 {
        self.lock().newest()
    }

    /// Appends the block after the newest, with what of its changes no execution gives.
    pub fn append(&self, block: &Block, altered: &Changes) -> Result<(), BlocksError> {
        let mut inner = self.lock();
        let number = block.number();
        assert_eq!(number, inner.newest() + 1, "blocks are kept in order");
        if inner.segments.last().is_none_or(|segment| segment.bytes() >= SEGMENT_BYTES) {
            inner.segments.push(Segment::create(&self.dir, &self.head, number)?);
        }
        let segment = inner.segments.last_mut().expect("there is one now");
        segment.append(number, &record::encode(block, altered))?;
        inner.unsynced = Some(segment.disk());
        inner.index(number, &Hashes::of(block));
        drop(inner);
        if let Some(sync) = &self.sync {
            // Full: the thread will look again after what it does.
            let _ = sync.try_send(());
        }
        Ok(())
    }

    /// The block of that number.
    pub fn block(&self, number: u64) -> Result<Option<Arc<Block>>, BlocksError> {
        let place = self.lock().find(number);
        place.map(|place| Ok(Arc::new(place.read()?.0))).transpose()
    }

    /// What of a block's changes no execution gives; nothing where there is no such block.
    pub fn altered(&self, number: u64) -> Result<Changes, BlocksError> {
        let place = self.lock().find(number);
        place.map_or_else(|| Ok(Changes::default()), |place| Ok(place.read()?.1))
    }

    /// The number of the block that may have this hash; the block tells whether it has.
    pub fn number_of(&self, hash: &B256) -> Option<u64> {
        let inner = self.lock();
        inner.by_hash.get(&inner.key.hash_one(hash)).copied()
    }

    /// Where the transaction of this hash may be: the block's number, its place there. The block tells whether it is.
    pub fn place_of(&self, hash: &B256) -> Option<(u64, usize)> {
        let inner = self.lock();
        let place = *inner.by_tx.get(&inner.key.hash_one(hash))?;
        Some((place >> INDEX_BITS, (place & ((1 << INDEX_BITS) - 1)) as usize))
    }

    /// Lets go of all blocks after `number`.
    pub fn truncate(&self, number: u64) -> Result<(), BlocksError> {
        for gone in (number + 1..=self.newest()).rev() {
            if let Some(block) = self.block(gone)? {
                self.lock().forget(&Hashes::of(&block));
            }
        }
        let mut inner = self.lock();
        while let Some(last) = inner.segments.last_mut() {
            if last.first() <= number {
                return last.truncate(number);
            }
            let segment = inner.segments.pop().expect("there is one");
            segment.remove()?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    /// Has the newest file written through another.
    #[cfg(test)]
    pub(crate) fn put_disk(&self, disk: Arc<dyn Disk>) {
        self.lock().segments.last_mut().expect("there is a file").put_disk(disk);
    }

    /// Writes to the disk what is not there yet.
    pub fn sync(&self) -> Result<(), BlocksError> {
        let file = self.lock().unsynced.take();
        let failed = |source| BlocksError::Io { what: "sync", path: self.dir.clone(), source };
        file.map_or(Ok(()), |file| file.sync().map_err(failed))
    }
}

impl Drop for BlockStore {
    fn drop(&mut self) {
        drop(self.sync.take());
        if let Some(syncer) = self.syncer.take() {
            // A panic there has told what it had to tell.
            let _ = syncer.join();
        }
        if let Err(error) = self.sync() {
            tracing::error!(%error, "blocks cannot be synced to the disk");
        }
    }
}

impl Inner {
    fn newest(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.next() - 1)
    }

    fn find(&self, number: u64) -> Option<Place> {
        let at = self.segments.partition_point(|segment| segment.first() <= number);
        self.segments[at.checked_sub(1)?].find(number)
    }

    fn index(&mut self, number: u64, hashes: &Hashes) {
        assert!(hashes.txs.len() < 1 << INDEX_BITS, "a block's gas does not suffice for so many transactions");
        self.by_hash.insert(self.key.hash_one(hashes.block), number);
        for (index, hash) in (0..).zip(&hashes.txs) {
            self.by_tx.insert(self.key.hash_one(hash), number << INDEX_BITS | index);
        }
    }

    fn forget(&mut self, hashes: &Hashes) {
        self.by_hash.remove(&self.key.hash_one(hashes.block));
        for hash in &hashes.txs {
            self.by_tx.remove(&self.key.hash_one(hash));
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

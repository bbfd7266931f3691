//! Blocks and their receipts on disk.
//!
//! reads   the folder of an earlier run
//! writes  an append-only log in segments, each record with checksums; synced by a thread of its own, so that the disk
//!         works while the next block is made
//! memory  about 40 B for each block and 30 B for each transaction: its place by number and by a keyed hash; at most 17
//!         B more for each block in the bloom index
//! drops   at the start, an unsynced tail of the last file: a record that was being written, or what a power failure
//!         left of one; any other damage is refused with the file's name
//!
//! The kernel has a block before any reader sees it, so the end of the program loses none. A power failure may cost the
//! newest blocks, at most [`AHEAD_MAX`]: the writer waits for the disk rather than get further ahead of it. Readers
//! wait while a block's place is recorded, never for the disk.

mod base;
mod blooms;
mod pruning;
mod record;
mod segment;
mod status;
mod sync;

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use alloy_consensus::Header;
use alloy_primitives::{B256, Bloom};
use hearth_wal::{Disk, files, store_file};
use parking_lot::{Mutex, MutexGuard};

use crate::block::{Block, Body, Roots};
use crate::state::Changes;
use crate::tx;
use base::Base;
use blooms::Blooms;
use record::Hashes;
use segment::{RecordPlace, Segment, SegmentHead, SegmentScan, SegmentTail};
pub use status::RunEnd;
use status::{LastRun, Status};
pub use sync::SyncOrder;
use sync::{Shared, UnsyncedFile};

/// How many blocks the newest may be ahead of the disk: no end of the machine costs more. Below the number of states
/// that are kept, so that a state that is further on disk than the blocks can go back to them.
pub const AHEAD_MAX: u64 = 100;
const _: () = assert!(AHEAD_MAX < crate::state::WINDOW as u64);

/// Bytes from which on a segment is not written to any more.
const SEGMENT_BYTES: u64 = 256 << 20;
/// Bits of an entry of the index that hold a transaction's place in its block.
const INDEX_BITS: u32 = 24;
/// Minimum gas that a transaction uses: 21,000, of which a fifth may be refunded.
const GAS_PER_TX_MIN: u64 = 16_800;
/// Bloom groups searched per acquisition of the lock: a fraction of a millisecond.
const GROUPS: u64 = 4_096;

/// An error of the blocks' folder.
#[derive(Debug, thiserror::Error)]
pub enum BlocksError {
    /// The system does not read or write.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed, as the operating system says it.
        source: io::Error,
    },
    /// Another process uses the folder.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The folder is another chain's.
    #[error("{} holds blocks of chain {found_id} with genesis {found}, not of chain {wanted_id} with genesis {wanted}",
        path.display())]
    OtherChain {
        /// The damaged or foreign file.
        path: PathBuf,
        /// The chain id of the folder (EIP-155).
        found_id: u64,
        /// The hash of its block zero.
        found: B256,
        /// The chain id of the genesis (EIP-155).
        wanted_id: u64,
        /// The hash of the genesis' block zero.
        wanted: B256,
    },
    /// A file is not as it was written.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The path of the damaged file.
        path: PathBuf,
        /// The offset of the damage, in bytes.
        offset: u64,
        /// The fault that was found there.
        what: &'static str,
    },
    /// The disk has failed a required sync.
    #[error("no more blocks are kept: {0}")]
    NotSynced(String),
}

/// The blocks of one chain: from 1 on, or the last of them.
pub struct BlockStore {
    dir: PathBuf,
    head: SegmentHead,
    segment_bytes: u64,
    /// How many of the last blocks are kept at least; 0: all.
    retain: u64,
    /// Whether a thread of its own syncs.
    background: bool,
    shared: Arc<Shared>,
    /// Held while a block is written or blocks are cut off.
    writing: Mutex<()>,
    /// Wakes the thread that syncs; taken at the end.
    sync: Option<SyncSender<()>>,
    syncer: Option<JoinHandle<()>>,
    last_run: LastRun,
    /// The newest block that any file knew of at the start.
    seen: u64,
    /// The status of this run; nothing before something is written.
    status: OnceLock<Status>,
    _lock: File,
}

struct Inner {
    /// The block with which the store begins.
    base: Base,
    segments: Vec<Segment>,
    /// By a keyed hash of a block's hash: its number.
    by_hash: HashMap<u64, u64>,
    /// By a keyed hash of a transaction's hash: its block's number and its place there.
    by_tx: HashMap<u64, u64>,
    blooms: Blooms,
    /// The key of the hash: no client can choose hashes that collide.
    key: RandomState,
    /// The file that the thread syncs next; earlier files are on disk.
    unsynced: Option<UnsyncedFile>,
    /// Up to which block everything is on disk.
    synced: u64,
    /// Why nothing more is written.
    failure: Option<String>,
}

impl BlockStore {
    /// Opens the folder, or makes it, for the chain of that id and block zero.
    pub fn open(dir: &Path, chain_id: u64, zero: B256) -> Result<Self, BlocksError> {
        let failed = |what| move |source| BlocksError::Io { what, path: dir.to_owned(), source };
        fs::create_dir_all(dir).map_err(failed("make the folder"))?;
        let file = files::lock(&dir.join("lock")).map_err(|error| match error {
            TryLockError::WouldBlock => BlocksError::InUse(dir.to_owned()),
            TryLockError::Error(error) => failed("lock")(error),
        })?;
        let head = SegmentHead { chain_id, zero };
        let last_run = LastRun::read(dir)?;
        let (inner, seen) = Inner::open(dir, &head, &last_run)?;
        let (inner, seen) = (Mutex::new(inner), seen.max(last_run.newest));
        let shared =
            Arc::new(Shared { inner, order: OnceLock::new(), syncing: Mutex::default(), letting_go: Mutex::default() });
        let (dir, segment_bytes, writing, sync, syncer) = (dir.to_owned(), SEGMENT_BYTES, Mutex::default(), None, None);
        let status = OnceLock::new();
        Ok(Self {
            dir,
            head,
            segment_bytes,
            retain: 0,
            background: true,
            shared,
            writing,
            sync,
            syncer,
            last_run,
            seen,
            status,
            _lock: file,
        })
    }

    /// How the last run ended.
    pub fn run_end(&self) -> RunEnd {
        self.last_run.end
    }

    /// Returns the newest block that any file knew of at the start; it may be missing.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns this run's status, which begins with the folder's contents.
    fn status(&self) -> Result<&Status, BlocksError> {
        if let Some(status) = self.status.get() {
            return Ok(status);
        }
        let (synced, newest) = {
            let inner = self.lock();
            (inner.synced.min(inner.newest()), inner.newest())
        };
        let status = Status::begin(&self.dir, synced, newest)?;
        Ok(self.status.get_or_init(|| status))
    }

    /// Keeps only the last `blocks` blocks; the thread of [`BlockStore::start`] prunes older ones. 0 keeps all.
    pub fn retain(&mut self, blocks: u64) {
        self.retain = blocks;
    }

    /// Sets whether [`BlockStore::start`] starts a thread that syncs. Without it, a [round](Self::sync_round) does its
    /// work.
    pub(crate) fn sync_in_background(&mut self, background: bool) {
        self.background = background;
    }

    /// Syncs everything due, and prunes old blocks. Failures are logged: after a failed sync nothing more is written,
    /// and a failed pruning keeps the old blocks.
    pub(crate) fn sync_round(&self) {
        round(&self.shared, &self.dir, &self.head, self.retain);
    }

    /// Syncs the existing blocks; from now on a thread syncs new ones, in this order.
    pub fn start(&mut self, order: SyncOrder) -> Result<(), BlocksError> {
        assert!(self.shared.order.set(order).is_ok(), "there is one order");
        self.shared.bring()?;
        self.status()?;
        if !self.background {
            return Ok(());
        }
        let (sync, wakes) = sync_channel(1);
        let (shared, dir, of, blocks) = (self.shared.clone(), self.dir.clone(), self.head.clone(), self.retain);
        let bring = move || round(&shared, &dir, &of, blocks);
        let run = move || {
            while wakes.recv().is_ok() {
                bring();
            }
            bring();
        };
        let thread = std::thread::Builder::new().name("block-sync".into());
        let failed = |source| BlocksError::Io { what: "start the thread that syncs", path: self.dir.clone(), source };
        self.syncer = Some(thread.spawn(run).map_err(failed)?);
        self.sync = Some(sync);
        Ok(())
    }

    /// Returns the number of the newest block; 0 if there is none.
    pub fn newest(&self) -> u64 {
        self.lock().newest()
    }

    /// Number of the first block that is kept, or will be.
    pub fn first(&self) -> u64 {
        let inner = self.lock();
        inner.segments.first().map_or(inner.base.first, Segment::first)
    }

    /// Blocks pruning while the guard is held.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.shared.letting_go.lock()
    }

    /// Returns the header of a block that is kept, or of one of the 256 before the first. It reads little more than the
    /// header, and does not verify it: a caller that must be certain compares the hash.
    pub fn header(&self, number: u64) -> Result<Option<Header>, BlocksError> {
        let (place, before) = {
            let inner = self.lock();
            (inner.find(number), inner.base.header(number))
        };
        place.map_or(Ok(before), |place| place.header().map(Some))
    }

    /// Removes everything and begins with this block; `before` are the headers of those before it, newest first.
    pub fn begin_with(&self, block: &Block, before: &[Header]) -> Result<(), BlocksError> {
        {
            let (_writing, _syncing) = (self.writing.lock(), self.shared.syncing.lock());
            self.status()?.go_back(0)?;
            let mut inner = self.lock();
            inner.check_failure()?;
            inner.segments.drain(..).try_for_each(Segment::remove)?;
            (inner.by_hash, inner.by_tx, inner.unsynced) = Default::default();
            inner.synced = block.number() - 1;
            let headers = before.iter().take(base::HEADERS_MAX as usize).cloned().collect();
            inner.base = Base { first: block.number(), headers };
            inner.base.write(&self.dir, &self.head)?;
        }
        self.append(block, &Changes::default())?;
        self.sync()
    }

    /// Returns up to which block everything is on disk, with what it builds on.
    pub fn synced(&self) -> u64 {
        self.lock().synced
    }

    /// Appends the block after the newest, with the changes that no execution makes. On an error, nothing was appended.
    pub fn append(&self, block: &Block, altered: &Changes) -> Result<(), BlocksError> {
        let (number, hashes) = (block.number(), Hashes::of(block));
        let mut record = SegmentTail::room();
        record::encode(block, altered, &mut record);
        let _writing = self.writing.lock();
        let status = self.status()?;
        self.shared.keep_up(number)?;
        let (mut tail, synced) = self.tail(number)?;
        let written = tail.append(number, synced, &mut record);
        let mut inner = self.lock();
        let segment = inner.segments.last_mut().expect("it is being written to");
        segment.set_tail(&tail);
        written?;
        inner.unsynced = Some(UnsyncedFile { disk: tail.disk(), path: tail.path, upto: number });
        inner.index(number, &hashes);
        drop(inner);
        status.note(number, synced);
        if let Some(sync) = &self.sync {
            // If the queue is full, the thread will look again anyway.
            let _ = sync.try_send(());
        }
        Ok(())
    }

    /// Returns the place of the next block's record, and up to which block everything is on disk.
    fn tail(&self, number: u64) -> Result<(SegmentTail, u64), BlocksError> {
        {
            let inner = self.lock();
            inner.check_failure()?;
            assert_eq!(number, inner.newest() + 1, "blocks are kept in order");
            let has_room = |segment: &&Segment| {
                let blocks = segment.next() - segment.first();
                segment.bytes() < self.segment_bytes && blocks < pruning::blocks_max(self.retain)
            };
            let last = inner.segments.last().filter(has_room);
            if let Some(segment) = last {
                return Ok((segment.tail(), inner.synced));
            }
        }
        // Only the last file may have an unsynced tail.
        self.shared.bring()?;
        let segment = Segment::create(&self.dir, &self.head, number)?;
        let mut inner = self.lock();
        let tail = segment.tail();
        inner.segments.push(segment);
        Ok((tail, inner.synced))
    }

    /// The block of that number.
    pub fn block(&self, number: u64) -> Result<Option<Arc<Block>>, BlocksError> {
        let place = self.lock().find(number);
        place.map(|place| Ok(Arc::new(place.read()?.0))).transpose()
    }

    /// Returns those of a block's changes that no execution makes; none if there is no such block.
    pub fn altered(&self, number: u64) -> Result<Changes, BlocksError> {
        let place = self.lock().find(number);
        place.map_or_else(|| Ok(Changes::default()), |place| Ok(place.read()?.1))
    }

    /// Returns the first block from `from` to `to` whose logs may match, by its bloom; pruned blocks are skipped.
    pub fn next_with(&self, from: u64, to: u64, may: impl Fn(&Bloom) -> bool) -> Result<Option<u64>, BlocksError> {
        let (mut from, to) = (from.max(1), to.min(self.newest()));
        while from <= to {
            let next = self.lock().blooms.next(from, to, GROUPS, &may);
            let some = match next {
                Ok(some) => some,
                Err(next) => {
                    from = next;
                    continue;
                }
            };
            from = some.end() + 1;
            for number in some {
                let place = self.lock().find(number);
                if let Some(place) = place
                    && may(&place.bloom()?)
                {
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// The number of the block that may have this hash; the block tells whether it has.
    pub fn number_of(&self, hash: &B256) -> Option<u64> {
        let inner = self.lock();
        inner.by_hash.get(&inner.key.hash_one(hash)).copied()
    }

    /// Returns the block's number and the place in it where this transaction may be. The block tells whether it is.
    pub fn place_of(&self, hash: &B256) -> Option<(u64, usize)> {
        let inner = self.lock();
        let place = *inner.by_tx.get(&inner.key.hash_one(hash))?;
        Some((place >> INDEX_BITS, (place & ((1 << INDEX_BITS) - 1)) as usize))
    }

    /// Removes all blocks after `number`, also from disk.
    pub fn truncate(&self, number: u64) -> Result<(), BlocksError> {
        let _writing = self.writing.lock();
        // Else what goes would count as lost, where the program ends before the next block.
        self.status.get().map_or(Ok(()), |status| status.go_back(number))?;
        for gone in (number + 1..=self.newest()).rev() {
            if let Some(block) = self.block(gone)? {
                self.lock().forget(&Hashes::of(&block));
            }
        }
        let _syncing = self.shared.syncing.lock();
        let mut inner = self.lock();
        inner.synced = inner.synced.min(number);
        inner.blooms.truncate(number);
        while let Some(segment) = inner.segments.pop_if(|segment| segment.first() > number) {
            inner.unsynced = None;
            segment.remove()?;
        }
        let Some(last) = inner.segments.last_mut() else { return Ok(()) };
        let cut = last.truncate(number)?;
        let (tail, upto) = (last.tail(), last.next() - 1);
        if cut {
            inner.unsynced = Some(UnsyncedFile { disk: tail.disk(), path: tail.path.clone(), upto });
        }
        drop(inner);
        match cut.then(|| tail.disk().sync()) {
            Some(Err(error)) => Err(self.shared.fail(format!("cannot sync {}: {error}", tail.path.display()))),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared.lock()
    }

    /// Has the newest file written through another, as tests of a full disk do.
    pub(crate) fn put_disk(&self, disk: Arc<dyn Disk>) {
        self.lock().segments.last_mut().expect("there is a file").put_disk(disk);
    }

    /// Nothing is brought to disk while this is held, as tests of a slow disk do.
    pub(crate) fn hold_syncs(&self) -> MutexGuard<'_, ()> {
        self.shared.syncing.lock()
    }

    /// Syncs everything written so far.
    pub fn sync(&self) -> Result<(), BlocksError> {
        self.shared.bring()
    }

    /// At the end: syncs, and marks the files as complete. A store that was opened and never used leaves them
    /// unchanged.
    fn close(&self) -> Result<(), BlocksError> {
        let Some(status) = self.status.get() else { return Ok(()) };
        self.sync()?;
        let inner = self.lock();
        let newest = inner.newest();
        if inner.segments.last().is_some() && inner.synced != newest {
            return Ok(());
        }
        inner.segments.last().map_or(Ok(()), |last| last.tail().close(newest))?;
        status.stop(newest)
    }
}

impl Drop for BlockStore {
    fn drop(&mut self) {
        drop(self.sync.take());
        if let Some(syncer) = self.syncer.take() {
            // A panic there has already been reported.
            let _ = syncer.join();
        } else if !self.background && self.shared.order.get().is_some() {
            self.sync_round();
        }
        if let Err(error) = self.close() {
            tracing::error!(%error, "blocks cannot be synced to the disk");
        }
    }
}

/// One round of the thread that syncs.
fn round(shared: &Shared, dir: &Path, of: &SegmentHead, retain: u64) {
    if let Err(error) = shared.bring_all() {
        tracing::error!(%error, "blocks cannot be synced to the disk");
        return;
    }
    let _one = shared.letting_go.lock();
    if let Err(error) = pruning::let_go(&shared.inner, dir, of, retain) {
        tracing::error!(%error, "old blocks stay");
    }
}

impl Inner {
    /// Opens the folder; returns its blocks, and the newest block that any file knows.
    fn open(dir: &Path, head: &SegmentHead, last_run: &LastRun) -> Result<(Self, u64), BlocksError> {
        let failed = |what| move |source| BlocksError::Io { what, path: dir.into(), source };
        let base = Base::read(dir, head)?;
        let mut paths = segment::paths(dir).map_err(failed("read"))?;
        // Files that were to go when the program ended.
        while let [oldest, next, ..] = &paths[..]
            && segment::first_of(next).is_some_and(|first| first <= base.first)
        {
            store_file::remove(oldest).map_err(failed("remove a file of"))?;
            paths.remove(0);
        }
        let first = paths.first().and_then(|path| segment::first_of(path)).filter(|first| *first <= base.first);
        let first = first.unwrap_or(base.first);
        let (segments, by_hash, by_tx, blooms, unsynced, failure) = Default::default();
        let (key, synced) = (RandomState::new(), first - 1);
        let mut inner = Self { base, segments, by_hash, by_tx, blooms, key, unsynced, synced, failure };
        let mut newest_seen = 0;
        for (at, path) in paths.iter().enumerate() {
            let last = at + 1 == paths.len();
            let next = inner.segments.last().map_or(first, Segment::next);
            if let Some(before) = inner.segments.last().filter(|_| segment::first_of(path) != Some(next)) {
                return Err(before.ends_early());
            }
            let found = |number, hashes: &Hashes| inner.index(number, hashes);
            let SegmentScan { segment, synced, seen } =
                Segment::open(path, head, next, last.then_some(last_run), found)?;
            inner.synced = synced;
            newest_seen = seen;
            if last {
                // Its contents may be in the system's memory only.
                let tail = segment.tail();
                inner.unsynced = Some(UnsyncedFile { disk: tail.disk(), path: tail.path, upto: segment.next() - 1 });
            }
            inner.segments.push(segment);
        }
        if inner.segments.is_empty() && last_run.synced > inner.newest() {
            let what = "no file of blocks is there, and blocks were on disk";
            return Err(BlocksError::Damaged { path: dir.to_owned(), offset: 0, what });
        }
        Ok((inner, newest_seen))
    }

    fn check_failure(&self) -> Result<(), BlocksError> {
        self.failure.clone().map_or(Ok(()), |why| Err(BlocksError::NotSynced(why)))
    }

    fn newest(&self) -> u64 {
        self.segments.last().map_or(self.base.first, Segment::next) - 1
    }

    fn find(&self, number: u64) -> Option<RecordPlace> {
        let at = self.segments.partition_point(|segment| segment.first() <= number);
        self.segments[at.checked_sub(1)?].find(number)
    }

    fn index(&mut self, number: u64, hashes: &Hashes) {
        assert!(hashes.txs.len() < 1 << INDEX_BITS, "a block's gas does not suffice for so many transactions");
        self.by_hash.insert(self.key.hash_one(hashes.block), number);
        self.blooms.add(number, &hashes.bloom);
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

/// A block's bytes, for another node.
pub fn encode(block: &Block) -> Vec<u8> {
    let mut bytes = Vec::new();
    record::encode(block, &Changes::default(), &mut bytes);
    bytes
}

/// Returns the maximum length of [`encode`]'s bytes of a block with this header: each byte of a block costs at least 2
/// gas, except for the side ledger's part.
pub fn foreign_bytes_max(header: &Header) -> u64 {
    (16 << 20) + header.gas_used / 2
}

/// Decodes the block of this header from another node's bytes, or returns what is wrong with them: its contents follow
/// from the header's roots, and the senders from their signatures. The header is trusted.
pub fn decode_foreign(bytes: &[u8], header: &Header, chain_id: u64) -> Result<Block, &'static str> {
    // Before anything takes memory: a byte can stand for a transaction.
    let txs_max = header.gas_used / GAS_PER_TX_MIN;
    if bytes.len() as u64 > foreign_bytes_max(header) || !record::is_within(bytes, txs_max).unwrap_or(false) {
        return Err("the block has more than its gas pays for");
    }
    let (block, altered) = record::decode(bytes)?;
    if block.header != *header {
        return Err("the block is another");
    }
    let decoded = block.txs.iter().map(|tx| tx::decode(&tx.raw, chain_id)).collect::<Result<Vec<_>, _>>();
    let decoded = decoded.map_err(|_| "a transaction is not of this chain")?;
    let recovered = tx::recover(decoded);
    let by_sender = recovered.iter().zip(&block.txs).all(|(tx, said)| tx.as_ref().is_ok_and(|tx| **tx == **said));
    if !by_sender || recovered.len() != block.txs.len() || !altered.accounts.is_empty() {
        return Err("a transaction was sent by somebody else");
    }
    let Block { header, hash, txs, receipts, ommers, withdrawals } = block;
    let body = Body { txs, receipts, withdrawals };
    let roots = Roots::of(&body);
    let withdrawals = alloy_consensus::proofs::calculate_withdrawals_root(&body.withdrawals);
    let of_header =
        Roots { transactions: header.transactions_root, receipts: header.receipts_root, bloom: header.logs_bloom };
    if roots != of_header || !ommers.is_empty() || header.withdrawals_root.is_some_and(|root| root != withdrawals) {
        return Err("the block is not that of its header");
    }
    let Body { txs, receipts, withdrawals } = body;
    Ok(Block { header, hash, txs, receipts, ommers, withdrawals })
}

#[cfg(test)]
mod tests;

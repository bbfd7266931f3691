//! What was acknowledged and is in no block yet, on disk: who ends the program ends no transaction.
//!
//! The file is of [`frames`]; in each is 1, the sender and the transaction, which was taken; or 2 and the hash of one
//! that was given up.
//!
//! reads   the file of an earlier run
//! writes  what the pool took, before that is acknowledged; what it gave up
//! memory  a buffer of the largest burst; at the start the file, which is at most [`BYTES_MAX`] and a block's
//!         transactions, or twice what the pool held
//! drops   a record that was being written when the program ended: nobody was told of it. Any other that is not as it
//!         was written is refused, with the file's name and the place
//!
//! Nothing here waits for the disk: the end of the machine may cost what it has not written yet.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256};
use hearth_utxo::frames;

use super::{ChainError, lock};
use crate::disk::Disk;
use crate::pool::{Dropped, Pool};
use crate::tx::{SharedTx, Tx, decode_envelope};

/// From how many bytes on the file is emptied when the pool is.
const EMPTY_BYTES: u64 = 1 << 20;
/// From how many bytes on what is not in the pool any more is left out of the file.
const BYTES_MAX: u64 = 64 << 20;
/// What a record is of.
const TAKEN: u8 = 1;
const GONE: u8 = 2;

/// The file.
pub(super) struct Journal {
    path: PathBuf,
    written: Mutex<Written>,
}

struct Written {
    disk: Arc<dyn Disk>,
    bytes: u64,
    /// How many bytes it had when it was last written anew.
    kept: u64,
    /// Whether bytes of a record that failed may lie behind the end.
    rest: bool,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens the file in `dir`; gives the transactions of the earlier run, in the order in which they came.
    pub(super) fn open(dir: &Path) -> Result<(Self, Vec<SharedTx>), ChainError> {
        let path = dir.join("pool.log");
        let failed = |source| ChainError::Journal { path: path.clone(), source };
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).map_err(failed)?;
        let damaged = |offset| ChainError::JournalDamaged { path: path.clone(), offset };
        let (txs, whole) = read(&bytes).map_err(damaged)?;
        if whole < bytes.len() as u64 {
            let lost = bytes.len() as u64 - whole;
            tracing::warn!(file = %path.display(), offset = whole, bytes = lost, "cut off what was being written");
            file.set_len(whole).map_err(failed)?;
        }
        let written = Mutex::new(Written::of(file, whole));
        Ok((Self { path, written }, txs))
    }

    /// Keeps what the pool has taken and not given up since.
    pub(super) fn append(&self, taken: &[SharedTx], pool: &Pool) -> Result<(), ChainError> {
        let mut written = lock(&self.written);
        // What is given up from now on is noted after this.
        let here = pool.holds(taken.iter().map(|tx| &tx.hash));
        let here = taken.iter().zip(here).filter_map(|(tx, here)| here.then_some(tx));
        written
            .append(|buffer, at| here.for_each(|tx| put_taken(tx, at, buffer)))
            .map_err(|error| self.failed(error))?;
        // Where no blocks come there is nobody else to do it. What was taken is kept all the same.
        if let Err(error) = self.shrink_if_worth(&mut written, pool) {
            tracing::error!(%error, "the pool's file keeps what nobody needs any more");
        }
        Ok(())
    }

    /// Notes what the pool has given up: it does not come back.
    pub(super) fn forget(&self, dropped: &[Dropped], pool: &Pool) -> Result<(), ChainError> {
        let mut written = lock(&self.written);
        // What came again meanwhile is kept.
        let here = pool.holds(dropped.iter().map(|dropped| &dropped.tx.hash));
        let gone = dropped.iter().zip(here).filter_map(|(dropped, here)| (!here).then_some(dropped.tx.hash));
        let put = |buffer: &mut Vec<u8>, at| gone.for_each(|hash| put_gone(&hash, at, buffer));
        written.append(put).map_err(|error| self.failed(error))
    }

    /// After a block: lets go of what is in blocks, if that is worth it.
    pub(super) fn shrink(&self, pool: &Pool) -> Result<(), ChainError> {
        self.shrink_if_worth(&mut lock(&self.written), pool)
    }

    fn shrink_if_worth(&self, written: &mut Written, pool: &Pool) -> Result<(), ChainError> {
        if written.bytes < EMPTY_BYTES {
            return Ok(());
        }
        let status = pool.status();
        let is_empty = status.pending + status.queued == 0;
        // Twice what was kept last time: else a full pool would be written again with every block.
        if !is_empty && written.bytes < BYTES_MAX.max(2 * written.kept) {
            return Ok(());
        }
        self.rewrite_as(written, pool)
    }

    /// Keeps what the pool has and nothing else.
    pub(super) fn rewrite(&self, pool: &Pool) -> Result<(), ChainError> {
        let mut written = lock(&self.written);
        if written.bytes == 0 {
            return Ok(());
        }
        self.rewrite_as(&mut written, pool)
    }

    fn rewrite_as(&self, written: &mut Written, pool: &Pool) -> Result<(), ChainError> {
        // What comes into the pool meanwhile is appended after this.
        let kept = pool.content();
        let kept = kept.iter().flat_map(|account| account.pending.iter().chain(&account.queued));
        written.rewrite(kept, &self.path).map_err(|error| self.failed(error))
    }

    fn failed(&self, source: io::Error) -> ChainError {
        ChainError::Journal { path: self.path.clone(), source }
    }

    /// Has the file written through another.
    #[cfg(test)]
    pub(super) fn put_disk(&self, disk: Arc<dyn Disk>) {
        lock(&self.written).disk = disk;
    }
}

impl Written {
    fn of(file: File, bytes: u64) -> Self {
        Self { disk: Arc::new(file), bytes, kept: 0, rest: false, buffer: Vec::new() }
    }

    /// Appends the records that `put` puts into the buffer, which begins at the offset that it is given.
    fn append(&mut self, put: impl FnOnce(&mut Vec<u8>, u64)) -> io::Result<()> {
        self.buffer.clear();
        put(&mut self.buffer, self.bytes);
        if self.buffer.is_empty() {
            return Ok(());
        }
        if self.rest {
            self.disk.cut(self.bytes)?;
            self.rest = false;
        }
        if let Err(error) = self.disk.write(&self.buffer, self.bytes) {
            // Shorter records over these bytes would leave some of them behind themselves.
            self.rest = self.disk.cut(self.bytes).is_err();
            return Err(error);
        }
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }

    /// Puts a file of these transactions in the place of this one.
    fn rewrite<'a>(&mut self, txs: impl IntoIterator<Item = &'a SharedTx>, path: &Path) -> io::Result<()> {
        let next = path.with_extension("next");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&next)?;
        let mut fresh = Self { buffer: std::mem::take(&mut self.buffer), ..Self::of(file, 0) };
        fresh.append(|buffer, at| txs.into_iter().for_each(|tx| put_taken(tx, at, buffer)))?;
        std::fs::rename(next, path)?;
        // What one block took is not held for ever.
        *self = Self { kept: fresh.bytes, buffer: Vec::new(), ..fresh };
        Ok(())
    }
}

fn put_taken(tx: &Tx, begins: u64, buffer: &mut Vec<u8>) {
    frames::push(buffer, begins, &[&[TAKEN], tx.sender.as_slice(), &tx.raw]);
}

fn put_gone(hash: &B256, begins: u64, buffer: &mut Vec<u8>) {
    frames::push(buffer, begins, &[&[GONE], hash.as_slice()]);
}

/// The transactions of a file that were not given up, and of how many of its bytes the whole records are; where it is
/// damaged, the byte.
fn read(bytes: &[u8]) -> Result<(Vec<SharedTx>, u64), u64> {
    let frames::Read { records, whole } = frames::read(bytes)?;
    let (mut txs, mut places) = (Vec::new(), B256Map::default());
    for (at, body) in records {
        match body.split_first() {
            Some((&TAKEN, rest)) => {
                let tx = taken(rest).ok_or(at)?;
                places.insert(tx.hash, txs.len());
                txs.push(Some(tx));
            }
            Some((&GONE, hash)) if hash.len() == B256::len_bytes() => {
                if let Some(place) = places.remove(&B256::from_slice(hash)) {
                    txs[place] = None;
                }
            }
            _ => return Err(at),
        }
    }
    Ok((txs.into_iter().flatten().collect(), whole))
}

fn taken(bytes: &[u8]) -> Option<SharedTx> {
    let (sender, raw) = bytes.split_at_checked(Address::len_bytes())?;
    let envelope = decode_envelope(raw).ok()?;
    Some(Arc::new(Tx::with_sender(envelope, Address::from_slice(sender))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::TxLegacy;
    use alloy_primitives::{Signature, U256};
    use revm::primitives::hardfork::SpecId;

    use crate::disk::Filling;
    use crate::pool::{Accounts, DropReason, PoolConfig, SenderState};

    /// Everybody is rich and has sent nothing.
    struct Rich;

    impl Accounts for Rich {
        fn number(&self) -> u64 {
            0
        }

        fn sender(&self, _: &Address) -> SenderState {
            SenderState { balance: U256::MAX, ..Default::default() }
        }
    }

    fn tx(of: u8) -> SharedTx {
        let tx = TxLegacy { chain_id: Some(1), gas_limit: 21_000, gas_price: 7, ..Default::default() };
        let tx = TxLegacy { to: Address::ZERO.into(), ..tx };
        let envelope = crate::tx::TxEnvelope::new_unhashed(tx.into(), Signature::new(U256::from(of), U256::ONE, false));
        Arc::new(Tx::with_sender(envelope, Address::repeat_byte(of)))
    }

    fn pool(txs: &[SharedTx]) -> Pool {
        let pool = Pool::new(PoolConfig::default(), SpecId::OSAKA);
        assert!(pool.add(txs.to_vec(), &Rich, 0, 1 << 20).iter().all(Result::is_ok));
        pool
    }

    #[test]
    fn what_was_kept_is_read_and_a_torn_end_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, before) = Journal::open(dir.path()).expect("it opens");
        assert!(before.is_empty());
        let txs = [tx(1), tx(2), tx(3)];
        let pool = pool(&txs);
        journal.append(&txs[..2], &pool).expect("kept");
        journal.append(&txs[2..], &pool).expect("kept");
        drop(journal);
        let path = dir.path().join("pool.log");
        let whole = std::fs::read(&path).expect("a file");
        assert_eq!(Journal::open(dir.path()).expect("it opens").1, txs);
        for cut in [1, 30, whole.len() / 3 - 1] {
            std::fs::write(&path, &whole[..whole.len() - cut]).expect("written");
            let (journal, again) = Journal::open(dir.path()).expect("it opens");
            assert_eq!(again, txs[..2]);
            journal.append(&txs[2..], &pool).expect("kept");
            drop(journal);
            assert_eq!(Journal::open(dir.path()).expect("it opens").1, txs);
        }
    }

    #[test]
    fn damage_before_what_was_acknowledged_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        let txs = [tx(1), tx(2), tx(3)];
        journal.append(&txs, &pool(&txs)).expect("kept");
        let path = dir.path().join("pool.log");
        let mut bytes = std::fs::read(&path).expect("a file");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).expect("written");
        let error = Journal::open(dir.path()).err().expect("it is damaged").to_string();
        assert!(error.contains(&format!("pool.log at byte {}", bytes.len() / 3)), "{error}");
        assert_eq!(std::fs::read(&path).expect("a file"), bytes, "it is left as it is");
    }

    #[test]
    fn what_the_pool_gave_up_does_not_come_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        let txs = [tx(1), tx(2), tx(3)];
        let pool = pool(&txs);
        journal.append(&txs[..2], &pool).expect("kept");
        let dropped = |tx: &SharedTx| Dropped { tx: tx.clone(), reason: DropReason::Demand };
        assert!(pool.remove(&txs[0].hash, DropReason::Demand) && pool.remove(&txs[2].hash, DropReason::Demand));
        // The last was dropped before it was noted that it was taken; the second came again before the drop was noted.
        journal.append(&txs[2..], &pool).expect("kept");
        journal.forget(&[dropped(&txs[0]), dropped(&txs[1])], &pool).expect("noted");
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1, txs[1..2]);
    }

    #[test]
    fn a_rewritten_file_holds_what_the_pool_has() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        let txs = [tx(1), tx(2), tx(3)];
        let pool = pool(&txs);
        journal.append(&txs[..2], &pool).expect("kept");
        assert!(pool.remove(&txs[0].hash, DropReason::Demand) && pool.remove(&txs[2].hash, DropReason::Demand));
        journal.rewrite(&pool).expect("rewritten");
        let kept = lock(&journal.written).kept;
        assert_eq!(kept, lock(&journal.written).bytes);
        assert!(pool.add(vec![txs[2].clone()], &Rich, 0, 1 << 20)[0].is_ok());
        journal.append(&txs[2..], &pool).expect("kept");
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1, txs[1..]);
    }

    #[test]
    fn the_file_stays_bounded_without_blocks() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        let txs = [tx(1), tx(2)];
        let pool = pool(&txs);
        journal.append(&txs[..1], &pool).expect("kept");
        // As if it had so much of what was replaced since.
        let file = File::options().write(true).open(dir.path().join("pool.log")).expect("a file");
        file.set_len(BYTES_MAX).expect("it is longer");
        lock(&journal.written).bytes = BYTES_MAX;
        journal.append(&txs[1..], &pool).expect("kept");
        assert!(lock(&journal.written).bytes < 1_000);
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1, txs);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        let txs = [tx(1), tx(2), tx(3)];
        let pool = pool(&txs);
        journal.append(&txs[..1], &pool).expect("kept");
        let file = File::options().write(true).open(dir.path().join("pool.log")).expect("a file");
        let disk = Arc::new(Filling::new(file, 100));
        journal.put_disk(disk.clone());
        journal.append(&txs[1..], &pool).expect_err("it is full");
        disk.leave(1 << 20);
        journal.append(&txs[2..], &pool).expect("kept");
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1, [txs[0].clone(), txs[2].clone()]);
    }
}

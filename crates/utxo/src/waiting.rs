//! What waits for a block, on disk: who ends the program ends no transaction.
//!
//! reads   the file of an earlier run
//! writes  what the pool has taken, before that is acknowledged: [`frames`]
//! memory  the bytes of an earlier run, while it opens; the file is at most [`BYTES_MAX`] and what the pool holds
//! drops   a record that was being written when the program ended: nobody was told of it; damage before it is an error

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloy_primitives::Bytes;

use crate::frames;
use crate::ledger::LedgerError;
use crate::pool::Pool;
use crate::tx::SharedTx;

/// From how many bytes on the file is emptied when the pool is.
const EMPTY_BYTES: u64 = 1 << 20;
/// From how many bytes on what is not in the pool any more is left out of the file.
const BYTES_MAX: u64 = 64 << 20;

/// The file.
pub struct Waiting {
    path: PathBuf,
    /// And its length.
    file: Mutex<(File, u64)>,
}

impl Waiting {
    /// Opens `utxo.pool` in `dir`; gives the transactions of the earlier run, in the order in which they came.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Bytes>), LedgerError> {
        let path = dir.join("utxo.pool");
        let said = |error| LedgerError::Io(path.clone(), error);
        std::fs::create_dir_all(dir).map_err(said)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(said)?;
        let bytes = std::fs::read(&path).map_err(said)?;
        let read = frames::read(&bytes).map_err(|offset| LedgerError::Waiting { path: path.clone(), offset })?;
        let (whole, txs) = (read.whole, read.records.iter().map(|(_, tx)| Bytes::copy_from_slice(tx)).collect());
        file.set_len(whole).map_err(said)?;
        Ok((Self { path, file: Mutex::new((file, whole)) }, txs))
    }

    /// Keeps transactions that the pool has just taken. Where that fails the pool lets go of them again: of each is
    /// said whether it did, or had given it to a block in the meantime.
    pub fn keep(&self, pool: &Pool, txs: &[SharedTx]) -> Result<(), (LedgerError, Vec<bool>)> {
        let kept = self.append(txs.iter().map(|tx| &tx.raw));
        kept.map_err(|error| (error, pool.give_up(&txs.iter().map(|tx| tx.id).collect::<Vec<_>>())))
    }

    fn append<'a>(&self, txs: impl IntoIterator<Item = &'a Bytes>) -> Result<(), LedgerError> {
        let mut file = self.file();
        let (file, length) = &mut *file;
        let bytes = records(txs, *length);
        if bytes.is_empty() {
            return Ok(());
        }
        file.write_all_at(&bytes, *length).map_err(|error| {
            // What was written of it would be damage once a shorter record lies over it. Where it cannot be cut off
            // either, the next one that can be written is over it.
            let _ = file.set_len(*length);
            LedgerError::Io(self.path.clone(), error)
        })?;
        *length += bytes.len() as u64;
        Ok(())
    }

    /// After a block: lets go of what is in blocks, if that is worth it.
    pub fn shrink(&self, pool: &Pool) -> Result<(), LedgerError> {
        // What came into the pool meanwhile waits for this lock to be appended.
        let mut file = self.file();
        let is_empty = pool.status().0 == 0;
        if file.1 < if is_empty { EMPTY_BYTES } else { BYTES_MAX } {
            return Ok(());
        }
        self.rewrite_as(&mut file, pool)
    }

    /// Keeps what the pool has and nothing else.
    pub fn rewrite(&self, pool: &Pool) -> Result<(), LedgerError> {
        let mut file = self.file();
        if file.1 == 0 { Ok(()) } else { self.rewrite_as(&mut file, pool) }
    }

    fn rewrite_as(&self, (file, length): &mut (File, u64), pool: &Pool) -> Result<(), LedgerError> {
        let waiting = pool.best(usize::MAX);
        let bytes = records(waiting.iter().map(|tx| &tx.raw), 0);
        // Beside the old one, so that there is a whole one at any time.
        let (said, beside) = (|error| LedgerError::Io(self.path.clone(), error), self.path.with_extension("pool.new"));
        let mut options = OpenOptions::new();
        let new = options.read(true).write(true).create(true).truncate(true).open(&beside).map_err(said)?;
        new.write_all_at(&bytes, 0).map_err(said)?;
        std::fs::rename(&beside, &self.path).map_err(said)?;
        (*file, *length) = (new, bytes.len() as u64);
        Ok(())
    }

    fn file(&self) -> MutexGuard<'_, (File, u64)> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As they lie in the file from `begin` on.
fn records<'a>(txs: impl IntoIterator<Item = &'a Bytes>, begin: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    txs.into_iter().for_each(|tx| frames::push(&mut bytes, begin, &[tx]));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AssetId;
    use crate::pool::PoolConfig;
    use crate::rules::Refusal;
    use crate::testing::{all_of, funded, pay};
    use crate::tx::SIZE_MAX;

    #[test]
    fn what_was_taken_is_there_again_but_for_what_was_half_written() {
        let dir = tempfile::tempdir().unwrap();
        let txs: Vec<Bytes> = (1..9u8).map(|n| vec![n; usize::from(n)].into()).collect();
        let (waiting, none) = Waiting::open(dir.path()).unwrap();
        assert!(none.is_empty());
        waiting.append(&txs[..3]).unwrap();
        waiting.append(&txs[3..]).unwrap();
        assert_eq!(Waiting::open(dir.path()).unwrap().1, txs);
        let whole = std::fs::read(dir.path().join("utxo.pool")).unwrap();
        for length in 0..whole.len() {
            std::fs::write(dir.path().join("utxo.pool"), &whole[..length]).unwrap();
            let (waiting, found) = Waiting::open(dir.path()).unwrap();
            assert!(txs.starts_with(&found), "{length}");
            waiting.append(&txs[7..]).unwrap();
            assert_eq!(Waiting::open(dir.path()).unwrap().1.last(), txs.last(), "{length}");
        }
    }

    #[test]
    fn damage_before_what_was_acknowledged_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("utxo.pool");
        let (waiting, _) = Waiting::open(dir.path()).unwrap();
        let txs: Vec<Bytes> = (1..9u8).map(|n| vec![n; 50].into()).collect();
        waiting.append(&txs).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[150] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = Waiting::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains("utxo.pool at byte 124"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "it is left as it is");
    }

    #[test]
    fn what_cannot_be_kept_is_said_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (waiting, _) = Waiting::open(dir.path()).unwrap();
        let txs: Vec<Bytes> = (1..4u8).map(|n| vec![n; 50].into()).collect();
        waiting.append(&txs[..1]).unwrap();
        let right = std::mem::replace(&mut waiting.file().0, File::open(&waiting.path).unwrap());
        assert!(matches!(waiting.append(&txs[1..]), Err(LedgerError::Io(..))));
        waiting.file().0 = right;
        waiting.append(&txs[2..]).unwrap();
        assert_eq!(Waiting::open(dir.path()).unwrap().1, [txs[0].clone(), txs[2].clone()]);
    }

    #[test]
    fn what_cannot_be_kept_waits_no_longer() {
        let dir = tempfile::tempdir().unwrap();
        let (waiting, _) = Waiting::open(dir.path()).unwrap();
        let (ledger, pool) = (funded(&[(1, 1_000_000), (2, 1_000_000)]), Pool::new(PoolConfig::default()));
        let first = pay(&all_of(&ledger, 1), 1, 3, AssetId::NATIVE, 500_000);
        let made = vec![(first.out_point(0), first.payload.outputs[0].clone())];
        let second = pay(&made, 3, 4, AssetId::NATIVE, 10);
        let third = pay(&all_of(&ledger, 2), 2, 4, AssetId::NATIVE, 10);
        let all = [first.clone(), second, third.clone()];
        assert_eq!(pool.add(&ledger, all.to_vec()), [Ok(()), Ok(()), Ok(())]);
        pool.after_block(std::slice::from_ref(&third));
        let right = std::mem::replace(&mut waiting.file().0, File::open(&waiting.path).unwrap());
        let (error, gone) = waiting.keep(&pool, &all).unwrap_err();
        assert!(matches!(error, LedgerError::Io(..)), "{error}");
        assert_eq!((gone, pool.status()), (vec![true, true, false], (0, 0)), "the last is in a block");
        assert_eq!(pool.fate(&first.id), Some(Refusal::NotKept));
        assert!(matches!(pool.fate(&all[1].id), Some(Refusal::Missing(_))));
        // It can be sent again.
        waiting.file().0 = right;
        assert_eq!(pool.add(&ledger, vec![first.clone()]), [Ok(())]);
        waiting.keep(&pool, &all[..1]).unwrap();
        assert_eq!(Waiting::open(dir.path()).unwrap().1, [first.raw.clone()]);
    }

    #[test]
    fn only_what_waits_is_kept_of_a_long_file() {
        let dir = tempfile::tempdir().unwrap();
        let (waiting, _) = Waiting::open(dir.path()).unwrap();
        let (ledger, pool) = (funded(&[(1, 1_000_000)]), Pool::new(PoolConfig::default()));
        let tx = pay(&all_of(&ledger, 1), 1, 2, AssetId::NATIVE, 1);
        let many: Vec<Bytes> = vec![vec![7; SIZE_MAX].into(); 17];
        waiting.append(&many).unwrap();
        assert_eq!(pool.add(&ledger, vec![tx.clone()]), [Ok(())]);
        waiting.append([&tx.raw]).unwrap();
        waiting.shrink(&pool).unwrap();
        assert_eq!(Waiting::open(dir.path()).unwrap().1.len(), 18, "too short to be worth it while something waits");
        pool.after_block(&[tx]);
        waiting.shrink(&pool).unwrap();
        assert!(Waiting::open(dir.path()).unwrap().1.is_empty());
        waiting.append(&many[..1]).unwrap();
        assert_eq!(Waiting::open(dir.path()).unwrap().1, many[..1]);
    }
}

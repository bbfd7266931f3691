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
    written: Mutex<Written>,
}

struct Written {
    file: File,
    /// Of the file's bytes, those that are records.
    length: u64,
    /// How many it had when it was last written anew.
    kept: u64,
    /// Whether bytes of a record that failed may lie behind the end.
    rest: bool,
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
        let written = Written { file, length: whole, kept: 0, rest: false };
        Ok((Self { path, written: Mutex::new(written) }, txs))
    }

    /// Keeps transactions that the pool has just taken. Where that fails the pool lets go of them again: of each is
    /// said whether it did, or had given it to a block in the meantime.
    pub fn keep(&self, pool: &Pool, txs: &[SharedTx]) -> Result<(), (LedgerError, Vec<bool>)> {
        let kept = self.append(txs.iter().map(|tx| &tx.raw));
        kept.map_err(|error| (error, pool.give_up(&txs.iter().map(|tx| tx.id).collect::<Vec<_>>())))?;
        // Where no blocks come there is nobody else to do it. What was taken is kept all the same.
        if let Err(error) = self.shrink(pool) {
            tracing::error!(%error, "the file of what waits keeps what nobody needs any more");
        }
        Ok(())
    }

    fn append<'a>(&self, txs: impl IntoIterator<Item = &'a Bytes>) -> Result<(), LedgerError> {
        let said = |error| LedgerError::Io(self.path.clone(), error);
        let mut written = self.written();
        let Written { file, length, rest, .. } = &mut *written;
        let bytes = records(txs, *length);
        if bytes.is_empty() {
            return Ok(());
        }
        if *rest {
            file.set_len(*length).map_err(said)?;
            *rest = false;
        }
        if let Err(error) = file.write_all_at(&bytes, *length) {
            // A shorter record over these bytes would leave some of them behind itself.
            *rest = file.set_len(*length).is_err();
            return Err(said(error));
        }
        *length += bytes.len() as u64;
        Ok(())
    }

    /// After a block: lets go of what is in blocks, if that is worth it.
    pub fn shrink(&self, pool: &Pool) -> Result<(), LedgerError> {
        // What came into the pool meanwhile waits for this lock to be appended.
        let mut written = self.written();
        let is_empty = pool.status().0 == 0;
        // Twice what was kept last time: else a full pool would be written again and again.
        if written.length < if is_empty { EMPTY_BYTES } else { BYTES_MAX.max(2 * written.kept) } {
            return Ok(());
        }
        self.rewrite_as(&mut written, pool)
    }

    /// Keeps what the pool has and nothing else.
    pub fn rewrite(&self, pool: &Pool) -> Result<(), LedgerError> {
        let mut written = self.written();
        if written.length == 0 { Ok(()) } else { self.rewrite_as(&mut written, pool) }
    }

    fn rewrite_as(&self, written: &mut Written, pool: &Pool) -> Result<(), LedgerError> {
        let waiting = pool.best(usize::MAX);
        let bytes = records(waiting.iter().map(|tx| &tx.raw), 0);
        // Beside the old one, so that there is a whole one at any time.
        let (said, beside) = (|error| LedgerError::Io(self.path.clone(), error), self.path.with_extension("pool.new"));
        let mut options = OpenOptions::new();
        let new = options.read(true).write(true).create(true).truncate(true).open(&beside).map_err(said)?;
        new.write_all_at(&bytes, 0).map_err(said)?;
        std::fs::rename(&beside, &self.path).map_err(said)?;
        let length = bytes.len() as u64;
        *written = Written { file: new, length, kept: length, rest: false };
        Ok(())
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
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
        let right = std::mem::replace(&mut waiting.written().file, File::open(&waiting.path).unwrap());
        assert!(matches!(waiting.append(&txs[1..]), Err(LedgerError::Io(..))));
        waiting.written().file = right;
        waiting.append(&txs[2..]).unwrap();
        assert_eq!(Waiting::open(dir.path()).unwrap().1, [txs[0].clone(), txs[2].clone()]);
    }

    #[test]
    fn what_failed_and_could_not_be_cut_off_is_no_damage_later() {
        let dir = tempfile::tempdir().unwrap();
        let (waiting, _) = Waiting::open(dir.path()).unwrap();
        let txs: Vec<Bytes> = (1..4u8).map(|n| vec![n; 50].into()).collect();
        waiting.append(&txs[..1]).unwrap();
        {
            let mut written = waiting.written();
            written.file.write_all_at(&[9; 500], written.length).unwrap();
            written.rest = true;
        }
        waiting.append(&txs[1..]).unwrap();
        assert_eq!(Waiting::open(dir.path()).unwrap().1, txs);
    }

    #[test]
    fn the_file_stays_bounded_without_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let (waiting, _) = Waiting::open(dir.path()).unwrap();
        let (ledger, pool) = (funded(&[(1, 1_000_000)]), Pool::new(PoolConfig::default()));
        let tx = pay(&all_of(&ledger, 1), 1, 2, AssetId::NATIVE, 1);
        assert_eq!(pool.add(&ledger, vec![tx.clone()]), [Ok(())]);
        // As if it had so much of what waits no more.
        waiting.written().file.set_len(BYTES_MAX).unwrap();
        waiting.written().length = BYTES_MAX;
        waiting.keep(&pool, std::slice::from_ref(&tx)).unwrap();
        assert!(waiting.written().length < 1_000);
        assert_eq!(Waiting::open(dir.path()).unwrap().1, [tx.raw.clone()]);
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
        let right = std::mem::replace(&mut waiting.written().file, File::open(&waiting.path).unwrap());
        let (error, gone) = waiting.keep(&pool, &all).unwrap_err();
        assert!(matches!(error, LedgerError::Io(..)), "{error}");
        assert_eq!((gone, pool.status()), (vec![true, true, false], (0, 0)), "the last is in a block");
        assert_eq!(pool.fate(&first.id), Some(Refusal::NotKept));
        assert!(matches!(pool.fate(&all[1].id), Some(Refusal::Missing(_))));
        // It can be sent again.
        waiting.written().file = right;
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

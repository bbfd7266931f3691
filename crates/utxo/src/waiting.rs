//! What waits for a block, on disk: who ends the program ends no transaction.
//!
//! reads   the file of an earlier run
//! writes  what the pool has taken, before that is acknowledged: `length u32 | crc u32 | bytes` each
//! memory  the bytes of an earlier run, while it opens; the file is at most [`BYTES_MAX`] and what the pool holds
//! drops   a record that was being written when the program ended: nobody was told of it

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use alloy_primitives::Bytes;

use crate::ledger::LedgerError;
use crate::pool::Pool;
use crate::tx::SIZE_MAX;

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
        let (mut rest, mut txs) = (&bytes[..], Vec::new());
        while let Some((tx, after)) = record(rest) {
            txs.push(Bytes::copy_from_slice(tx));
            rest = after;
        }
        let whole = (bytes.len() - rest.len()) as u64;
        file.set_len(whole).map_err(said)?;
        Ok((Self { path, file: Mutex::new((file, whole)) }, txs))
    }

    /// Keeps what the pool has taken.
    pub fn append<'a>(&self, txs: impl IntoIterator<Item = &'a Bytes>) -> Result<(), LedgerError> {
        let bytes = records(txs);
        if bytes.is_empty() {
            return Ok(());
        }
        let mut file = self.file();
        let (file, length) = &mut *file;
        file.write_all_at(&bytes, *length).map_err(|error| LedgerError::Io(self.path.clone(), error))?;
        *length += bytes.len() as u64;
        Ok(())
    }

    /// After a block: lets go of what is in blocks, if that is worth it.
    pub fn shrink(&self, pool: &Pool) -> Result<(), LedgerError> {
        // What came into the pool meanwhile waits for this lock to be appended.
        let mut file = self.file();
        let (file, length) = &mut *file;
        let is_empty = pool.status().0 == 0;
        if *length < if is_empty { EMPTY_BYTES } else { BYTES_MAX } {
            return Ok(());
        }
        let waiting = pool.best(usize::MAX);
        let bytes = records(waiting.iter().map(|tx| &tx.raw));
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

fn records<'a>(txs: impl IntoIterator<Item = &'a Bytes>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for tx in txs {
        bytes.extend((tx.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(tx).to_le_bytes());
        bytes.extend_from_slice(tx);
    }
    bytes
}

/// The first record, and what comes after it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (crc, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok().filter(|length| *length <= SIZE_MAX)?;
    let (tx, rest) = rest.split_at_checked(length)?;
    (crc32fast::hash(tx) == u32::from_le_bytes(*crc)).then_some((tx, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AssetId;
    use crate::pool::PoolConfig;
    use crate::testing::{all_of, funded, pay};

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

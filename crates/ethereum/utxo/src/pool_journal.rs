//! The outputs' transactions that wait for a block, in a [`PoolFile`]: one record each.

use std::path::Path;

use alloy_primitives::Bytes;
use hearth_wal::pool_file::{PoolFile, Records};

use crate::ledger::LedgerError;
use crate::pool::Pool;
use crate::tx::SharedTx;

/// The file `utxo.pool`, which persists waiting transactions.
pub struct PoolJournal(PoolFile);

impl PoolJournal {
    /// Opens `utxo.pool` in `dir`; gives the transactions of the earlier run, in the order in which they came.
    pub fn open(dir: &Path) -> Result<(Self, Vec<Bytes>), LedgerError> {
        std::fs::create_dir_all(dir).map_err(|error| LedgerError::Io(dir.into(), error))?;
        let all = |records: &[(u64, &[u8])]| Ok(records.iter().map(|(_, tx)| Bytes::copy_from_slice(tx)).collect());
        let (file, txs) = PoolFile::open(dir.join("utxo.pool"), all)?;
        Ok((Self(file), txs))
    }

    /// Persists transactions that the pool has just accepted. On failure the pool drops them again; the error holds for
    /// each whether it did, or had given it to a block in the meantime.
    pub fn keep(&self, pool: &Pool, txs: &[SharedTx]) -> Result<(), (LedgerError, Vec<bool>)> {
        let kept = self.0.append(|out| txs.iter().for_each(|tx| out.push(&[&tx.raw])));
        kept.map_err(|error| (error.into(), pool.give_up(&txs.iter().map(|tx| tx.id).collect::<Vec<_>>())))?;
        // If no blocks come, nothing else shrinks the file. The transactions are persisted even if shrinking fails.
        if let Err(error) = self.shrink(pool) {
            tracing::error!(%error, "the file of what waits keeps what nobody needs any more");
        }
        Ok(())
    }

    /// Drops transactions that are in blocks, if that is worth a rewrite. Call it after a block.
    pub fn shrink(&self, pool: &Pool) -> Result<(), LedgerError> {
        Ok(self.0.shrink(|| pool.status().0 == 0, |out| put_all(pool, out))?)
    }

    /// Rewrites the file with the pool's current contents only.
    pub fn rewrite(&self, pool: &Pool) -> Result<(), LedgerError> {
        Ok(self.0.rewrite(|out| put_all(pool, out))?)
    }
}

fn put_all(pool: &Pool, out: &mut Records) {
    pool.best(usize::MAX).iter().for_each(|tx| out.push(&[&tx.raw]));
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::Arc;

    use hearth_wal::Disk;

    use super::*;
    use crate::AssetId;
    use crate::pool::PoolConfig;
    use crate::rules::Refusal;
    use crate::testing::{all_of, funded, pay};

    #[test]
    fn unstorable_transaction_leaves_the_pool() {
        let dir = tempfile::tempdir().unwrap();
        let (waiting, _) = PoolJournal::open(dir.path()).unwrap();
        let (ledger, pool) = (funded(&[(1, 1_000_000), (2, 1_000_000)]), Pool::new(PoolConfig::default()));
        let first = pay(&all_of(&ledger, 1), 1, 3, AssetId::NATIVE, 500_000);
        let made = vec![(first.out_point(0), first.payload.outputs[0].clone())];
        let second = pay(&made, 3, 4, AssetId::NATIVE, 10);
        let third = pay(&all_of(&ledger, 2), 2, 4, AssetId::NATIVE, 10);
        let all = [first.clone(), second, third.clone()];
        assert_eq!(pool.add(&ledger, all.to_vec()), [Ok(()), Ok(()), Ok(())]);
        pool.after_block(std::slice::from_ref(&third));
        let path = dir.path().join("utxo.pool");
        let writable =
            |yes: bool| -> Arc<dyn Disk> { Arc::new(File::options().read(true).write(yes).open(&path).unwrap()) };
        waiting.0.put_disk(writable(false));
        let (error, gone) = waiting.keep(&pool, &all).unwrap_err();
        assert!(matches!(error, LedgerError::Waiting(_)), "{error}");
        assert_eq!((gone, pool.status()), (vec![true, true, false], (0, 0)), "the last is in a block");
        assert_eq!(pool.fate(&first.id), Some(Refusal::NotKept));
        assert!(matches!(pool.fate(&all[1].id), Some(Refusal::Missing(_))));
        // It can be sent again.
        waiting.0.put_disk(writable(true));
        assert_eq!(pool.add(&ledger, vec![first.clone()]), [Ok(())]);
        waiting.keep(&pool, &all[..1]).unwrap();
        assert_eq!(PoolJournal::open(dir.path()).unwrap().1, [first.raw.clone()]);
    }

    #[test]
    fn included_transactions_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (waiting, _) = PoolJournal::open(dir.path()).unwrap();
        let (ledger, pool) = (funded(&[(1, 1_000_000), (2, 1_000_000)]), Pool::new(PoolConfig::default()));
        let txs = [1, 2].map(|from| pay(&all_of(&ledger, from), from, 3, AssetId::NATIVE, 10));
        assert_eq!(pool.add(&ledger, txs.to_vec()), [Ok(()), Ok(())]);
        waiting.keep(&pool, &txs).unwrap();
        pool.after_block(&txs[..1]);
        waiting.rewrite(&pool).unwrap();
        assert_eq!(PoolJournal::open(dir.path()).unwrap().1, [txs[1].raw.clone()]);
    }
}

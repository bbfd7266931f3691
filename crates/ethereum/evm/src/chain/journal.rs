//! The transactions that were acknowledged and are in no block yet, in a [`PoolFile`].
//!
//! A record is 1, the sender and the transaction, which was taken; or 2 and the hash of one that was given up. A blob
//! transaction is there in its network form: its sidecar was checked, and is not checked again.

use std::path::Path;
use std::sync::Arc;

use alloy_primitives::map::B256Map;
use alloy_primitives::{Address, B256};
use hearth_wal::pool_file::{PoolFile, PoolFileError, Records};

use crate::blobs::SharedSidecar;
use crate::pool::{DroppedTx, Pool};
use crate::tx::{SharedTx, Tx, decode_envelope, join_network, split_network};

/// The kind of a record.
const TAKEN: u8 = 1;
const GONE: u8 = 2;

/// Transactions that an earlier run accepted and did not drop; blocks may contain them meanwhile.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AcceptedTxs {
    /// The transactions in the order of their arrival.
    pub txs: Vec<SharedTx>,
    /// The sidecars of blob transactions, each with the transaction's hash.
    pub sidecars: Vec<(B256, SharedSidecar)>,
}

/// The file `pool.log`, which keeps accepted transactions for the next run.
pub(super) struct Journal(PoolFile);

impl Journal {
    /// Opens the file in `dir`; returns the transactions of the earlier run.
    pub(super) fn open(dir: &Path) -> Result<(Self, AcceptedTxs), PoolFileError> {
        let (file, waiting) = PoolFile::open(dir.join("pool.log"), read)?;
        Ok((Self(file), waiting))
    }

    /// Stores transactions that the pool has accepted and not dropped since.
    pub(super) fn append(&self, taken: &[SharedTx], pool: &Pool) -> Result<(), PoolFileError> {
        self.0.append(|out| {
            // Later drops are recorded after this.
            let here = pool.holds(taken.iter().map(|tx| &tx.hash));
            taken.iter().zip(here).filter(|(_, here)| *here).for_each(|(tx, _)| put_taken(tx, pool, out));
        })?;
        // On a chain without blocks only this place can shrink the file. The transactions are stored anyway.
        if let Err(error) = self.shrink(pool) {
            tracing::error!(%error, "the pool's file keeps what nobody needs any more");
        }
        Ok(())
    }

    /// Records the pool's drops, so that a restart does not bring the transactions back.
    pub(super) fn forget(&self, dropped: &[DroppedTx], pool: &Pool) -> Result<(), PoolFileError> {
        self.0.append(|out| {
            // What came again meanwhile is kept.
            let here = pool.holds(dropped.iter().map(|dropped| &dropped.tx.hash));
            let gone = dropped.iter().zip(here).filter(|(_, here)| !here);
            gone.for_each(|(dropped, _)| out.push(&[&[GONE], dropped.tx.hash.as_slice()]));
        })
    }

    /// After a block: removes the transactions in blocks from the file, if that is worth it.
    pub(super) fn shrink(&self, pool: &Pool) -> Result<(), PoolFileError> {
        let is_empty = || {
            let status = pool.status();
            status.pending + status.queued == 0
        };
        self.0.shrink(is_empty, |out| put_all(pool, out))
    }

    /// Rewrites the file with exactly the pool's transactions.
    pub(super) fn rewrite(&self, pool: &Pool) -> Result<(), PoolFileError> {
        self.0.rewrite(|out| put_all(pool, out))
    }

    /// Has the file written through another.
    #[cfg(test)]
    pub(super) fn put_disk(&self, disk: Arc<dyn hearth_wal::Disk>) {
        self.0.put_disk(disk);
    }
}

fn put_all(pool: &Pool, out: &mut Records) {
    let content = pool.content();
    content
        .iter()
        .flat_map(|account| account.pending.iter().chain(&account.queued))
        .for_each(|tx| put_taken(tx, pool, out));
}

fn put_taken(tx: &Tx, pool: &Pool, out: &mut Records) {
    let sidecar = tx.envelope.is_eip4844().then(|| pool.sidecars().get(&tx.hash)).flatten();
    match sidecar {
        Some(sidecar) => out.push(&[&[TAKEN], tx.sender.as_slice(), &join_network(tx, &sidecar)]),
        None => out.push(&[&[TAKEN], tx.sender.as_slice(), &tx.raw]),
    }
}

/// Returns the transactions that were not dropped; the error is the offset of a foreign record.
fn read(records: &[(u64, &[u8])]) -> Result<AcceptedTxs, u64> {
    let (mut all, mut places) = (Vec::new(), B256Map::default());
    for (at, body) in records {
        match body.split_first() {
            Some((&TAKEN, rest)) => {
                let (tx, sidecar) = decode_entry(rest).ok_or(*at)?;
                places.insert(tx.hash, all.len());
                all.push(Some((tx, sidecar)));
            }
            Some((&GONE, hash)) if hash.len() == B256::len_bytes() => {
                if let Some(place) = places.remove(&B256::from_slice(hash)) {
                    all[place] = None;
                }
            }
            _ => return Err(*at),
        }
    }
    let mut waiting = AcceptedTxs::default();
    for (tx, sidecar) in all.into_iter().flatten() {
        waiting.sidecars.extend(sidecar.map(|sidecar| (tx.hash, sidecar)));
        waiting.txs.push(tx);
    }
    Ok(waiting)
}

fn decode_entry(bytes: &[u8]) -> Option<(SharedTx, Option<SharedSidecar>)> {
    let (sender, raw) = bytes.split_at_checked(Address::len_bytes())?;
    let with_sidecar = split_network(raw).ok()?;
    let signed = with_sidecar.as_ref().map_or(raw, |(signed, _)| &signed[..]);
    let tx = Tx::with_sender(decode_envelope(signed).ok()?, Address::from_slice(sender));
    Some((Arc::new(tx), with_sidecar.map(|(_, sidecar)| Arc::new(sidecar))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::TxLegacy;
    use alloy_primitives::{Signature, U256};
    use revm::primitives::hardfork::SpecId;

    use crate::pool::{Accounts, DropReason, PoolConfig, SenderState};

    /// All accounts are rich and have sent nothing.
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
    fn kept_records_are_read_up_to_a_torn_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, before) = Journal::open(dir.path()).expect("it opens");
        assert_eq!(before, AcceptedTxs::default());
        let txs = [tx(1), tx(2), tx(3)];
        let pool = pool(&txs);
        journal.append(&txs[..2], &pool).expect("kept");
        journal.append(&txs[2..], &pool).expect("kept");
        drop(journal);
        let path = dir.path().join("pool.log");
        let whole = std::fs::read(&path).expect("a file");
        assert_eq!(Journal::open(dir.path()).expect("it opens").1.txs, txs);
        for cut in [1, 30, whole.len() / 3 - 1] {
            std::fs::write(&path, &whole[..whole.len() - cut]).expect("written");
            let (journal, again) = Journal::open(dir.path()).expect("it opens");
            assert_eq!(again.txs, txs[..2]);
            journal.append(&txs[2..], &pool).expect("kept");
            drop(journal);
            assert_eq!(Journal::open(dir.path()).expect("it opens").1.txs, txs);
        }
    }

    #[test]
    fn dropped_transactions_do_not_return() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        let txs = [tx(1), tx(2), tx(3)];
        let pool = pool(&txs);
        journal.append(&txs[..2], &pool).expect("kept");
        let dropped = |tx: &SharedTx| DroppedTx { tx: tx.clone(), reason: DropReason::Demand };
        assert!(pool.remove(&txs[0].hash, DropReason::Demand) && pool.remove(&txs[2].hash, DropReason::Demand));
        // The last was dropped before it was noted that it was taken; the second came again before the drop was noted.
        journal.append(&txs[2..], &pool).expect("kept");
        journal.forget(&[dropped(&txs[0]), dropped(&txs[1])], &pool).expect("noted");
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1.txs, txs[1..2]);
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
        assert!(pool.add(vec![txs[2].clone()], &Rich, 0, 1 << 20)[0].is_ok());
        journal.append(&txs[2..], &pool).expect("kept");
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1.txs, txs[1..]);
    }
}

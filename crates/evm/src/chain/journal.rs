//! What was acknowledged and is in no block yet, on disk: who ends the program ends no transaction.
//!
//! reads   the file of an earlier run
//! writes  what the pool took, before that is acknowledged
//! memory  a buffer of the largest burst; the file is at most [`BYTES_MAX`] and what the pool holds
//! drops   a record that was being written when the program ended: nobody was told of it; damage before that is an error

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use alloy_primitives::Address;
use hearth_utxo::frames;

use super::{ChainError, lock};
use crate::pool::Pool;
use crate::tx::{SharedTx, Tx, decode_envelope};

/// From how many bytes on the file is emptied when the pool is.
const EMPTY_BYTES: u64 = 1 << 20;
/// From how many bytes on what is not in the pool any more is left out of the file.
const BYTES_MAX: u64 = 64 << 20;

/// The file.
pub(super) struct Journal {
    path: PathBuf,
    written: Mutex<Written>,
}

struct Written {
    file: File,
    bytes: u64,
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
            file.set_len(whole).map_err(failed)?;
        }
        let written = Mutex::new(Written { file, bytes: whole, buffer: Vec::new() });
        Ok((Self { path, written }, txs))
    }

    /// Keeps what the pool has taken.
    pub(super) fn append<'a>(&self, txs: impl IntoIterator<Item = &'a SharedTx>) -> Result<(), ChainError> {
        let mut written = lock(&self.written);
        written.append(txs).map_err(|source| ChainError::Journal { path: self.path.clone(), source })
    }

    /// After a block: lets go of what is in blocks, if that is worth it.
    pub(super) fn shrink(&self, pool: &Pool) -> Result<(), ChainError> {
        let mut written = lock(&self.written);
        if written.bytes < EMPTY_BYTES {
            return Ok(());
        }
        // What came into the pool meanwhile is appended after this.
        let status = pool.status();
        let is_empty = status.pending + status.queued == 0;
        if !is_empty && written.bytes < BYTES_MAX {
            return Ok(());
        }
        let kept = if is_empty { Vec::new() } else { pool.content() };
        let kept = kept.iter().flat_map(|account| account.pending.iter().chain(&account.queued));
        written.rewrite(kept, &self.path).map_err(|source| ChainError::Journal { path: self.path.clone(), source })
    }
}

#[cfg(test)]
impl Journal {
    /// Nothing can be written from now on.
    pub(super) fn fill(&self) {
        lock(&self.written).file = File::open(&self.path).expect("a file");
    }
}

impl Written {
    fn append<'a>(&mut self, txs: impl IntoIterator<Item = &'a SharedTx>) -> io::Result<()> {
        self.buffer.clear();
        for tx in txs {
            frames::push(&mut self.buffer, self.bytes, &[tx.sender.as_slice(), &tx.raw]);
        }
        self.file.write_all_at(&self.buffer, self.bytes).inspect_err(|_| {
            // What was written of it would be damage once a shorter record lies over it. Where it cannot be cut off
            // either, the next one that can be written is over it.
            let _ = self.file.set_len(self.bytes);
        })?;
        self.bytes += self.buffer.len() as u64;
        Ok(())
    }

    /// Puts a file of these transactions in the place of this one.
    fn rewrite<'a>(&mut self, txs: impl IntoIterator<Item = &'a SharedTx>, path: &Path) -> io::Result<()> {
        let next = path.with_extension("next");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&next)?;
        let mut fresh = Self { file, bytes: 0, buffer: std::mem::take(&mut self.buffer) };
        fresh.append(txs)?;
        std::fs::rename(next, path)?;
        // What one block took is not held for ever.
        fresh.buffer = Vec::new();
        *self = fresh;
        Ok(())
    }
}

/// The transactions of a file, each behind its sender, and of how many of its bytes they are; where it is damaged, the
/// byte.
fn read(bytes: &[u8]) -> Result<(Vec<SharedTx>, u64), u64> {
    let frames::Read { records, whole } = frames::read(bytes)?;
    let tx = |(place, body): (u64, &[u8])| {
        let (sender, raw) = body.split_at_checked(Address::len_bytes()).ok_or(place)?;
        let envelope = decode_envelope(raw).map_err(|_| place)?;
        Ok(Arc::new(Tx::with_sender(envelope, Address::from_slice(sender))))
    };
    Ok((records.into_iter().map(tx).collect::<Result<_, u64>>()?, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::TxLegacy;
    use alloy_primitives::Signature;

    fn tx(nonce: u64) -> SharedTx {
        let tx = TxLegacy { chain_id: Some(1), nonce, ..Default::default() };
        let envelope = crate::tx::TxEnvelope::new_unhashed(tx.into(), Signature::test_signature());
        Arc::new(Tx::with_sender(envelope, Address::repeat_byte(nonce as u8)))
    }

    #[test]
    fn what_was_kept_is_read_and_a_torn_end_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, before) = Journal::open(dir.path()).expect("it opens");
        assert!(before.is_empty());
        let txs = [tx(1), tx(2), tx(3)];
        journal.append(&txs[..2]).expect("kept");
        journal.append(&txs[2..]).expect("kept");
        drop(journal);
        let (journal, again) = Journal::open(dir.path()).expect("it opens");
        assert_eq!(again, txs);
        drop(journal);
        let path = dir.path().join("pool.log");
        let length = std::fs::metadata(&path).expect("a file").len();
        File::options().write(true).open(&path).and_then(|file| file.set_len(length - 1)).expect("cut");
        let (journal, again) = Journal::open(dir.path()).expect("it opens");
        assert_eq!(again, txs[..2]);
        journal.append(&txs[2..]).expect("kept");
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1, txs);
    }

    #[test]
    fn damage_before_what_was_acknowledged_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        journal.append(&[tx(1), tx(2), tx(3)]).expect("kept");
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
    fn a_rewritten_file_holds_what_it_is_given() {
        let dir = tempfile::tempdir().expect("a folder");
        let (journal, _) = Journal::open(dir.path()).expect("it opens");
        journal.append(&[tx(1), tx(2)]).expect("kept");
        lock(&journal.written).rewrite([&tx(2)], &journal.path).expect("rewritten");
        journal.append(&[tx(3)]).expect("kept");
        drop(journal);
        assert_eq!(Journal::open(dir.path()).expect("it opens").1, [tx(2), tx(3)]);
    }
}

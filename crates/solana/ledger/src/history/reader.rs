//! reader: queries for a transaction, for the transactions of an address, and for a block.
//!
//! reads   the index, newest segment first; the log
//! memory  the result
//! source  `blockstore.rs` of `solana-ledger` 4.2 for the order of an address's signatures
//!
//! A search reads one or two pages per segment. Addresses are identified by a keyed hash of 64 bits: another address's
//! transaction is included by mistake with odds of 2⁻⁶⁴ for each pair.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use hearth_wire::{Pubkey, Signature};

use super::HistoryError;
use super::compactor::Shared;
use super::meta::{BlockMeta, TransactionMeta};
use super::search::{Hit, Log, Part};
use crate::error::TransactionError;

/// Queries the history on any thread; cheap to clone.
#[derive(Clone)]
pub struct HistoryReader {
    shared: Arc<Shared>,
}

/// A transaction's position in the chain; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionPosition {
    /// The slot of its block.
    pub slot: u64,
    /// Its index in the block.
    pub index: u32,
}

/// A transaction that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedTransaction {
    /// Position in the chain.
    pub place: TransactionPosition,
    /// Its block's time in Unix seconds.
    pub block_time: i64,
    /// The stored metadata, decoded; see [`TransactionMeta`].
    pub meta: TransactionMeta,
}

/// A transaction in the list of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressEntry {
    /// Position in the chain.
    pub place: TransactionPosition,
    /// Its block's time in Unix seconds.
    pub block_time: i64,
    /// The first signature, which identifies the transaction.
    pub signature: Signature,
    /// The error, if it failed.
    pub err: Option<TransactionError>,
    /// Its memos in the format of `getSignaturesForAddress`; `None` if there are none.
    pub memo: Option<String>,
}

/// Entries of an address that are looked up at a time: a request may ask for many although few need to be read.
const AT_ONCE: usize = 256;

impl HistoryReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The last block that can be found; 0 if there is none.
    pub fn last_slot(&self) -> u64 {
        self.shared.indexed_slot.load(SeqCst).saturating_sub(1)
    }

    /// The first block that can be found.
    pub fn first_slot(&self) -> Option<u64> {
        Part::all(&self.shared).last().and_then(Part::first_slot)
    }

    /// The transaction with this first signature.
    ///
    /// # Errors
    ///
    /// [`HistoryError::Corrupt`] if bytes on disk changed, [`HistoryError::Io`] if they cannot be read; the same below.
    pub fn transaction(&self, signature: &Signature) -> Result<Option<LocatedTransaction>, HistoryError> {
        let Some((segment, hit)) = self.find(signature)? else { return Ok(None) };
        let mut log = Log::new(&self.shared);
        let Some(entry) = log.entry(segment, &hit.0)? else { return Ok(None) };
        let meta = entry.meta();
        let Some(meta) = meta else { return Err(log.corrupt(segment, hit.0.record, "metadata do not decode")) };
        Ok(Some(LocatedTransaction { place: place(&hit), block_time: hit.2.time, meta }))
    }

    /// The position of the transaction with this first signature.
    pub fn place(&self, signature: &Signature) -> Result<Option<TransactionPosition>, HistoryError> {
        Ok(self.find(signature)?.map(|(_, hit)| place(&hit)))
    }

    /// The stored metadata of a block, without its transactions.
    pub fn block(&self, slot: u64) -> Result<Option<BlockMeta>, HistoryError> {
        for part in Part::all(&self.shared) {
            if let Some(entry) = part.slot(slot)? {
                return Log::new(&self.shared).block(part.segment(), &entry);
            }
        }
        Ok(None)
    }

    /// A block's time in Unix seconds.
    pub fn block_time(&self, slot: u64) -> Result<Option<i64>, HistoryError> {
        for part in Part::all(&self.shared) {
            if let Some(entry) = part.slot(slot)? {
                return Ok(Some(entry.time));
            }
        }
        Ok(None)
    }

    /// The metadata of a block's transactions, in order.
    pub fn transactions(&self, slot: u64) -> Result<Option<Vec<TransactionMeta>>, HistoryError> {
        for part in Part::all(&self.shared) {
            let Some(entry) = part.slot(slot)? else { continue };
            let (segment, mut log) = (part.segment(), Log::new(&self.shared));
            let mut metas = Vec::with_capacity(entry.count as usize);
            for txn in part.txns(&entry)? {
                let Some(found) = log.entry(segment, &txn)? else { return Ok(None) };
                let meta = found.meta();
                metas.push(meta.ok_or_else(|| log.corrupt(segment, txn.record, "metadata do not decode"))?);
            }
            return Ok(Some(metas));
        }
        Ok(None)
    }

    /// The transactions that name an address, the newest first, at most `limit`: those of blocks up to `highest_slot`,
    /// before `before` and after `until`.
    pub fn of_address(
        &self,
        address: &Pubkey,
        highest_slot: u64,
        (before, until): (Option<TransactionPosition>, Option<TransactionPosition>),
        limit: usize,
    ) -> Result<Vec<AddressEntry>, HistoryError> {
        let hash = self.shared.key.address(address);
        let (mut found, mut log) = (vec![], Log::new(&self.shared));
        for part in Part::all(&self.shared) {
            let segment = part.segment();
            let mut below = u32::MAX;
            loop {
                let hits = part.address(hash, below, AT_ONCE)?;
                for hit in &hits {
                    let at = place(hit);
                    if until.is_some_and(|until| at <= until) || found.len() >= limit {
                        return Ok(found);
                    }
                    if at.slot <= highest_slot && before.is_none_or(|before| at < before) {
                        found.extend(entry_of(&mut log, segment, hit)?);
                    }
                }
                match hits.last() {
                    Some(last) if hits.len() == AT_ONCE => below = last.1,
                    _ => break,
                }
            }
        }
        Ok(found)
    }

    /// Finds the segment and the entry of a transaction.
    fn find(&self, signature: &Signature) -> Result<Option<(u32, Hit)>, HistoryError> {
        let hash = self.shared.key.signature(signature);
        let mut log = Log::new(&self.shared);
        for part in Part::all(&self.shared) {
            let segment = part.segment();
            // Without a status cache one may have landed twice: the later is returned.
            for hit in part.signature(hash)? {
                if log.entry(segment, &hit.0)?.is_some_and(|entry| entry.signature == signature) {
                    return Ok(Some((segment, hit)));
                }
            }
        }
        Ok(None)
    }
}

fn place((_, ordinal, slot): &Hit) -> TransactionPosition {
    TransactionPosition { slot: slot.slot, index: ordinal - slot.first }
}

fn entry_of(log: &mut Log<'_>, segment: u32, hit: &Hit) -> Result<Option<AddressEntry>, HistoryError> {
    let Some(entry) = log.entry(segment, &hit.0)? else { return Ok(None) };
    let Some(meta) = entry.meta() else {
        return Err(log.corrupt(segment, hit.0.record, "metadata do not decode"));
    };
    let TransactionMeta { signature, result, memo, .. } = meta;
    Ok(Some(AddressEntry { place: place(hit), block_time: hit.2.time, signature, err: result.err(), memo }))
}

//! reader: what became of a transaction, what an address took part in, what a block came to.
//!
//! reads   the index, newest segment first; the log
//! writes  nothing
//! memory  what is returned
//! drops   nothing
//! source  `blockstore.rs` of `solana-ledger` 4.2 for the order of an address's signatures
//!
//! A search costs one or two pages a segment. An address is known by a keyed hash of 64 bits: another one's
//! transaction is taken for its own with odds of 2⁻⁶⁴ for each pair.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use hearth_wire::{Pubkey, Signature};

use super::HistoryError;
use super::historian::Shared;
use super::meta::{BlockMeta, TransactionMeta};
use super::search::{Hit, Log, Part};
use crate::error::TransactionError;

/// Asks the history; cheap to clone, for any thread.
#[derive(Clone)]
pub struct HistoryReader {
    shared: Arc<Shared>,
}

/// A transaction's place in the chain; later ones are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The slot of its block.
    pub slot: u64,
    /// Its index in the block.
    pub index: u32,
}

/// A transaction that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Where in the chain.
    pub place: Place,
    /// Its block's time, seconds since the Unix epoch.
    pub block_time: i64,
    /// What became of it.
    pub meta: TransactionMeta,
}

/// A transaction in the list of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressEntry {
    /// Where in the chain.
    pub place: Place,
    /// Its block's time.
    pub block_time: i64,
    /// Its first signature.
    pub signature: Signature,
    /// Why it failed, if it did.
    pub err: Option<TransactionError>,
    /// Its memos.
    pub memo: Option<String>,
}

/// Entries of an address that are looked up at a time: many are asked for, few have to be read.
const AT_ONCE: usize = 256;

impl HistoryReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The last block that can be found; 0 when there is none.
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
    /// [`HistoryError::Corrupt`] when bytes on disk changed, [`HistoryError::Io`] when they cannot be read; here and
    /// below.
    pub fn transaction(&self, signature: &Signature) -> Result<Option<Located>, HistoryError> {
        let Some((segment, hit)) = self.find(signature)? else { return Ok(None) };
        let mut log = Log::new(&self.shared);
        let Some(entry) = log.entry(segment, &hit.0)? else { return Ok(None) };
        let meta = entry.meta();
        let Some(meta) = meta else { return Err(log.corrupt(segment, hit.0.record, "metadata do not decode")) };
        Ok(Some(Located { place: place(&hit), block_time: hit.2.time, meta }))
    }

    /// Where the transaction with this first signature is.
    pub fn place(&self, signature: &Signature) -> Result<Option<Place>, HistoryError> {
        Ok(self.find(signature)?.map(|(_, hit)| place(&hit)))
    }

    /// What is remembered of a block beside its transactions.
    pub fn block(&self, slot: u64) -> Result<Option<BlockMeta>, HistoryError> {
        for part in Part::all(&self.shared) {
            if let Some(entry) = part.slot(slot)? {
                return Log::new(&self.shared).block(part.segment(), &entry);
            }
        }
        Ok(None)
    }

    /// A block's time, seconds since the Unix epoch.
    pub fn block_time(&self, slot: u64) -> Result<Option<i64>, HistoryError> {
        for part in Part::all(&self.shared) {
            if let Some(entry) = part.slot(slot)? {
                return Ok(Some(entry.time));
            }
        }
        Ok(None)
    }

    /// What became of a block's transactions, in their order.
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
        (before, until): (Option<Place>, Option<Place>),
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

    /// The segment and the entry of a transaction.
    fn find(&self, signature: &Signature) -> Result<Option<(u32, Hit)>, HistoryError> {
        let hash = self.shared.key.signature(signature);
        let mut log = Log::new(&self.shared);
        for part in Part::all(&self.shared) {
            let segment = part.segment();
            // Without a duplicate filter one may have landed twice: the later is told.
            for hit in part.signature(hash)? {
                if log.entry(segment, &hit.0)?.is_some_and(|entry| entry.signature == signature) {
                    return Ok(Some((segment, hit)));
                }
            }
        }
        Ok(None)
    }
}

fn place((_, ordinal, slot): &Hit) -> Place {
    Place { slot: slot.slot, index: ordinal - slot.first }
}

fn entry_of(log: &mut Log<'_>, segment: u32, hit: &Hit) -> Result<Option<AddressEntry>, HistoryError> {
    let Some(entry) = log.entry(segment, &hit.0)? else { return Ok(None) };
    let Some(meta) = entry.meta() else {
        return Err(log.corrupt(segment, hit.0.record, "metadata do not decode"));
    };
    let TransactionMeta { signature, result, memo, .. } = meta;
    Ok(Some(AddressEntry { place: place(hit), block_time: hit.2.time, signature, err: result.err(), memo }))
}

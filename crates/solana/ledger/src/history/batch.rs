//! batch: the metadata of one microblock's transactions, as a bank writes them and the log keeps them.
//!
//! reads   a batch's bytes
//! writes  a batch's bytes, transaction by transaction, into one buffer
//! memory  one batch, at most [`BATCH_SIZE_MAX`] and the last transaction's
//! drops   logs, calls and return data of what would make a batch longer than that
//! source  our own format
//!
//! ```text
//! batch  slot u64, microblock u64, count u16, entries
//! entry  length u32 of what follows, signature 64 B, account count u16, hash u64 of each account, metadata
//! ```
//!
//! The hashes stand before the metadata so that the index is made without decoding those.

use hearth_wire::Signature;

use super::HistoryKey;
use super::meta::{Details, MetaParts, TransactionMeta};
use super::record::{array_at, u64_at};

/// Batches above this size leave out logs and inner calls. Blocks are limited in compute units, and the log lines of a
/// batch this long have cost at least as many.
pub const BATCH_SIZE_MAX: usize = 16 << 20;
/// Bytes before the entries.
const HEADER: usize = 8 + 8 + 2;
/// Bytes of an entry before the hashes, without its length.
const ENTRY_HEADER: usize = 64 + 2;

/// Writes batches one after the other into the same buffer.
pub struct BatchWriter {
    key: HistoryKey,
    bytes: Vec<u8>,
    count: u16,
}

impl BatchWriter {
    /// A writer for the log with this key.
    pub fn new(key: HistoryKey) -> Self {
        Self { key, bytes: Vec::with_capacity(64 << 10), count: 0 }
    }

    /// Starts the batch of a microblock.
    pub fn begin(&mut self, slot: u64, microblock: u64) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&slot.to_le_bytes());
        self.bytes.extend_from_slice(&microblock.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 2]);
        self.count = 0;
    }

    /// Adds a transaction, in block order.
    pub fn push(&mut self, parts: &MetaParts<'_>) {
        let start = self.bytes.len();
        self.entry(parts);
        if self.bytes.len() > BATCH_SIZE_MAX && parts.details.is_some() {
            let lost = Details { logs: vec!["Log truncated".into()], ..Details::default() };
            self.bytes.truncate(start);
            self.entry(&MetaParts { details: Some(lost.parts()), ..*parts });
        }
        self.count += 1;
    }

    /// The finished batch; `None` if nothing was added.
    pub fn finish(&mut self) -> Option<&[u8]> {
        self.bytes[HEADER - 2..HEADER].copy_from_slice(&self.count.to_le_bytes());
        (self.count > 0).then_some(&self.bytes[..])
    }

    fn entry(&mut self, parts: &MetaParts<'_>) {
        let accounts = [parts.static_accounts, parts.loaded_writable, parts.loaded_readonly];
        let account_count: usize = accounts.iter().map(|keys| keys.len()).sum();
        assert_eq!(parts.balances.len(), account_count, "one balance for each account");
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(parts.signature);
        self.bytes.extend_from_slice(&(account_count as u16).to_le_bytes());
        for key in accounts.into_iter().flatten() {
            self.bytes.extend_from_slice(&self.key.address(key).to_le_bytes());
        }
        parts.encode(&mut self.bytes);
        let length = (self.bytes.len() - start - 4) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// The parsed header of a batch, and its entries, which are parsed one by one.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The slot of the block.
    pub slot: u64,
    /// The id of the microblock: greater for a later one of the block.
    pub microblock: u64,
    /// Number of its transactions.
    pub count: u16,
    entries: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Parses a batch's header. Panics on bytes that no [`BatchWriter`] has made.
    pub fn read(bytes: &'a [u8]) -> Self {
        let header: &[u8; HEADER] = bytes.first_chunk().expect("a batch has a header");
        let count = u16::from_le_bytes(array_at(header, 16));
        Self { slot: u64_at(header, 0), microblock: u64_at(header, 8), count, entries: &bytes[HEADER..] }
    }

    /// The bytes of each transaction, in order, for [`Batch::join`].
    pub fn pieces(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.entries;
        (0..self.count).map_while(move |_| {
            let length = u32::from_le_bytes(*rest.first_chunk()?);
            let (bytes, after) = rest.split_at_checked(4 + length as usize)?;
            rest = after;
            Some(bytes)
        })
    }

    /// Builds a batch from transactions of other batches, each in the format of [`Batch::pieces`].
    pub fn join<'p>(slot: u64, microblock: u64, pieces: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
        let mut bytes = vec![];
        bytes.extend_from_slice(&slot.to_le_bytes());
        bytes.extend_from_slice(&microblock.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        let mut count = 0u16;
        for piece in pieces {
            bytes.extend_from_slice(piece);
            count += 1;
        }
        bytes[HEADER - 2..HEADER].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    /// Its transactions, in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        self.pieces().map_while(|piece| Entry::read(&piece[4..]))
    }
}

/// One transaction of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub signature: &'a Signature,
    hashes: &'a [[u8; 8]],
    meta: &'a [u8],
}

impl<'a> Entry<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (signature, _) = bytes.split_first_chunk()?;
        let count = usize::from(u16::from_le_bytes(*bytes.get(64..)?.first_chunk()?));
        let (hashes, meta) = bytes[ENTRY_HEADER..].split_at_checked(8 * count)?;
        Some(Self { signature, hashes: hashes.as_chunks().0, meta })
    }

    /// The hashes of its accounts.
    pub fn hashes(&self) -> impl Iterator<Item = u64> + use<'a> {
        self.hashes.iter().map(|hash| u64::from_le_bytes(*hash))
    }

    /// Decodes the metadata; `None` if the bytes are malformed.
    pub fn meta(&self) -> Option<TransactionMeta> {
        TransactionMeta::decode(*self.signature, self.hashes.len(), self.meta)
    }
}

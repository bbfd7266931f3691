//! Entries, of which a block consists. An entry is a tick, or a microblock of transactions mixed into the hash chain.
//!
//! reads   the bytes of one entry, or of a batch of entries as shreds carry it
//! writes  the same, into the caller's buffer
//! memory  an `Entry` borrows; nothing is allocated
//! drops   batches that do not parse to the last byte: an [`EntryError`] at its offset
//! source  `solana-entry` 4.2: the bincode of `Vec<Entry>`
//!
//! ```text
//! batch   entry count u64, entries
//! entry   hash count u64, hash 32 B, transaction count u64, transactions as on the wire
//! ```
//!
//! All integers are little endian. A batch that counts no entries is a block marker of a later
//! protocol and refused as such.

use crate::consts::Hash;
use crate::txn::{ParseErrorKind, Txn};

/// Size of an entry's header, before its transactions.
pub const ENTRY_HEADER_SIZE: usize = 8 + 32 + 8;
/// Minimum size of a transaction: one signature, header, one account, blockhash, no instruction.
pub const MIN_TRANSACTION_SIZE: usize = 1 + 64 + 3 + 1 + 32 + 32 + 1;

/// Why bytes are not a valid entry or batch, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {offset})")]
pub struct EntryError {
    /// The rule that is violated.
    pub kind: EntryErrorKind,
    /// Offset of the offending field within the parsed bytes.
    pub offset: u32,
}

/// A rule of the entry format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum EntryErrorKind {
    /// The bytes end within a field.
    #[error("ends within a field")]
    Truncated,
    /// A count of entries or transactions that exceeds the remaining bytes.
    #[error("count exceeds what the bytes can hold")]
    Count,
    /// A batch without entries, which marks a block marker.
    #[error("block marker")]
    BlockMarker,
    /// Bytes after the end.
    #[error("trailing bytes")]
    TrailingBytes,
    /// A transaction that does not parse.
    #[error("transaction {0}")]
    Transaction(ParseErrorKind),
}

fn fail<T>(kind: EntryErrorKind, offset: usize) -> Result<T, EntryError> {
    Err(EntryError { kind, offset: u32::try_from(offset).unwrap_or(u32::MAX) })
}

/// One entry: a view of its bytes in which every transaction parses.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Number of hashes since the previous entry, including the mixing one.
    pub num_hashes: u64,
    /// The hash of the chain after them.
    pub hash: &'a Hash,
    transaction_count: usize,
    transactions: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Parses exactly one entry.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EntryError> {
        let (entry, end) = parse_at(bytes, 0)?;
        if end != bytes.len() {
            return fail(EntryErrorKind::TrailingBytes, end);
        }
        Ok(entry)
    }

    /// Whether it is a tick, without transactions.
    pub fn is_tick(&self) -> bool {
        self.transaction_count == 0
    }

    /// The number of its transactions.
    pub fn transaction_count(&self) -> usize {
        self.transaction_count
    }

    /// The transactions' bytes, concatenated.
    pub fn transaction_bytes(&self) -> &'a [u8] {
        self.transactions
    }

    /// The transactions, in order.
    pub fn transactions(&self) -> Transactions<'a> {
        Transactions { left: self.transaction_count, bytes: self.transactions }
    }
}

/// Iterator over the transactions of an [`Entry`].
#[derive(Clone, Debug)]
pub struct Transactions<'a> {
    left: usize,
    bytes: &'a [u8],
}

impl<'a> Iterator for Transactions<'a> {
    type Item = Txn<'a>;

    fn next(&mut self) -> Option<Txn<'a>> {
        self.left = self.left.checked_sub(1)?;
        let txn = Txn::parse_prefix(self.bytes).ok()?;
        self.bytes = &self.bytes[txn.bytes().len()..];
        Some(txn)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Transactions<'_> {}

/// Iterator over the entries of a batch. After an error it ends.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    left: usize,
    /// Whether other data may follow the last entry.
    prefix: bool,
}

impl<'a> Entries<'a> {
    /// Starts on a batch. Each entry is parsed when the iterator reaches it, and nothing may follow the last one.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EntryError> {
        let (left, at) = count_at(bytes, 0, ENTRY_HEADER_SIZE)?;
        if left == 0 {
            return fail(EntryErrorKind::BlockMarker, 0);
        }
        Ok(Self { bytes, at, left, prefix: false })
    }

    /// As [`Entries::parse`], but more may follow the batch: see [`Entries::rest`].
    pub fn parse_prefix(bytes: &'a [u8]) -> Result<Self, EntryError> {
        Ok(Self { prefix: true, ..Self::parse(bytes)? })
    }

    /// The bytes after the entries returned so far: the next batch, once the iterator has ended without an error.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// The number of entries not yet returned, according to the batch's count.
    pub fn left(&self) -> usize {
        self.left
    }

    fn step(&mut self) -> Result<Entry<'a>, EntryError> {
        let (entry, at) = parse_at(self.bytes, self.at)?;
        if self.left == 1 && !self.prefix && at != self.bytes.len() {
            return fail(EntryErrorKind::TrailingBytes, at);
        }
        self.at = at;
        self.left -= 1;
        Ok(entry)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let entry = self.step();
        if entry.is_err() {
            self.left = 0;
        }
        Some(entry)
    }
}

/// The u64 count at `at` of items of at least `size` bytes each, and the offset after it.
fn count_at(bytes: &[u8], at: usize, size: usize) -> Result<(usize, usize), EntryError> {
    let Some((count, rest)) = bytes.get(at..).and_then(|bytes| bytes.split_first_chunk()) else {
        return fail(EntryErrorKind::Truncated, bytes.len());
    };
    let count = u64::from_le_bytes(*count);
    if count > (rest.len() / size) as u64 {
        return fail(EntryErrorKind::Count, at);
    }
    Ok((count as usize, at + 8))
}

/// The hash count, the hash and the transaction count of the entry at `at`, and the offset after them.
fn head_at(bytes: &[u8], at: usize) -> Result<(u64, &Hash, usize, usize), EntryError> {
    let Some((num_hashes, rest)) = bytes.get(at..).and_then(|bytes| bytes.split_first_chunk()) else {
        return fail(EntryErrorKind::Truncated, bytes.len());
    };
    let Some((hash, _)) = rest.split_first_chunk() else {
        return fail(EntryErrorKind::Truncated, bytes.len());
    };
    let (transaction_count, start) = count_at(bytes, at + 40, MIN_TRANSACTION_SIZE)?;
    Ok((u64::from_le_bytes(*num_hashes), hash, transaction_count, start))
}

fn transaction_at(bytes: &[u8], at: usize) -> Result<Txn<'_>, EntryError> {
    Txn::parse_prefix(&bytes[at..]).or_else(|e| fail(EntryErrorKind::Transaction(e.kind), at + usize::from(e.offset)))
}

fn parse_at(bytes: &[u8], at: usize) -> Result<(Entry<'_>, usize), EntryError> {
    let (num_hashes, hash, transaction_count, start) = head_at(bytes, at)?;
    let mut end = start;
    for _ in 0..transaction_count {
        end += transaction_at(bytes, end)?.bytes().len();
    }
    Ok((Entry { num_hashes, hash, transaction_count, transactions: &bytes[start..end] }, end))
}

/// The next part of a block, from a [`Cursor`].
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// An entry; its transactions follow.
    Entry {
        /// Number of hashes since the previous entry, including the mixing one.
        num_hashes: u64,
        /// The hash of the chain after them.
        hash: &'a Hash,
        /// Number of transactions that follow.
        transaction_count: usize,
    },
    /// The next transaction of the entry.
    Transaction {
        /// Offset of its first byte in the block.
        at: usize,
        /// The transaction, a view of the block's bytes; its signatures are not verified.
        txn: Txn<'a>,
    },
}

/// A position in a block's entries, which are in consecutive batches. It borrows nothing, so the owner of the bytes can
/// process a block in steps.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// Start of the batch; error offsets are relative to it.
    batch: usize,
    at: usize,
    entries_left: usize,
    transactions_left: usize,
}

impl Cursor {
    /// Whether the next part begins a batch, or the block is at its end.
    pub fn is_between_batches(&self) -> bool {
        self.entries_left == 0 && self.transactions_left == 0
    }

    /// Continues at byte `at` of the block, where a batch begins. Only between batches.
    pub fn skip_to(&mut self, at: usize) {
        debug_assert!(self.is_between_batches(), "the batch is not at its end");
        self.at = at;
    }

    /// The next part of `block`; `None` at its end. After an error the cursor must not be used any more.
    ///
    /// # Errors
    ///
    /// The errors of [`Entries`], at the same offsets.
    pub fn next<'a>(&mut self, block: &'a [u8]) -> Result<Option<Part<'a>>, EntryError> {
        if self.transactions_left > 0 {
            let at = self.at;
            let txn = transaction_at(&block[self.batch..], at - self.batch)?;
            self.at += txn.bytes().len();
            self.transactions_left -= 1;
            return Ok(Some(Part::Transaction { at, txn }));
        }
        if self.entries_left == 0 {
            if self.at == block.len() {
                return Ok(None);
            }
            self.batch = self.at;
            let batch = Entries::parse_prefix(&block[self.batch..])?;
            (self.entries_left, self.at) = (batch.left, self.batch + batch.at);
        }
        let (num_hashes, hash, transaction_count, start) = head_at(&block[self.batch..], self.at - self.batch)?;
        self.at = self.batch + start;
        self.entries_left -= 1;
        self.transactions_left = transaction_count;
        Ok(Some(Part::Entry { num_hashes, hash, transaction_count }))
    }
}

/// Appends an entry with `transaction_count` transactions, whose concatenated bytes are `transactions`.
pub fn write_entry(num_hashes: u64, hash: &Hash, transaction_count: usize, transactions: &[u8], out: &mut Vec<u8>) {
    out.reserve(ENTRY_HEADER_SIZE + transactions.len());
    out.extend_from_slice(&num_hashes.to_le_bytes());
    out.extend_from_slice(hash);
    out.extend_from_slice(&(transaction_count as u64).to_le_bytes());
    out.extend_from_slice(transactions);
}

/// Appends the header of a batch: its number of entries. That many must follow, at least one.
pub fn write_batch_header(entry_count: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&(entry_count as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{TRANSFER_SIZE, TransferTemplate};

    /// A batch with a tick and an entry of three transfers.
    fn batch() -> Vec<u8> {
        let mut template = TransferTemplate::new();
        let transfers: Vec<u8> = (0..3)
            .flat_map(|lamports| {
                template.set_lamports(lamports);
                template.bytes().to_vec()
            })
            .collect();
        let mut bytes = Vec::new();
        write_batch_header(2, &mut bytes);
        write_entry(5, &[1; 32], 0, &[], &mut bytes);
        write_entry(9, &[2; 32], 3, &transfers, &mut bytes);
        bytes
    }

    fn parse_all(bytes: &[u8]) -> Result<Vec<Entry<'_>>, EntryError> {
        Entries::parse(bytes)?.collect()
    }

    #[test]
    fn a_batch_round_trips() {
        let bytes = batch();
        let entries = parse_all(&bytes).unwrap();
        assert_eq!(entries.iter().map(|e| (e.num_hashes, *e.hash)).collect::<Vec<_>>(), [(5, [1; 32]), (9, [2; 32])]);
        assert_eq!(entries.iter().map(Entry::is_tick).collect::<Vec<_>>(), [true, false]);
        let last_bytes: Vec<u8> = entries[1].transactions().map(|txn| txn.bytes()[TRANSFER_SIZE - 8]).collect();
        assert_eq!((last_bytes, entries[1].transactions().len()), (vec![0, 1, 2], 3));
        let second = &bytes[8 + ENTRY_HEADER_SIZE..];
        assert_eq!(Entry::parse(second).unwrap().transaction_bytes(), &second[ENTRY_HEADER_SIZE..]);
    }

    /// All parts of a block of batches: entries with their transactions' offsets.
    fn walk(block: &[u8]) -> Result<Vec<(u64, Vec<usize>)>, EntryError> {
        let (mut cursor, mut entries) = (Cursor::default(), vec![]);
        while let Some(part) = cursor.next(block)? {
            match part {
                Part::Entry { num_hashes, .. } => entries.push((num_hashes, vec![])),
                Part::Transaction { at, txn } => {
                    assert_eq!(txn.bytes(), &block[at..at + TRANSFER_SIZE]);
                    entries.last_mut().unwrap().1.push(at);
                }
            }
        }
        Ok(entries)
    }

    #[test]
    fn a_cursor_walks_all_batches_of_a_block() {
        let one = batch();
        let first = 8 + 2 * ENTRY_HEADER_SIZE;
        let places = |from: usize| (0..3).map(|n| from + first + n * TRANSFER_SIZE).collect::<Vec<_>>();
        let expected = [(5, vec![]), (9, places(0)), (5, vec![]), (9, places(one.len()))];
        assert_eq!(walk(&[&one[..], &one[..]].concat()).unwrap(), expected);
        assert_eq!(walk(&[]).unwrap(), []);
        for len in 1..one.len() {
            let torn = [&one[..], &one[..len]].concat();
            assert_eq!(walk(&torn).unwrap_err(), parse_all(&one[..len]).unwrap_err(), "{len} bytes");
        }
    }

    #[test]
    fn a_cursor_skips_what_follows_a_batch() {
        let one = batch();
        let block = [&one[..], b"anything", &one[..]].concat();
        let (mut cursor, mut counts) = (Cursor::default(), vec![]);
        for (start, end) in [(0, one.len() + 8), (one.len() + 8, block.len())] {
            assert!(cursor.is_between_batches());
            cursor.skip_to(start);
            loop {
                if let Some(Part::Entry { transaction_count, .. }) = cursor.next(&block[..end]).unwrap() {
                    counts.push(transaction_count);
                }
                if cursor.is_between_batches() {
                    break;
                }
            }
        }
        assert_eq!(counts, [0, 3, 0, 3]);
    }

    #[test]
    fn each_rule_has_its_error() {
        let bytes = batch();
        let refused = |bytes: &[u8]| {
            let error = parse_all(bytes).expect_err("must be refused");
            (error.kind, error.offset as usize)
        };
        for len in 0..bytes.len() {
            let (kind, offset) = refused(&bytes[..len]);
            assert!(offset <= len, "{kind:?}");
        }
        assert_eq!(refused(&bytes[..8 + ENTRY_HEADER_SIZE * 2 - 1]), (EntryErrorKind::Count, 0));
        assert_eq!(refused(&[&bytes[..], &[0]].concat()), (EntryErrorKind::TrailingBytes, bytes.len()));
        assert_eq!(refused(&[0; 64]), (EntryErrorKind::BlockMarker, 0));
        assert_eq!(refused(&[0xff; 64]), (EntryErrorKind::Count, 0));
        let transactions = 8 + 2 * ENTRY_HEADER_SIZE;
        let mut broken = bytes.clone();
        broken[transactions - 8..transactions].copy_from_slice(&6u64.to_le_bytes());
        assert_eq!(refused(&broken), (EntryErrorKind::Count, transactions - 8));
        broken[transactions - 8] = 4;
        let end = EntryErrorKind::Transaction(ParseErrorKind::Truncated);
        assert_eq!(refused(&broken), (end, bytes.len()));
        broken[transactions + TRANSFER_SIZE] = 0;
        let count = EntryErrorKind::Transaction(ParseErrorKind::SignatureCount);
        assert_eq!(refused(&broken), (count, transactions + TRANSFER_SIZE));
        let mut entries = Entries::parse(&broken).unwrap();
        assert!(entries.next().unwrap().is_ok() && entries.next().unwrap().is_err() && entries.next().is_none());
    }
}

//! A snapshot's bytes: the chunk of headers, then chunks of the block and of both ledgers after it.
//!
//! Chunk 0 holds the header of the block and those before it, as far as `BLOCKHASH` looks back, newest first, in RLP.
//! Their hash chain ends in the app hash, so they need no trust. The other chunks hold entries: the block, in pieces;
//! the items of the UTXO ledger that the header commits to; accounts, each followed by its slots. Items come in their
//! own order, accounts by address, slots by key, so that equal ledgers produce equal chunks. An entry is never split.
//! The header commits to the whole.
//!
//! memory  a reader: the current account; a writer: one chunk

use alloy_consensus::Header;
use alloy_primitives::{Address, B256, U256};
use alloy_rlp::{Decodable, Encodable};
use bytes::Bytes;

/// Number of this snapshot format.
pub const FORMAT: u32 = 1;
/// A chunk is closed at this many bytes; CometBFT carries chunks of at most 16 MB.
pub const CHUNK_BYTES: usize = 4 << 20;
/// Headers in chunk 0: as far as `BLOCKHASH` looks back.
pub const HEADERS_MAX: usize = 256;
/// The longest code that is read: more than any rule lets into the state.
const CODE_BYTES_MAX: usize = 1 << 20;

const ACCOUNT: u8 = 1;
const SLOT: u8 = 2;
const BLOCK: u8 = 3;
const ITEM: u8 = 4;
/// The longest piece of a block, and the longest item.
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// The longest chunk: an entry that begins in it is not cut.
pub const CHUNK_BYTES_MAX: usize = CHUNK_BYTES + PIECE_BYTES_MAX + 128;
const _: () = assert!(CODE_BYTES_MAX <= PIECE_BYTES_MAX);

/// One entry of the data after the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A piece of the block, at most [`PIECE_BYTES_MAX`].
    Block(Bytes),
    /// An item of the ledger of outputs.
    Item(Bytes),
    /// An account; its slots follow.
    Account {
        /// The account's address, of 20 bytes.
        address: Address,
        /// Nonce of the account.
        nonce: u64,
        /// The account's balance in wei.
        balance: U256,
        /// The contract's code; empty for other accounts.
        code: Bytes,
    },
    /// A slot of the account before, never zero.
    Slot {
        /// Key of the storage slot.
        slot: U256,
        /// Value stored in the slot.
        value: U256,
    },
}

/// Why a chunk is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The chunk ends within the entry's field at this offset.
    #[error("cut off at byte {0}")]
    CutOff(usize),
    /// No kind of entry has this tag.
    #[error("byte {at}: no entry begins with {tag}")]
    Tag {
        /// Offset of the tag in the chunk.
        at: usize,
        /// The byte at the offset, which names no kind of entry.
        tag: u8,
    },
    /// Longer than any code, piece or item.
    #[error("an entry of {0} bytes")]
    Long(usize),
    /// Slots without an account, a zero slot, a piece or an item of nothing, or entries out of order.
    #[error("byte {0}: an entry that cannot be there")]
    Order(usize),
    /// A header does not decode.
    #[error("header {index}: {error}")]
    Header {
        /// Index of the header in chunk 0.
        index: usize,
        /// Why the header's RLP does not decode.
        error: alloy_rlp::Error,
    },
    /// There are no headers, too many, or one is not the parent of the one before it.
    #[error("{0} headers that are no chain")]
    Chain(usize),
}

/// Encodes chunk 0: the RLP of each header, one after the other.
pub fn encode_headers(newest_first: &[Header]) -> Bytes {
    let mut out = Vec::new();
    newest_first.iter().for_each(|header| header.encode(&mut out));
    out.into()
}

/// Chunk 0's headers, newest first, each the one before's parent.
pub fn decode_headers(mut chunk: &[u8]) -> Result<Vec<Header>, CodecError> {
    let mut headers: Vec<Header> = Vec::new();
    while !chunk.is_empty() && headers.len() < HEADERS_MAX {
        let index = headers.len();
        headers.push(Header::decode(&mut chunk).map_err(|error| CodecError::Header { index, error })?);
    }
    let linked = headers.windows(2).all(|pair| {
        pair[0].parent_hash == pair[1].hash_slow() && pair[0].number.checked_sub(1) == Some(pair[1].number)
    });
    if headers.is_empty() || !chunk.is_empty() || !linked { Err(CodecError::Chain(headers.len())) } else { Ok(headers) }
}

/// Cuts entries into chunks.
#[derive(Debug, Default)]
pub struct Writer {
    chunk: Vec<u8>,
}

impl Writer {
    /// Adds an entry; gives the chunk when it is full.
    pub fn push(&mut self, entry: &Entry) -> Option<Vec<u8>> {
        match entry {
            Entry::Block(bytes) | Entry::Item(bytes) => {
                self.chunk.push(if matches!(entry, Entry::Block(_)) { BLOCK } else { ITEM });
                self.chunk.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
                self.chunk.extend_from_slice(bytes);
            }
            Entry::Account { address, nonce, balance, code } => {
                self.chunk.push(ACCOUNT);
                self.chunk.extend_from_slice(address.as_slice());
                self.chunk.extend_from_slice(&nonce.to_be_bytes());
                self.chunk.extend_from_slice(&balance.to_be_bytes::<32>());
                self.chunk.extend_from_slice(&(code.len() as u32).to_be_bytes());
                self.chunk.extend_from_slice(code);
            }
            Entry::Slot { slot, value } => {
                self.chunk.push(SLOT);
                self.chunk.extend_from_slice(&slot.to_be_bytes::<32>());
                self.chunk.extend_from_slice(&value.to_be_bytes::<32>());
            }
        }
        (self.chunk.len() >= CHUNK_BYTES).then(|| std::mem::take(&mut self.chunk))
    }

    /// Returns the last, partly filled chunk, if there is one.
    pub fn close(self) -> Option<Vec<u8>> {
        (!self.chunk.is_empty()).then_some(self.chunk)
    }
}

/// Decodes chunks, in order.
#[derive(Debug, Default)]
pub struct Reader {
    /// Whether items have come: no more of the block does.
    items: bool,
    account: Option<Address>,
    slot: Option<U256>,
}

impl Reader {
    /// Hands the entries of the next chunk to `each`.
    pub fn read(&mut self, chunk: &Bytes, mut each: impl FnMut(Entry)) -> Result<(), CodecError> {
        let mut at = 0;
        while at < chunk.len() {
            let begin = at;
            let tag = chunk[at];
            at += 1;
            match tag {
                BLOCK | ITEM => {
                    let bytes = sized(chunk, &mut at, PIECE_BYTES_MAX)?;
                    if bytes.is_empty() || self.account.is_some() || (tag == BLOCK && self.items) {
                        return Err(CodecError::Order(begin));
                    }
                    self.items = tag == ITEM;
                    each(if tag == BLOCK { Entry::Block(bytes) } else { Entry::Item(bytes) });
                }
                ACCOUNT => {
                    let address = Address::from(take::<20>(chunk, &mut at)?);
                    let nonce = u64::from_be_bytes(take(chunk, &mut at)?);
                    let balance = U256::from_be_bytes(take::<32>(chunk, &mut at)?);
                    let code = sized(chunk, &mut at, CODE_BYTES_MAX)?;
                    if self.account.is_some_and(|before| before >= address) {
                        return Err(CodecError::Order(begin));
                    }
                    (self.account, self.slot) = (Some(address), None);
                    each(Entry::Account { address, nonce, balance, code });
                }
                SLOT => {
                    let slot = U256::from_be_bytes(take::<32>(chunk, &mut at)?);
                    let value = U256::from_be_bytes(take::<32>(chunk, &mut at)?);
                    if self.account.is_none() || value.is_zero() || self.slot.is_some_and(|before| before >= slot) {
                        return Err(CodecError::Order(begin));
                    }
                    self.slot = Some(slot);
                    each(Entry::Slot { slot, value });
                }
                tag => return Err(CodecError::Tag { at: begin, tag }),
            }
        }
        Ok(())
    }
}

/// Bytes after their length.
fn sized(chunk: &Bytes, at: &mut usize, max: usize) -> Result<Bytes, CodecError> {
    let length = u32::from_be_bytes(take(chunk, at)?) as usize;
    if length > max {
        return Err(CodecError::Long(length));
    }
    let end = *at + length;
    if end > chunk.len() {
        return Err(CodecError::CutOff(*at));
    }
    let bytes = chunk.slice(*at..end);
    *at = end;
    Ok(bytes)
}

fn take<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], CodecError> {
    let found = bytes.get(*at..*at + N).and_then(|found| found.try_into().ok()).ok_or(CodecError::CutOff(*at))?;
    *at += N;
    Ok(found)
}

/// Returns the Keccak-256 of a chunk, by which the snapshot's list of hashes verifies it.
pub fn chunk_hash(chunk: &[u8]) -> B256 {
    B256::from(hearth_crypto::keccak::keccak256(chunk))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[Bytes]) -> Result<Vec<Entry>, CodecError> {
        let (mut reader, mut entries) = (Reader::default(), Vec::new());
        chunks.iter().try_for_each(|chunk| reader.read(chunk, |entry| entries.push(entry)))?;
        Ok(entries)
    }

    fn write(entries: &[Entry]) -> Vec<Bytes> {
        let mut writer = Writer::default();
        let mut chunks: Vec<Bytes> = entries.iter().filter_map(|entry| writer.push(entry).map(Bytes::from)).collect();
        chunks.extend(writer.close().map(Bytes::from));
        chunks
    }

    fn account(number: u64, code: Vec<u8>) -> Entry {
        let address = Address::left_padding_from(&number.to_be_bytes());
        Entry::Account { address, nonce: number, balance: U256::from(number) << 77, code: code.into() }
    }

    #[test]
    fn many_entries_make_chunks_that_are_not_much_longer_than_they_should_be() {
        let entries: Vec<Entry> = (0..200_000).map(|number| account(number, vec![])).collect();
        let chunks = write(&entries);
        assert_eq!(chunks.len(), (200_000 * 65_usize).div_ceil(CHUNK_BYTES));
        assert!(chunks.iter().all(|chunk| chunk.len() < CHUNK_BYTES + 100));
        assert_eq!(read(&chunks).unwrap(), entries);
    }

    #[test]
    fn headers_must_be_a_chain() {
        let mut headers = vec![Header { number: 4, ..Default::default() }];
        for number in 5..20 {
            headers.insert(0, Header { number, parent_hash: headers[0].hash_slow(), ..Default::default() });
        }
        assert_eq!(decode_headers(&encode_headers(&headers)).unwrap(), headers);
        assert_eq!(decode_headers(&[]), Err(CodecError::Chain(0)));
        let mut other = headers.clone();
        other[3].gas_used = 1;
        assert_eq!(decode_headers(&encode_headers(&other)), Err(CodecError::Chain(16)));
        assert!(matches!(decode_headers(&[0x80]), Err(CodecError::Header { index: 0, .. })));
    }

    #[test]
    fn impossible_content_is_refused() {
        let slot = Entry::Slot { slot: U256::from(1), value: U256::from(2) };
        assert_eq!(read(&write(std::slice::from_ref(&slot))), Err(CodecError::Order(0)));
        let twice = [account(1, vec![]), slot.clone(), slot];
        assert!(matches!(read(&write(&twice)), Err(CodecError::Order(_))));
        let falling = [account(2, vec![]), account(1, vec![])];
        assert!(matches!(read(&write(&falling)), Err(CodecError::Order(_))));
        let (block, item) = (Entry::Block(Bytes::from_static(b"b")), Entry::Item(Bytes::from_static(b"i")));
        let all = [block.clone(), block.clone(), item.clone(), item.clone(), account(1, vec![])];
        assert_eq!(read(&write(&all)).unwrap(), all);
        assert!(matches!(read(&write(&[item.clone(), block.clone()])), Err(CodecError::Order(_))));
        assert!(matches!(read(&write(&[account(1, vec![]), item])), Err(CodecError::Order(_))));
        let long = Entry::Block(vec![0; PIECE_BYTES_MAX + 1].into());
        assert_eq!(read(&write(&[long])), Err(CodecError::Long(PIECE_BYTES_MAX + 1)));
        // Five bytes of a chunk would be a hundred in memory.
        for entry in [Entry::Block(Bytes::new()), Entry::Item(Bytes::new())] {
            assert_eq!(read(&write(&[entry])), Err(CodecError::Order(0)));
        }
        assert_eq!(read(&[Bytes::from_static(&[7])]), Err(CodecError::Tag { at: 0, tag: 7 }));
    }

    proptest! {
        #[test]
        fn states_come_back(accounts in prop::collection::btree_map(
            any::<u64>(),
            (prop::collection::vec(any::<u8>(), 0..50), prop::collection::btree_map(any::<u64>(), 1_u64.., 0..5)),
            0..20,
        )) {
            let entries: Vec<Entry> = accounts.into_iter().flat_map(|(number, (code, slots))| {
                let slots = slots.into_iter();
                let slots = slots.map(|(slot, value)| Entry::Slot { slot: U256::from(slot), value: U256::from(value) });
                std::iter::once(account(number, code)).chain(slots)
            }).collect();
            prop_assert_eq!(read(&write(&entries)).unwrap(), entries);
        }

        #[test]
        fn any_bytes_are_entries_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300), tag in 0_u8..6) {
            let bytes: Vec<u8> = std::iter::once(tag).chain(bytes).collect();
            let _ = read(&[bytes.clone().into()]);
            let _ = decode_headers(&bytes);
        }
    }
}

//! CometBFT's transactions: a plain Ethereum transaction, or an envelope of many.
//!
//! CometBFT has a fixed cost for each of its transactions: hashing, gossip, a check over the socket, a leaf in the
//! block's tree. An envelope holds about [`TXS_AIMED`] Ethereum transactions, so each pays a hundredth of that cost.
//!
//! An envelope is the byte [`MARK`], with which no Ethereum transaction begins (EIP-2718: a type below 0x80, or a list
//! from 0xc0), the byte [`VERSION`], and for each transaction its length as a varint and its bytes.
//!
//! memory  slices of the bytes that CometBFT sent
//! drops   nothing: an invalid envelope is an error

use bytes::Bytes;

/// An envelope's first byte.
pub const MARK: u8 = 0x9e;
/// Second byte of an envelope.
pub const VERSION: u8 = 1;
/// An envelope that this node builds is closed at this many transactions.
pub const TXS_AIMED: usize = 100;
/// Or at this many bytes: well below the limits of CometBFT's mempool, 1 MiB, and of its RPC in Base64, 1,000,000.
pub const BYTES_AIMED: usize = 256 << 10;
/// Envelopes with more transactions are rejected.
pub const TXS_MAX: usize = 1000;

/// Why bytes that begin as an envelope are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// The version byte of a later program.
    #[error("envelope: version {0} is not known")]
    Version(u8),
    /// It ends within a transaction, or a length is no varint.
    #[error("envelope: cut off at byte {0}")]
    CutOff(usize),
    /// The envelope holds no transaction.
    #[error("envelope: empty")]
    Empty,
    /// More than [`TXS_MAX`] transactions.
    #[error("envelope: more than {TXS_MAX} transactions")]
    TooMany,
}

/// Ethereum transactions in one of CometBFT's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// One Ethereum transaction without an envelope.
    Single(Bytes),
    /// The transactions of an envelope, at least one.
    Batch(Vec<Bytes>),
}

impl Content {
    /// The transactions, in order.
    pub fn txs(&self) -> &[Bytes] {
        match self {
            Self::Single(tx) => std::slice::from_ref(tx),
            Self::Batch(txs) => txs,
        }
    }
}

/// Whether bytes begin as an envelope.
pub fn is_envelope(tx: &[u8]) -> bool {
    tx.first() == Some(&MARK)
}

/// Opens a transaction of CometBFT's.
pub fn open(tx: &Bytes) -> Result<Content, EnvelopeError> {
    if !is_envelope(tx) {
        return Ok(Content::Single(tx.clone()));
    }
    let mut at = match tx.get(1) {
        Some(&VERSION) => 2,
        Some(&version) => return Err(EnvelopeError::Version(version)),
        None => return Err(EnvelopeError::CutOff(1)),
    };
    let mut txs = Vec::new();
    while at < tx.len() {
        if txs.len() == TXS_MAX {
            return Err(EnvelopeError::TooMany);
        }
        let (length, begin) = length_at(tx, at).ok_or(EnvelopeError::CutOff(at))?;
        let end = begin.checked_add(length).filter(|end| *end <= tx.len()).ok_or(EnvelopeError::CutOff(at))?;
        txs.push(tx.slice(begin..end));
        at = end;
    }
    if txs.is_empty() { Err(EnvelopeError::Empty) } else { Ok(Content::Batch(txs)) }
}

/// A varint of at most four bytes, and where it ends.
fn length_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut length = 0;
    for index in 0..4 {
        let byte = *bytes.get(at + index)?;
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Some((length, at + index + 1));
        }
    }
    None
}

/// An envelope in the making.
#[derive(Debug, Default)]
pub struct Sealer {
    bytes: Vec<u8>,
    count: usize,
}

impl Sealer {
    /// Puts a transaction in; gives the envelope when it is full.
    pub fn push(&mut self, raw: &[u8]) -> Option<Bytes> {
        if self.bytes.is_empty() {
            self.bytes.reserve(TXS_AIMED * 128);
            self.bytes.extend([MARK, VERSION]);
        }
        let mut length = raw.len();
        while length >= 0x80 {
            self.bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.bytes.push(length as u8);
        self.bytes.extend_from_slice(raw);
        self.count += 1;
        if self.count >= TXS_AIMED || self.bytes.len() >= BYTES_AIMED { self.close() } else { None }
    }

    /// How many are in.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The envelope so far, if there is anything in it.
    pub fn close(&mut self) -> Option<Bytes> {
        let count = std::mem::take(&mut self.count);
        (count > 0).then(|| std::mem::take(&mut self.bytes).into())
    }
}

/// Bytes that a transaction takes at most in an envelope, its share of the envelope's frame in the block included.
pub const fn bytes_bound(raw_bytes: usize) -> usize {
    // Its length has at most three bytes below 2 MiB; a block's list adds a tag and a length to each envelope.
    raw_bytes + 3
}

/// Overhead of an envelope in bytes, its length in the block's list included.
pub const FRAME_BYTES: usize = 2 + 1 + 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(raws: &[Vec<u8>]) -> Vec<Bytes> {
        let mut sealer = Sealer::default();
        let mut envelopes: Vec<Bytes> = raws.iter().filter_map(|raw| sealer.push(raw)).collect();
        envelopes.extend(sealer.close());
        envelopes
    }

    #[test]
    fn invalid_envelope_is_named() {
        let open = |bytes: &'static [u8]| super::open(&Bytes::from_static(bytes));
        assert_eq!(open(&[]), Ok(Content::Single(Bytes::new())));
        assert_eq!(open(&[MARK]), Err(EnvelopeError::CutOff(1)));
        assert_eq!(open(&[MARK, 2, 1, 1]), Err(EnvelopeError::Version(2)));
        assert_eq!(open(&[MARK, VERSION]), Err(EnvelopeError::Empty));
        assert_eq!(open(&[MARK, VERSION, 3, 1, 1]), Err(EnvelopeError::CutOff(2)));
        assert_eq!(open(&[MARK, VERSION, 0xff, 0xff, 0xff, 0xff, 0]), Err(EnvelopeError::CutOff(2)));
        assert_eq!(open(&[0xc0]), Ok(Content::Single(Bytes::from_static(&[0xc0]))));
        let many: Vec<u8> = [MARK, VERSION].into_iter().chain(std::iter::repeat_n(0, TXS_MAX + 1)).collect();
        assert_eq!(super::open(&many.into()), Err(EnvelopeError::TooMany));
    }

    proptest! {
        #[test]
        fn envelope_round_trips(raws in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..350)) {
            let envelopes = sealed(&raws);
            prop_assert_eq!(envelopes.len(), raws.len().div_ceil(TXS_AIMED));
            let mut back = Vec::new();
            for envelope in &envelopes {
                let content = open(envelope).unwrap();
                let bound: usize = content.txs().iter().map(|tx| bytes_bound(tx.len())).sum();
                prop_assert!(envelope.len() <= bound + FRAME_BYTES);
                back.extend(content.txs().iter().map(|tx| tx.to_vec()));
            }
            prop_assert_eq!(back, raws);
        }

        #[test]
        fn any_bytes_open_or_are_an_error(mut bytes in prop::collection::vec(any::<u8>(), 2..200), ours: bool) {
            if ours {
                bytes[0] = MARK;
                bytes[1] = VERSION;
            }
            if let Ok(content) = open(&bytes.into()) {
                prop_assert!(!content.txs().is_empty() && content.txs().len() <= TXS_MAX);
            }
        }
    }
}

//! record: the byte layout of the history's log (no I/O).
//!
//! reads   bytes of a segment at a known position
//! writes  whole records into a caller's buffer
//! memory  none of its own
//! drops   nothing; `hearth_wal` walks over records and says why one fails verification
//! source  our own format, version [`VERSION`]; all integers little endian
//!
//! A record is `magic u32 | kind u32 | length u32 | crc u32 | body`. `length` covers all of it. The checksum
//! (CRC-32, IEEE) covers segment and offset, the header without the checksum, and the body.

use hearth_wal::{Fault, Framing, crc};

/// Version of the format, stored in each segment's first record.
pub(super) const VERSION: u32 = 1;
/// Bytes before a record's body.
pub(super) const HEADER_SIZE: usize = 16;
/// Size of the longest record that is accepted.
pub(super) const RECORD_SIZE_MAX: usize = 64 << 20;

/// The magic bytes at the start of every record.
const MAGIC_BYTES: [u8; 4] = *b"hHis";

/// The type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The head of a segment.
    Head = 1,
    /// The metadata of a microblock's transactions.
    Batch = 2,
    /// Closes a block, which is complete.
    Close = 3,
    /// The log was reopened: earlier batches belong to no block that is closed afterwards. Its body repeats the
    /// segment's [`Head`], so that one damaged page at the start does not lose the key.
    Reopened = 4,
}

/// The record at the head of a segment, and the body of each [`Kind::Reopened`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub version: u32,
    pub genesis_hash: [u8; 32],
    /// The seed of [`HistoryKey`](super::HistoryKey).
    pub key: u64,
}

impl Head {
    pub fn encode(&self) -> [u8; 48] {
        let mut out = [0; 48];
        out[0..4].copy_from_slice(&self.version.to_le_bytes());
        out[8..40].copy_from_slice(&self.genesis_hash);
        out[40..48].copy_from_slice(&self.key.to_le_bytes());
        out
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let body: &[u8; 48] = body.try_into().ok()?;
        Some(Self { version: u32_at(body, 0), genesis_hash: array_at(body, 8), key: u64_at(body, 40) })
    }
}

/// Appends a record whose position will be `offset` of `segment`.
pub(super) fn write(out: &mut Vec<u8>, segment: u32, offset: u64, kind: Kind, body: &[u8]) {
    let mut header = [0; HEADER_SIZE];
    header[0..4].copy_from_slice(&MAGIC_BYTES);
    header[4..8].copy_from_slice(&(kind as u32).to_le_bytes());
    header[8..12].copy_from_slice(&((HEADER_SIZE + body.len()) as u32).to_le_bytes());
    let crc = checksum(segment, offset, &header[..12], body);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&header);
    out.extend_from_slice(body);
}

/// The bytes around a record in a segment.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub segment: u32,
}

impl Framing for Frame {
    const HEAD: usize = HEADER_SIZE;
    const MARK: &'static [u8] = &MAGIC_BYTES;

    fn length(&self, head: &[u8], _: u64) -> Result<u64, Fault> {
        let length = u32_at(head, 8);
        match () {
            () if !head.starts_with(&MAGIC_BYTES) => Err(Fault::Magic),
            () if !(HEADER_SIZE..=RECORD_SIZE_MAX).contains(&(length as usize)) => Err(Fault::Length(length)),
            () => Ok(length.into()),
        }
    }

    fn verify(&self, record: &[u8], at: u64) -> Result<(), Fault> {
        let computed = checksum(self.segment, at, &record[..12], &record[HEADER_SIZE..]);
        Fault::unless_equal(u32_at(record, 12), computed)?;
        kind_of(record).map(|_| ()).ok_or(Fault::Body(u32_at(record, 4)))
    }
}

/// The kind and body of a verified record.
pub(super) fn parse(record: &[u8]) -> (Kind, &[u8]) {
    (kind_of(record).expect("a record that verifies is of a kind"), &record[HEADER_SIZE..])
}

fn kind_of(record: &[u8]) -> Option<Kind> {
    match u32_at(record, 4) {
        1 => Some(Kind::Head),
        2 => Some(Kind::Batch),
        3 => Some(Kind::Close),
        4 => Some(Kind::Reopened),
        _ => None,
    }
}

fn checksum(segment: u32, offset: u64, head: &[u8], body: &[u8]) -> u32 {
    crc(&[&segment.to_le_bytes(), &offset.to_le_bytes(), head, body])
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

pub(super) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("callers pass at least the layout's size")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verified(bytes: &[u8], segment: u32, offset: u64) -> Option<(Kind, &[u8])> {
        let frame = Frame { segment };
        let length = frame.length(bytes.get(..HEADER_SIZE)?, offset).ok()?;
        let is_whole = length == bytes.len() as u64 && frame.verify(bytes, offset).is_ok();
        is_whole.then(|| parse(bytes))
    }

    #[test]
    fn every_bit_and_the_place_are_checked() {
        let mut bytes = vec![];
        write(&mut bytes, 3, 4096, Kind::Batch, b"a body");
        assert_eq!(verified(&bytes, 3, 4096), Some((Kind::Batch, &b"a body"[..])));
        assert_eq!((verified(&bytes, 3, 4097), verified(&bytes, 4, 4096)), (None, None));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verified(&bad, 3, 4096), None, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(verified(&bytes[..cut], 3, 4096), None);
        }
    }

    #[test]
    fn heads_come_back() {
        let head = Head { version: VERSION, genesis_hash: [7; 32], key: u64::MAX - 5 };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        assert_eq!(Head::decode(&head.encode()[1..]), None);
    }
}

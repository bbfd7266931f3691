//! record: the byte layout of the block store's log (no I/O).
//!
//! reads   bytes of a segment at a known position
//! writes  record headers and bodies into a caller's buffer
//! drops   nothing; a record that fails verification is a [`Fault`] with its reason, and `hearth_wal` skips it
//! source  our own format, version [`VERSION`]; all integers little endian
//!
//! A record is `magic u32 | kind u32 | length u32 | crc u32 | body | zero padding to 8 bytes`. `length` covers all of
//! it. The checksum (CRC-32, IEEE) covers the record's own position, its header without the checksum, its body and its
//! padding, so that a record written to the wrong place fails verification too.

use super::LogPosition;
use hearth_wal::{Fault, Framing};

/// Version of the format, stored in each segment's first record.
pub const VERSION: u32 = 1;
/// Bytes before a record's body.
pub(super) const HEADER_SIZE: usize = 16;
/// Bytes of a set's body before its data.
pub(super) const SET_BODY_SIZE: usize = 160;
/// Maximum data bytes of one FEC set; a set of 32 shreds carries 30,816.
pub const SET_DATA_SIZE_MAX: usize = 61_440;
/// Size of the longest record: a set with the most data.
pub(super) const RECORD_SIZE_MAX: usize = HEADER_SIZE + SET_BODY_SIZE + SET_DATA_SIZE_MAX;
/// Size of the record at the head of a segment.
pub(super) const SEGMENT_HEAD_SIZE: usize = HEADER_SIZE + 48;
/// Size of a record that voids slots.
pub(super) const DISCARD_SIZE: usize = HEADER_SIZE + 8;
/// Size of the record that closes a slot.
pub(super) const COMPLETE_SIZE: usize = HEADER_SIZE + 64;

const MAGIC_BYTES: [u8; 4] = *b"hRec";
const KIND_SEGMENT: u32 = 1;
const KIND_SET: u32 = 2;
const KIND_COMPLETE: u32 = 3;
const KIND_DISCARD: u32 = 4;
const KIND_DUMP: u32 = 5;
const FLAG_LAST: u8 = 1;
/// The set continues its batch in the next set, or ends it. Older records have 0 there.
const BATCH_CONTINUES: u8 = 1;
const BATCH_ENDS: u8 = 2;

const _: () = assert!(
    RECORD_SIZE_MAX.is_multiple_of(8) && SEGMENT_HEAD_SIZE.is_multiple_of(8) && COMPLETE_SIZE.is_multiple_of(8)
);

/// One FEC set of a block, as it is appended and read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FecSetRecord<'a> {
    /// The slot of the block.
    pub slot: u64,
    /// The slot of the block's parent, below `slot` (both are 0 for the first block).
    pub parent_slot: u64,
    /// Index of the set's first data shred, a multiple of 32.
    pub fec_set_index: u32,
    /// Reference tick of the set's shreds.
    pub reference_tick: u8,
    /// Whether this set ends the block.
    pub last_in_slot: bool,
    /// Whether its last data shred ends a batch of entries; `None` in a record that does not say so.
    pub ends_batch: Option<bool>,
    /// Merkle root over the set's shreds.
    pub merkle_root: [u8; 32],
    /// Merkle root of the previous set (for the first set, the parent's last).
    pub chained_root: [u8; 32],
    /// The leader's ed25519 signature over `merkle_root`.
    pub signature: [u8; 64],
    /// The set's part of the block's entry bytes, at most [`SET_DATA_SIZE_MAX`].
    pub data: &'a [u8],
}

/// The record that closes a slot whose sets are all in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CompleteRecord {
    pub slot: u64,
    pub parent_slot: u64,
    pub set_count: u32,
    pub data_bytes: u64,
    /// Merkle root of the last set.
    pub block_id: [u8; 32],
}

/// The record at the head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentRecord {
    pub version: u32,
    pub segment: u32,
    pub genesis_hash: [u8; 32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Segment(SegmentRecord),
    Set(FecSetRecord<'a>),
    Complete(CompleteRecord),
    /// Voids all earlier records of this slot and of higher slots.
    Discard(u64),
    /// Voids all earlier records of this slot.
    Dump(u64),
}

/// The bytes around a record in a segment.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub segment: u32,
}

impl Framing for Frame {
    const HEAD: usize = HEADER_SIZE;
    const ALIGN: u64 = 8;
    const MARK: &'static [u8] = &MAGIC_BYTES;

    fn length(&self, head: &[u8], _: u64) -> Result<u64, Fault> {
        let length = u32_at(head, 8);
        let is_sane = (HEADER_SIZE..=RECORD_SIZE_MAX).contains(&(length as usize)) && length.is_multiple_of(8);
        match () {
            () if !head.starts_with(&MAGIC_BYTES) => Err(Fault::Magic),
            () if !is_sane => Err(Fault::Length(length)),
            () => Ok(length.into()),
        }
    }

    fn verify(&self, record: &[u8], at: u64) -> Result<(), Fault> {
        let position = LogPosition::new(self.segment, at as u32);
        let computed = checksum(position, &record[..12], &[&record[HEADER_SIZE..]]);
        Fault::unless_equal(u32_at(record, 12), computed)?;
        parse(record).map(|_| ())
    }
}

/// Parses a record without verifying its checksum.
pub(super) fn parse(bytes: &[u8]) -> Result<Record<'_>, Fault> {
    let kind = u32_at(bytes, 4);
    let body = &bytes[HEADER_SIZE..];
    match kind {
        KIND_SEGMENT => decode_segment(body).map(Record::Segment),
        KIND_SET => decode_set(body).map(Record::Set),
        KIND_COMPLETE => decode_complete(body).map(Record::Complete),
        KIND_DISCARD => body.first_chunk().map(|slot| Record::Discard(u64::from_le_bytes(*slot))),
        KIND_DUMP => body.first_chunk().map(|slot| Record::Dump(u64::from_le_bytes(*slot))),
        _ => None,
    }
    .ok_or(Fault::Body(kind))
}

/// The slot that a set or closing record names, before its checksum is verified; only for skipping.
pub(super) fn peek_slot(bytes: &[u8]) -> Option<u64> {
    let kind = u32_at(bytes.get(..HEADER_SIZE + 8)?, 4);
    (kind == KIND_SET || kind == KIND_COMPLETE).then(|| u64_at(bytes, HEADER_SIZE))
}

/// Size of a set's record in the log.
pub(super) fn set_record_size(data_len: usize) -> usize {
    (HEADER_SIZE + SET_BODY_SIZE + data_len).next_multiple_of(8)
}

/// Size in the log of a whole block whose entries, with the counts of its batches, take `data_len` bytes and fit into
/// one FEC set.
pub fn block_size(data_len: usize) -> usize {
    assert!(data_len <= SET_DATA_SIZE_MAX, "one set has no room for {data_len} bytes");
    set_record_size(data_len) + COMPLETE_SIZE
}

/// Encodes a set's record without its data: the bytes before it, and the padding after it.
pub(super) fn encode_set(
    set: &FecSetRecord<'_>,
    position: LogPosition,
) -> ([u8; HEADER_SIZE + SET_BODY_SIZE], &'static [u8]) {
    let mut out = [0u8; HEADER_SIZE + SET_BODY_SIZE];
    let padding: &'static [u8] = &[0u8; 7][..set_record_size(set.data.len()) - out.len() - set.data.len()];
    put_header(&mut out, KIND_SET, set_record_size(set.data.len()));
    let body = &mut out[HEADER_SIZE..];
    body[0..8].copy_from_slice(&set.slot.to_le_bytes());
    body[8..16].copy_from_slice(&set.parent_slot.to_le_bytes());
    body[16..20].copy_from_slice(&set.fec_set_index.to_le_bytes());
    body[20] = if set.last_in_slot { FLAG_LAST } else { 0 };
    body[21] = set.reference_tick;
    body[22] = match set.ends_batch {
        None => 0,
        Some(false) => BATCH_CONTINUES,
        Some(true) => BATCH_ENDS,
    };
    body[24..28].copy_from_slice(&(set.data.len() as u32).to_le_bytes());
    body[32..64].copy_from_slice(&set.merkle_root);
    body[64..96].copy_from_slice(&set.chained_root);
    body[96..160].copy_from_slice(&set.signature);
    let crc = checksum(position, &out[..12], &[&out[HEADER_SIZE..], set.data, padding]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    (out, padding)
}

pub(super) fn encode_complete(record: &CompleteRecord, position: LogPosition) -> [u8; COMPLETE_SIZE] {
    let mut out = [0u8; COMPLETE_SIZE];
    put_header(&mut out, KIND_COMPLETE, COMPLETE_SIZE);
    let body = &mut out[HEADER_SIZE..];
    body[0..8].copy_from_slice(&record.slot.to_le_bytes());
    body[8..16].copy_from_slice(&record.parent_slot.to_le_bytes());
    body[16..20].copy_from_slice(&record.set_count.to_le_bytes());
    body[24..32].copy_from_slice(&record.data_bytes.to_le_bytes());
    body[32..64].copy_from_slice(&record.block_id);
    seal(&mut out, position);
    out
}

pub(super) fn encode_segment(record: &SegmentRecord, position: LogPosition) -> [u8; SEGMENT_HEAD_SIZE] {
    let mut out = [0u8; SEGMENT_HEAD_SIZE];
    put_header(&mut out, KIND_SEGMENT, SEGMENT_HEAD_SIZE);
    let body = &mut out[HEADER_SIZE..];
    body[0..4].copy_from_slice(&record.version.to_le_bytes());
    body[4..8].copy_from_slice(&record.segment.to_le_bytes());
    body[8..40].copy_from_slice(&record.genesis_hash);
    seal(&mut out, position);
    out
}

pub(super) fn encode_discard(slot: u64, position: LogPosition) -> [u8; DISCARD_SIZE] {
    encode_void(KIND_DISCARD, slot, position)
}

pub(super) fn encode_dump(slot: u64, position: LogPosition) -> [u8; DISCARD_SIZE] {
    encode_void(KIND_DUMP, slot, position)
}

fn encode_void(kind: u32, slot: u64, position: LogPosition) -> [u8; DISCARD_SIZE] {
    let mut out = [0u8; DISCARD_SIZE];
    put_header(&mut out, kind, DISCARD_SIZE);
    out[HEADER_SIZE..].copy_from_slice(&slot.to_le_bytes());
    seal(&mut out, position);
    out
}

fn decode_segment(body: &[u8]) -> Option<SegmentRecord> {
    let body = body.first_chunk::<48>()?;
    Some(SegmentRecord { version: u32_at(body, 0), segment: u32_at(body, 4), genesis_hash: array_at(body, 8) })
}

fn decode_set(body: &[u8]) -> Option<FecSetRecord<'_>> {
    let (head, rest) = body.split_first_chunk::<SET_BODY_SIZE>()?;
    Some(FecSetRecord {
        slot: u64_at(head, 0),
        parent_slot: u64_at(head, 8),
        fec_set_index: u32_at(head, 16),
        reference_tick: head[21],
        last_in_slot: head[20] & FLAG_LAST != 0,
        ends_batch: match head[22] {
            BATCH_CONTINUES => Some(false),
            BATCH_ENDS => Some(true),
            _ => None,
        },
        merkle_root: array_at(head, 32),
        chained_root: array_at(head, 64),
        signature: array_at(head, 96),
        data: rest.get(..u32_at(head, 24) as usize)?,
    })
}

fn decode_complete(body: &[u8]) -> Option<CompleteRecord> {
    let body = body.first_chunk::<64>()?;
    Some(CompleteRecord {
        slot: u64_at(body, 0),
        parent_slot: u64_at(body, 8),
        set_count: u32_at(body, 16),
        data_bytes: u64_at(body, 24),
        block_id: array_at(body, 32),
    })
}

fn put_header(out: &mut [u8], kind: u32, length: usize) {
    out[0..4].copy_from_slice(&MAGIC_BYTES);
    out[4..8].copy_from_slice(&kind.to_le_bytes());
    out[8..12].copy_from_slice(&(length as u32).to_le_bytes());
}

fn seal(out: &mut [u8], position: LogPosition) {
    let crc = checksum(position, &out[..12], &[&out[HEADER_SIZE..]]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(position: LogPosition, head: &[u8], parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.to_bits().to_le_bytes());
    hasher.update(head);
    parts.iter().for_each(|p| hasher.update(p));
    hasher.finalize()
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("callers pass a body of at least the layout's size")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8], position: LogPosition) -> Result<Record<'_>, Fault> {
        let (frame, at) = (Frame { segment: position.segment() }, position.offset().into());
        let length = frame.length(&bytes[..HEADER_SIZE], at)?;
        if length != bytes.len() as u64 {
            return Err(Fault::Length(length as u32));
        }
        frame.verify(bytes, at).and_then(|()| parse(bytes))
    }

    const AT: LogPosition = LogPosition::new(3, 4096);

    fn bytes_of(data: &[u8]) -> Vec<u8> {
        let ends_batch = [None, Some(false), Some(true)][data.len() % 3];
        let set = FecSetRecord {
            slot: 7,
            parent_slot: 5,
            fec_set_index: 64,
            reference_tick: 63,
            last_in_slot: true,
            ends_batch,
            merkle_root: [1; 32],
            chained_root: [2; 32],
            signature: [3; 64],
            data,
        };
        let (head, padding) = encode_set(&set, AT);
        let bytes = [&head[..], data, padding].concat();
        assert_eq!(decode(&bytes, AT), Ok(Record::Set(set)));
        bytes
    }

    #[test]
    fn sets_of_every_padding_come_back() {
        for len in 0..40 {
            let data: Vec<u8> = (0..len).collect();
            assert_eq!(bytes_of(&data).len(), set_record_size(data.len()));
        }
    }

    #[test]
    fn every_single_bit_flip_is_noticed() {
        let good = bytes_of(b"entry bytes");
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad, AT).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_record_does_not_verify_elsewhere() {
        let good = bytes_of(b"entry bytes");
        assert!(matches!(decode(&good, LogPosition::new(3, 4104)), Err(Fault::Checksum { .. })));
        assert!(matches!(decode(&good, LogPosition::new(4, 4096)), Err(Fault::Checksum { .. })));
    }

    #[test]
    fn the_other_records_come_back() {
        let complete = CompleteRecord { slot: 9, parent_slot: 8, set_count: 4, data_bytes: 1 << 40, block_id: [7; 32] };
        assert_eq!(decode(&encode_complete(&complete, AT), AT), Ok(Record::Complete(complete)));
        let head = SegmentRecord { version: VERSION, segment: 3, genesis_hash: [9; 32] };
        assert_eq!(decode(&encode_segment(&head, AT), AT), Ok(Record::Segment(head)));
        assert_eq!(decode(&encode_discard(77, AT), AT), Ok(Record::Discard(77)));
        assert_eq!(decode(&encode_dump(78, AT), AT), Ok(Record::Dump(78)));
    }
}

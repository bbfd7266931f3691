//! A framing for files whose records have none of their own: each record shows whether it is whole, torn, or damaged.
//!
//! ```text
//! record  length u32 | crc of its place and its length u32 | crc of its bytes u32 | bytes
//! ```
//!
//! A killed process leaves the beginning of the record that it was writing, and a power loss leaves zeros in its place:
//! only the last record, which was never acknowledged. A mismatch before that is damage: later records were
//! acknowledged. Numbers are little endian, checksums CRC-32.

use crate::framing::{Fault, Framing, crc};

/// Bytes before a record's own.
pub const HEAD: usize = 12;
/// No record is longer.
const BYTES_MAX: u32 = 1 << 30;

/// The bytes around a record. Heads have nothing in common, but no head verifies in another place.
#[derive(Clone, Copy)]
pub struct Frame;

impl Framing for Frame {
    const HEAD: usize = HEAD;

    fn length(&self, head: &[u8], at: u64) -> Result<u64, Fault> {
        match word(head, 0) {
            _ if crc(&[&at.to_le_bytes(), &head[..4]]) != word(head, 4) => Err(Fault::Magic),
            length if length > BYTES_MAX => Err(Fault::Length(length)),
            length => Ok(HEAD as u64 + u64::from(length)),
        }
    }

    fn verify(&self, record: &[u8], _: u64) -> Result<(), Fault> {
        Fault::unless_equal(word(record, 8), crc(&[&record[HEAD..]]))
    }
}

/// Adds a record of these bytes to `out`, which will be written at `begin`.
pub fn push(out: &mut Vec<u8>, begin: u64, parts: &[&[u8]]) {
    let place = begin + out.len() as u64;
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).expect("a record is below 4 GiB").to_le_bytes();
    out.extend(length);
    out.extend(crc(&[&place.to_le_bytes(), &length]).to_le_bytes());
    out.extend(crc(parts).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Contents of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct FileContents<'a> {
    /// The bytes of each record, and where it is.
    pub records: Vec<(u64, &'a [u8])>,
    /// Offset of the end of the last whole record; the rest is torn.
    pub whole: u64,
}

/// The records of a file; where it is damaged, the byte.
pub fn read(bytes: &[u8]) -> Result<FileContents<'_>, u64> {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some(head) = bytes[at..].first_chunk::<HEAD>() {
        let place = at as u64;
        let Ok(length) = Frame.length(head, place) else {
            // The head is torn if only zeros follow it, whatever its length says.
            if is_zero(&bytes[at + HEAD..]) {
                break;
            }
            return Err(place);
        };
        let Some((record, after)) = bytes[at..].split_at_checked(length as usize) else { break };
        if Frame.verify(record, place).is_err() {
            if is_zero(after) {
                break;
            }
            return Err(place);
        }
        records.push((place, &record[HEAD..]));
        at += record.len();
    }
    Ok(FileContents { records, whole: at as u64 })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a head has these four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for number in 1..6u8 {
            let body = vec![number; usize::from(number)];
            push(&mut bytes, 0, &[&body[..1], &body[1..]]);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    #[test]
    fn a_torn_end_is_cut_off_wherever_it_is_torn() {
        let (bytes, ends) = file();
        for length in 0..=bytes.len() {
            let count = ends.iter().filter(|end| **end <= length).count() - 1;
            let mut torn = bytes[..length].to_vec();
            // Truncated, or truncated and followed by zeros that were never written.
            for zeros in [0, 1, 30, 5_000] {
                torn.resize(length + zeros, 0);
                let read = read(&torn).unwrap_or_else(|place| panic!("{length} {zeros}: damage at {place}"));
                let bodies: Vec<u8> = read.records.iter().map(|(_, body)| body[0]).collect();
                assert_eq!(bodies, (1..=count as u8).collect::<Vec<_>>(), "{length} {zeros}");
                assert_eq!(read.whole, ends[count] as u64);
            }
        }
    }

    #[test]
    fn earlier_damage_is_located() {
        let (bytes, ends) = file();
        let last = ends[ends.len() - 2];
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let begin = *ends.iter().rfind(|end| **end <= at).unwrap();
            match read(&damaged) {
                Err(place) => assert_eq!(place, begin as u64, "{at}"),
                Ok(read) => assert!(at >= last + HEAD - 4 && read.whole == last as u64, "{at} {read:?}"),
            }
        }
    }
}

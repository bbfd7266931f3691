//! Records one after the other in a file: each tells by itself whether it is whole, torn, or damaged.
//!
//! ```text
//! record  length u32 | crc of its place and its length u32 | crc of its bytes u32 | bytes
//! ```
//!
//! A process that is killed leaves the beginning of what it was writing, and a machine that loses power zeros in its
//! place: the last record, of which nobody was told that it is there. What does not match before that is damage: what
//! comes after it was acknowledged. Numbers are little endian, checksums CRC-32.
//!
//! memory  none of its own

/// Bytes before a record's own.
const HEAD: usize = 12;

/// Adds a record of these bytes to `out`, which will be written at `begin`.
pub fn push(out: &mut Vec<u8>, begin: u64, parts: &[&[u8]]) {
    let place = begin + out.len() as u64;
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).expect("a transaction is small").to_le_bytes();
    out.extend(length);
    out.extend(crc(&[&place.to_le_bytes(), &length]).to_le_bytes());
    out.extend(crc(parts).to_le_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// The bytes of each record, and where it is.
    pub records: Vec<(u64, &'a [u8])>,
    /// Where the last one ends; what lies beyond it is torn.
    pub whole: u64,
}

/// The records of a file; where it is damaged, the byte.
pub fn read(bytes: &[u8]) -> Result<Read<'_>, u64> {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some((head, rest)) = bytes[at..].split_first_chunk::<HEAD>() {
        let word = |from: usize| u32::from_le_bytes(*head[from..].first_chunk().expect("four bytes"));
        let place = at as u64;
        if crc(&[&place.to_le_bytes(), &head[..4]]) != word(4) {
            // Its head is torn where nothing lies behind that, whatever its length would be.
            if is_zero(rest) {
                break;
            }
            return Err(place);
        }
        let Some((body, after)) = rest.split_at_checked(word(0) as usize) else { break };
        if crc(&[body]) != word(8) {
            if is_zero(after) {
                break;
            }
            return Err(place);
        }
        records.push((place, body));
        at += HEAD + body.len();
    }
    Ok(Read { records, whole: at as u64 })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn crc(parts: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize()
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
            // Cut off, or cut off and followed by what was never written.
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
    fn damage_before_the_last_is_told_by_its_place() {
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

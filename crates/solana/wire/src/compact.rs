//! Compact-u16: a length in one to three bytes, seven bits a byte, low bits first.
//!
//! reads   one to three bytes
//! writes  one to three bytes
//! source  `solana-short-vec`: only the shortest encoding of a value is accepted

/// Why a compact-u16 is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactError {
    /// The bytes end within it.
    Truncated,
    /// Its encoding is not the shortest, or its value is over 65,535.
    Invalid,
}

/// Reads the compact-u16 that starts at `at`. Returns its value and the offset after it.
#[inline(always)]
pub fn read(bytes: &[u8], at: usize) -> Result<(u16, usize), CompactError> {
    match bytes.get(at) {
        Some(&first) if first < 0x80 => Ok((u16::from(first), at + 1)),
        Some(&first) => read_long(bytes, at, first),
        None => Err(CompactError::Truncated),
    }
}

#[cold]
#[inline(never)]
fn read_long(bytes: &[u8], at: usize, first: u8) -> Result<(u16, usize), CompactError> {
    let low = u16::from(first & 0x7f);
    let second = *bytes.get(at + 1).ok_or(CompactError::Truncated)?;
    match second {
        0 => return Err(CompactError::Invalid),
        1..0x80 => return Ok((low | u16::from(second) << 7, at + 2)),
        _ => {}
    }
    let low = low | u16::from(second & 0x7f) << 7;
    match *bytes.get(at + 2).ok_or(CompactError::Truncated)? {
        third @ 1..=3 => Ok((low | u16::from(third) << 14, at + 3)),
        _ => Err(CompactError::Invalid),
    }
}

/// Appends the shortest encoding of `value`.
pub fn write(value: u16, out: &mut Vec<u8>) {
    let (bytes, len) = encode(value);
    out.extend_from_slice(&bytes[..len]);
}

/// The shortest encoding of `value`: three bytes, of which the first `.1` are used.
pub const fn encode(value: u16) -> ([u8; 3], usize) {
    let (low, middle, high) = ((value & 0x7f) as u8, (value >> 7 & 0x7f) as u8, (value >> 14) as u8);
    match value {
        0..0x80 => ([low, 0, 0], 1),
        0x80..0x4000 => ([low | 0x80, middle, 0], 2),
        0x4000.. => ([low | 0x80, middle | 0x80, high], 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_round_trips_and_no_other_encoding_is_accepted() {
        let mut accepted = 0u32;
        for value in 0..=u16::MAX {
            let (bytes, len) = encode(value);
            assert_eq!(read(&bytes[..len], 0), Ok((value, len)));
            assert_eq!(read(&bytes[..len - 1], 0), Err(CompactError::Truncated));
        }
        for word in 0..1u32 << 24 {
            let bytes = word.to_le_bytes();
            if let Ok((value, len)) = read(&bytes[..3], 0) {
                // Counts each encoding once: only if the bytes after it are zero.
                if word >> (8 * len) == 0 {
                    accepted += 1;
                    assert_eq!((bytes[0..len].to_vec(), len), (encode(value).0[..len].to_vec(), encode(value).1));
                }
            }
        }
        assert_eq!(accepted, 65_536);
    }
}

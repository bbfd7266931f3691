//! A reader of consecutive fields, whose errors have a kind and an offset.
//!
//! reads   the bytes of one datagram
//! writes  numbers, and slices of these bytes
//! memory  none: a count is accepted only if its bytes are present
//! drops   nothing; each refusal is a [`GossipError`]
//! source  bincode 1 with fixed-size integers; `solana-serde-varint`, `solana-short-vec`

use crate::compact;

/// Why bytes are not a gossip message, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (at byte {offset})")]
pub struct GossipError {
    /// The rule that is violated.
    pub kind: GossipErrorKind,
    /// Offset of the offending field.
    pub offset: u16,
}

/// A rule of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum GossipErrorKind {
    /// The bytes end within a field, or a count exceeds them.
    #[error("truncated")]
    Truncated,
    /// Bytes after the last field.
    #[error("trailing bytes")]
    TrailingBytes,
    /// More bytes than fit into a datagram.
    #[error("longer than a datagram")]
    TooLong,
    /// Unknown tag of a message, kind or variant.
    #[error("unknown tag")]
    Tag,
    /// A kind that the cluster has retired and no longer parses.
    #[error("a kind that is no longer in use")]
    Deprecated,
    /// A number at or above its limit.
    #[error("number out of range")]
    Range,
    /// A varint that is too long for its value or type.
    #[error("number is not canonical")]
    Varint,
    /// A field that must be empty or zero.
    #[error("field must be empty")]
    NotEmpty,
    /// The bit count does not match the bytes.
    #[error("bits do not fit their bytes")]
    Bits,
    /// An address that does not have four bytes, is repeated, or is unused.
    #[error("address is not usable")]
    Address,
    /// A socket that is repeated, has no address, or a port beyond 65,535.
    #[error("socket is not usable")]
    Socket,
    /// A transaction that is not a legacy vote transaction.
    #[error("no vote transaction")]
    Vote,
    /// A pull request for more than a 64th of the table.
    #[error("filter is too coarse")]
    Mask,
    /// A pull request whose value is not a contact info.
    #[error("caller is no contact info")]
    Caller,
    /// A prune message whose sender did not sign it.
    #[error("sender is not the signer")]
    Sender,
}

pub(super) type Result<T> = std::result::Result<T, GossipError>;

/// A position in the bytes.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The bytes from `start` to here.
    pub(super) fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    /// An error at the field that starts at `offset`.
    pub(super) fn error(kind: GossipErrorKind, offset: usize) -> GossipError {
        GossipError { kind, offset: u16::try_from(offset).unwrap_or(u16::MAX) }
    }

    /// Returns an error unless `holds`.
    pub(super) fn check(holds: bool, kind: GossipErrorKind, offset: usize) -> Result<()> {
        if holds { Ok(()) } else { Err(Self::error(kind, offset)) }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or(Self::error(GossipErrorKind::Truncated, self.at))?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> Result<u64> {
        let at = self.at;
        let number = self.u64()?;
        Self::check(number < end, GossipErrorKind::Range, at)?;
        Ok(number)
    }

    /// A number that must be 0.
    pub(super) fn zero(&mut self) -> Result<()> {
        let at = self.at;
        let number = self.u64()?;
        Self::check(number == 0, GossipErrorKind::NotEmpty, at)
    }

    /// A flag: a byte that is 0 or 1.
    pub(super) fn flag(&mut self) -> Result<bool> {
        let at = self.at;
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Self::error(GossipErrorKind::Tag, at)),
        }
    }

    /// A count of items of at least `size` bytes each.
    pub(super) fn count(&mut self, size: usize) -> Result<usize> {
        let at = self.at;
        let count = self.u64()?;
        let room = ((self.bytes.len() - self.at) / size) as u64;
        Self::check(count <= room, GossipErrorKind::Truncated, at)?;
        Ok(count as usize)
    }

    /// A count as a compact-u16.
    pub(super) fn short_count(&mut self) -> Result<usize> {
        let (count, at) = compact::read(self.bytes, self.at).map_err(|error| {
            let kind = match error {
                compact::CompactError::Truncated => GossipErrorKind::Truncated,
                compact::CompactError::Invalid => GossipErrorKind::Varint,
            };
            Self::error(kind, self.at)
        })?;
        self.at = at;
        Ok(usize::from(count))
    }

    /// A varint: seven bits per byte, low ones first, of at most `bits` bits, in its shortest form.
    pub(super) fn varint(&mut self, bits: u32) -> Result<u64> {
        let start = self.at;
        let mut number = 0u64;
        for shift in (0..bits).step_by(7) {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            let room = bits - shift;
            Self::check(room >= 7 || low >> room == 0, GossipErrorKind::Varint, start)?;
            number |= low << shift;
            if byte & 0x80 == 0 {
                Self::check(byte != 0 || shift == 0, GossipErrorKind::Varint, start)?;
                return Ok(number);
            }
        }
        Err(Self::error(GossipErrorKind::Varint, start))
    }

    pub(super) fn varint_u16(&mut self) -> Result<u16> {
        self.varint(16).map(|number| number as u16)
    }

    /// Bytes preceded by their `u64` length.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let count = self.count(1)?;
        self.take(count)
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self) -> Result<()> {
        Self::check(self.at == self.bytes.len(), GossipErrorKind::TrailingBytes, self.at)
    }
}

/// Appends a number in its shortest form.
pub(super) fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn write_u64(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

pub(super) fn write_u32(number: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(bytes: &[u8], bits: u32) -> Result<u64> {
        let mut reader = Reader::new(bytes);
        let number = reader.varint(bits)?;
        reader.end().map(|()| number)
    }

    #[test]
    fn numbers_have_one_form() {
        for number in [0, 1, 127, 128, 16_383, 16_384, 65_535, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write_varint(number, &mut bytes);
            assert_eq!(varint(&bytes, 64), Ok(number));
            assert_eq!(varint(&bytes, 16).is_ok(), number <= 65_535, "{number}");
            let cut = varint(&bytes[..bytes.len() - 1], 64).unwrap_err();
            assert_eq!(cut.kind, GossipErrorKind::Truncated);
            if let Some(last) = bytes.last_mut() {
                *last |= 0x80;
            }
            bytes.push(0);
            assert_eq!(varint(&bytes, 64).unwrap_err().kind, GossipErrorKind::Varint, "{number} with a zero behind it");
        }
        assert_eq!(varint(&[0xff, 0xff, 0x03], 16), Ok(65_535));
        assert_eq!(varint(&[0xff, 0xff, 0x04], 16).unwrap_err().kind, GossipErrorKind::Varint);
        assert_eq!(varint(&[0x80, 0x80, 0x80, 0x01], 16).unwrap_err().kind, GossipErrorKind::Varint);
    }

    #[test]
    fn a_count_is_not_believed() {
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend([0; 64]);
        assert_eq!(Reader::new(&bytes).count(1).unwrap_err().kind, GossipErrorKind::Truncated);
        bytes[..8].copy_from_slice(&2u64.to_le_bytes());
        assert_eq!(Reader::new(&bytes).count(32), Ok(2));
        assert!(Reader::new(&bytes).count(33).is_err());
    }
}

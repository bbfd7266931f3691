//! The structure of RLP, before anything is decoded of it: every head, and where a wrong one is.
//!
//! reads   bytes
//! writes  the first fault, with its byte
//! memory  a word for each list that is open
//! source  the yellow paper, appendix B: each item has one form, and the shortest

/// An RLP error, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {what}")]
pub struct RlpFault {
    /// The offset from the beginning of the file, or of the bytes without a file.
    pub offset: u64,
    /// The fault that was found there.
    pub what: String,
}

impl RlpFault {
    pub(super) fn new(offset: u64, what: impl Into<String>) -> Self {
        Self { offset, what: what.into() }
    }
}

/// Bytes of the longest head.
pub(super) const HEAD_MAX: usize = 9;

/// The meaning of an item's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub is_list: bool,
    /// Bytes of the head; none where the item is a byte that stands for itself.
    pub length: usize,
    /// Length of the payload, in bytes.
    pub payload: u64,
}

/// The head that `bytes` begin with; nothing where they end within it.
pub(super) fn head(bytes: &[u8]) -> Result<Option<Head>, &'static str> {
    let Some(first) = bytes.first() else { return Ok(None) };
    let (is_list, short) = match *first {
        0..0x80 => return Ok(Some(Head { is_list: false, length: 0, payload: 1 })),
        0x80..0xc0 => (false, *first - 0x80),
        0xc0.. => (true, *first - 0xc0),
    };
    let Some(digits) = short.checked_sub(55).filter(|digits| *digits > 0) else {
        let payload = u64::from(short);
        return match bytes.get(1) {
            Some(0..0x80) if !is_list && payload == 1 => Err("a byte below 0x80 has a length before it"),
            _ => Ok(Some(Head { is_list, length: 1, payload })),
        };
    };
    let length = 1 + usize::from(digits);
    let Some(digits) = bytes.get(1..length) else { return Ok(None) };
    if digits[0] == 0 {
        return Err("a length begins with zeros");
    }
    let payload = digits.iter().fold(0, |sum: u64, digit| sum << 8 | u64::from(*digit));
    if payload < 56 {
        Err("a length below 56 has a byte of its own")
    } else {
        Ok(Some(Head { is_list, length, payload }))
    }
}

/// Refuses bytes that are not one item, whole and in its one form with all that is within it. `at` is the offset of the
/// first of them.
pub fn check_rlp(bytes: &[u8], at: u64) -> Result<(), RlpFault> {
    let fault = |pos: usize, what: &str| RlpFault::new(at + pos as u64, what);
    let mut ends: Vec<usize> = Vec::new();
    let mut pos = 0;
    loop {
        let end = ends.last().copied().unwrap_or(bytes.len());
        let head = head(&bytes[pos..end]).map_err(|what| fault(pos, what))?;
        let head = head.ok_or_else(|| fault(pos, "the item is cut off"))?;
        let from = pos + head.length;
        let to = usize::try_from(head.payload).ok().and_then(|payload| from.checked_add(payload));
        let to = to.filter(|to| *to <= end).ok_or_else(|| fault(pos, "the item is longer than what it is in"))?;
        if head.is_list {
            ends.push(to);
            pos = from;
        } else {
            pos = to;
        }
        while ends.last() == Some(&pos) {
            ends.pop();
        }
        if ends.is_empty() {
            break;
        }
    }
    if pos == bytes.len() { Ok(()) } else { Err(fault(pos, "there is something behind the item")) }
}

/// One item of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    /// Offset of its first byte.
    pub at: u64,
    pub is_list: bool,
    /// The item's bytes with its head.
    pub whole: &'a [u8],
    /// The item's bytes without its head.
    pub payload: &'a [u8],
}

impl<'a> Item<'a> {
    /// The item that `bytes` begin with, which [`check_rlp`] has let pass.
    pub fn first(bytes: &'a [u8], at: u64) -> Option<Self> {
        let head = head(bytes).ok()??;
        let end = head.length.checked_add(usize::try_from(head.payload).ok()?)?;
        let whole = bytes.get(..end)?;
        Some(Self { at, is_list: head.is_list, whole, payload: whole.get(head.length..)? })
    }

    /// Returns the items of the list; none if it is no list.
    pub fn items(&self) -> Items<'a> {
        let bytes: &'a [u8] = if self.is_list { self.payload } else { &[] };
        Items { bytes, at: self.at + (self.whole.len() - self.payload.len()) as u64 }
    }
}

/// The items of a list, in order.
pub(super) struct Items<'a> {
    bytes: &'a [u8],
    at: u64,
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let item = Item::first(self.bytes, self.at)?;
        self.bytes = &self.bytes[item.whole.len()..];
        self.at += item.whole.len() as u64;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;

    use super::*;

    #[test]
    fn faults_have_their_byte() {
        let fault = |bytes: &[u8]| check_rlp(bytes, 100).expect_err("it is wrong").offset;
        assert_eq!(fault(&[]), 100, "nothing");
        assert_eq!(fault(&hex!("c88080")), 100, "longer than the bytes");
        assert_eq!(fault(&hex!("c3018105")), 102, "a byte that stands for itself");
        assert_eq!(fault(&hex!("c201b8")), 102, "cut off within a head");
        assert_eq!(fault(&hex!("c4c1c58080")), 102, "a list within one that ends before it");
        assert_eq!(fault(&hex!("8080")), 101, "two items");
        assert_eq!(fault(&hex!("b80100")), 100, "a short string in the long form");
        assert_eq!(fault(&hex!("f9003800")), 100, "a length with zeros");
        assert_eq!(fault(&hex!("bfffffffffffffffff00")), 100, "a length of 2^64 - 1");
    }

    #[test]
    fn well_formed_input_passes() {
        for good in ["80", "05", "8180", "c0", "c7c0c1c0c3c0c1c0", "c58363617480"] {
            check_rlp(&hex::decode(good).expect("digits"), 0).expect(good);
        }
        let long = [&hex!("b838")[..], &[7; 56]].concat();
        check_rlp(&long, 0).expect("the shortest long string");
        let deep: Vec<u8> = (0..50).map(|depth| 0xc0 + 49 - depth).collect();
        check_rlp(&deep, 0).expect("a list in a list in a list");
    }
}

//! codec: reads and writes the consecutive numbers and bytes of a message.
//!
//! reads   a message from a tile of this build
//! writes  the same, into the link's own memory

/// Why a message must decode: both ends belong to the same build.
pub(crate) const TRUSTED: &str = "a message from a tile of this build";

pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes<const N: usize>(&mut self) -> &'a [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect(TRUSTED);
        self.0 = rest;
        head
    }

    pub(crate) fn slice(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at_checked(len).expect(TRUSTED);
        self.0 = rest;
        head
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.bytes::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(*self.bytes())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(*self.bytes())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(*self.bytes())
    }
}

pub(crate) struct Writer<'a> {
    pub(crate) buffer: &'a mut [u8],
    pub(crate) at: usize,
}

impl Writer<'_> {
    pub(crate) fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.buffer[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }

    pub(crate) fn u8(&mut self, v: u8) -> &mut Self {
        self.put(&[v])
    }

    pub(crate) fn u16(&mut self, v: u16) -> &mut Self {
        self.put(&v.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, v: u32) -> &mut Self {
        self.put(&v.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, v: u64) -> &mut Self {
        self.put(&v.to_le_bytes())
    }
}

pub(crate) fn writer(buffer: &mut [u8]) -> Writer<'_> {
    Writer { buffer, at: 0 }
}

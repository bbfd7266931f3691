//! The byte format of the log and of hashed data: fixed widths, little endian, a length before each variable part.

/// Writes fields one after the other.
#[derive(Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Starts with a domain tag, so that no two kinds of data ever share an encoding.
    pub fn tagged(tag: &[u8]) -> Self {
        let mut writer = Self::default();
        writer.bytes(tag);
        writer
    }

    /// Appends bytes whose length the reader knows.
    pub fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Bytes with their count before them.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        let count = u32::try_from(bytes.len()).expect("fields are shorter than 4 GiB");
        self.fixed(&count.to_le_bytes()).fixed(bytes)
    }

    /// How many of something follow.
    pub fn count(&mut self, count: usize) -> &mut Self {
        self.fixed(&u32::try_from(count).expect("fewer than 2^32").to_le_bytes())
    }

    /// Returns everything that was written.
    pub fn done(self) -> Vec<u8> {
        self.0
    }
}

/// Reads the output of a [`Writer`]. `None` means that the bytes end too early.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = self.u32()? as usize;
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.fixed().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.fixed().map(u64::from_le_bytes)
    }

    /// Returns the bytes that are not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

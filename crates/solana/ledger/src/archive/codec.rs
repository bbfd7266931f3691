//! codec: the fixed-width form of bincode, in which a bank's fields and the status cache are written.
//!
//! reads   little-endian numbers, options with a byte in front, sequences with their 64-bit count in front
//! writes  the same
//! memory  a sequence grows as its elements arrive: a count that lies takes no memory
//! source  `bincode` 1.3 with fixed-width integers; `wincode` 0.5 writes the same with its default lengths and tags

use std::io::Read;

use super::error::Fault;

/// The most elements for which room is made before they arrive.
const ROOM_MAX: usize = 4096;

/// Reads values out of a known number of bytes.
pub(super) struct Decoder<R> {
    from: R,
    left: u64,
}

impl<R: Read> Decoder<R> {
    /// Reads the next `len` bytes of `from`.
    pub fn new(from: R, len: u64) -> Self {
        Self { from, left: len }
    }

    /// Succeeds if every byte was read.
    pub fn end(&self) -> Result<(), Fault> {
        if self.left == 0 { Ok(()) } else { Err(Fault::Malformed("bytes after its last field")) }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        let len = bytes.len() as u64;
        self.left = self.left.checked_sub(len).ok_or(Fault::Malformed("a field lies beyond its end"))?;
        self.from.read_exact(bytes).map_err(Fault::reading)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    pub fn u8(&mut self) -> Result<u8, Fault> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn u128(&mut self) -> Result<u128, Fault> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64, Fault> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub fn f64(&mut self) -> Result<f64, Fault> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A byte that is 0 or 1.
    pub fn flag(&mut self) -> Result<bool, Fault> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault::Malformed("a flag that is neither 0 nor 1")),
        }
    }

    pub fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<Option<T>, Fault> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    /// The count of a sequence whose elements have `size_min` bytes or more.
    pub fn count(&mut self, size_min: u64) -> Result<u64, Fault> {
        let count = self.u64()?;
        match count.checked_mul(size_min) {
            Some(size) if size <= self.left => Ok(count),
            _ => Err(Fault::Malformed("a count lies beyond its end")),
        }
    }

    /// A sequence whose elements have `size_min` bytes or more.
    pub fn many<T>(
        &mut self,
        size_min: u64,
        mut read: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        let count = self.count(size_min)?;
        let mut all = Vec::with_capacity(usize::try_from(count).map_or(ROOM_MAX, |count| count.min(ROOM_MAX)));
        for _ in 0..count {
            all.push(read(self)?);
        }
        Ok(all)
    }

    /// A string of at most `max` bytes.
    pub fn bytes(&mut self, max: u64) -> Result<Vec<u8>, Fault> {
        let len = self.count(1)?;
        if len > max {
            return Err(Fault::Malformed("data longer than an account's may be"));
        }
        let mut bytes = vec![0; len as usize];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// The value of `read`, or the default one where the bytes end before it: fields that later versions added.
    pub fn or_end<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.left == 0 { Ok(T::default()) } else { read(self) }
    }
}

/// Appends values to bytes in bincode's fixed-size encoding, little endian.
#[derive(Default)]
pub(super) struct Encoder(pub Vec<u8>);

impl Encoder {
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_le_bytes());
    }

    pub fn flag(&mut self, value: bool) {
        self.0.push(u8::from(value));
    }

    pub fn option<T>(&mut self, value: Option<&T>, write: impl FnOnce(&mut Self, &T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub fn many<T>(&mut self, all: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.u64(all.len() as u64);
        for one in all {
            write(self, one);
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.raw(bytes);
    }
}

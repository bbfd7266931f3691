//! window: read a stretch of a file forwards, in pieces of any length, with few calls to the system.
//!
//! reads   a stretch of a file
//! writes  nothing
//! memory  one window of 256 KiB, or the longest piece asked for
//! drops   nothing

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const SIZE: usize = 256 << 10;

/// What of the stretch is in memory.
pub(crate) struct Window<'f> {
    file: &'f File,
    end: u64,
    bytes: Vec<u8>,
    at: u64,
}

impl<'f> Window<'f> {
    /// Over all of the file up to the offset `end`.
    pub fn new(file: &'f File, end: u64) -> Self {
        Self { file, end, bytes: Vec::new(), at: 0 }
    }

    /// Up to `count` bytes at the offset `at`, fewer only at the end of the stretch.
    pub fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let left = self.end.saturating_sub(at).try_into().unwrap_or(usize::MAX);
        let count = count.min(left);
        let held = at >= self.at && at + count as u64 <= self.at + self.bytes.len() as u64;
        if !held {
            self.bytes.resize(SIZE.max(count).min(left), 0);
            self.at = at;
            self.file.read_exact_at(&mut self.bytes, at)?;
        }
        let start = (at - self.at) as usize;
        Ok(&self.bytes[start..start + count])
    }
}

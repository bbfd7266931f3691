//! Reads a log's file: at an offset, or through a window that moves forward.
//!
//! memory  one window of 256 KiB, or the longest requested piece

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A file that is read.
pub trait Source: Send + Sync {
    /// Returns how many bytes there are.
    fn length(&self) -> io::Result<u64>;

    /// Reads the bytes from `at` on into `into`; returns how many, fewer than requested only at the end.
    fn read(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
}

impl Source for File {
    fn length(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let mut have = 0;
        while have < into.len() {
            match self.read_at(&mut into[have..], at + have as u64) {
                Ok(0) => break,
                Ok(count) => have += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(have)
    }
}

impl Source for [u8] {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

/// Returns whether a file is empty or all zeros: the state in which a power loss leaves a file that was never begun.
///
/// # Errors
/// The file system's.
pub fn is_blank(source: &(impl Source + ?Sized)) -> io::Result<bool> {
    let mut chunk = vec![0; 1 << 16];
    let mut at = 0;
    loop {
        match source.read(&mut chunk, at)? {
            0 => return Ok(true),
            count if chunk[..count].iter().any(|byte| *byte != 0) => return Ok(false),
            count => at += count as u64,
        }
    }
}

const WINDOW_SIZE: usize = 256 << 10;

/// The part of a file that is in memory.
pub struct Window<'s, S: Source + ?Sized = File> {
    source: &'s S,
    end: u64,
    bytes: Vec<u8>,
    at: u64,
}

impl<'s, S: Source + ?Sized> Window<'s, S> {
    /// Creates a window over the file up to the offset `end`.
    pub fn new(source: &'s S, end: u64) -> Self {
        Self { source, end, bytes: Vec::new(), at: 0 }
    }

    /// Returns up to `count` bytes at the offset `at`, fewer only at the end of the stretch.
    ///
    /// # Errors
    /// The file system's; also where the file ends before the stretch does.
    pub fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let left = self.end.saturating_sub(at).try_into().unwrap_or(usize::MAX);
        let count = count.min(left);
        let is_held = at >= self.at && at + count as u64 <= self.at + self.bytes.len() as u64;
        if !is_held {
            self.bytes.resize(WINDOW_SIZE.max(count).min(left), 0);
            self.at = at;
            let have = self.source.read(&mut self.bytes, at)?;
            if have < self.bytes.len() {
                // On an error, stale bytes must not be taken for the file's.
                self.bytes.clear();
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let start = (at - self.at) as usize;
        Ok(&self.bytes[start..start + count])
    }
}

//! scan: walk the records of a stretch of one segment, and read single ones.
//!
//! reads   a segment's file
//! writes  nothing
//! memory  a window, or the longest record met
//! drops   nothing; the first record that does not verify ends the walk
//! source  record.rs

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::record::{self, HEADER_SIZE, Kind};
use crate::window::Window;

/// One step of a walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A record, and where it begins and ends.
    Record { kind: Kind, body: &'a [u8], at: u64, end: u64 },
    /// No good record begins here.
    Bad(u64),
    /// The stretch ends here.
    End,
}

/// A walk over a stretch of a segment.
pub(super) struct Walk<'f> {
    window: Window<'f>,
    segment: u32,
    at: u64,
    end: u64,
}

impl<'f> Walk<'f> {
    /// Walks from `at` to `end`, both offsets of records.
    pub fn new(file: &'f File, segment: u32, at: u64, end: u64) -> Self {
        Self { window: Window::new(file, end), segment, at, end }
    }

    /// The next step.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        let (at, left) = (self.at, self.end.saturating_sub(self.at));
        if left == 0 {
            return Ok(Step::End);
        }
        let header = self.window.bytes(at, HEADER_SIZE.min(left as usize))?;
        let length = header.first_chunk().and_then(record::length).filter(|length| *length as u64 <= left);
        let Some(length) = length else { return Ok(Step::Bad(at)) };
        self.at = at + length as u64;
        let (segment, end) = (self.segment, self.at);
        Ok(match record::verified(self.window.bytes(at, length)?, segment, at) {
            Some((kind, body)) => Step::Record { kind, body, at, end },
            None => Step::Bad(at),
        })
    }
}

/// Reads the record at `at` into `buffer`; `None` when it does not verify.
pub(super) fn read_record<'b>(
    file: &File,
    segment: u32,
    at: u64,
    buffer: &'b mut Vec<u8>,
) -> io::Result<Option<(Kind, &'b [u8])>> {
    // Most records are short: one read has all of it.
    const FIRST: usize = 4096;
    buffer.resize(FIRST, 0);
    let mut have = 0;
    while have < HEADER_SIZE {
        match file.read_at(&mut buffer[have..], at + have as u64)? {
            0 => return Ok(None),
            read => have += read,
        }
    }
    let Some(length) = buffer.first_chunk().and_then(record::length) else { return Ok(None) };
    if length > have {
        buffer.resize(length, 0);
        match file.read_exact_at(&mut buffer[have..], at + have as u64) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
    }
    buffer.truncate(length);
    Ok(record::verified(buffer, segment, at))
}

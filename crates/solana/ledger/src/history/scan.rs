//! scan: walk the records of a stretch of one segment, find the next good one after a bad one, and read single ones.
//!
//! reads   a segment's file
//! writes  nothing
//! memory  a window, or the longest record met
//! drops   nothing; a stretch that does not verify is one step of the walk
//! source  records begin at any byte with a magic number, so the search looks for that

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::record::{self, HEADER_SIZE, Kind, MAGIC_BYTES};
use crate::window::Window;

/// One step of a walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A record, and where it begins and ends.
    Record { kind: Kind, body: &'a [u8], at: u64, end: u64 },
    /// Bytes that are no record, up to one that verifies, or up to the end of the stretch: then `to_end`.
    Damage { at: u64, length: u64, to_end: bool },
    /// The stretch ends here.
    End,
}

/// Bytes that are searched at a time for the next record.
const SEARCHED_SIZE: usize = 64 << 10;

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
        let at = self.at;
        if at >= self.end {
            return Ok(Step::End);
        }
        let Some((kind, length)) = self.good_at(at)? else { return self.resume_after(at) };
        self.at = at + length as u64;
        let end = self.at;
        // The window still has the record: its checksum is not computed twice.
        let body = &self.window.bytes(at, length)?[HEADER_SIZE..];
        Ok(Step::Record { kind, body, at, end })
    }

    /// Kind and length of the record at `at`, if one is there that verifies.
    fn good_at(&mut self, at: u64) -> io::Result<Option<(Kind, usize)>> {
        let left = self.end.saturating_sub(at);
        let header = self.window.bytes(at, HEADER_SIZE)?;
        let length = header.first_chunk().and_then(record::length).filter(|length| *length as u64 <= left);
        let Some(length) = length else { return Ok(None) };
        let verified = record::verified(self.window.bytes(at, length)?, self.segment, at);
        Ok(verified.map(|(kind, _)| (kind, length)))
    }

    /// Goes on to the next record that verifies.
    fn resume_after(&mut self, bad: u64) -> io::Result<Step<'_>> {
        let mut at = bad + 1;
        while let Some(candidate) = self.next_magic(at)? {
            if self.good_at(candidate)?.is_some() {
                self.at = candidate;
                return Ok(Step::Damage { at: bad, length: candidate - bad, to_end: false });
            }
            at = candidate + 1;
        }
        self.at = self.end;
        Ok(Step::Damage { at: bad, length: self.end - bad, to_end: true })
    }

    /// Where, from `at` on, the next magic number is.
    fn next_magic(&mut self, mut at: u64) -> io::Result<Option<u64>> {
        let size = MAGIC_BYTES.len();
        while at + size as u64 <= self.end {
            let bytes = self.window.bytes(at, SEARCHED_SIZE)?;
            if let Some(place) = bytes.windows(size).position(|four| four == MAGIC_BYTES) {
                return Ok(Some(at + place as u64));
            }
            at += (bytes.len() - size + 1) as u64;
        }
        Ok(None)
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

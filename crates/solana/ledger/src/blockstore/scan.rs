//! scan: walk the records of one segment, and find the next good one after a bad one.
//!
//! reads   a range of one segment file, through a window
//! writes  nothing
//! memory  one window
//! drops   nothing; a stretch that does not verify is reported as one step
//! source  records begin at multiples of 8 with a magic number, so the search looks there only

use super::LogPosition;
use super::record::{self, Fault, HEADER_SIZE, MAGIC_BYTES, Record};
use crate::window::Window;
use std::fs::File;
use std::io;

/// One step of a walk.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    /// A record that verifies, and where it ends.
    Record { record: Record<'a>, at: LogPosition, end: LogPosition },
    /// A record of another slot, not verified.
    Skipped,
    /// Bytes that are no record, up to one that is (or up to the end of the range: then `to_end`).
    Damage { at: LogPosition, length: u64, fault: Fault, to_end: bool },
    /// The range ends here.
    End,
}

/// A walk over the bytes `at..end` of a segment file.
pub(super) struct Walk<'f> {
    window: Window<'f>,
    segment: u32,
    at: u64,
    end: u64,
}

impl<'f> Walk<'f> {
    /// Walks from `from` to the offset `end`.
    pub fn new(file: &'f File, from: LogPosition, end: u64) -> Self {
        let at = u64::from(from.offset());
        Self { window: Window::new(file, end), segment: from.segment(), at, end }
    }

    /// The next step. With `only` set, sets and closing records of other slots are passed over unverified.
    pub fn step(&mut self, only: Option<u64>) -> io::Result<Step<'_>> {
        if self.at >= self.end {
            return Ok(Step::End);
        }
        let (at, position) = (self.at, self.position(self.at));
        let left = self.end - at;
        let head = self.window.bytes(at, HEADER_SIZE + 8)?;
        let length = match record::record_length(head, left) {
            Ok(length) => length,
            Err(fault) => return self.resume_after(at, fault),
        };
        if only.is_some() && record::peek_slot(head).is_some_and(|s| Some(s) != only) {
            self.at = at + length as u64;
            return Ok(Step::Skipped);
        }
        let verdict = record::verify(self.window.bytes(at, length)?, position);
        if let Err(fault) = verdict {
            return self.resume_after(at, fault);
        }
        self.at = at + length as u64;
        let end = self.position(self.at);
        let record = record::parse(self.window.bytes(at, length)?).expect("it was verified above");
        Ok(Step::Record { record, at: position, end })
    }

    fn resume_after(&mut self, bad: u64, fault: Fault) -> io::Result<Step<'_>> {
        let mut at = bad + 8;
        while at < self.end && !self.good_at(at)? {
            at += 8;
        }
        self.at = at.min(self.end);
        let (length, to_end) = (self.at - bad, self.at == self.end);
        Ok(Step::Damage { at: self.position(bad), length, fault, to_end })
    }

    fn good_at(&mut self, at: u64) -> io::Result<bool> {
        let (position, left) = (self.position(at), self.end - at);
        let head = self.window.bytes(at, HEADER_SIZE)?;
        if !head.starts_with(&MAGIC_BYTES) {
            return Ok(false);
        }
        match record::record_length(head, left) {
            Ok(length) => Ok(record::verify(self.window.bytes(at, length)?, position).is_ok()),
            Err(_) => Ok(false),
        }
    }

    fn position(&self, offset: u64) -> LogPosition {
        LogPosition::new(self.segment, offset as u32)
    }
}

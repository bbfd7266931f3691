//! scan: walks the records in a range of one segment, finds the next good one after a bad one, and reads single ones.
//!
//! reads   a segment's file
//! memory  a window, or the longest record seen
//! drops   nothing; a range that fails verification is one step of the walk

use std::fs::File;
use std::io;

use hearth_wal::DamagedRange;

use super::record::{self, Frame, Kind};

/// One step of a walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// A record, and where it begins and ends.
    Record { kind: Kind, body: &'a [u8], at: u64, end: u64 },
    /// Bytes that are not a record, up to one that verifies, or up to the end of the range (`to_end`).
    Damage { at: u64, length: u64, to_end: bool },
    /// The end of the range.
    End,
}

/// A walk over a range of a segment.
pub(super) struct Walk<'f>(hearth_wal::Walk<'f, Frame>);

impl<'f> Walk<'f> {
    /// Walks from `at` to `end`, both offsets of records.
    pub fn new(file: &'f File, segment: u32, at: u64, end: u64) -> Self {
        Self(hearth_wal::Walk::new(file, Frame { segment }, at, end))
    }

    /// Takes the next step of the walk.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        Ok(match self.0.step()? {
            hearth_wal::Step::Record { bytes, at, end } => {
                let (kind, body) = record::parse(bytes);
                Step::Record { kind, body, at, end }
            }
            hearth_wal::Step::Damage(DamagedRange { at, length, to_end, .. }) => Step::Damage { at, length, to_end },
            hearth_wal::Step::Skipped | hearth_wal::Step::End => Step::End,
        })
    }
}

/// Reads the record at `at` into `buffer`; `None` if it fails verification.
pub(super) fn read_record<'b>(
    file: &File,
    segment: u32,
    at: u64,
    buffer: &'b mut Vec<u8>,
) -> io::Result<Option<(Kind, &'b [u8])>> {
    let found = hearth_wal::read_record(file, Frame { segment }, at, buffer)?;
    Ok(found.ok().map(record::parse))
}

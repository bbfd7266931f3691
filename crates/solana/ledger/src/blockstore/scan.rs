//! scan: walks the records of one segment, and finds the next good one after a bad one.
//!
//! reads   a range of one segment file, through a window
//! memory  one window
//! drops   nothing; a range that fails verification is reported as one step

use super::LogPosition;
use super::record::{self, Frame, HEADER_SIZE, Record};
use hearth_wal::{DamagedRange, Fault};
use std::fs::File;
use std::io;

/// One step of a walk.
#[derive(Debug, PartialEq)]
pub(super) enum Step<'a> {
    /// A verified record, and where it ends.
    Record { record: Record<'a>, at: LogPosition, end: LogPosition },
    /// A record of another slot, not verified.
    Skipped,
    /// Bytes that are not a record, up to one that is, or up to the end of the range (`to_end`).
    Damage { at: LogPosition, length: u64, fault: Fault, to_end: bool },
    /// The end of the range.
    End,
}

/// A walk over the bytes of a segment file.
pub(super) struct Walk<'f> {
    records: hearth_wal::Walk<'f, Frame>,
    segment: u32,
}

impl<'f> Walk<'f> {
    /// Walks from `from` to the offset `end`.
    pub fn new(file: &'f File, from: LogPosition, end: u64) -> Self {
        let segment = from.segment();
        Self { records: hearth_wal::Walk::new(file, Frame { segment }, from.offset().into(), end), segment }
    }

    /// The next step. With `only` set, sets and closing records of other slots are skipped unverified.
    pub fn step(&mut self, only: Option<u64>) -> io::Result<Step<'_>> {
        let is_wanted = |head: &[u8]| only.is_none() || record::peek_slot(head).is_none_or(|slot| Some(slot) == only);
        let segment = self.segment;
        let position = |offset: u64| LogPosition::new(segment, offset as u32);
        Ok(match self.records.step_where(HEADER_SIZE + 8, is_wanted)? {
            hearth_wal::Step::Record { bytes, at, end } => {
                let record = record::parse(bytes).expect("a record that verifies is of this format");
                Step::Record { record, at: position(at), end: position(end) }
            }
            hearth_wal::Step::Skipped => Step::Skipped,
            hearth_wal::Step::Damage(DamagedRange { at, length, fault, to_end }) => {
                Step::Damage { at: position(at), length, fault, to_end }
            }
            hearth_wal::Step::End => Step::End,
        })
    }
}

//! Reads records in order, and finds the next valid one after invalid bytes.
//!
//! memory  one window, or the longest record seen

use std::fs::File;
use std::io;

use crate::framing::{Fault, Framing};
use crate::source::{Source, Window};

/// One step of a walk.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A record that verifies.
    Record {
        /// The whole record, head and padding included.
        bytes: &'a [u8],
        /// Offset of its beginning.
        at: u64,
        /// Offset of its end.
        end: u64,
    },
    /// A record that was skipped on request, and not verified.
    Skipped,
    /// Bytes that are no record.
    Damage(DamagedRange),
    /// The walk ends here.
    End,
}

/// Bytes that are no record, up to one that is or up to the end of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedRange {
    /// Offset of the first invalid byte.
    pub at: u64,
    /// How many there are.
    pub length: u64,
    /// The fault of the first record there.
    pub fault: Fault,
    /// Whether no record follows. Only such bytes can be a torn tail.
    pub to_end: bool,
}

/// Bytes that are searched at a time for the next mark.
const SEARCHED_SIZE: usize = 64 << 10;

/// A walk over the records of a stretch of a file.
pub struct Walk<'s, F: Framing, S: Source + ?Sized = File> {
    window: Window<'s, S>,
    framing: F,
    at: u64,
    end: u64,
}

impl<'s, F: Framing, S: Source + ?Sized> Walk<'s, F, S> {
    /// Walks from `at`, where a record begins, to `end`.
    pub fn new(source: &'s S, framing: F, at: u64, end: u64) -> Self {
        Self { window: Window::new(source, end), framing, at, end }
    }

    /// Returns the next step.
    ///
    /// # Errors
    /// The file system's, here and below.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        self.step_where(F::HEAD, |_| true)
    }

    /// As [`Walk::step`], but passes over records that are not wanted, by their first `peeked` bytes. These are not
    /// verified.
    pub fn step_where(&mut self, peeked: usize, is_wanted: impl Fn(&[u8]) -> bool) -> io::Result<Step<'_>> {
        if self.at >= self.end {
            return Ok(Step::End);
        }
        let at = self.at;
        let length = match self.length_at(at)? {
            Ok(length) => length,
            Err(fault) => return Ok(Step::Damage(self.resume_after(at, fault)?)),
        };
        if !is_wanted(self.window.bytes(at, peeked)?) {
            self.at = at + length;
            return Ok(Step::Skipped);
        }
        let size = length as usize;
        let verdict = self.framing.verify(self.window.bytes(at, size)?, at);
        if let Err(fault) = verdict {
            return Ok(Step::Damage(self.resume_after(at, fault)?));
        }
        let end = at + length;
        self.at = end;
        // The window still has the record.
        let bytes = self.window.bytes(at, size)?;
        Ok(Step::Record { bytes, at, end })
    }

    /// Calls `each` with the bytes and offset of every remaining record, skipping invalid stretches: later records
    /// decide whether the bytes before them are torn or damaged.
    pub fn rest(&mut self, mut each: impl FnMut(&[u8], u64)) -> io::Result<()> {
        loop {
            match self.step()? {
                Step::Record { bytes, at, .. } => each(bytes, at),
                Step::Damage(_) | Step::Skipped => {}
                Step::End => return Ok(()),
            }
        }
    }

    /// Returns the length of the record whose complete head is at `at`.
    fn length_at(&mut self, at: u64) -> io::Result<Result<u64, Fault>> {
        let available = self.end.saturating_sub(at);
        let head = self.window.bytes(at, F::HEAD)?;
        if head.len() < F::HEAD {
            return Ok(Err(Fault::HeaderCut));
        }
        Ok(match self.framing.length(head, at) {
            Ok(length) if length > available => Err(Fault::Cut { length, available }),
            length => length,
        })
    }

    /// Finds the next record that verifies.
    fn resume_after(&mut self, bad: u64, fault: Fault) -> io::Result<DamagedRange> {
        let mut at = self.next_candidate(bad + 1)?;
        while at < self.end && !self.is_good(at)? {
            at = self.next_candidate(at + 1)?;
        }
        self.at = at.min(self.end);
        Ok(DamagedRange { at: bad, length: self.at - bad, fault, to_end: self.at == self.end })
    }

    /// Returns the first offset from `at` on where a record may begin; the walk's end if there is none.
    fn next_candidate(&mut self, at: u64) -> io::Result<u64> {
        let mut at = at.next_multiple_of(F::ALIGN);
        let size = F::MARK.len();
        if size == 0 {
            return Ok(at);
        }
        while at + size as u64 <= self.end {
            let bytes = self.window.bytes(at, SEARCHED_SIZE)?;
            let mut places = bytes.windows(size).step_by(F::ALIGN as usize);
            if let Some(nth) = places.position(|place| place == F::MARK) {
                return Ok(at + nth as u64 * F::ALIGN);
            }
            at = (at + (bytes.len() - size + 1) as u64).next_multiple_of(F::ALIGN);
        }
        Ok(self.end)
    }

    fn is_good(&mut self, at: u64) -> io::Result<bool> {
        let Ok(length) = self.length_at(at)? else { return Ok(false) };
        Ok(self.framing.verify(self.window.bytes(at, length as usize)?, at).is_ok())
    }
}

/// Reads the record at `at` into `buffer`; the inner error says why there is none.
///
/// # Errors
/// The file system's.
pub fn read_record<'b, F: Framing>(
    source: &(impl Source + ?Sized),
    framing: F,
    at: u64,
    buffer: &'b mut Vec<u8>,
) -> io::Result<Result<&'b [u8], Fault>> {
    // Most records are short: one read gets them whole.
    const FIRST: usize = 4096;
    buffer.resize(FIRST.max(F::HEAD), 0);
    let mut have = source.read(buffer, at)?;
    if have < F::HEAD {
        return Ok(Err(Fault::HeaderCut));
    }
    let length = match framing.length(&buffer[..F::HEAD], at) {
        Ok(length) => length,
        Err(fault) => return Ok(Err(fault)),
    };
    let size = length as usize;
    if size > have {
        // The length is not believed before the file is as long.
        let available = source.length()?.saturating_sub(at);
        if length > available {
            return Ok(Err(Fault::Cut { length, available }));
        }
        buffer.resize(size, 0);
        have += source.read(&mut buffer[have..], at + have as u64)?;
        if have < size {
            return Ok(Err(Fault::Cut { length, available: have as u64 }));
        }
    }
    buffer.truncate(size);
    if let Err(fault) = framing.verify(buffer, at) {
        return Ok(Err(fault));
    }
    Ok(Ok(&buffer[..]))
}

//! The end of a log: appends a whole record, or nothing.
//!
//! writes  one file, at its end
//! drops   the leftovers of a failed write: before the next record, if the disk does not truncate them at once

use std::io::{self, IoSlice};
use std::sync::Arc;

use crate::disk::{Disk, write_all};

/// Where the next record of a log goes. A clone writes to the same place: one of the two must take over the other's
/// end.
#[derive(Clone)]
pub struct Appender {
    disk: Arc<dyn Disk>,
    end: u64,
    /// Whether leftovers of a failed record may be beyond the end.
    has_rest: bool,
}

impl Appender {
    /// Creates an appender at `end`, beyond which the file must have nothing.
    pub fn new(disk: Arc<dyn Disk>, end: u64) -> Self {
        Self { disk, end, has_rest: false }
    }

    /// Where the next record goes.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The file that it appends to.
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Appends the bytes of `parts`. A shorter record over the bytes of a failed one would leave some of them after it,
    /// so these are truncated first.
    ///
    /// # Errors
    /// The disk's. Nothing was appended; the same call may be repeated.
    pub fn append(&mut self, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.clear_rest()?;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if let Err(error) = write_all(&*self.disk, parts, self.end) {
            self.has_rest = self.disk.cut(self.end).is_err();
            return Err(error);
        }
        self.end += length as u64;
        Ok(())
    }

    /// Truncates the leftovers of a failed record.
    ///
    /// # Errors
    /// The disk's; the next append tries again.
    pub fn clear_rest(&mut self) -> io::Result<()> {
        if self.has_rest {
            self.disk.cut(self.end)?;
            self.has_rest = false;
        }
        Ok(())
    }

    /// Cuts off the records from `end` on.
    ///
    /// # Errors
    /// The disk's. The end is where it was.
    pub fn cut(&mut self, end: u64) -> io::Result<()> {
        self.disk.cut(end)?;
        self.end = end;
        self.has_rest = false;
        Ok(())
    }

    /// Continues at `end`. Bytes beyond it are truncated before the next record is written.
    pub fn move_to(&mut self, end: u64) {
        self.end = end;
        self.has_rest = true;
    }

    /// Has the log written through another file, as tests of a failing disk do; returns the one before.
    pub fn put_disk(&mut self, disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        std::mem::replace(&mut self.disk, disk)
    }
}

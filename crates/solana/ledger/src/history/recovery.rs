//! recovery: what opening or checking a history found, in words.
//!
//! reads   nothing
//! writes  nothing
//! memory  a line for each damaged place

use std::fmt;
use std::path::PathBuf;

/// What opening a history found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Places that do not hold what was written though something good follows, in the order of the log.
    pub damage: Vec<Damage>,
    /// The torn tail that was cut off: a record that was being written when the process or the machine stopped.
    pub torn: Option<Damage>,
    /// Tables that were damaged and were made again from their segments, which lost nothing.
    pub rebuilt_tables: Vec<Damage>,
}

/// A place that does not hold what was written there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment or the table.
    pub file: PathBuf,
    /// Offset of the first wrong byte's record or page.
    pub offset: u64,
    /// Bytes from there to what is good again, or to the end of the file; 0 where nothing is there.
    pub length: u64,
    /// What is wrong.
    pub what: &'static str,
    /// The last block before it in the log, 0 when it is not known; this block and those before it are unharmed.
    pub after_slot: u64,
    /// The first block behind it that is unharmed; `None` when there is none.
    pub until_slot: Option<u64>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, length, what, .. } = self;
        write!(f, "{} at byte {offset} ({length} bytes): {what}", file.display())
    }
}

/// What a check of a whole history found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segments of the log.
    pub segments: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Each block that can be found, and how many transactions it has.
    pub blocks: Vec<(u64, u32)>,
    /// What is wrong, in the order of the log.
    pub damage: Vec<Damage>,
    /// Bytes of a record that was being written when the process or the machine stopped: the next start cuts them off.
    pub torn: Option<Damage>,
}

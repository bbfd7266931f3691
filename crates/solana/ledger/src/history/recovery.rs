//! recovery: the findings of opening or checking a history.
//!
//! memory  a line per damaged range

use std::fmt;
use std::path::PathBuf;

/// The findings of opening a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Damaged ranges with good records after them, in log order.
    pub damage: Vec<Damage>,
    /// The truncated torn tail: a record that was being written when the process or the machine stopped.
    pub torn: Option<Damage>,
    /// Damaged tables that were rebuilt from their segments without loss.
    pub rebuilt_tables: Vec<Damage>,
}

/// A range that does not contain what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The segment's or table's file.
    pub file: PathBuf,
    /// Offset of the record or page with the first wrong byte.
    pub offset: u64,
    /// Bytes until the next good one, or the end of the file; 0 if nothing is there.
    pub length: u64,
    /// The kind of damage.
    pub what: &'static str,
    /// The last block before it in the log, 0 if unknown; this block and those before it are intact.
    pub after_slot: u64,
    /// The first intact block after it; `None` if there is none.
    pub until_slot: Option<u64>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, length, what, .. } = self;
        write!(f, "{} at byte {offset} ({length} bytes): {what}", file.display())
    }
}

/// The findings of checking a whole history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryCheck {
    /// Number of segments of the log.
    pub segments: u64,
    /// Number of tables, each the index of a full segment.
    pub tables: u64,
    /// Total bytes of both.
    pub bytes: u64,
    /// Each block that can be found, with its number of transactions.
    pub blocks: Vec<(u64, u32)>,
    /// The damage, in log order.
    pub damage: Vec<Damage>,
    /// A record that was being written when the process or the machine stopped; the next start truncates it.
    pub torn: Option<Damage>,
}

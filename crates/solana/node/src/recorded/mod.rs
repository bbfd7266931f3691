//! Recorded ledgers: blocks that the cluster's own bank made, executed here and compared with what it found.
//!
//! reads   a folder with `genesis.bin.zst` and `blocks.jsonl.zst` ([`mod@format`])
//! writes  the first difference: of a block its leader, height, time, fee reward, capitalization and bank hash; of each
//!         transaction its error, fee, compute units, log and the accounts that it changed; of each transaction that
//!         was refused the reason
//! memory  the ledger's blocks, and the state
//!
//! The ledger is at one block ([`hearth_ledger::ledger`]). To follow a fork that was left and taken up again, it goes
//! back to where the two part, and executes the blocks from there on once more.

mod compare;
mod follow;
pub mod format;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hearth_command::numbers::grouped_rate;
use hearth_command::output::{CommandOutput, plural};

pub use follow::{ledger_config, replay, replay_after};
use format::{RecordedLedger, ledgers_below};

/// Why recorded ledgers cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why it cannot be read, as the system says it.
        source: std::io::Error,
    },
    /// The genesis is invalid.
    #[error("{} is not a genesis: {why}", path.display())]
    Genesis {
        /// The path of `genesis.bin.zst`.
        path: PathBuf,
        /// Why it is not a genesis, as a clause.
        why: String,
    },
    /// A line is no block.
    #[error("line {line} of {} is not a block: {source}", path.display())]
    Line {
        /// The path of `blocks.jsonl.zst`.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// Why the line cannot be parsed.
        source: serde_json::Error,
    },
    /// The blocks are not in order.
    #[error(
        "{} has no block of slot {slot} at its place: slot 0 comes first, and each block once, after its parent",
        path.display()
    )]
    Order {
        /// The path of `blocks.jsonl.zst`.
        path: PathBuf,
        /// The slot of the first block that is out of order.
        slot: u64,
    },
    /// A folder has no recorded ledger.
    #[error("there is no recorded ledger in {}: it is a folder with `genesis.bin.zst` and `blocks.jsonl.zst`", .0.display())]
    NoLedger(PathBuf),
    /// Some ledgers came to something else here.
    #[error("{differ} of {all} recorded ledgers differ")]
    Differ {
        /// The number of ledgers with a difference.
        differ: usize,
        /// The number of ledgers.
        all: usize,
    },
}

/// The first difference between a recorded ledger and its replay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("slot {slot}{}: {what}", place(.transaction.as_deref()))]
pub struct Difference {
    /// The slot of the block that differs.
    pub slot: u64,
    /// The transaction: its number in the block and its signature; `None` if it is the block.
    pub transaction: Option<String>,
    /// The recorded value and ours, as a clause.
    pub what: String,
}

fn place(transaction: Option<&str>) -> String {
    transaction.map_or_else(String::new, |transaction| format!(", transaction {transaction}"))
}

/// Totals of one or more replays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounts {
    /// Number of blocks, without slot 0 and without those that were executed again.
    pub blocks: u64,
    /// Number of transactions in them.
    pub transactions: u64,
    /// Number of refused transactions.
    pub refused: u64,
    /// The time of the ledger alone: to begin and end blocks, to execute, to hash. Each transaction is executed on its
    /// own, and its log recorded.
    pub took: Duration,
}

/// Replays all recorded ledgers at or below `folder`, and prints a line about each.
pub fn run(folder: &Path, say: &CommandOutput) -> Result<(), RecordedError> {
    let folders = ledgers_below(folder)?;
    if folders.is_empty() {
        return Err(RecordedError::NoLedger(folder.into()));
    }
    let mut differ = 0;
    for ledger in &folders {
        let name = ledger.strip_prefix(folder).ok().filter(|name| !name.as_os_str().is_empty()).unwrap_or(ledger);
        match replay(&RecordedLedger::read(ledger)?) {
            Ok(done) => say.line(format_args!("{}: {}", name.display(), summary(&done))),
            Err(difference) => {
                differ += 1;
                say.line(format_args!("{}: DIFFERS at {difference}", name.display()));
            }
        }
        if say.is_closed() {
            break;
        }
    }
    let all = folders.len();
    if differ > 0 { Err(RecordedError::Differ { differ, all }) } else { Ok(()) }
}

fn summary(done: &ReplayCounts) -> String {
    let ReplayCounts { blocks, transactions, refused, took } = *done;
    let seconds = took.as_secs_f64();
    format!(
        "{blocks} {}, {transactions} {} and {refused} refused as recorded; {:.6} s a slot, {} transactions/s",
        plural(blocks, "block"),
        plural(transactions, "transaction"),
        seconds / blocks.max(1) as f64,
        grouped_rate(transactions as f64 / seconds.max(1e-9)),
    )
}

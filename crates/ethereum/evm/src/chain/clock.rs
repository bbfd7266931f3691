//! Settings of the next block's environment, and the offset of the chain's time from this machine's.
//!
//! reads   `clock` in the folder: the offset as it was when the program ended
//! writes  the same file, whenever the offset changes
//! memory  a few words
//! drops   an offset that cannot be written: logged, and the next start uses the old one

use std::fs;
use std::path::{Path, PathBuf};

use alloy_primitives::{Address, B256};
use hearth_wal::mount::volume_at;
use hearth_wal::store_file::{OpenMode, StoreFile};

use super::{ChainConfig, now_s};
use crate::checksummed::{verified, with_checksum};

const FIRST_LINE: &str = "hearth clock 1";

/// The latest time that a client may set: later blocks still have distinct times above it.
pub(super) const TIME_MAX_S: u64 = i64::MAX as u64;

/// Settings of the next blocks' environment, besides what follows from the parent.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    /// Seconds that the chain's time is ahead of this machine's.
    pub offset_s: i64,
    /// The next block's time only.
    pub timestamp: Option<u64>,
    /// Seconds from each block to the next, whatever this machine's clock says.
    pub interval_s: Option<u64>,
    /// The next block's base fee only.
    pub base_fee: Option<u64>,
    /// The next block's `PREVRANDAO` only.
    pub prevrandao: Option<B256>,
    /// The gas limit of all future blocks.
    pub gas_limit: Option<u64>,
    /// The fee recipient of all future blocks.
    pub beneficiary: Address,
}

impl Clock {
    /// Creates a clock that continues from an earlier run in the folder, or else from the dump that the genesis was
    /// made of.
    pub(super) fn new(config: &ChainConfig) -> Self {
        let kept = config.dir.as_deref().and_then(|dir| read(&path(dir)));
        let (timestamp, interval_s, base_fee, prevrandao, gas_limit) = Default::default();
        let (offset_s, beneficiary) = (kept.unwrap_or(config.genesis.clock_offset_s), config.beneficiary);
        Self { offset_s, timestamp, interval_s, base_fee, prevrandao, gas_limit, beneficiary }
    }

    /// Returns the time of a block on `parent`, made at `now`. It is always above the parent's, as every client
    /// requires: if blocks come more often than every second, the chain's time runs ahead of the clock.
    pub(super) fn timestamp(&self, parent: u64, now: u64) -> u64 {
        let by_clock = || now.saturating_add_signed(self.offset_s);
        let by_interval = |interval| parent.saturating_add(interval);
        let timestamp = self.timestamp.unwrap_or_else(|| self.interval_s.map_or_else(by_clock, by_interval));
        timestamp.min(TIME_MAX_S).max(parent.saturating_add(1))
    }

    /// Sets the chain's time, which continues from `timestamp`.
    pub(super) fn set_time(&mut self, timestamp: u64) {
        let ahead = i128::from(timestamp) - i128::from(now_s());
        self.offset_s = i64::try_from(ahead).unwrap_or(i64::MAX);
    }

    /// Drops the settings that held for one block only.
    pub(super) fn block_made(&mut self, timestamp: u64) {
        if self.timestamp.take().is_some() {
            self.set_time(timestamp);
        }
        self.base_fee = None;
        self.prevrandao = None;
    }
}

/// The file with the chain's offset.
pub(super) struct ClockFile {
    path: Option<PathBuf>,
    kept_s: i64,
}

impl ClockFile {
    /// Opens the file of a chain whose clock has just been [made](Clock::new).
    pub(super) fn new(config: &ChainConfig, clock: &Clock) -> Self {
        let path = config.dir.as_deref().map(path);
        let kept_s = path.as_deref().map_or(Some(clock.offset_s), read).unwrap_or(0);
        Self { path, kept_s }
    }

    /// Writes the offset if it has changed, so that a restart keeps it.
    pub(super) fn keep(&mut self, clock: &Clock) {
        let Some(path) = self.path.as_deref().filter(|_| self.kept_s != clock.offset_s) else { return };
        let next = path.with_extension("next");
        let text = with_checksum(&format!("{FIRST_LINE}\noffset {}\n", clock.offset_s));
        let written = StoreFile::open(&next, OpenMode::Empty).and_then(|file| file.write_at(text.as_bytes(), 0));
        match written.and_then(|()| volume_at(path).rename(&next, path)) {
            Ok(()) => self.kept_s = clock.offset_s,
            Err(error) => tracing::error!(%error, "the next start goes by an older offset of the chain's time"),
        }
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join("clock")
}

fn read(path: &Path) -> Option<i64> {
    let bytes = fs::read(path).ok()?;
    let offset = |lines: &str| lines.strip_prefix(FIRST_LINE)?.trim().strip_prefix("offset ")?.parse().ok();
    let offset = verified(&bytes).and_then(offset);
    if offset.is_none() {
        tracing::warn!(path = %path.display(), "the offset of the chain's time cannot be read: there is none");
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis::Genesis;

    #[test]
    fn every_block_is_later_than_its_parent() {
        let mut clock = Clock::new(&ChainConfig::new(Genesis::dev(1, &[], 30_000_000)));
        // By the clock; and where the parent is ages ahead.
        assert_eq!(clock.timestamp(1_000, 2_000), 2_000);
        assert_eq!(clock.timestamp(2_000, 2_000), 2_001);
        assert_eq!(clock.timestamp(1_000_000, 2_000), 1_000_001);
        clock.interval_s = Some(0);
        assert_eq!(clock.timestamp(2_000, 2_000), 2_001);
        clock.interval_s = Some(u64::MAX);
        assert_eq!(clock.timestamp(2_000, 2_000), TIME_MAX_S);
        assert_eq!(clock.timestamp(TIME_MAX_S, 2_000), TIME_MAX_S + 1);
        clock.interval_s = None;
        clock.offset_s = -5_000;
        assert_eq!(clock.timestamp(2_000, 9_000), 4_000);
        clock.set_time(u64::MAX);
        assert_eq!(clock.offset_s, i64::MAX, "a time beyond all times is no time in the past");
    }

    #[test]
    fn an_offset_that_is_no_number_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = path(dir.path());
        for text in ["", "hearth clock 1\noffset x\n", "hearth clock 2\noffset 7\n"] {
            fs::write(&path, with_checksum(text)).expect("it is written");
            assert_eq!(read(&path), None, "{text}");
        }
        fs::write(&path, "hearth clock 1\noffset -7\n").expect("it is written");
        assert_eq!(read(&path), None, "a file without a checksum");
        fs::write(&path, with_checksum("hearth clock 1\noffset -7\n")).expect("it is written");
        assert_eq!(read(&path), Some(-7));
    }
}

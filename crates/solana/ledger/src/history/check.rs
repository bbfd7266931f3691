//! check: verifies every segment and every table from end to end, and reports the damage.
//!
//! reads   all files of the log, several at a time
//! memory  a window per thread; a slot number per block
//! source  record.rs, table.rs
//!
//! A record that was being written when the machine stopped is torn: nothing good can follow it, and only the newest
//! segment has one. Bad bytes followed by good ones, or bytes missing from an older segment, are damage: truncating
//! there would lose good records.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;

use super::batch::Batch;
use super::meta::BlockMeta;
use super::record::{Head, Kind, VERSION};
use super::recovery::{Damage, HistoryCheck, Recovery};
use super::scan::{Step, Walk};
use super::table::Table;
use super::{HistoryError, log_path, table_path};

/// The contents of one segment and its table.
pub(super) struct SegmentCheck {
    pub segment: u32,
    /// The segment's header, or its copy in a later mark; `None` if neither is readable.
    pub head: Option<Head>,
    pub table: TableState,
    /// Bytes of the segment and of its table.
    pub bytes: u64,
    /// The blocks that are closed in it, ascending, with the number of transactions of each.
    blocks: Vec<(u64, u32)>,
    stretches: Vec<DamagedRange>,
    straddling: Vec<SplitBlock>,
    /// Transactions per slot of blocks that are not closed at its end.
    unclosed: BTreeMap<u64, u64>,
}

/// The state of a table.
pub(super) enum TableState {
    None,
    Good(Table),
    Damaged { offset: u64, length: u64, what: &'static str },
}

/// A damaged range of a segment.
struct DamagedRange {
    at: u64,
    length: u64,
    to_end: bool,
    what: &'static str,
    /// The last block before it and the first intact one behind it, if they are in this segment.
    after: Option<u64>,
    until: Option<u64>,
}

/// A block with fewer transactions in its segment than its closing record says: the others are in the segments before,
/// or are lost.
struct SplitBlock {
    slot: u64,
    lacks: u64,
    at: u64,
    after: Option<u64>,
}

/// Verifies the whole log in `dir` without changing it. `progress` receives the bytes read so far.
///
/// # Errors
///
/// [`HistoryError::OtherChain`], [`HistoryError::Version`], or a failure of the file system. Damage is not an error.
pub fn check(dir: &Path, genesis_hash: &[u8; 32], progress: impl Fn(u64) + Sync) -> Result<HistoryCheck, HistoryError> {
    let checks = segments(dir, &super::list_segments(dir)?, genesis_hash, progress)?;
    let Recovery { mut damage, torn, rebuilt_tables } = recovery(dir, &checks);
    damage.extend(rebuilt_tables);
    Ok(HistoryCheck {
        segments: checks.len() as u64,
        tables: checks.iter().filter(|check| !matches!(check.table, TableState::None)).count() as u64,
        bytes: checks.iter().map(|check| check.bytes).sum(),
        blocks: checks.iter().flat_map(|check| check.blocks.iter().copied()).collect(),
        damage,
        torn,
    })
}

/// Checks these segments, as many at a time as there are cores.
pub(super) fn segments(
    dir: &Path,
    segments: &[u32],
    genesis_hash: &[u8; 32],
    progress: impl Fn(u64) + Sync,
) -> Result<Vec<SegmentCheck>, HistoryError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(segments.len());
    let (next, read) = (AtomicUsize::new(0), AtomicU64::new(0));
    let done = Mutex::new(vec![]);
    let work = || {
        while let Some(&segment) = segments.get(next.fetch_add(1, SeqCst)) {
            let check = SegmentCheck::of(dir, segment, genesis_hash);
            if let Ok(check) = &check {
                progress(read.fetch_add(check.bytes, SeqCst) + check.bytes);
            }
            done.lock().push(check);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let done = done.into_inner();
    let mut checks = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    checks.sort_unstable_by_key(|check| check.segment);
    Ok(checks)
}

impl SegmentCheck {
    fn of(dir: &Path, segment: u32, genesis_hash: &[u8; 32]) -> Result<Self, HistoryError> {
        let path = log_path(dir, segment);
        let failed = |e| HistoryError::io("reading", &path, e);
        let file = File::open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut check = Self {
            segment,
            head: None,
            table: TableState::None,
            bytes: len,
            blocks: vec![],
            stretches: vec![],
            straddling: vec![],
            unclosed: BTreeMap::new(),
        };
        let mut walk = Walk::new(&file, segment, 0, len);
        let mut is_reset = false;
        loop {
            match walk.step().map_err(failed)? {
                Step::End => break,
                Step::Damage { at, length, to_end } => {
                    // It is unknown which of the earlier batches count: a mark may be in the lost range.
                    check.unclosed.clear();
                    is_reset = true;
                    let (what, after) = ("no record of the history verifies here", check.last_slot());
                    check.stretches.push(DamagedRange { at, length, to_end, what, after, until: None });
                }
                Step::Record { kind, body, at, .. } => {
                    is_reset |= kind == Kind::Reopened;
                    check.record(kind, body, at, is_reset);
                }
            }
        }
        match check.head {
            Some(head) if head.version != VERSION => {
                return Err(HistoryError::Version { file: path, found: head.version });
            }
            Some(head) if head.genesis_hash != *genesis_hash => return Err(HistoryError::OtherChain { file: path }),
            _ => check.table(dir, len)?,
        }
        Ok(check)
    }

    fn record(&mut self, kind: Kind, body: &[u8], at: u64, is_reset: bool) {
        match kind {
            Kind::Head => self.head = Head::decode(body),
            Kind::Reopened => {
                self.unclosed.clear();
                self.head = self.head.or_else(|| Head::decode(body));
            }
            Kind::Batch => {
                let batch = Batch::read(body);
                *self.unclosed.entry(batch.slot).or_default() += u64::from(batch.count);
            }
            Kind::Close => self.close(body, at, is_reset),
        }
    }

    fn close(&mut self, body: &[u8], at: u64, is_reset: bool) {
        let after = self.last_slot();
        let decoded = BlockMeta::decode(body).filter(|block| after.is_none_or(|after| after < block.slot));
        let Some(block) = decoded else {
            let (length, what) = (body.len() as u64, "a block does not decode, or is out of order");
            self.stretches.push(DamagedRange { at, length, to_end: false, what, after, until: None });
            return;
        };
        let found = self.unclosed.remove(&block.slot).unwrap_or(0);
        self.unclosed = self.unclosed.split_off(&block.slot);
        let (slot, written) = (block.slot, u64::from(block.transaction_count));
        if found != written {
            if is_reset && self.stretches.last().is_some_and(|stretch| stretch.until.is_none()) {
                // What it lacks is in the damaged range before it.
                return;
            }
            let lacks = if is_reset { u64::MAX } else { written.wrapping_sub(found) };
            self.straddling.push(SplitBlock { slot, lacks, at, after });
        }
        self.blocks.push((slot, block.transaction_count));
        self.stretches.iter_mut().filter(|stretch| stretch.until.is_none()).for_each(|s| s.until = Some(slot));
    }

    /// Whether any block is closed in it.
    pub fn has_blocks(&self) -> bool {
        !self.blocks.is_empty()
    }

    fn last_slot(&self) -> Option<u64> {
        self.blocks.last().map(|(slot, _)| *slot)
    }

    /// Reads the table, if there is one, and compares it with the segment.
    fn table(&mut self, dir: &Path, len: u64) -> Result<(), HistoryError> {
        let path = table_path(dir, self.segment);
        let table_len = match std::fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(HistoryError::io("looking at", &path, e)),
        };
        self.bytes += table_len;
        let damaged = |offset, length, what| TableState::Damaged { offset, length, what };
        let Some(table) = Table::open(dir, self.segment)? else {
            self.table = damaged(0, table_len, "its first page or its length is not what was written");
            return Ok(());
        };
        if let Some((offset, length, what)) = table.check()? {
            self.table = damaged(offset, length, what);
            return Ok(());
        }
        if len < table.closed_to {
            let (at, length, what) = (len, table.closed_to - len, "the segment's end is missing");
            let after = self.last_slot();
            self.stretches.push(DamagedRange { at, length, to_end: false, what, after, until: None });
        }
        let txns = self.blocks.iter().map(|(_, count)| u64::from(*count)).sum();
        if self.stretches.is_empty() && self.straddling.is_empty() && table.counts() != (self.blocks.len() as u64, txns)
        {
            self.table = damaged(0, table_len, "it has another count of blocks or transactions than its segment");
            return Ok(());
        }
        // What its table names was complete once: its end cannot be torn.
        self.stretches.iter_mut().filter(|s| s.at < table.closed_to).for_each(|s| s.to_end = false);
        self.table = TableState::Good(table);
        Ok(())
    }
}

/// Describes the damage in these segments.
pub(super) fn recovery(dir: &Path, checks: &[SegmentCheck]) -> Recovery {
    let mut found = Recovery::default();
    let (mut last_slot, mut before): (u64, Option<&SegmentCheck>) = (0, None);
    for (nth, check) in checks.iter().enumerate() {
        let is_last = nth + 1 == checks.len();
        let mut carried = before.map(|before| before.unclosed.clone()).unwrap_or_default();
        if let Some(before) = before.filter(|before| before.segment + 1 != check.segment) {
            carried.clear();
            for missing in before.segment + 1..check.segment {
                let file = log_path(dir, missing);
                let what = "the segment's file is missing";
                found.damage.push(Damage { file, offset: 0, length: 0, what, after_slot: last_slot, until_slot: None });
            }
        }
        let mut harmed = vec![];
        for block in &check.straddling {
            if carried.get(&block.slot).copied().unwrap_or(0) == block.lacks {
                continue;
            }
            harmed.push(block.slot);
            // After a damaged range no further error is reported.
            if found.damage.last().is_none_or(|damage| damage.until_slot.is_some()) {
                let (file, offset, after_slot) = (log_path(dir, check.segment), block.at, block.after);
                let (what, after_slot) = ("a block lacks some of its transactions", after_slot.unwrap_or(last_slot));
                found.damage.push(Damage { file, offset, length: 0, what, after_slot, until_slot: None });
            }
        }
        let good = check.blocks.iter().map(|(slot, _)| *slot).find(|slot| !harmed.contains(slot));
        for damage in found.damage.iter_mut().filter(|damage| damage.until_slot.is_none()) {
            damage.until_slot = good.filter(|good| *good > damage.after_slot);
        }
        for stretch in &check.stretches {
            let (file, after_slot) = (log_path(dir, check.segment), stretch.after.unwrap_or(last_slot));
            let DamagedRange { at: offset, length, what, until: until_slot, .. } = *stretch;
            let damage = Damage { file, offset, length, what, after_slot, until_slot };
            if is_last && stretch.to_end { found.torn = Some(damage) } else { found.damage.push(damage) }
        }
        if let TableState::Damaged { offset, length, what } = check.table {
            let (file, after_slot) = (table_path(dir, check.segment), last_slot);
            found.rebuilt_tables.push(Damage { file, offset, length, what, after_slot, until_slot: good });
        }
        last_slot = check.last_slot().unwrap_or(last_slot);
        before = Some(check);
    }
    found
}

/// The blocks in these segments, ascending.
pub(super) fn slots(checks: &[SegmentCheck]) -> Vec<u64> {
    checks.iter().flat_map(|check| check.blocks.iter().map(|(slot, _)| *slot)).collect()
}

//! open: recovers the log, truncates what is torn or not wanted, and indexes what no table covers.
//!
//! reads   every segment and every table from end to end
//! writes  truncates the log after its last good block; tables of full segments whose table is missing or damaged
//! memory  the index of one segment at a time; a slot number per block
//! drops   batches of blocks that were never closed, and blocks above the last one wanted
//! source  after a kill only the end can be torn; after a power failure anything that was not synced
//!
//! Damage in the middle costs only the blocks that it hits: reading continues behind it, and
//! [`Recovery`](super::Recovery) reports it. If the caller can replay those blocks it opens the log again up to the
//! block before them.

use std::fs::{self, File};
use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};

use hearth_wal::{Appender, FileSystem, Volume};
use parking_lot::RwLock;

use super::batch::Batch;
use super::check::{self, SegmentCheck, TableState};
use super::compactor::{Feed, RecordOutcome, Shared, State, remove_segment};
use super::index::PendingTransactions;
use super::record::{self, Head, Kind, VERSION};
use super::scan::{Step, Walk};
use super::table::Table;
use super::writer::{History, create_segment};
use super::{Config, HistoryError, HistoryKey, list_segments, log_path};

impl History {
    /// Opens the log in `dir`, or creates it, and drops its blocks above `keep_to`, the last block of the chain.
    ///
    /// # Errors
    ///
    /// [`HistoryError::OtherChain`], [`HistoryError::Version`], or a failure of the file system. Damage is not an
    /// error: [`recovery`](Self::recovery) reports it.
    pub fn open(dir: &Path, config: Config, keep_to: u64) -> Result<Self, HistoryError> {
        fs::create_dir_all(dir).map_err(|e| HistoryError::io("creating", dir, e))?;
        remove_unfinished_tables(dir)?;
        let checks = check::segments(dir, &list_segments(dir)?, &config.genesis_hash, |_| ())?;
        let recovery = check::recovery(dir, &checks);
        let slots = check::slots(&checks);
        let head = checks.iter().find_map(|check| check.head);
        // Addresses are hashed under the key: without it no existing entry can be found.
        let checks = if head.is_some() { checks } else { set_aside(dir, checks)? };
        let fresh = Head { version: VERSION, genesis_hash: config.genesis_hash, key: random_word() };
        let head = head.unwrap_or(fresh);
        let shared = Arc::new(Shared {
            dir: dir.to_path_buf(),
            key: HistoryKey::new(head.key),
            config,
            state: RwLock::new(State::default()),
            indexed_slot: AtomicU64::new(0),
            indexed_bytes: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            failure: OnceLock::new(),
            on_indexed: OnceLock::new(),
        });
        let mut opening = HistoryOpener {
            shared: &shared,
            head: &head,
            keep_to,
            pending: PendingTransactions::default(),
            covered: None,
        };
        let end = opening.run(checks)?;
        shared.make_room();
        Self::start(shared, head, end, (recovery, slots))
    }
}

struct HistoryOpener<'a> {
    shared: &'a Arc<Shared>,
    head: &'a Head,
    keep_to: u64,
    pending: PendingTransactions,
    /// The table of the previous segment, if that was not scanned: `pending` then lacks the blocks still open at its
    /// end.
    covered: Option<Arc<Table>>,
}

impl HistoryOpener<'_> {
    /// Goes through the segments; returns the position for appending.
    fn run(&mut self, checks: Vec<SegmentCheck>) -> Result<Appender, HistoryError> {
        let numbers: Vec<u32> = checks.iter().map(|check| check.segment).collect();
        let mut next = numbers.first().copied().unwrap_or(1);
        for check in checks {
            let segment = check.segment;
            if segment != next {
                // Segments are missing between the two, and their batches with them.
                if self.has_all_wanted() {
                    break;
                }
                (self.covered, self.pending) = (None, PendingTransactions::default());
            }
            next = segment + 1;
            match check.table {
                TableState::Good(table) if table.last_slot <= self.keep_to && table.first_slot >= self.indexed() => {
                    self.shared.indexed_slot.store(table.last_slot + 1, SeqCst);
                    self.covered = Some(self.shared.show(table));
                    continue;
                }
                _ => self.unclosed()?,
            }
            self.shared.begin(segment);
            if !self.segment(segment)? || self.has_all_wanted() || numbers.last() == Some(&segment) {
                return self.reopen(segment, &numbers);
            }
            if self.shared.open(|index| !index.slots.is_empty()) {
                let full = self.shared.fill(next, &self.pending);
                self.shared.seal(&full)?;
            } else if self.shared.state().tables.is_empty() {
                // It contains no block and no older segment is left, so it has no place in the order of ageing.
                remove_segment(&self.shared.dir, segment)?;
            }
        }
        self.shared.begin(next);
        self.reopen(next, &numbers)
    }

    /// One above the last indexed block so far.
    fn indexed(&self) -> u64 {
        self.shared.indexed_slot.load(SeqCst)
    }

    /// Whether no later block is wanted, so that nothing behind a damaged range is either.
    fn has_all_wanted(&self) -> bool {
        self.indexed() > self.keep_to || self.keep_to == 0
    }

    /// Reads batches in the segments up to the last with a table that may belong to blocks closed after them.
    fn unclosed(&mut self) -> Result<(), HistoryError> {
        let Some(last) = self.covered.take() else { return Ok(()) };
        self.pending.clear();
        let (first, mut at) = (last.unclosed_from.0, u64::from(last.unclosed_from.1));
        for segment in first..=last.segment {
            let path = log_path(&self.shared.dir, segment);
            let failed = |e| HistoryError::io("reading", &path, e);
            let file = match File::open(&path) {
                Ok(file) => file,
                // The segment was dropped by age, and the block with it.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(failed(e)),
            };
            let len = file.metadata().map_err(failed)?.len();
            let mut walk = Walk::new(&file, segment, at, len);
            loop {
                match walk.step().map_err(failed)? {
                    Step::End => break,
                    Step::Damage { .. } | Step::Record { kind: Kind::Reopened, .. } => self.pending.clear(),
                    Step::Record { kind: Kind::Batch, body, at, .. } if Batch::read(body).slot > last.last_slot => {
                        self.pending.add(&self.shared.key, segment, at, &Batch::read(body));
                    }
                    Step::Record { .. } => {}
                }
            }
            at = 0;
        }
        Ok(())
    }

    /// Indexes one segment, skipping damage; returns whether all of it is wanted.
    fn segment(&mut self, segment: u32) -> Result<bool, HistoryError> {
        let path = log_path(&self.shared.dir, segment);
        let failed = |e| HistoryError::io("reading", &path, e);
        let file = File::open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let mut walk = Walk::new(&file, segment, 0, len);
        loop {
            match walk.step().map_err(failed)? {
                Step::End => return Ok(true),
                Step::Damage { .. } if self.has_all_wanted() => return Ok(false),
                Step::Damage { .. } => self.pending.clear(),
                Step::Record { kind, body, at, end } => {
                    let mut feed = Feed { shared: self.shared, pending: &mut self.pending };
                    match feed.take((segment, at, end), kind, body, self.keep_to) {
                        // A block that lost some of its transactions is not indexed.
                        RecordOutcome::Indexed | RecordOutcome::Misfit => {}
                        RecordOutcome::Beyond => return Ok(false),
                    }
                }
            }
        }
    }

    /// Reopens a segment after its last block, and removes the segments in `numbers` after it. Batches of unclosed
    /// blocks are written again, and a mark invalidates the old ones.
    fn reopen(&mut self, segment: u32, numbers: &[u32]) -> Result<Appender, HistoryError> {
        numbers.iter().filter(|number| **number > segment).try_for_each(|n| remove_segment(&self.shared.dir, *n))?;
        let path = log_path(&self.shared.dir, segment);
        let failed = |e| HistoryError::io("truncating", &path, e);
        remove_table(&self.shared.dir, segment)?;
        let closed_to = self.shared.open(|index| index.closed_to);
        let mut end = if closed_to == 0 {
            create_segment(&path, segment, self.head)?
        } else {
            let mut end = Appender::new(FileSystem.open(&path).map_err(failed)?, closed_to);
            end.cut(closed_to).map_err(failed)?;
            end
        };
        let mut mark = vec![];
        record::write(&mut mark, segment, end.end(), Kind::Reopened, &self.head.encode());
        end.append(&mut [IoSlice::new(&mark)]).map_err(|e| HistoryError::io("appending to", &path, e))?;
        let sealed: u64 = self.shared.state().tables.iter().map(|table| table.disk_bytes).sum();
        self.shared.disk_bytes.store(sealed + end.end(), SeqCst);
        Ok(end)
    }
}

fn remove_table(dir: &Path, segment: u32) -> Result<(), HistoryError> {
    let path = super::table_path(dir, segment);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(HistoryError::io("removing", &path, e)),
        _ => Ok(()),
    }
}

/// A kill may leave a table that does not have its final name yet.
fn remove_unfinished_tables(dir: &Path) -> Result<(), HistoryError> {
    let failed = |e| HistoryError::io("listing", dir, e);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "new") {
            fs::remove_file(&path).map_err(|e| HistoryError::io("removing", &path, e))?;
        }
    }
    Ok(())
}

/// Renames segments that are unreadable without their key, so that they are neither lost nor in the way.
fn set_aside(dir: &Path, checks: Vec<SegmentCheck>) -> Result<Vec<SegmentCheck>, HistoryError> {
    for check in checks {
        let path = log_path(dir, check.segment);
        remove_table(dir, check.segment)?;
        let moved = if check.has_blocks() {
            fs::rename(&path, path.with_extension("history.damaged"))
        } else {
            fs::remove_file(&path)
        };
        moved.map_err(|e| HistoryError::io("setting aside", &path, e))?;
    }
    Ok(vec![])
}

fn random_word() -> u64 {
    use std::hash::BuildHasher;
    // Keyed with the operating system's entropy.
    std::hash::RandomState::new().hash_one(0)
}

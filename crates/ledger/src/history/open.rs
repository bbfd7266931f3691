//! open: find out what the log holds, cut off what is torn or not wanted, index what no table covers.
//!
//! reads   tables' headers; the segments that have no table, at most two after a kill
//! writes  truncates the log behind its last good block; tables of full segments that lack one
//! memory  the index of one segment at a time
//! drops   batches of blocks that were never closed, and blocks above the last one wanted
//! source  after a kill only the end can be torn; after a power failure whatever was not synced, so the log is good up
//!         to the first record that is not

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, RwLock};

use super::batch::Batch;
use super::historian::{Feed, Shared, State, remove_segment};
use super::index::Pending;
use super::record::{self, HEAD_SIZE, Head, Kind, VERSION};
use super::scan::{Step, Walk, read_record};
use super::table::Table;
use super::writer::{History, create_segment};
use super::{Config, HistoryError, HistoryKey, log_path};

impl History {
    /// Opens the log in `dir`, beginning one where there is none, and drops what it holds above the block
    /// `keep_to`: the last one of the chain.
    ///
    /// # Errors
    /// [`HistoryError::OtherChain`], [`HistoryError::Version`], or a failure of the file system. Torn records are no
    /// error.
    pub fn open(dir: &Path, config: Config, keep_to: u64) -> Result<Self, HistoryError> {
        fs::create_dir_all(dir).map_err(|e| HistoryError::io("creating", dir, e))?;
        let segments = list_segments(dir)?;
        let head = match segments.first() {
            Some(&first) => read_head(dir, first, &config)?,
            None => None,
        };
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
        let mut recovery = Recovery { shared: &shared, head: &head, keep_to, pending: Pending::default() };
        let tail = recovery.run(&segments)?;
        shared.make_room();
        Self::start(shared, head, tail)
    }
}

struct Recovery<'a> {
    shared: &'a Arc<Shared>,
    head: &'a Head,
    keep_to: u64,
    pending: Pending,
}

impl Recovery<'_> {
    /// Goes through the segments; returns the file to go on appending to, and its size.
    fn run(&mut self, segments: &[u32]) -> Result<(File, u64), HistoryError> {
        let dir = &self.shared.dir.clone();
        let mut tables = VecDeque::new();
        let mut rest = segments;
        // Those with tables come first; the first without one begins what must be read.
        while let Some((&segment, behind)) = rest.split_first() {
            match Table::open(dir, segment)?.filter(|table| self.is_wanted(dir, table)) {
                Some(table) if tables.back().is_none_or(|last: &Arc<Table>| last.segment + 1 == segment) => {
                    tables.push_back(Arc::new(table));
                }
                _ => break,
            }
            rest = behind;
        }
        if let Some(last) = tables.back() {
            self.unclosed_before(last)?;
            self.shared.indexed_slot.store(last.last_slot + 1, SeqCst);
        }
        let next = tables.back().map(|table| table.segment + 1);
        self.shared.show(tables);
        self.unsealed(rest, next)
    }

    /// Whether a table covers its log and nothing beyond what is wanted.
    fn is_wanted(&self, dir: &Path, table: &Table) -> bool {
        let log = fs::metadata(log_path(dir, table.segment)).map_or(0, |log| log.len());
        table.last_slot <= self.keep_to && log >= table.closed_to
    }

    /// Batches in the full segments, of which `last` is the last, may belong to blocks that are closed behind them.
    fn unclosed_before(&mut self, last: &Table) -> Result<(), HistoryError> {
        let (first, mut at) = (last.unclosed_from.0, u64::from(last.unclosed_from.1));
        for segment in first..=last.segment {
            let path = log_path(&self.shared.dir, segment);
            let failed = |e| HistoryError::io("reading", &path, e);
            let file = match File::open(&path) {
                Ok(file) => file,
                // Dropped by age: the block goes with it.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(failed(e)),
            };
            let len = file.metadata().map_err(failed)?.len();
            let mut walk = Walk::new(&file, segment, at, len);
            // A bad record ends the walk: then the block that it belonged to is not good either.
            while let Step::Record { kind, body, at, .. } = walk.step().map_err(failed)? {
                match kind {
                    Kind::Reopened => self.pending.clear(),
                    Kind::Batch if Batch::read(body).slot > last.last_slot => {
                        self.pending.add(&self.shared.key, segment, at, &Batch::read(body));
                    }
                    _ => {}
                }
            }
            at = 0;
        }
        Ok(())
    }

    /// Indexes the segments without tables, of which `first` would be the number of the first, seals all but the last,
    /// and cuts the log off behind its last block.
    fn unsealed(&mut self, segments: &[u32], first: Option<u32>) -> Result<(File, u64), HistoryError> {
        let mut number = first.or(segments.first().copied()).unwrap_or(1);
        self.shared.begin(number);
        for &segment in segments {
            if segment != number || !self.segment(segment)? || !segments.contains(&(segment + 1)) {
                break;
            }
            if self.shared.open(|index| index.slots.is_empty()) {
                // In a log of this program every segment but the last ends behind a block.
                break;
            }
            number = segment + 1;
            let full = self.shared.fill(number, &self.pending);
            self.shared.seal(&full)?;
        }
        for &segment in segments.iter().filter(|segment| **segment > number) {
            remove_segment(&self.shared.dir, segment)?;
        }
        self.reopen(number)
    }

    /// Indexes one segment; whether all of it is good and wanted.
    fn segment(&mut self, segment: u32) -> Result<bool, HistoryError> {
        let path = log_path(&self.shared.dir, segment);
        if read_head(&self.shared.dir, segment, &self.shared.config)?.is_none_or(|head| head.key != self.head.key) {
            return Ok(false);
        }
        let failed = |e| HistoryError::io("reading", &path, e);
        let file = File::open(&path).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let keep_to = self.keep_to;
        let mut feed = Feed { shared: self.shared, pending: &mut self.pending };
        let bad = feed.records(&file, segment, (0, len), |block| block.slot <= keep_to).map_err(failed)?;
        Ok(bad.is_none())
    }

    /// Opens a segment to go on behind its last block. What was not closed by then is written anew, and a mark says
    /// that the old batches do not count.
    fn reopen(&mut self, segment: u32) -> Result<(File, u64), HistoryError> {
        let path = log_path(&self.shared.dir, segment);
        let failed = |e| HistoryError::io("truncating", &path, e);
        remove_table(&self.shared.dir, segment)?;
        let closed_to = self.shared.open(|index| index.closed_to);
        let (mut file, len) = if closed_to == 0 {
            create_segment(&path, segment, self.head)?
        } else {
            let file = OpenOptions::new().append(true).open(&path).map_err(failed)?;
            file.set_len(closed_to).map_err(failed)?;
            (file, closed_to)
        };
        let mut mark = vec![];
        record::write(&mut mark, segment, len, Kind::Reopened, &[]);
        file.write_all(&mark).map_err(|e| HistoryError::io("appending to", &path, e))?;
        let len = len + mark.len() as u64;
        let sealed: u64 = self.shared.state().tables.iter().map(|table| table.disk_bytes).sum();
        self.shared.disk_bytes.store(sealed + len, SeqCst);
        Ok((file, len))
    }
}

fn remove_table(dir: &Path, segment: u32) -> Result<(), HistoryError> {
    let path = super::table_path(dir, segment);
    match fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(HistoryError::io("removing", &path, e)),
        _ => Ok(()),
    }
}

/// The numbers of the segments in `dir`, ascending. Tables that were not finished are removed.
fn list_segments(dir: &Path) -> Result<Vec<u32>, HistoryError> {
    let failed = |e| HistoryError::io("listing", dir, e);
    let mut numbers = vec![];
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let number: Option<u32> = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("history") => numbers.extend(number),
            Some("new") => fs::remove_file(&path).map_err(|e| HistoryError::io("removing", &path, e))?,
            _ => {}
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The head of a segment; `None` when it was never finished.
fn read_head(dir: &Path, segment: u32, config: &Config) -> Result<Option<Head>, HistoryError> {
    let path = log_path(dir, segment);
    let failed = |e| HistoryError::io("reading", &path, e);
    let file = File::open(&path).map_err(failed)?;
    let mut buffer = Vec::with_capacity(HEAD_SIZE);
    let head = match read_record(&file, segment, 0, &mut buffer).map_err(failed)? {
        Some((Kind::Head, body)) => Head::decode(body),
        _ => None,
    };
    match head {
        Some(head) if head.version != VERSION => Err(HistoryError::Version { file: path, found: head.version }),
        Some(head) if head.genesis_hash != config.genesis_hash => Err(HistoryError::OtherChain { file: path }),
        head => Ok(head),
    }
}

fn random_word() -> u64 {
    use std::hash::BuildHasher;
    // Keyed by the operating system's entropy.
    std::hash::RandomState::new().hash_one(0)
}

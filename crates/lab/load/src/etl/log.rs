//! Reads a log from where it ended the last time.
//!
//! reads   a file that grows, is rotated or truncated; a compressed file; standard input
//! writes  rows, and the position up to which the log was read, to a [`Store`]
//! memory  a line of at most [`LINE_BYTES_MAX`], the rows of [`BATCH_LINES`] lines
//! drops   longer lines and damaged records: counted. An unterminated last line is left for the next time

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use hearth_crypto::keccak::keccak256;
use serde::Serialize;

use super::line;
use super::row::{Batch, MergeCounts};
use super::store::{Position, Store, StoreError};

/// A longer line counts as damaged: useful lines have a few hundred bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// Lines per write to the store.
const BATCH_LINES: u64 = 20_000;
/// How often rows from standard input are written.
const BATCH_TIME: Duration = Duration::from_secs(1);
/// Bytes, at the beginning and before the position, whose hashes identify a file.
const KNOWN_BYTES: u64 = 1024;

/// Counts of what was found in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Bytes of the logs that were read.
    pub bytes: u64,
    /// Lines that ended with a line feed.
    pub lines: u64,
    /// Records that are about blocks.
    pub of_use: u64,
    /// Records that are cut off or interleaved, overlong lines, and compressed files that break off.
    pub damaged: u64,
    /// Logs whose last line is not terminated yet.
    pub unfinished: u64,
    /// Logs that were replaced by another file, or truncated, since the last time.
    pub begun_anew: u64,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("{path}: {why}", path = path.display())]
    File {
        /// Path of the log.
        path: PathBuf,
        /// Why the file could not be read, as the system says it.
        why: io::Error,
    },
    /// A compressed file cannot be decompressed to its end.
    #[error(
        "{path}: after {lines} lines {}",
        if *is_cut { "the compressed file breaks off" } else { "it is no longer valid gzip data" },
        path = path.display()
    )]
    Broken {
        /// Path of the log.
        path: PathBuf,
        /// Number of complete lines before the damage.
        lines: u64,
        /// Whether it merely ends too early: the rest may still come.
        is_cut: bool,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The store that parsed lines go to, with the counts.
struct Sink<'a> {
    store: &'a mut dyn Store,
    counts: &'a mut Counts,
    merged: &'a mut MergeCounts,
    batch: Batch,
    rows: Vec<super::row::Row>,
    waiting: u64,
}

impl<'a> Sink<'a> {
    fn new(store: &'a mut dyn Store, counts: &'a mut Counts, merged: &'a mut MergeCounts) -> Self {
        Self { store, counts, merged, batch: Batch::default(), rows: vec![], waiting: 0 }
    }

    fn line(&mut self, line: &[u8]) {
        self.counts.lines += 1;
        self.waiting += 1;
        let verdict = line::parse(line, &mut self.rows);
        self.counts.of_use += verdict.of_use;
        self.counts.damaged += verdict.damaged;
        self.rows.drain(..).for_each(|row| self.batch.add(row));
    }

    fn too_long(&mut self) {
        self.counts.lines += 1;
        self.waiting += 1;
        self.counts.damaged += 1;
    }

    fn write(&mut self, position: Option<(&str, &Position)>) -> Result<(), StoreError> {
        if self.batch.rows.is_empty() && position.is_none() {
            return Ok(());
        }
        *self.merged += self.store.merge(&self.batch, position)?;
        self.batch = Batch::default();
        self.waiting = 0;
        Ok(())
    }
}

/// One step of the line reader.
enum LineStep {
    /// A complete line is in the buffer. Its size in bytes includes the line end.
    Line(u64),
    /// An overlong line was skipped.
    TooLong(u64),
    /// The input ended with this many bytes without a line end.
    Rest(u64),
}

/// Reads the next line, without its line end.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<LineStep> {
    line.clear();
    let mut read = 0;
    loop {
        let part = match reader.fill_buf() {
            Ok(part) => part,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            Err(why) => return Err(why),
        };
        if part.is_empty() {
            return Ok(LineStep::Rest(read));
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let taken = &part[..end.unwrap_or(part.len())];
        if read as usize + taken.len() <= LINE_BYTES_MAX {
            line.extend_from_slice(taken);
        }
        let used = taken.len() + usize::from(end.is_some());
        reader.consume(used);
        read += used as u64;
        if end.is_some() {
            let is_whole = read as usize - 1 <= LINE_BYTES_MAX;
            return Ok(if is_whole { LineStep::Line(read) } else { LineStep::TooLong(read) });
        }
    }
}

/// A log file, plain or compressed, that may grow or be rotated.
pub struct Log {
    path: PathBuf,
    /// Kept open while the log is followed: the rest of a rotated file is read to its end.
    file: Option<File>,
    unfinished: bool,
    /// State of a compressed file that cannot be decompressed; it is not read again until it changes.
    broken: Option<(u64, u64, i64, i64)>,
}

impl Log {
    /// The log at this path.
    pub fn new(path: &Path) -> Self {
        Self { path: path.into(), file: None, unfinished: false, broken: None }
    }

    /// Reads what is new. A followed file that does not exist has nothing new.
    pub fn pass(
        &mut self,
        store: &mut dyn Store,
        counts: &mut Counts,
        merged: &mut MergeCounts,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), LogError> {
        let path = self.path.clone();
        let file = |why| LogError::File { path: path.clone(), why };
        counts.unfinished -= u64::from(std::mem::take(&mut self.unfinished));
        // The open file may have been renamed away by a rotation; the rest of it is read first.
        if let Some(open) = self.file.take() {
            let before = open.metadata().map_err(file)?;
            let now = std::fs::metadata(&self.path).ok();
            let is_the_same = |now: &std::fs::Metadata| (now.dev(), now.ino()) == (before.dev(), before.ino());
            if now.as_ref().is_none_or(|now| !is_the_same(now)) {
                self.read(&open, store, counts, merged, stop)?;
                self.unfinished = false;
                if now.is_none() {
                    self.file = Some(open);
                    return Ok(());
                }
            } else {
                self.file = Some(open);
            }
        }
        let open = match self.file.take() {
            Some(open) => open,
            None => File::open(&self.path).map_err(file)?,
        };
        self.read(&open, store, counts, merged, stop)?;
        counts.unfinished += u64::from(self.unfinished);
        self.file = Some(open);
        Ok(())
    }

    fn read(
        &mut self,
        file: &File,
        store: &mut dyn Store,
        counts: &mut Counts,
        merged: &mut MergeCounts,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), LogError> {
        let failed = |why| LogError::File { path: self.path.clone(), why };
        let whole = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let source = format!("log:{}", whole.display());
        let about = file.metadata().map_err(failed)?;
        let (size, stamp) = (about.len(), (about.ino(), about.len(), about.mtime(), about.mtime_nsec()));
        let known = store.position(&source)?;
        let at = match &known {
            Some(known) if at(file, known.offset, size).map_err(failed)?.as_ref() == Some(known) => known.offset,
            Some(_) => {
                counts.begun_anew += 1;
                0
            }
            None => 0,
        };
        let mut magic = [0; 2];
        let compressed = file.read_exact_at(&mut magic, 0).is_ok() && magic == [0x1f, 0x8b];
        let mut sink = Sink::new(store, counts, merged);
        let mut reader = file;
        reader.seek(SeekFrom::Start(if compressed { 0 } else { at })).map_err(failed)?;
        if compressed {
            if at == size && known.is_some() || self.broken == Some(stamp) {
                return Ok(());
            }
            let read = inflate(file, size, &mut sink, stop, &source);
            self.broken = matches!(read, Err(Broken::Gzip { .. })).then_some(stamp);
            return read.map_err(|why| match why {
                Broken::File(why) => failed(why),
                Broken::Store(why) => why.into(),
                Broken::Gzip { lines, is_cut } => LogError::Broken { path: self.path.clone(), lines, is_cut },
            });
        }
        let (mut reader, mut offset, mut line) = (BufReader::with_capacity(256 << 10, reader), at, vec![]);
        loop {
            let ended = match next(&mut reader, &mut line).map_err(failed)? {
                LineStep::Line(bytes) => {
                    sink.line(&line);
                    offset += bytes;
                    false
                }
                LineStep::TooLong(bytes) => {
                    sink.too_long();
                    offset += bytes;
                    false
                }
                LineStep::Rest(bytes) => {
                    self.unfinished = bytes > 0;
                    true
                }
            };
            let ended = ended || stop();
            if (ended || sink.waiting >= BATCH_LINES) && sink.waiting > 0 {
                // A file that shrinks while it is read is read from its beginning the next time.
                let position = self::at(file, offset, offset).map_err(failed)?.unwrap_or_default();
                sink.write(Some((&source, &position)))?;
            }
            if ended {
                sink.counts.bytes += offset - at;
                return Ok(());
            }
        }
    }
}

/// The position `offset` in a file of this size, if the file is that long.
fn at(file: &File, offset: u64, size: u64) -> io::Result<Option<Position>> {
    if offset > size {
        return Ok(None);
    }
    let length = offset.min(KNOWN_BYTES);
    let hash = |from: u64| -> io::Result<String> {
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, from)?;
        Ok(keccak256(&bytes)[..16].iter().map(|byte| format!("{byte:02x}")).collect())
    };
    let both = hash(0).and_then(|identity| Ok((identity, hash(offset - length)?)));
    match both {
        Ok((identity, before)) => Ok(Some(Position { offset, identity, before })),
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(why) => Err(why),
    }
}

enum Broken {
    File(io::Error),
    Store(StoreError),
    Gzip { lines: u64, is_cut: bool },
}

/// Reads a compressed file from its beginning. Its position moves to the end once all of it was read.
fn inflate(file: &File, size: u64, sink: &mut Sink<'_>, stop: &dyn Fn() -> bool, source: &str) -> Result<(), Broken> {
    let (mut reader, mut line) = (BufReader::new(MultiGzDecoder::new(BufReader::new(file))), vec![]);
    let before = sink.counts.lines;
    loop {
        match next(&mut reader, &mut line) {
            Ok(LineStep::Line(bytes)) => {
                sink.line(&line);
                sink.counts.bytes += bytes;
            }
            Ok(LineStep::TooLong(bytes)) => {
                sink.too_long();
                sink.counts.bytes += bytes;
            }
            Ok(LineStep::Rest(bytes)) => {
                // A compressed file gets no more lines.
                sink.counts.damaged += u64::from(bytes > 0);
                let position = at(file, size, size).map_err(Broken::File)?;
                return sink.write(position.as_ref().map(|position| (source, position))).map_err(Broken::Store);
            }
            Err(why)
                if matches!(
                    why.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
                ) =>
            {
                sink.counts.damaged += 1;
                sink.write(None).map_err(Broken::Store)?;
                let is_cut = why.kind() == io::ErrorKind::UnexpectedEof;
                return Err(Broken::Gzip { lines: sink.counts.lines - before, is_cut });
            }
            Err(why) => return Err(Broken::File(why)),
        }
        if sink.waiting >= BATCH_LINES || stop() {
            sink.write(None).map_err(Broken::Store)?;
            sink.waiting = 0;
        }
        if stop() {
            return Ok(());
        }
    }
}

/// Reads a stream that cannot be read twice, until it ends or `stop` says so.
pub fn stream(
    input: impl Read + Send + 'static,
    store: &mut dyn Store,
    counts: &mut Counts,
    merged: &mut MergeCounts,
    stop: &dyn Fn() -> bool,
) -> Result<(), LogError> {
    let lines = lines(input);
    let mut sink = Sink::new(store, counts, merged);
    let mut written = Instant::now();
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(Ok((LineStep::Line(bytes), line))) => {
                sink.line(&line);
                sink.counts.bytes += bytes;
            }
            Ok(Ok((LineStep::TooLong(bytes), _))) => {
                sink.too_long();
                sink.counts.bytes += bytes;
            }
            Ok(Ok((LineStep::Rest(bytes), _))) => {
                sink.counts.unfinished += u64::from(bytes > 0);
                break;
            }
            Ok(Err(why)) => {
                sink.write(None)?;
                return Err(LogError::File { path: "standard input".into(), why });
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if sink.waiting >= BATCH_LINES || written.elapsed() >= BATCH_TIME {
            sink.write(None)?;
            written = Instant::now();
        }
        if stop() {
            break;
        }
    }
    Ok(sink.write(None)?)
}

/// Reads on a separate thread, so that Ctrl-C is seen while no input comes.
fn lines(input: impl Read + Send + 'static) -> Receiver<io::Result<(LineStep, Vec<u8>)>> {
    let (sender, receiver) = sync_channel(1024);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(input);
        loop {
            let mut line = vec![];
            let found = next(&mut reader, &mut line);
            let last = !matches!(found, Ok(LineStep::Line(_) | LineStep::TooLong(_)));
            if sender.send(found.map(|next| (next, line))).is_err() || last {
                return;
            }
        }
    });
    receiver
}

//! Records a session.
//!
//! reads   the queue of a [`Tap`], the ledger's roots
//! writes  `session.part` while the node runs, `session.bin` at the end, with whole FEC sets in short: [`sets`]
//! memory  a chunk; at the end all packets, at most three times [`Limits::bytes`]
//! drops   nothing by itself: what the queue dropped is counted in the session
//!
//! A full disk, or any other error, ends the recording with a line in the log. The node continues.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_ledger::Ledger;
use hearth_pipeline::capture::Tap;
use hearth_tile::Clock;

use super::folder::{self, SESSION, SHORTENED, UNFINISHED, create_private};
use super::format::{SessionEvent, SessionHeader, SessionWriter, StoredEvent};
use super::{CaptureError, Recording, sets};

/// How often the queue is emptied.
const EVERY: Duration = Duration::from_millis(20);
/// zstd's level while the node runs.
const LEVEL: i32 = 1;
/// Blocks that are looked at for new roots.
const LOOK_BACK: usize = 512;

/// When a recording ends by itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Once the root is so many slots higher than where it began; `None`: never.
    pub slots: Option<u64>,
    /// At so many bytes before compression.
    pub bytes: u64,
}

/// The totals of a session that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTotals {
    /// Packets, those that are stored in short among them.
    pub packets: usize,
    /// Packets whose shreds are left out, since their sets give them.
    pub left_out: usize,
    /// Blocks that were rooted while it was recorded.
    pub rooted: usize,
    /// Packets that are missing.
    pub dropped: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A session while it is recorded, step by step.
pub struct Recorder {
    folder: PathBuf,
    tap: Tap,
    ledger: Arc<Ledger>,
    writer: SessionWriter<BufWriter<File>>,
    limits: Limits,
    /// The newest root that is recorded, and the first.
    root: u64,
    began: u64,
}

impl Recorder {
    /// Begins to record into a folder, what `tap` copies and `ledger` roots.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn begin(
        folder: &Path,
        header: &SessionHeader,
        tap: Tap,
        ledger: Arc<Ledger>,
        limits: Limits,
    ) -> Result<Self, CaptureError> {
        let path = folder.join(UNFINISHED);
        let file = create_private(&path).map(BufWriter::new);
        let writer = file.and_then(|file| SessionWriter::new(file, header, LEVEL));
        let writer = writer.map_err(|source| CaptureError::Io { action: "write", path, source })?;
        let root = ledger.root().unwrap_or(0);
        Ok(Self { folder: folder.to_owned(), tap, ledger, writer, limits, root, began: root })
    }

    /// Records what was received and rooted since the last call. Returns whether a limit is reached, or the tap closed.
    ///
    /// # Errors
    /// The system's: the recording cannot continue.
    pub fn step(&mut self) -> io::Result<bool> {
        // A root depends on packets that are in the queue by now, so that these stand before it.
        let roots = self.new_roots();
        // Once the tap is closed, a root may depend on packets that are not recorded.
        let is_over = self.tap.is_closed();
        let roots = roots.into_iter().filter(|_| !is_over);
        let packets = self.tap.take().into_iter().map(SessionEvent::Packet);
        for event in packets.chain(roots) {
            self.writer.add(&event)?;
        }
        let has_slots = self.limits.slots.is_some_and(|slots| self.root >= self.began.saturating_add(slots));
        Ok(is_over || has_slots || self.writer.bytes() >= self.limits.bytes)
    }

    /// The blocks that were rooted since the last call, the oldest first.
    fn new_roots(&mut self) -> Vec<SessionEvent> {
        let root = self.ledger.root().unwrap_or(0);
        if root <= self.root {
            return vec![];
        }
        let blocks = self.ledger.recent_blocks(LOOK_BACK);
        let new = blocks.iter().rev().filter(|block| block.slot > self.root && block.slot <= root);
        let events: Option<Vec<_>> = new
            .map(|block| block.bank_hash.map(|bank_hash| SessionEvent::Rooted { slot: block.slot, bank_hash }))
            .collect();
        // If a hash is not computed yet, the next call finds it.
        let Some(events) = events else { return vec![] };
        self.root = root;
        events
    }

    /// Ends the session at `end_ns` on the node's clock, and writes it in short.
    ///
    /// # Errors
    /// A file cannot be written: there is no session then.
    pub fn end(mut self, end_ns: u64) -> Result<SessionTotals, CaptureError> {
        let path = self.folder.join(UNFINISHED);
        // What comes between the last step and the end of the tap is no part of it, and no recorded root depends on it.
        let ended = self.step().and_then(|_| {
            self.tap.end();
            let dropped = self.tap.dropped();
            self.writer.end(end_ns, dropped)
        });
        let ended = ended.and_then(|file| {
            drop(file);
            fs::read(&path)
        });
        let bytes = ended.map_err(|source| CaptureError::Io { action: "write", path: path.clone(), source })?;
        let session = sets::read(&bytes);
        drop(bytes);
        let session = session.map_err(|why| CaptureError::Format { path: path.clone(), why })?;
        let events = sets::shorten(session.events);
        // Until it is whole it does not have its name.
        let (shortened, whole) = (self.folder.join(SHORTENED), self.folder.join(SESSION));
        let bytes = write_whole(&shortened, &session.header, &events, (end_ns, session.dropped))
            .and_then(|bytes| fs::rename(&shortened, &whole).map(|()| bytes))
            .and_then(|bytes| fs::remove_file(&path).map(|()| bytes))
            .map_err(|source| CaptureError::Io { action: "write", path: whole, source })?;
        let count = |is: fn(&StoredEvent) -> bool| events.iter().filter(|event| is(event)).count();
        let left_out = count(|event| matches!(event, StoredEvent::Shred(_)));
        Ok(SessionTotals {
            packets: left_out + count(|event| matches!(event, StoredEvent::Event(SessionEvent::Packet(_)))),
            left_out,
            rooted: count(|event| matches!(event, StoredEvent::Event(SessionEvent::Rooted { .. }))),
            dropped: session.dropped,
            bytes,
        })
    }
}

/// Gives a recording up, and the room on the disk back.
fn abandon(folder: &Path, tap: &Tap) {
    tap.end();
    // It is reported that there is no session; a file that cannot be removed either has no end, and is refused.
    for name in [UNFINISHED, SHORTENED, SESSION] {
        let _ = fs::remove_file(folder.join(name));
    }
}

/// Writes a session to a file that is synced. Returns its bytes.
fn write_whole(
    path: &Path,
    header: &SessionHeader,
    events: &[StoredEvent],
    (end_ns, dropped): (u64, u64),
) -> io::Result<u64> {
    let mut writer = SessionWriter::new(BufWriter::new(create_private(path)?), header, folder::LEVEL)?;
    for event in events {
        writer.add_stored(event)?;
    }
    let mut file = writer.end(end_ns, dropped)?;
    file.flush()?;
    file.get_ref().sync_all()?;
    Ok(file.get_ref().metadata()?.len())
}

/// The recording of a running node: a thread with a [`Recorder`], which ends when this is dropped.
pub struct Capture {
    recording: Recording,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// Records on a thread of its own, until a limit is reached or this is dropped. `clock` is the node's.
    ///
    /// # Errors
    /// The file cannot be made, or no thread be started.
    pub fn start(
        folder: &Path,
        header: SessionHeader,
        ledger: Arc<Ledger>,
        limits: Limits,
        clock: Clock,
    ) -> Result<Self, CaptureError> {
        let tap = Tap::default();
        let recording = Recording { seed: header.seed, tap: Some(tap.clone()) };
        let recorder = Recorder::begin(folder, &header, tap, ledger, limits)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&is_over);
        let thread = std::thread::Builder::new().name("capture".into());
        let thread = thread.spawn(move || record(recorder, &stopped, &clock));
        let failed = |source| CaptureError::Io { action: "write", path: folder.to_owned(), source };
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { recording, is_over, thread })
    }

    /// The part of it that the node's tiles need.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there has been reported, and the node does not depend on it.
            let _ = thread.join();
        }
    }
}

fn record(mut recorder: Recorder, is_over: &AtomicBool, clock: &Clock) {
    let folder = recorder.folder.clone();
    let tap = recorder.tap.clone();
    loop {
        match recorder.step() {
            Ok(false) if !is_over.load(Relaxed) => std::thread::park_timeout(EVERY),
            Ok(_) => break,
            Err(why) => {
                tracing::warn!("the session is not recorded any more, and {} has none: {why}", folder.display());
                return abandon(&folder, &tap);
            }
        }
    }
    match recorder.end(clock.now()) {
        Ok(totals) => {
            let SessionTotals { packets, left_out, rooted, dropped, bytes } = totals;
            tracing::info!(
                "the session in {} has {packets} packets, of which {left_out} are stored in short, {rooted} rooted \
                 blocks and {bytes} bytes",
                folder.display()
            );
            if dropped > 0 {
                tracing::warn!("the session in {} lacks {dropped} packets: it cannot be replayed", folder.display());
            }
        }
        Err(why) => {
            tracing::warn!("the session is not recorded, and {} has none: {why}", folder.display());
            abandon(&folder, &tap);
        }
    }
}

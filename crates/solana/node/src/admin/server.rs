//! Serves the admin socket on a thread of its own.
//!
//! reads   connections to `admin.rpc` in the ledger folder
//! writes  answers; the socket's file, of mode 0600, which goes when the server is dropped
//! memory  [`CALLS_MAX`] connections, a line each
//! drops   the connection that has been silent the longest where one more comes; one that does not read its answers

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_tile::sys::event::{EventFd, wait_readable};

use super::{AdminError, AdminState, LINE_MAX, SOCKET_NAME, ShortPath, too_long};

/// Connections that are served concurrently.
pub const CALLS_MAX: usize = 16;
/// Reads of one connection before the others get their turn.
const READS_MAX: usize = 4;
const CHUNK_BYTES: usize = 4096;
/// Retry interval if accept fails: the process may be out of file descriptors.
const TRY_EVERY: Duration = Duration::from_millis(20);
/// The thread checks for a stop at least this often; a stop also wakes it.
const SLEEP_MAX_NS: u64 = 60_000_000_000;

/// A running server; dropping it stops it.
pub struct AdminServer {
    stop: Arc<(AtomicBool, EventFd)>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

impl AdminServer {
    /// Serves the socket in `folder`, which is created if it is not there. A socket that a killed node has left is
    /// replaced.
    ///
    /// # Errors
    ///
    /// Another node listens there, or the system refuses.
    pub fn start(folder: &Path, state: Arc<AdminState>) -> Result<Self, AdminError> {
        let path = folder.join(SOCKET_NAME);
        Self::serving(folder, state).map_err(|source| AdminError::Listen { path, source })
    }

    fn serving(folder: &Path, state: Arc<AdminState>) -> io::Result<Self> {
        let path = folder.join(SOCKET_NAME);
        fs::create_dir_all(folder)?;
        if UnixStream::connect(ShortPath::to(folder)?.join(SOCKET_NAME)).is_ok() {
            return Err(io::Error::new(ErrorKind::AddrInUse, "another node serves it"));
        }
        let stop = Arc::new((AtomicBool::new(false), EventFd::new()?));
        let listener = listen(folder, &path)?;
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("admin".into()).spawn(move || serve(&listener, &state, &stopped));
        match thread {
            Ok(thread) => Ok(Self { stop, thread: Some(thread), path }),
            Err(why) => {
                // Nobody serves it.
                let _ = fs::remove_file(&path);
                Err(why)
            }
        }
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        let (stop, wake) = &*self.stop;
        stop.store(true, SeqCst);
        wake.signal();
        self.thread.take().map(JoinHandle::join);
        // What is left is replaced by the next node.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens at `path`. The socket is made in a folder that nobody else may enter and then moved, so that at no moment
/// anybody else can connect.
fn listen(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    let making = folder.join("admin.new");
    if making.exists() {
        fs::remove_dir_all(&making)?;
    }
    DirBuilder::new().mode(0o700).create(&making)?;
    let made = listen_in(&making, path);
    let removed = fs::remove_dir_all(&making);
    made.and_then(|listener| removed.map(|()| listener))
}

fn listen_in(making: &Path, path: &Path) -> io::Result<UnixListener> {
    let new = making.join("rpc");
    let listener = UnixListener::bind(ShortPath::to(making)?.join("rpc"))?;
    fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    fs::rename(&new, path)?;
    Ok(listener)
}

fn serve(listener: &UnixListener, state: &AdminState, (stopped, woken): &(AtomicBool, EventFd)) {
    let mut calls: Vec<Call> = vec![];
    while !stopped.load(SeqCst) {
        let can_take = take(listener, &mut calls);
        calls.retain_mut(|call| call.turn(state));
        if can_take {
            let heard = calls.iter().map(|call| call.stream.as_raw_fd());
            let descriptors: Vec<RawFd> = std::iter::once(listener.as_raw_fd()).chain(heard).collect();
            wait_readable(woken, &descriptors, SLEEP_MAX_NS);
        } else {
            std::thread::sleep(TRY_EVERY);
        }
    }
}

/// Accepts connections. Returns false if that fails.
fn take(listener: &UnixListener, calls: &mut Vec<Call>) -> bool {
    // Those that are open get their turn in between.
    for _ in 0..CALLS_MAX {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(why) => return why.kind() == ErrorKind::WouldBlock,
        };
        if calls.len() >= CALLS_MAX {
            let silent = calls.iter().enumerate().min_by_key(|(_, call)| call.heard).map(|(at, _)| at);
            silent.map(|at| calls.remove(at));
        }
        if stream.set_nonblocking(true).is_ok() {
            calls.push(Call { stream, unread: vec![], heard: Instant::now() });
        }
    }
    true
}

/// A connection. Nothing here blocks: one thread serves all.
struct Call {
    stream: UnixStream,
    /// The beginning of a line.
    unread: Vec<u8>,
    /// When the last bytes came.
    heard: Instant,
}

impl Call {
    /// Answers what has come. Returns whether the connection stays open.
    fn turn(&mut self, state: &AdminState) -> bool {
        let mut chunk = [0; CHUNK_BYTES];
        for _ in 0..READS_MAX {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(size) => {
                    self.heard = Instant::now();
                    self.unread.extend_from_slice(&chunk[..size]);
                    if !self.answer_lines(state) {
                        return false;
                    }
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => return true,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Answers the whole lines. Returns whether the connection stays open.
    fn answer_lines(&mut self, state: &AdminState) -> bool {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let reply = state.answer(line);
            let is_sent = self.stream.write_all(reply.line.as_bytes()).is_ok();
            if reply.ends_node {
                state.end_node();
            }
            if !is_sent {
                return false;
            }
        }
        if self.unread.len() <= LINE_MAX {
            return true;
        }
        // It may not read that either.
        let _ = self.stream.write_all(too_long().line.as_bytes());
        false
    }
}

//! The server of an application: a thread that accepts, and one per connection.
//!
//! reads   frames from CometBFT's connections
//! writes  an answer for each request, in order; sent at a flush, as the protocol says, or when the buffer is full
//! memory  two buffers and the current frame (see [`crate::frame`]) per connection; connections are bounded
//! drops   connections beyond the bound, and those with a bad frame: closed and counted
//! source  CometBFT's `spec/abci/abci++_client_server.md`

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::address::{Address, Listener, Stream};
use crate::application::{Application, Exception, answer};
use crate::frame::{self, FrameError};
use crate::request::{Request, Value};
use crate::response::{self, Response};

/// Each connection's, for either direction.
const BUFFER_BYTES: usize = 64 << 10;
/// A buffer for answers that one great answer has blown up is given back.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// Between two tries to accept, where the first has failed.
const PAUSE: Duration = Duration::from_millis(20);

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a frame. CometBFT's blocks have at most 100 MiB.
    pub frame_bytes_max: u64,
    /// Maximum number of connections. CometBFT opens four.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { frame_bytes_max: 112 << 20, connections_max: 16 }
    }
}

/// Event counters of a server.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Connections that were one too many.
    pub connections_refused: AtomicU64,
    /// Requests answered, flushes too.
    pub requests: AtomicU64,
    /// Connections closed because of an invalid frame.
    pub frames_bad: AtomicU64,
    /// Connections closed because of a fatal error of the application.
    pub exceptions: AtomicU64,
}

struct Shared {
    application: Arc<dyn Application>,
    limits: Limits,
    counters: Counters,
    stopping: AtomicBool,
    open: Mutex<HashMap<u64, ServedConnection>>,
}

/// A connection that is being served.
struct ServedConnection {
    stream: Stream,
    thread: Option<JoinHandle<()>>,
}

impl Shared {
    /// No code panics under this lock, and the guarded map is always consistent.
    fn open(&self) -> MutexGuard<'_, HashMap<u64, ServedConnection>> {
        self.open.lock()
    }
}

/// A running server; stops when dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: Address,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `address`, and serves `application` on threads of its own.
    pub fn start(address: &Address, application: Arc<dyn Application>, limits: Limits) -> io::Result<Self> {
        let listener = address.listen()?;
        let address = listener.address()?;
        let (counters, stopping, open) = Default::default();
        let shared = Arc::new(Shared { application, limits, counters, stopping, open });
        let accepting = Arc::clone(&shared);
        let accepting = thread::Builder::new().name("abci".into()).spawn(move || accept(&accepting, &listener))?;
        Ok(Self { shared, address, accepting: Some(accepting) })
    }

    /// The address on which it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Counters of connections and requests.
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.open().len()
    }

    /// Closes all connections, and waits for answers in progress.
    pub fn stop(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.shared.stopping.store(true, Ordering::SeqCst);
        // The accepting thread blocks until a connection arrives, so make one. If that fails, do not join the thread.
        if self.address.connect().is_ok() {
            let _ = accepting.join();
        }
        let open: Vec<ServedConnection> = self.shared.open().drain().map(|(_, open)| open).collect();
        open.iter().for_each(|open| open.stream.shutdown());
        for thread in open.into_iter().filter_map(|open| open.thread) {
            let _ = thread.join();
        }
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(shared: &Arc<Shared>, listener: &Listener) {
    for number in 0.. {
        let stream = match listener.accept() {
            Ok(stream) => stream,
            Err(_) if shared.stopping.load(Ordering::SeqCst) => return,
            // The peer disconnected meanwhile, or file descriptors ran out: the next call repeats an error that
            // persists.
            Err(_) => {
                shared.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
                thread::sleep(PAUSE);
                continue;
            }
        };
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        if shared.open().len() >= shared.limits.connections_max || begin(shared, number, stream).is_err() {
            shared.counters.connections_refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Serves a connection on its own thread.
fn begin(shared: &Arc<Shared>, number: u64, stream: Stream) -> io::Result<()> {
    let kept = stream.try_clone()?;
    // Before the thread runs: it takes its own entry away.
    shared.open().insert(number, ServedConnection { stream: kept, thread: None });
    let serving = Arc::clone(shared);
    let spawned = thread::Builder::new().name(format!("abci {number}")).spawn(move || {
        let leaving = ConnectionGuard { shared: &serving, number };
        serve(&serving, stream);
        drop(leaving);
    });
    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
    match spawned {
        Ok(thread) => {
            if let Some(open) = shared.open().get_mut(&number) {
                open.thread = Some(thread);
            }
            Ok(())
        }
        Err(error) => {
            shared.open().remove(&number);
            Err(error)
        }
    }
}

/// Takes a connection off the list and closes it, also when its thread panics: CometBFT stops then.
struct ConnectionGuard<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.shared.open().remove(&self.number) {
            open.stream.shutdown();
        }
    }
}

fn serve(shared: &Shared, stream: Stream) {
    match serve_until_end(shared, stream) {
        Ok(()) => {}
        Err(FrameError::Io(error)) => tracing::debug!(%error, "a connection of CometBFT's ended"),
        Err(error) => {
            shared.counters.frames_bad.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, "a connection was closed");
        }
    }
}

fn serve_until_end(shared: &Shared, stream: Stream) -> Result<(), FrameError> {
    let mut to = stream.try_clone()?;
    let mut from = BufReader::with_capacity(BUFFER_BYTES, stream);
    let mut out = Vec::with_capacity(BUFFER_BYTES);
    while let Some(request) = frame::read_message::<Request>(&mut from, shared.limits.frame_bytes_max)? {
        let flush = matches!(request.value, Some(Value::Flush(_)));
        let unknown = || Exception("a request that ABCI 2.0 does not have".into());
        let result = request.value.ok_or_else(unknown).and_then(|value| answer(&*shared.application, value));
        let failed = result.is_err();
        let value = result.unwrap_or_else(|why| response::Value::Exception(response::Exception { error: why.0 }));
        frame::append(&Response { value: Some(value) }, &mut out);
        shared.counters.requests.fetch_add(1, Ordering::Relaxed);
        if flush || failed || out.len() >= BUFFER_BYTES {
            to.write_all(&out)?;
            out.clear();
            out.shrink_to(BUFFER_BYTES_KEPT);
        }
        if failed {
            shared.counters.exceptions.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
    }
    Ok(())
}

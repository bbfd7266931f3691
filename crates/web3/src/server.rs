//! The server: one socket for HTTP and WebSocket, threads, connections and their end.
//!
//! reads   connections
//! writes  nothing itself
//! memory  a task a connection, and 64 KiB of HTTP buffer each at most; as many as [`Limits`](crate::Limits) says
//! drops   connections over the limit: told so (503) and closed at once, counted
//!
//! The threads are those of a tokio runtime that nothing else uses. They sleep in the kernel while nobody asks.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hearth_evm::chain::Chain;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::config::Config;
use crate::counters::{Counters, count};
use crate::http;
use crate::methods::Api;

/// Threads that answer. What takes long runs on others: see [`heavy`](crate::heavy).
const THREADS: usize = 2;
/// Bytes of a thread's stack: a burst of signatures is worked on in arrays there.
pub const STACK_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of a request's head, and of what is buffered of an answer.
const HTTP_BUFFER_BYTES: usize = 64 * 1024;
/// How long answers under way may take once the server is to stop.
const LAST_ANSWERS: Duration = Duration::from_millis(400);
/// How long the threads may take to end after that.
const LAST_TASKS: Duration = Duration::from_millis(400);
/// Wait after a connection could not be taken for want of files.
const NO_FILES_WAIT: Duration = Duration::from_millis(50);

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is taken.
    #[error(
        "Web3 cannot listen on {0}: the port is in use. Stop the other program (`ss -ltnp` names it), or choose \
         another port"
    )]
    PortInUse(SocketAddr),
    /// Another reason not to listen.
    #[error("Web3 cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// No threads.
    #[error("cannot start Web3's threads: {0}")]
    Threads(io::Error),
    /// A dev account's key is none.
    #[error("the key of dev account {0} is no secp256k1 key")]
    Account(usize),
}

/// A running server; dropping it stops it.
pub struct Server {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    running: Option<mpsc::Receiver<()>>,
    api: Arc<Api>,
    address: SocketAddr,
}

/// Listens, and answers for `chain` until it is stopped.
pub fn serve(config: Config, chain: Chain) -> Result<Server, ServeError> {
    let (listener, address) = listen(config.address)?;
    let api = Api::new(config, chain)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("web3")
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(ServeError::Threads)?;
    let (stop, stopped) = watch::channel(false);
    let (alive, running) = mpsc::channel(1);
    let host = Host { api: Arc::clone(&api), stopped, alive };
    let _entered = runtime.enter();
    let listener = tokio::net::TcpListener::from_std(listener).map_err(ServeError::Threads)?;
    runtime.spawn(host.accept(listener));
    api.start(stop.subscribe()).map_err(ServeError::Threads)?;
    Ok(Server { runtime: Some(runtime), stop, running: Some(running), api, address })
}

impl Server {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What has been counted.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.api.counters)
    }

    /// Takes no more requests, ends those under way, closes every connection; within a second.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let (Some(runtime), Some(mut running)) = (self.runtime.take(), self.running.take()) else { return };
        self.stop.send_replace(true);
        runtime.block_on(async {
            // Nobody sends: the channel closes when the last connection has ended.
            let _ = tokio::time::timeout(LAST_ANSWERS, running.recv()).await;
        });
        runtime.shutdown_timeout(LAST_TASKS);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listener = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listener().map_err(|why: io::Error| match why.kind() {
        io::ErrorKind::AddrInUse => ServeError::PortInUse(address),
        _ => ServeError::Listen(address, why),
    })
}

/// What every connection needs.
#[derive(Clone)]
struct Host {
    api: Arc<Api>,
    stopped: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
}

/// One open connection: its place among those allowed, given back when the last holder is gone.
pub struct Connection {
    /// Becomes true when the server stops.
    pub stopped: watch::Receiver<bool>,
    counters: Arc<Counters>,
    _place: tokio::sync::OwnedSemaphorePermit,
    _alive: mpsc::Sender<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.counters.connections_open.fetch_sub(1, Relaxed);
    }
}

impl Host {
    async fn accept(mut self, listener: tokio::net::TcpListener) {
        let places = Arc::new(Semaphore::new(self.api.config.limits.connections));
        let counters = Arc::clone(&self.api.counters);
        loop {
            let accepted = tokio::select! {
                _ = self.stopped.changed() => return,
                accepted = listener.accept() => accepted,
            };
            let (stream, peer) = match accepted {
                Ok((stream, peer)) => (stream, peer.ip()),
                // A client that is gone already is no reason to wait; a table of files that is full is.
                Err(error) if is_of_the_client(&error) => continue,
                Err(_) => {
                    count(&counters.accepts_failed);
                    tokio::time::sleep(NO_FILES_WAIT).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                count(&counters.connections_refused);
                refuse(stream);
                continue;
            };
            count(&counters.connections);
            count(&counters.connections_open);
            let connection = Connection {
                stopped: self.stopped.clone(),
                counters: Arc::clone(&counters),
                _place: place,
                _alive: self.alive.clone(),
            };
            tokio::spawn(self.clone().serve(stream, peer, connection));
        }
    }

    async fn serve(self, stream: TcpStream, peer: IpAddr, connection: Connection) {
        let patience = self.api.config.limits.patience;
        // Answers go out as they are. The kernel closes a connection whose client takes nothing for so long; without
        // these options the connection works, so their failure is not one.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(patience));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(HTTP_BUFFER_BYTES);
        let mut stopped = self.stopped;
        let connection = Arc::new(connection);
        let (api, held) = (self.api, Arc::clone(&connection));
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            http::handle(Arc::clone(&api), Arc::clone(&held), peer, request.map(Body::new))
        });
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
        // A client that breaks off or breaks the protocol has been answered by hyper as far as that goes.
        tokio::select! {
            _ = serving.as_mut() => return,
            _ = stopped.changed() => {}
        }
        serving.as_mut().graceful_shutdown();
        let _ = serving.await;
        drop(connection);
    }
}

/// Tells a client that it is one too many, with what the kernel takes at once.
fn refuse(stream: TcpStream) {
    const WHY: &str = "too many connections are open: try again, or keep one and ask over it\n";
    let Ok(mut stream) = stream.into_std() else { return };
    // What was asked already is read: unread, it would turn the end into a reset, which overtakes the answer. One who
    // is gone needs none.
    let _ = stream.read(&mut [0; 4096]);
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Retry-After: 1\r\nConnection: close\r\n\r\n{WHY}",
        WHY.len()
    );
    let _ = stream.write(answer.as_bytes());
}

/// Whether a connection could not be taken because of what its client did.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

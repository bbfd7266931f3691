//! The server: two sockets, two threads, connections and their end.
//!
//! reads   connections on the HTTP and the WebSocket address
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
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::config::{RpcConfig, RpcNode};
use crate::counters::{Counters, Open, count};
use crate::methods::Api;
use crate::subscriptions::Hub;
use crate::{http, websocket};

/// Threads that answer. Answers take microseconds: two are there so that a long one does not hold up the others.
const THREADS: usize = 2;
/// Bytes of a request's head, and of what is buffered of an answer.
const HTTP_BUFFER_BYTES: usize = 64 * 1024;
/// How long answers under way may take once the server is to stop.
const LAST_ANSWERS: Duration = Duration::from_millis(400);
/// How long the threads may take to end after that.
const LAST_TASKS: Duration = Duration::from_millis(400);
/// Wait after a connection could not be taken for want of files.
const NO_FILES_WAIT: Duration = Duration::from_millis(50);

/// Why the RPC does not start.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The port is taken.
    #[error(
        "the RPC cannot listen on {address} for {what}: the port is in use. Stop the other program (`ss -ltnp` names \
         it), or choose another port ([rpc] port: HTTP is there, WebSocket one above)"
    )]
    PortInUse {
        /// Where it should listen.
        address: SocketAddr,
        /// `HTTP` or `WebSocket`.
        what: &'static str,
    },
    /// Another reason not to listen.
    #[error("the RPC cannot listen on {address} for {what}: {source}")]
    Listen {
        /// Where it should listen.
        address: SocketAddr,
        /// `HTTP` or `WebSocket`.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// HTTP has the highest port there is.
    #[error("the RPC's port is 65535 and WebSocket needs the one above: choose a lower [rpc] port")]
    NoPortAbove,
    /// No threads.
    #[error("cannot start the RPC's threads: {0}")]
    Threads(io::Error),
}

/// A running server; dropping it stops it.
pub struct RpcServer {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    running: Option<mpsc::Receiver<()>>,
    counters: Arc<Counters>,
    http: SocketAddr,
    websocket: SocketAddr,
}

impl RpcServer {
    /// Listens, and answers for `node` until it is stopped.
    pub fn start(config: RpcConfig, node: RpcNode) -> Result<Self, RpcError> {
        if config.http.port() == u16::MAX && config.websocket.port() == 0 {
            return Err(RpcError::NoPortAbove);
        }
        let (http_listener, http) = listen(config.http, "HTTP")?;
        let (websocket_listener, websocket) = listen(config.websocket, "WebSocket")?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("rpc")
            .enable_all()
            .build()
            .map_err(RpcError::Threads)?;
        let api = Arc::new(Api::new(node, config.limits, reachable(http), reachable(websocket)));
        let hub = Hub::new(&api);
        let counters = Arc::clone(&api.counters);
        counters.http_port().store(http.port().into(), Relaxed);
        let (stop, stopped) = watch::channel(false);
        let (alive, running) = mpsc::channel(1);
        let host = Host { api: Arc::clone(&api), hub: Arc::clone(&hub), stopped, alive };
        let _entered = runtime.enter();
        let failed = |source| RpcError::Threads(source);
        let http_listener = tokio::net::TcpListener::from_std(http_listener).map_err(failed)?;
        let websocket_listener = tokio::net::TcpListener::from_std(websocket_listener).map_err(failed)?;
        runtime.spawn(host.clone().accept(http_listener, config.limits.http_connections, Protocol::Http));
        runtime.spawn(host.accept(websocket_listener, config.limits.websocket_connections, Protocol::WebSocket));
        runtime.spawn(hub.watch());
        let (watching, until) = (Arc::clone(&api), stop.subscribe());
        runtime.spawn(async move {
            if let Some(live) = &watching.live {
                live.watch(&watching.counters, until).await;
            }
        });
        runtime.spawn(api.resend_all());
        Ok(Self { runtime: Some(runtime), stop, running: Some(running), counters, http, websocket })
    }

    /// Where HTTP is served.
    pub fn local_addr(&self) -> SocketAddr {
        self.http
    }

    /// Where WebSocket is served.
    pub fn websocket_addr(&self) -> SocketAddr {
        self.websocket
    }

    /// What has been counted.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
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

impl Drop for RpcServer {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(address: SocketAddr, what: &'static str) -> Result<(TcpListener, SocketAddr), RpcError> {
    let listener = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listener().map_err(|source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => RpcError::PortInUse { address, what },
        _ => RpcError::Listen { address, what, source },
    })
}

/// An address to connect to: who listens on all addresses is reached on loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], v4.port())),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, v6.port())),
        address => address,
    }
}

#[derive(Clone, Copy)]
enum Protocol {
    Http,
    WebSocket,
}

/// What every connection needs.
#[derive(Clone)]
struct Host {
    api: Arc<Api>,
    hub: Arc<Hub>,
    stopped: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
}

/// One open connection: its place among those allowed, given back when the last holder is gone.
pub struct Connection {
    /// Becomes true when the server stops.
    pub stopped: watch::Receiver<bool>,
    _place: tokio::sync::OwnedSemaphorePermit,
    _open: Open<Arc<Counters>>,
    _alive: mpsc::Sender<()>,
}

impl Host {
    async fn accept(mut self, listener: tokio::net::TcpListener, connections_max: usize, protocol: Protocol) {
        let places = Arc::new(Semaphore::new(connections_max));
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
                    count(counters.accepts_failed());
                    tokio::time::sleep(NO_FILES_WAIT).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                count(counters.connections_refused());
                refuse(stream);
                continue;
            };
            count(counters.connections());
            let connection = Connection {
                stopped: self.stopped.clone(),
                _place: place,
                _open: Open::new(Arc::clone(&counters), |counters| counters.connections_open()),
                _alive: self.alive.clone(),
            };
            tokio::spawn(self.clone().serve(stream, peer, connection, protocol));
        }
    }

    async fn serve(self, stream: TcpStream, peer: IpAddr, connection: Connection, protocol: Protocol) {
        let patience = self.api.limits.patience;
        // Answers go out as they are. The kernel closes a connection whose client takes nothing for so long; without
        // these options the connection works, so their failure is not one.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&stream).set_tcp_user_timeout(Some(patience));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(HTTP_BUFFER_BYTES);
        let mut stopped = self.stopped;
        let connection = Arc::new(connection);
        let (api, hub, held) = (self.api, self.hub, Arc::clone(&connection));
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let request = request.map(Body::new);
            let (api, hub, held) = (Arc::clone(&api), Arc::clone(&hub), Arc::clone(&held));
            async move {
                match protocol {
                    Protocol::Http => http::handle(api, peer, request).await,
                    Protocol::WebSocket => websocket::handle(api, hub, held, peer, request).await,
                }
            }
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

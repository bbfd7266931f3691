//! The server: sockets, threads, connections and their end.
//!
//! reads   connections
//! writes  nothing itself
//! memory  one task per connection, and 64 KiB of HTTP buffer each at most; bounded by [`Bounds`]
//! drops   the longest idle connection if a new one needs its place; a new one if none is idle, with a 503. Both are
//!         counted
//!
//! The threads belong to a tokio runtime that nothing else uses. They sleep in the kernel while there are no requests.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};

use crate::connection_slots::{ConnectionSlot, ConnectionSlots, SlotGrant};
use crate::counters::{CountedEvent, Counts, OpenGuard, count};
use crate::stream::{Answer, Answers, IncomingBody, Stream};

/// Threads that answer. Answers take microseconds: two are there so that a long one does not hold up the others.
const THREADS: usize = 2;
/// Maximum bytes of a request's head, and of a response's buffered part.
const HTTP_BUFFER_BYTES: usize = 64 * 1024;
/// How long answers under way may take once the server is to stop.
const LAST_ANSWERS: Duration = Duration::from_millis(400);
/// How long the threads may take to end after that.
const LAST_TASKS: Duration = Duration::from_millis(400);
/// Wait after a connection could not be taken for want of files.
const NO_FILES_WAIT: Duration = Duration::from_millis(50);

/// A socket that listens, and where.
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens; port 0 lets the system choose.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        Self::of(TcpListener::bind(address)?)
    }

    /// A socket that listens already.
    pub fn of(socket: TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address })
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Connection limits of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Open connections; for one more the longest idle one is closed, or it gets a 503 if all are busy.
    pub connections: usize,
    /// Open connections of one address; 0 is no limit.
    pub connections_per_address: usize,
    /// How long a client may take to send a request's head or to take an answer.
    pub patience: Duration,
}

/// Answers the requests of connections.
pub trait Service: Clone + Send + Sync + 'static {
    /// The answer to one.
    fn answer(
        &self,
        request: Request<Body>,
        connection: &Arc<Connection>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Threads that serve; dropping it stops them.
pub struct Server {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    /// Held by every connection too, so that the last to end is known.
    alive: Option<mpsc::Sender<()>>,
    running: mpsc::Receiver<()>,
}

impl Server {
    /// Starts threads of this name, each with a stack of `stack_bytes`, or of the system's default size.
    pub fn start(name: &str, stack_bytes: Option<usize>) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name(name).enable_all();
        if let Some(bytes) = stack_bytes {
            builder.thread_stack_size(bytes);
        }
        let (alive, running) = mpsc::channel(1);
        Ok(Self { runtime: Some(builder.build()?), stop: watch::channel(false).0, alive: Some(alive), running })
    }

    /// Becomes true when the server stops.
    pub fn stopped(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Runs `task` along with the connections, at most until the server stops.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// Serves the connections of `listener` with `service`.
    pub fn accept<S: Service>(
        &self,
        listener: Listener,
        bounds: Bounds,
        counters: Arc<dyn Counts>,
        service: S,
    ) -> io::Result<()> {
        let (Some(runtime), Some(alive)) = (&self.runtime, &self.alive) else { return Ok(()) };
        let _entered = runtime.enter();
        let socket = tokio::net::TcpListener::from_std(listener.socket)?;
        let host = Host { service, bounds, counters, stopped: self.stopped(), alive: alive.clone() };
        runtime.spawn(host.accept(socket));
        Ok(())
    }

    /// Takes no more requests, ends those under way, closes every connection; within a second.
    pub fn stop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        self.stop.send_replace(true);
        self.alive = None;
        runtime.block_on(async {
            // No message is ever sent: the channel closes when the last connection has ended.
            let _ = tokio::time::timeout(LAST_ANSWERS, self.running.recv()).await;
        });
        runtime.shutdown_timeout(LAST_TASKS);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Shared state of a listener's connections.
#[derive(Clone)]
struct Host<S> {
    service: S,
    bounds: Bounds,
    counters: Arc<dyn Counts>,
    stopped: watch::Receiver<bool>,
    alive: mpsc::Sender<()>,
}

/// One open connection; its place among those allowed is given back when the last holder is gone.
pub struct Connection {
    /// Address of the client.
    pub peer: IpAddr,
    /// Becomes true when the server stops.
    pub stopped: watch::Receiver<bool>,
    pub(crate) counters: Arc<dyn Counts>,
    pub(crate) place: Arc<ConnectionSlot>,
    _open: OpenGuard,
    _alive: mpsc::Sender<()>,
}

impl<S: Service> Host<S> {
    async fn accept(mut self, listener: tokio::net::TcpListener) {
        let places = ConnectionSlots::new(self.bounds.connections, self.bounds.connections_per_address);
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
                    count(self.counters.word(CountedEvent::AcceptsFailed));
                    tokio::time::sleep(NO_FILES_WAIT).await;
                    continue;
                }
            };
            let stream = Arc::new(stream);
            let Some(SlotGrant { place, for_another }) = places.enter(peer, &stream) else {
                count(self.counters.word(CountedEvent::ConnectionsRefused));
                refuse(&stream);
                continue;
            };
            if for_another {
                count(self.counters.word(CountedEvent::ConnectionsIdleClosed));
            }
            count(self.counters.word(CountedEvent::Connections));
            let connection = Connection {
                peer,
                stopped: self.stopped.clone(),
                counters: Arc::clone(&self.counters),
                place: Arc::new(place),
                _open: OpenGuard::new(Arc::clone(&self.counters), CountedEvent::ConnectionsOpen),
                _alive: self.alive.clone(),
            };
            tokio::spawn(self.clone().serve(stream, connection));
        }
    }

    async fn serve(self, stream: Arc<TcpStream>, connection: Connection) {
        let patience = self.bounds.patience;
        // Send answers without delay. The kernel closes a connection whose client takes nothing for too long; the
        // connection works without these options, so their failure is not an error.
        let _ = stream.set_nodelay(true);
        let _ = socket2::SockRef::from(&*stream).set_tcp_user_timeout(Some(patience));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(HTTP_BUFFER_BYTES);
        let mut stopped = self.stopped;
        let connection = Arc::new(connection);
        let answers = Arc::new(Answers::default());
        let stream = Stream::new(stream, Arc::clone(&connection.place), Arc::clone(&answers));
        let (service, held) = (self.service, Arc::clone(&connection));
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let (service, held) = (service.clone(), Arc::clone(&held));
            let answer = Answer::begin(&held.place, &answers);
            async move {
                let request = request.map(|body| IncomingBody::track(Body::new(body), Arc::clone(&held.place)));
                let response = service.answer(request, &held).await;
                Ok::<_, Infallible>(response.map(|body| answer.with(body)))
            }
        });
        let mut serving = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
        // A client that breaks off or breaks the protocol has been answered by hyper as far as that goes.
        tokio::select! {
            _ = serving.as_mut() => return,
            () = connection.place.given_up() => {
                // A request that came at the last moment has its answer below.
                if !connection.place.is_busy() {
                    return;
                }
            }
            _ = stopped.changed() => {}
        }
        serving.as_mut().graceful_shutdown();
        tokio::select! {
            _ = serving.as_mut() => {}
            // It has no place, and the rest of its last request is missing.
            () = connection.place.given_up() => {}
        }
        drop(connection);
    }
}

/// Sends a 503 to an excess client, as far as the kernel takes it at once.
fn refuse(stream: &TcpStream) {
    const WHY: &str = "too many connections are open: try again, or keep one and ask over it\n";
    // Read pending requests first: unread data would turn the close into a reset, which overtakes the answer. A client
    // that is gone needs none.
    let socket = socket2::SockRef::from(stream);
    let mut stream = &*socket;
    let _ = stream.read(&mut [0; 4096]);
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Retry-After: 1\r\nConnection: close\r\n\r\n{WHY}",
        WHY.len()
    );
    let _ = stream.write(answer.as_bytes());
}

/// Whether accepting failed because of the client's behaviour.
fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

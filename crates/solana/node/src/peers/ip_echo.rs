//! The IP echo server: tells callers their public address and the shred version.
//!
//! reads   requests of 21 bytes over TCP, at the port of gossip
//! writes  the caller's address and the shred version
//! memory  [`CALLS_MAX`] calls, four connections each
//! drops   callers that take longer than [`PATIENCE`] in total, invalid requests, and hosts that already have
//!         [`CALLS_PER_HOST_MAX`] calls: the connection is closed
//! source  `solana-net-utils` 4.2.2, `ip_echo_server.rs`; the limits on calls are our own

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hearth_tile::sys::event::{EventFd, wait_readable};
use hearth_tile::sys::tcp;
use hearth_wire::gossip::ip_echo::{ANSWER_SIZE, IpEchoAnswer, IpEchoRequest, REQUEST_SIZE};

/// Time limit for a whole call with its response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Calls that are served concurrently; further ones wait to be accepted.
const CALLS_MAX: usize = 16;
/// Concurrent calls per IP address, except from this host.
const CALLS_PER_HOST_MAX: usize = 2;
/// Polling interval while a call is being served. Without calls the thread sleeps.
const SERVE_EVERY: Duration = Duration::from_millis(2);

/// Retry interval if accept fails: the process may be out of file descriptors.
const TRY_EVERY: Duration = Duration::from_millis(20);
/// The thread checks for a stop at least this often; a stop also wakes it.
const SLEEP_MAX_NS: u64 = 60_000_000_000;

/// A running server; dropping it stops it.
pub struct EchoServer {
    stop: Arc<(AtomicBool, EventFd)>,
    thread: Option<JoinHandle<()>>,
}

impl EchoServer {
    /// Answers callers that connect to `listener`.
    pub fn start(listener: TcpListener, shred_version: u16) -> io::Result<Self> {
        Self::with_patience(listener, shred_version, PATIENCE)
    }

    fn with_patience(listener: TcpListener, shred_version: u16, patience: Duration) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let stop = Arc::new((AtomicBool::new(false), EventFd::new()?));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("ip-echo".into()).spawn(move || {
            let mut calls: Vec<Call> = vec![];
            let (stopped, woken) = &*stopped;
            while !stopped.load(SeqCst) {
                let can_take = take(&listener, &mut calls, patience);
                let now = Instant::now();
                // Callers that have gone are ignored.
                calls.retain_mut(|call| now < call.until && matches!(call.turn(shred_version), Ok(Turn::Waits)));
                if !calls.is_empty() {
                    std::thread::sleep(SERVE_EVERY);
                } else if can_take {
                    wait_readable(woken, &[listener.as_raw_fd()], SLEEP_MAX_NS);
                } else {
                    std::thread::sleep(TRY_EVERY);
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        let (stop, wake) = &*self.stop;
        stop.store(true, SeqCst);
        wake.signal();
        self.thread.take().map(JoinHandle::join);
    }
}

/// Accepts callers while there is room. Returns false if that fails.
fn take(listener: &TcpListener, calls: &mut Vec<Call>, patience: Duration) -> bool {
    for _ in calls.len()..CALLS_MAX {
        let (stream, from) = match listener.accept() {
            Ok(call) => call,
            Err(why) => return why.kind() == ErrorKind::WouldBlock,
        };
        let others = calls.iter().map(|call| call.from.ip());
        if may_call(from.ip(), others) && stream.set_nonblocking(true).is_ok() {
            calls.push(Call::new(stream, from, patience));
        }
    }
    true
}

/// Whether another call from an IP address may be served concurrently with these.
fn may_call(host: IpAddr, others: impl Iterator<Item = IpAddr>) -> bool {
    host.is_loopback() || others.filter(|other| *other == host).count() < CALLS_PER_HOST_MAX
}

/// The progress of a call.
enum Turn {
    Waits,
    Done,
}

/// A call. Nothing here blocks: one thread serves many.
struct Call {
    stream: TcpStream,
    from: SocketAddr,
    until: Instant,
    request: [u8; REQUEST_SIZE],
    /// Bytes of the request received so far.
    read: usize,
    /// Pending connections to the caller's ports; `None` until the request names them.
    tried: Option<Vec<TcpStream>>,
}

impl Call {
    fn new(stream: TcpStream, from: SocketAddr, patience: Duration) -> Self {
        Self { stream, from, until: Instant::now() + patience, request: [0; REQUEST_SIZE], read: 0, tried: None }
    }

    /// Makes as much progress as possible.
    ///
    /// # Errors
    ///
    /// There is no response: the caller is gone, or cannot be reached at its ports.
    fn turn(&mut self, shred_version: u16) -> io::Result<Turn> {
        while self.read < REQUEST_SIZE {
            match self.stream.read(&mut self.request[self.read..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(size) => self.read += size,
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(Turn::Waits),
                Err(why) => return Err(why),
            }
        }
        if self.tried.is_none() {
            let Ok(request) = IpEchoRequest::parse(&self.request) else { return Ok(Turn::Done) };
            self.tried = Some(self.reach(&request)?);
        }
        let Some(tried) = &mut self.tried else { return Ok(Turn::Waits) };
        while let Some(stream) = tried.last() {
            if !is_connected(stream)? {
                return Ok(Turn::Waits);
            }
            tried.pop();
        }
        let answer = IpEchoAnswer { address: self.from.ip(), shred_version: Some(shred_version) };
        self.stream.write_all(&answer.bytes())?;
        Ok(Turn::Done)
    }

    /// Sends to the caller's UDP ports, and starts to connect to its TCP ports.
    fn reach(&self, request: &IpEchoRequest) -> io::Result<Vec<TcpStream>> {
        let at = |port: &u16| SocketAddr::new(self.from.ip(), *port);
        for port in request.udp_ports.iter().filter(|port| **port != 0) {
            UdpSocket::bind((self.stream.local_addr()?.ip(), 0))?.send_to(&[0], at(port))?;
        }
        request.tcp_ports.iter().filter(|port| **port != 0).map(|port| tcp::connect(at(port))).collect()
    }
}

/// Whether a pending connection is established.
fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(why) = stream.take_error()? {
        return Err(why);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(why) if why.kind() == ErrorKind::NotConnected => Ok(false),
        Err(why) => Err(why),
    }
}

/// The shred version that the node at `entrypoint` reports, if any.
pub fn shred_version(entrypoint: SocketAddrV4) -> io::Result<Option<u16>> {
    let mut stream = TcpStream::connect_timeout(&entrypoint.into(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&IpEchoRequest { tcp_ports: [0; 4], udp_ports: [0; 4] }.bytes())?;
    let mut answer = [0; ANSWER_SIZE];
    stream.read_exact(&mut answer)?;
    let answer = IpEchoAnswer::parse(&answer).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    Ok(answer.shred_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A listener on this host, and its address.
    fn listen() -> (TcpListener, SocketAddrV4) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(address) = listener.local_addr().unwrap() else { unreachable!("an IPv4 address was bound") };
        (listener, address)
    }

    #[test]
    fn the_chain_is_reported() {
        let (listener, address) = listen();
        let server = EchoServer::start(listener, 4_711).unwrap();
        // An invalid call does not affect the next.
        TcpStream::connect(address).unwrap().write_all(&[9; REQUEST_SIZE]).unwrap();
        assert_eq!(shred_version(address).unwrap(), Some(4_711));
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let udp_ports = [own.local_addr().unwrap().port(), 0, 0, 0];
        stream.write_all(&IpEchoRequest { tcp_ports: [0; 4], udp_ports }.bytes()).unwrap();
        own.set_read_timeout(Some(hearth_testkit::PATIENCE)).unwrap();
        assert_eq!(own.recv(&mut [1; 9]).unwrap(), 1);
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn silent_callers_delay_no_other() {
        let (listener, address) = listen();
        // The time limit is longer than the test waits.
        let server = EchoServer::with_patience(listener, 4_711, 10 * hearth_testkit::PATIENCE).unwrap();
        let silent: Vec<TcpStream> = (0..CALLS_MAX - 2).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(shred_version(address).unwrap(), Some(4_711));
        let stopped = Instant::now();
        drop(server);
        assert!(stopped.elapsed() < hearth_testkit::PATIENCE, "{:?}", stopped.elapsed());
        drop(silent);
    }

    #[test]
    fn a_call_ends_with_its_time() {
        let (listener, address) = listen();
        let patience = Duration::from_secs(3);
        let _server = EchoServer::with_patience(listener, 4_711, patience).unwrap();
        let called = Instant::now();
        let mut silent: Vec<TcpStream> = (0..CALLS_MAX - 2).map(|_| TcpStream::connect(address).unwrap()).collect();
        // One byte per second does not extend the limit, and is not a request within it.
        let mut slow = TcpStream::connect(address).unwrap();
        slow.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let is_over = |why: &io::Error| !matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        loop {
            let sent = slow.write(&[0]);
            let over =
                sent.is_err_and(|why| is_over(&why)) || slow.read(&mut [0]).map_or_else(|why| is_over(&why), |_| true);
            assert!(called.elapsed() < hearth_testkit::PATIENCE, "it is still served");
            if over {
                break;
            }
        }
        assert!(called.elapsed() >= patience, "{:?}", called.elapsed());
        silent.iter_mut().for_each(|stream| assert_eq!(stream.read(&mut [0]).unwrap(), 0, "hung up on"));
    }

    #[test]
    fn an_answer_waits_for_the_ports_that_are_asked_about() {
        let (listener, address) = listen();
        let _server = EchoServer::start(listener, 4_711).unwrap();
        let call = |tcp_ports| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(hearth_testkit::PATIENCE)).unwrap();
            stream.write_all(&IpEchoRequest { tcp_ports, udp_ports: [0; 4] }.bytes()).unwrap();
            stream.read_exact(&mut [0; ANSWER_SIZE])
        };
        let open = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = open.local_addr().unwrap().port();
        assert!(call([port, 0, 0, port]).is_ok());
        let gone = listen().1.port();
        assert!(call([port, gone, 0, 0]).is_err(), "nobody is there");
    }

    #[test]
    fn an_address_calls_twice_at_once() {
        let [a, b, own] = ["10.0.0.1", "10.0.0.2", "127.0.0.1"].map(|host| host.parse::<IpAddr>().unwrap());
        assert!(may_call(a, [a, b, b].into_iter()) && may_call(own, [own; 9].into_iter()));
        assert!(!may_call(b, [a, b, b].into_iter()));
    }
}

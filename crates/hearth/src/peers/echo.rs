//! The IP echo server: who a caller is, and which chain this is.
//!
//! reads   requests of 21 bytes by TCP, at the port of gossip
//! writes  the caller's address and the shred version
//! memory  one connection at a time
//! drops   callers that say nothing for so long, and what is no request: the connection ends
//! source  `solana-net-utils` 4.2.2, `ip_echo_server.rs`

use std::io::{self, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

use hearth_wire::gossip::ip_echo::{ANSWER_SIZE, IpEchoAnswer, IpEchoRequest, REQUEST_SIZE};

/// How long a caller has, and an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A running server; dropping it stops it.
pub struct EchoServer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl EchoServer {
    /// Listens at `address`.
    pub fn start(address: SocketAddrV4, shred_version: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("ip-echo".into()).spawn(move || {
            while !stopped.load(SeqCst) {
                match listener.accept() {
                    // A caller that is gone is no matter.
                    Ok((stream, from)) => drop(serve(stream, from, shred_version)),
                    Err(_) => std::thread::sleep(LOOK_EVERY),
                }
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.thread.take().map(JoinHandle::join);
    }
}

fn serve(mut stream: TcpStream, from: SocketAddr, shred_version: u16) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = [0; REQUEST_SIZE];
    stream.read_exact(&mut request)?;
    let Ok(request) = IpEchoRequest::parse(&request) else { return Ok(()) };
    let at = |port: &u16| SocketAddr::new(from.ip(), *port);
    for port in request.udp_ports.iter().filter(|port| **port != 0) {
        UdpSocket::bind((stream.local_addr()?.ip(), 0))?.send_to(&[0], at(port))?;
    }
    for port in request.tcp_ports.iter().filter(|port| **port != 0) {
        TcpStream::connect_timeout(&at(port), PATIENCE)?;
    }
    stream.write_all(&IpEchoAnswer { address: from.ip(), shred_version: Some(shred_version) }.bytes())
}

/// Which chain the node at `entrypoint` is on, if it says so.
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

    #[test]
    fn the_chain_is_told() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let SocketAddr::V4(address) = free else { unreachable!("an IPv4 address was bound") };
        let server = EchoServer::start(address, 4_711).unwrap();
        // One that says nothing of use does not matter to the next.
        TcpStream::connect(address).unwrap().write_all(&[9; REQUEST_SIZE]).unwrap();
        assert_eq!(shred_version(address).unwrap(), Some(4_711));
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let udp_ports = [own.local_addr().unwrap().port(), 0, 0, 0];
        stream.write_all(&IpEchoRequest { tcp_ports: [0; 4], udp_ports }.bytes()).unwrap();
        own.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(own.recv(&mut [1; 9]).unwrap(), 1);
        drop(server);
        assert!(TcpStream::connect(address).is_err());
    }
}

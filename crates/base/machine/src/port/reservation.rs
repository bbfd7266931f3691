//! Holds a TCP port before this process serves on it.
//!
//! writes  a socket that is bound and does not listen
//! source  `inet_csk_get_port` of Linux; socket(7)
//!
//! A node takes its ports before it replays its chain, and serves when that is done. Clients that connect in between
//! must be refused, so a listener cannot hold the port: the kernel would accept connections that nothing answers. A
//! socket that is only bound does not hold the port either, since servers bind with `SO_REUSEADDR` to avoid waiting for
//! connections of their last run. So a listener, of which there can be only one, wins the port first. Then a second
//! socket is bound next to it and gives up all permission to share, and the listener is closed. From then on the kernel
//! refuses the port to every program that does not ask for `SO_REUSEPORT`, which no server of a node does.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Maximum length of the accept queue: the standard library's value.
const BACKLOG: i32 = 128;

/// A held port. Connections to it are refused until [`ReservedTcp::listen`].
#[derive(Debug)]
pub struct ReservedTcp {
    socket: OwnedFd,
    address: SocketAddr,
}

impl ReservedTcp {
    /// Takes the port; 0 is whichever is free.
    pub fn hold(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Self::beside(listener.as_fd(), listener.local_addr()?)
    }

    /// Binds a second socket that keeps the port when `holder`, which has it, is closed.
    fn beside(holder: BorrowedFd<'_>, address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_reuseport(holder, true)?;
        set_socket_reuseaddr(&socket, true)?;
        set_socket_reuseport(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        set_socket_reuseport(&socket, false)?;
        set_socket_reuseaddr(&socket, false)?;
        Ok(Self { socket, address })
    }

    /// The address of the socket, its port filled in.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same port for a server that listens there for a while. Once its listener is closed, [`ReservedTcp::again`]
    /// has the kernel refuse connections again.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self { socket: self.socket.try_clone()?, address: self.address })
    }

    /// Holds the port without listening, whether it was shared or not.
    pub fn again(self) -> io::Result<Self> {
        Self::beside(self.socket.as_fd(), self.address)
    }

    /// Listens from here on.
    pub fn listen(self) -> io::Result<TcpListener> {
        // Connections of an earlier run that are not quite over are no reason to fail.
        set_socket_reuseaddr(&self.socket, true)?;
        rustix::net::listen(&self.socket, BACKLOG)?;
        Ok(self.socket.into())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn is_taken(address: SocketAddr) -> bool {
        TcpListener::bind(address).is_err_and(|why| why.kind() == ErrorKind::AddrInUse)
    }

    fn is_refused(address: SocketAddr) -> bool {
        TcpStream::connect(address).is_err_and(|why| why.kind() == ErrorKind::ConnectionRefused)
    }

    #[test]
    fn held_port_is_exclusive_and_refuses() {
        let held = ReservedTcp::hold("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = held.address();
        assert!(is_taken(address) && is_taken(SocketAddr::new([0; 4].into(), address.port())));
        assert_eq!(ReservedTcp::hold(address).unwrap_err().kind(), ErrorKind::AddrInUse);
        assert!(is_refused(address));
        // A server listens there for a while.
        let shared = held.share().unwrap().listen().unwrap();
        TcpStream::connect(address).unwrap();
        drop(shared);
        let held = held.again().unwrap();
        assert!(is_taken(address) && is_refused(address));
        // A connection that the server ended does not keep the port from the next run.
        let listener = held.listen().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.write_all(b"bye").unwrap();
        drop(server);
        assert_eq!(client.read_to_end(&mut vec![]).unwrap(), 3);
        drop((client, listener));
        let held = ReservedTcp::hold(address).unwrap();
        assert!(is_taken(address));
        held.listen().unwrap();
    }

    #[test]
    fn of_many_one_has_the_port() {
        let address = ReservedTcp::hold("127.0.0.1:0".parse().unwrap()).unwrap().address();
        let tries = |_| std::thread::spawn(move || (0..200).filter_map(|_| ReservedTcp::hold(address).ok()).next());
        let holders: Vec<_> = [(); 8].map(tries).into_iter().filter_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(holders.len(), 1);
    }
}

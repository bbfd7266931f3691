//! tcp: starts TCP connections without waiting for them.
//!
//! writes  one SYN per connection
//! source  connect(2): on a non-blocking socket it returns while the connection is being established

use std::io::{Error, Result};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::addr::to_raw;

/// Starts a connection to `to` and returns at once. The stream is non-blocking: until the connection is established,
/// writes return [`WouldBlock`](std::io::ErrorKind::WouldBlock), or the reason if it cannot be established.
pub fn connect(to: SocketAddr) -> Result<TcpStream> {
    let family = if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: socket takes no pointers; the result is checked before use.
    let raw = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: `raw` is a descriptor just opened, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(raw) };
    let (name, len) = to_raw(to);
    // SAFETY: `name` holds a socket address of `len` bytes.
    if unsafe { libc::connect(fd.as_raw_fd(), (&raw const name).cast(), len) } != 0 {
        let error = Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINPROGRESS) {
            return Err(error);
        }
    }
    Ok(TcpStream::from(fd))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Writes once the connection is established or has failed.
    fn write_in_time(stream: &mut TcpStream, bytes: &[u8]) -> Result<usize> {
        hearth_testkit::wait_for("the connection", || match stream.write(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(error.to_string()),
            done => Ok(done),
        })
    }

    #[test]
    fn a_connection_carries_bytes_once_it_is_made() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(write_in_time(&mut stream, b"hello").unwrap(), 5);
        drop(stream);
        let mut got = vec![];
        listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"hello");
    }

    #[test]
    fn connection_to_no_listener_is_an_error() {
        let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let refused = connect(addr).and_then(|mut stream| write_in_time(&mut stream, b"hello"));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }

    #[test]
    fn server_without_accept_delays_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // SAFETY: listen takes no pointers. The queue is shortened to one connection.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let addr = listener.local_addr().unwrap();
        let mut streams: Vec<TcpStream> = (0..8).map(|_| connect(addr).unwrap()).collect();
        // `connect` did not wait: the connection is still being established, and never will be.
        let last = streams.last_mut().unwrap();
        assert_eq!(last.write(b"x").unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

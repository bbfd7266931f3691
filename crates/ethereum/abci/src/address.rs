//! Where the application listens: `unix:///path` or `tcp://host:port`, as CometBFT's `proxy_app` names it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::{fmt, fs};

/// Maximum length of a Unix socket's path in bytes, without its terminating zero.
const PATH_BYTES_MAX: usize = 107;

/// Address on which the application listens for CometBFT's connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket at this path.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

/// The text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text names neither a Unix socket nor a TCP address.
    #[error("{0}: expected unix:///path or tcp://host:port")]
    Form(String),
    /// The system takes no such path.
    #[error("{0}: a Unix socket's path may have at most {PATH_BYTES_MAX} bytes")]
    Path(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Some(path) = text.strip_prefix("unix://") {
            return match path.len() {
                0 => Err(AddressError::Form(text.into())),
                1..=PATH_BYTES_MAX => Ok(Self::Unix(path.into())),
                _ => Err(AddressError::Path(text.into())),
            };
        }
        let tcp = text.strip_prefix("tcp://").filter(|rest| {
            rest.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        });
        tcp.map(|rest| Self::Tcp(rest.into())).ok_or_else(|| AddressError::Form(text.into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl Address {
    /// Connects to the listener at this address.
    pub fn connect(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// Listens. Takes over a socket file left by a dead process, but fails if the socket still answers.
    pub fn listen(&self) -> io::Result<Listener> {
        match self {
            Self::Unix(path) => {
                if path.exists() {
                    if UnixStream::connect(path).is_ok() {
                        return Err(io::ErrorKind::AddrInUse.into());
                    }
                    fs::remove_file(path)?;
                }
                UnixListener::bind(path).map(Listener::Unix)
            }
            Self::Tcp(address) => TcpListener::bind(address).map(Listener::Tcp),
        }
    }
}

/// A listener, from [`Address::listen`].
#[derive(Debug)]
pub enum Listener {
    /// On a Unix socket.
    Unix(UnixListener),
    /// On a TCP port.
    Tcp(TcpListener),
}

impl Listener {
    /// Waits for the next connection.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }

    /// The local address, with the port that the system chose if the address said 0.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().ok_or(io::ErrorKind::Unsupported)?;
                Ok(Address::Unix(path.into()))
            }
            Self::Tcp(listener) => Ok(Address::Tcp(listener.local_addr()?.to_string())),
        }
    }
}

/// An open connection between CometBFT and the application.
#[derive(Debug)]
pub enum Stream {
    /// Over a Unix socket.
    Unix(UnixStream),
    /// Over TCP; Nagle's algorithm is off.
    Tcp(TcpStream),
}

impl Stream {
    /// The same connection once more: one end reads, the other writes.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Shuts down both directions: a blocked read sees the end of the stream.
    pub fn shutdown(&self) {
        // It fails where the other side has ended it already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(to),
            Self::Tcp(stream) => stream.read(to),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(from),
            Self::Tcp(stream) => stream.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_cometbft() {
        for text in ["unix:///run/hearth.sock", "tcp://127.0.0.1:26658", "tcp://[::1]:1"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "unix://", "/run/x", "tcp://", "tcp://host", "tcp://:1", "tcp://host:99999", "http://a:1"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
        let long = format!("unix:///{}", "a".repeat(PATH_BYTES_MAX));
        assert!(matches!(long.parse::<Address>(), Err(AddressError::Path(_))));
    }

    #[test]
    fn a_dead_socket_is_taken_over_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let address = Address::Unix(folder.path().join("socket"));
        let first = address.listen().unwrap();
        assert_eq!(address.listen().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(first);
        // The file is still there, as after kill -9.
        address.listen().unwrap();
    }
}

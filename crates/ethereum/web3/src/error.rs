//! Errors of the server's start.

use std::io;
use std::net::SocketAddr;

/// Why the server does not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is in use.
    #[error(
        "Web3 cannot listen on {0}: the port is in use. Stop the other program (`ss -tanp` shows it), or choose \
         another port"
    )]
    PortInUse(SocketAddr),
    /// Listening failed for another reason.
    #[error("Web3 cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The system started no thread.
    #[error("cannot start Web3's threads: {0}")]
    Threads(io::Error),
    /// A dev account's key is invalid.
    #[error("the key of dev account {0} is not a secp256k1 key")]
    Account(usize),
}

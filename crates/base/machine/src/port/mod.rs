//! Ports that a server listens on: errors that explain a failure, and a way to hold a port early.
//!
//! reads   the processes that use a taken port
//! writes  nothing; [`ReservedTcp`] binds
//!
//! [`ReservedTcp`] keeps a TCP port without serving there. [`PortError`] says which program has a port, and which key
//! or option names another.

mod reservation;

use std::io::ErrorKind;
use std::net::SocketAddr;

use crate::sockets;
pub use crate::sockets::Protocol;
pub use reservation::ReservedTcp;

/// Why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Another socket has the port.
    #[error(
        "cannot listen on {address} for {what}: the port is in use{holder}. Stop the other program (`{tool}` shows it), \
         or choose another port ({key})"
    )]
    InUse {
        /// The address to listen on.
        address: SocketAddr,
        /// Whether it is a port of TCP or of UDP.
        protocol: Protocol,
        /// Purpose of the port.
        what: &'static str,
        /// ` by` and the name of the holder, once that was looked up.
        holder: String,
        /// The command that lists the users of the port.
        tool: String,
        /// The configuration's key, or the option.
        key: &'static str,
    },
    /// Listening fails for another reason.
    #[error("cannot listen on {address} for {what}: {source} ({key})")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// Purpose of the port.
        what: &'static str,
        /// The key that is wrong.
        key: &'static str,
        /// Why the port cannot be bound, as the system says it.
        source: std::io::Error,
    },
}

impl PortError {
    /// Returns the error for an `address` that cannot be bound for `what`, which `key` sets.
    pub fn of(
        address: SocketAddr,
        protocol: Protocol,
        what: &'static str,
        key: &'static str,
        source: std::io::Error,
    ) -> Self {
        if source.kind() != ErrorKind::AddrInUse {
            return Self::Listen { address, what, key, source };
        }
        // `-l` would leave out connections, which have ports of this machine too.
        let program = if protocol == Protocol::Tcp { "ss -tanp" } else { "ss -uanp" };
        let tool = format!("{program} 'sport = :{}'", address.port());
        Self::InUse { address, protocol, what, holder: String::new(), tool, key }
    }

    /// Adds the name of the program that uses the port, if that can be seen.
    pub fn explained(mut self) -> Self {
        if let Self::InUse { address, protocol, holder, .. } = &mut self
            && let Some(found) = sockets::holder(*protocol, *address)
        {
            *holder = format!(" by {found}");
        }
        self
    }

    /// The configuration key, or the option, to change.
    pub fn key(&self) -> &'static str {
        match self {
            Self::InUse { key, .. } | Self::Listen { key, .. } => key,
        }
    }
}

/// An address to connect to: listening on all addresses includes loopback.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    match listen {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => SocketAddr::new([127, 0, 0, 1].into(), v4.port()),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => {
            SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), v6.port())
        }
        other => other,
    }
}

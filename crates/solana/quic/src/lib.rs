//! The Solana TPU protocol over QUIC, server and client, without any I/O.
//!
//! A transaction travels as one client-initiated unidirectional stream: the stream's bytes are the
//! transaction's wire bytes, its end is the transaction's end. Both sides are plain state machines
//! on [`quinn_proto`]: datagrams and the time go in, datagrams and transactions come out, and the
//! caller owns sockets, threads and the clock. Tests therefore run on virtual time.
//!
//! reads   UDP payloads, and the caller's clock as [`std::time::Instant`]
//! writes  UDP payloads (in batches of equal segments, fit for segmentation offload); transactions
//! memory  the server's is bounded by its configuration, see [`config::ServerConfig`]; the client's
//!         by its send window per connection
//! drops   each refusal, reset or time-out has its own counter, see [`ServerCounters`] and
//!         [`ClientCounters`]; a transaction that has arrived is never dropped, it waits in the
//!         connection's flow control until the caller has room
//! source  RFC 9000, 9001, 9002; the behaviour of Agave 4.2's TPU server and client
//!
//! | Module | For |
//! |---|---|
//! | [`config`] | every limit, with Agave's production values and a preset for local chains |
//! | [`tls`] | the fixed-form certificate, peer identity from it, the two verifiers |
//! | [`server`] | [`Server`]: admission, connections, reading of streams |
//! | [`client`] | [`Client`]: many connections, reconnecting, with exact accounting |
//! | `congestion` | congestion control for paths that lose packets at any rate |
//! | `admission` | how many connections, and how fast, in all and per address and key |
//! | [`deferred`] | a client's handshake that is signed elsewhere: by who holds the identity key |
//! | `deadlines` | the heap that knows which connection must be woken next |
//! | `entropy` | keys, connection ids and the token clock, all from one seed |
//! | `stake` | [`Stakes`], and what stake buys |
//! | `transport` | what server and client do alike with quinn |
//!
//! ```
//! use std::{net::SocketAddr, time::Instant};
//! use hearth_quic::{Client, ClientConfig, Server, ServerConfig};
//!
//! let now = Instant::now();
//! let [here, there]: [SocketAddr; 2] = [([127, 0, 0, 1], 9000).into(), ([127, 0, 0, 1], 8009).into()];
//! let mut server = Server::new(ServerConfig::local(), &[1; 32], &[2; 32], now)?;
//! let mut client = Client::new(ClientConfig::local(), Some(&[3; 32]), &[4; 32])?;
//! client.connect(now, there);
//! let mut buffer = Vec::new();
//! let mut received = None;
//! while received.is_none() {
//!     let _ = client.send_transaction(b"a transaction"); // refused until connected
//!     while let Some(t) = client.poll_transmit(now, &mut buffer) {
//!         for datagram in buffer.chunks(t.segment_size.unwrap_or(t.len)) {
//!             server.handle_datagram(now, here, t.ecn, datagram);
//!         }
//!     }
//!     received = server.poll_transaction(now, |peer, bytes| (peer.key, bytes.to_vec()));
//!     while let Some(t) = server.poll_transmit(now, &mut buffer) {
//!         client.handle_datagram(now, there, t.ecn, &buffer);
//!     }
//! }
//! let key = hearth_quic::tls::public_key(&[3; 32]);
//! assert_eq!(received, Some((Some(key), b"a transaction".to_vec())));
//! # Ok::<(), hearth_quic::ConfigError>(())
//! ```

mod admission;
pub mod client;
pub mod config;
mod congestion;
mod counters;
mod deadlines;
pub mod deferred;
mod entropy;
pub mod server;
mod stake;
pub mod tls;
mod transport;

pub use admission::ADDRESSES_BYTES_MAX;
pub use client::{Client, ClientConnectionId, ConnectionState, Handshake, SendReceipt, WouldBlock};
pub use config::{ClientConfig, ServerConfig};
pub use counters::{ClientCounters, ServerCounters};
pub use quinn_proto::EcnCodepoint;
pub use server::{Peer, Server};
pub use stake::Stakes;

use std::net::SocketAddr;

/// The application protocol that both sides must name in the TLS handshake.
pub const ALPN_TPU: &[u8] = b"solana-tpu";

/// The longest transaction on the wire, in bytes: the IPv6 minimum MTU less its headers.
pub const TRANSACTION_BYTES_MAX: usize = 1280 - 40 - 8;
const _: () = assert!(TRANSACTION_BYTES_MAX == 1232);

/// Application close codes of the TPU protocol.
pub mod close_code {
    /// The connection was evicted in favour of another.
    pub const DROPPED: u32 = 1;
    /// The peer may not connect.
    pub const DISALLOWED: u32 = 2;
    /// The peer has its maximum of connections already, or the server has and evicts none.
    pub const TOO_MANY: u32 = 4;
    /// A stream was longer than a transaction may be.
    pub const INVALID_STREAM: u32 = 5;
}

/// One or more datagrams that the caller must send: the `len` bytes just written to its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The peer's address, to which the datagrams go.
    pub to: SocketAddr,
    /// How many bytes of the buffer are to be sent.
    pub len: usize,
    /// When set, the bytes are several datagrams of this size each, the last maybe shorter.
    pub segment_size: Option<usize>,
    /// The ECN mark to send with, where the socket can.
    pub ecn: Option<EcnCodepoint>,
}

impl Transmit {
    /// How many datagrams this is.
    pub fn datagram_count(&self) -> usize {
        self.segment_size.map_or(1, |size| self.len.div_ceil(size))
    }

    fn from_quinn(t: quinn_proto::Transmit) -> Self {
        Self { to: t.destination, len: t.size, segment_size: t.segment_size, ecn: t.ecn }
    }
}

/// Why a server or client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// rustls refused the certificate or key.
    #[error("TLS set-up failed: {0}")]
    Tls(#[from] rustls::Error),
    /// The TLS provider lacks AES-128-GCM, which QUIC's first packets need.
    #[error("TLS set-up failed: {0}")]
    Cipher(#[from] quinn_proto::crypto::rustls::NoInitialCipherSuite),
    /// A number is outside its range.
    #[error("{key} = {value} is out of range: must be {range}")]
    OutOfRange {
        /// The field of the configuration.
        key: &'static str,
        /// The value that was configured.
        value: u64,
        /// The range as the message names it, e.g. "at least 1".
        range: &'static str,
    },
}

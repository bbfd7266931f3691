//! Limits and tuning of the server and the client, as typed data.
//!
//! memory  a server holds, in bytes, [`ServerConfig::slots_max`] × (24 KiB + 64 × `streams_concurrent`) for
//!         idle connections; per connection at most [`ServerConfig::unread_bytes_max`] that wait to
//!         be read, however the peer cuts its streams; `reassembly_bytes_max` of unfinished streams
//!         in all; and about 100 B for each of at most 65,536 addresses. An address or key has this
//!         `connections_per_ip` or `connections_per_staked_key` times
//! source  the defaults of Agave 4.2 (crates solana-streamer and solana-tls-utils)

use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::{ControllerFactory, CubicConfig};
use quinn_proto::{AckFrequencyConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::congestion::LossTolerantConfig;
use crate::stake::{self, Stakes};
use crate::{ConfigError, TRANSACTION_BYTES_MAX};

/// Both sides close a silent connection after this time, or after the other side's value if that is shorter.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum frames of a stream; one more closes its connection. A transaction fits into one, is split into two or three
/// at the edges of datagrams, and arrives in a few more when datagrams are lost. quinn keeps 56 B for each pending one.
pub(crate) const STREAM_FRAMES_MAX: u32 = 32;

/// Bytes that a connection may hold per allowed stream. An honest peer's transaction lies in at most two datagrams, and
/// is then charged 2 × (1472 + 160) B, within three quarters of this except in the rarest case: all streams at maximum
/// length, each of them split, and nothing else in any datagram.
const HELD_BYTES_PER_STREAM: usize = 4096;

/// Minimum of that bound for a connection with few streams: a handshake's datagrams are held, too.
pub(crate) const HELD_BYTES_LEAST: usize = 64 << 10;

/// Bytes of datagrams that a connection with this many streams can hold.
pub(crate) const fn held_bytes_max(streams_concurrent: u32) -> usize {
    let bytes = streams_concurrent as usize * HELD_BYTES_PER_STREAM;
    if bytes > HELD_BYTES_LEAST { bytes } else { HELD_BYTES_LEAST }
}

/// Limits of a [`crate::Server`].
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Maximum open connections of peers without stake, and of those with stake for which `staked_connections_max` has
    /// no room. At the limit, the one without a transaction for longest is evicted if it has been idle for
    /// `evict_idle`; else the newcomer is refused. Agave: 2000, and it evicts the oldest however short they are idle.
    pub connections_max: usize,
    /// Maximum open connections of peers with stake, beside those. Agave: 2000.
    pub staked_connections_max: usize,
    /// Maximum connections that show the same key, if it has stake. Agave: 16.
    pub connections_per_staked_key: usize,
    /// Maximum connections from one IPv4 address or IPv6 /64 without stake, and of a key whose stake is too small to
    /// count. Agave: 8.
    pub connections_per_ip: usize,
    /// Maximum new connections per minute from one IPv4 address or IPv6 /64. Agave: 8.
    pub connects_per_ip_per_minute: u32,
    /// Maximum new connections per second in total. Agave: 2500.
    pub connects_per_second: u32,
    /// First packets (Initials) processed per second, counted separately with and without a token; more are dropped
    /// unread, so that a flood leaves time for existing connections.
    pub initials_per_second: u32,
    /// How far a burst may exceed `connects_per_second`. Agave: 1000.
    pub connects_burst: u32,
    /// A connection may be evicted once it has sent no transaction for this long.
    pub evict_idle: Duration,
    /// A handshake must be done within this time, or its state is forgotten. Agave: 2 s.
    pub handshake_timeout: Duration,
    /// Half-open connections from which on a newcomer must first prove its address (a Retry).
    pub half_open_retry: usize,
    /// Half-open connections at once; more are not answered, even with a proven address.
    pub half_open_max: usize,
    /// The identities with stake. They may open more streams, share a common limit, and are not evicted for others.
    pub stakes: Stakes,
    /// Maximum concurrent streams of a peer. Agave: 128 unstaked; a staked peer has 128 to 512 by its stake, here at
    /// least this many.
    pub streams_concurrent: u32,
    /// Streams read per second from a peer without stake, over all of its connections; beyond, a connection is not read
    /// until the next window of 100 ms. `None` does not throttle. Agave: 200.
    pub streams_per_second: Option<u32>,
    /// Streams read per second from all staked peers together; when they are at 95 % of it, each
    /// has its stake's share of it, and more than one without stake. `None` does not throttle.
    /// Agave: 400,000.
    pub staked_streams_per_second: Option<u32>,
    /// Bytes that a peer may send on a connection before they are read. Agave: 8 MiB.
    pub receive_window_bytes: u32,
    /// Longest stream; a longer one closes the connection with code 5. 1 to 1232.
    pub stream_bytes_max: usize,
    /// A stream without news for this long is stopped. Agave: 2 s.
    pub stream_timeout: Duration,
    /// Bytes of unfinished streams held in all; beyond, a stream that comes in parts is stopped.
    pub reassembly_bytes_max: usize,
    /// Largest UDP payload that peers may send. Agave: 1472. 1200 to 65,527.
    pub udp_payload_max: u16,
    /// Answers that belong to no connection (Retry, refusals) queued at once.
    pub responses_max: usize,
}

impl ServerConfig {
    /// Agave's production values for peers without stake.
    pub fn agave() -> Self {
        Self {
            connections_max: 2000,
            staked_connections_max: 2000,
            connections_per_staked_key: 16,
            connections_per_ip: 8,
            connects_per_ip_per_minute: 8,
            connects_per_second: 2500,
            initials_per_second: 20_000,
            connects_burst: 1000,
            evict_idle: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(2),
            half_open_retry: 128,
            half_open_max: 1024,
            stakes: Stakes::default(),
            streams_concurrent: 128,
            streams_per_second: Some(200),
            // 500 a millisecond, of which the staked have four fifths.
            staked_streams_per_second: Some(400_000),
            receive_window_bytes: 8 << 20,
            stream_bytes_max: TRANSACTION_BYTES_MAX,
            stream_timeout: Duration::from_secs(2),
            reassembly_bytes_max: 64 << 20,
            udp_payload_max: 1472,
            responses_max: 1024,
        }
    }

    /// For a development chain: no throttle by stake, key or address; memory stays bounded.
    pub fn local() -> Self {
        Self {
            connections_max: 512,
            staked_connections_max: 0,
            connections_per_staked_key: 512,
            connections_per_ip: 512,
            connects_per_ip_per_minute: 60_000,
            // More cost cache: 1024 streams on each of 16 connections run 0.9 times as fast.
            streams_concurrent: 512,
            streams_per_second: None,
            staked_streams_per_second: None,
            receive_window_bytes: 1 << 20,
            ..Self::agave()
        }
    }

    /// Maximum connections of all kinds: a quarter more than may be open, for handshakes, as in Agave.
    pub fn slots_max(&self) -> usize {
        let open = self.connections_max.saturating_add(self.staked_connections_max);
        open.saturating_add(open.div_ceil(4))
    }

    /// The most memory that a connection can make the server hold in unread streams: their datagrams, 56 B for each
    /// frame, and copies of unfinished ones. A connection that would exceed it is closed. A staked peer's connection
    /// may hold proportionally more, as it may have more streams.
    pub fn unread_bytes_max(&self) -> usize {
        // Buffers grow by doubling, hence the factors of 2.
        let stream = 2 * STREAM_FRAMES_MAX as usize * 56 + 2 * self.stream_bytes_max;
        held_bytes_max(self.streams_concurrent) + self.streams_concurrent as usize * stream
    }

    /// Maximum concurrent streams of a peer with this share of all stake, or none.
    pub(crate) fn streams_of(&self, share: Option<f64>) -> u32 {
        share.map_or(self.streams_concurrent, |share| stake::streams_concurrent(share).max(self.streams_concurrent))
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let out = |key, value, range| Err(ConfigError::OutOfRange { key, value, range });
        let bytes = self.stream_bytes_max;
        if bytes == 0 || bytes > TRANSACTION_BYTES_MAX {
            return out("stream_bytes_max", bytes as u64, "1 to 1232");
        }
        if (self.receive_window_bytes as usize) < bytes {
            let window = u64::from(self.receive_window_bytes);
            return out("receive_window_bytes", window, "at least stream_bytes_max");
        }
        if self.connections_max == 0 {
            return out("connections_max", 0, "at least 1");
        }
        if self.streams_concurrent == 0 {
            return out("streams_concurrent", 0, "at least 1");
        }
        if self.streams_per_second == Some(0) {
            return out("streams_per_second", 0, "at least 1");
        }
        check_udp_payload(self.udp_payload_max)
    }

    pub(crate) fn transport(&self) -> TransportConfig {
        let mut t = TransportConfig::default();
        t.max_concurrent_bidi_streams(VarInt::from_u32(0))
            // Raised when the handshake is done and the peer admitted.
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .stream_receive_window(VarInt::from_u32(self.stream_bytes_max as u32))
            .receive_window(VarInt::from_u32(self.receive_window_bytes))
            .max_idle_timeout(Some(idle_timeout(IDLE_TIMEOUT)))
            // The server sends only acknowledgements and credit: one datagram each.
            .enable_segmentation_offload(false)
            .mtu_discovery_config(None);
        t
    }
}

/// Tuning of a [`crate::Client`].
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// A packet is sent after this much silence. Solana clients: 1 s.
    pub keep_alive: Duration,
    /// The client closes a connection on which nothing arrived for this long, and reconnects. A restarted server does
    /// not know its old connections, and does not answer on them.
    pub idle_timeout: Duration,
    /// Bytes kept for retransmission per connection.
    pub send_window_bytes: u64,
    /// UDP payload before path MTU discovery. 1200 is safe anywhere; loopback takes more.
    pub udp_payload_initial: u16,
    /// Upper bound of path MTU discovery; equal to `udp_payload_initial` switches it off.
    pub udp_payload_max: u16,
    /// Datagrams in one [`crate::Transmit`] at most; 1 where the socket has no segmentation offload.
    pub segments_max: usize,
    /// Requests an acknowledgement from the server only every this many packets, if it supports that.
    pub ack_every_packets: u32,
    /// Bytes in flight before the first acknowledgement.
    pub congestion_window_initial: u64,
    /// Whether the congestion window ignores losses up to an eighth of the packets. Only for a small
    /// `send_window_bytes`: on a congested path the connection takes more than its share.
    pub tolerates_loss: bool,
    /// First pause before reconnecting; doubles up to `reconnect_max`.
    pub reconnect_initial: Duration,
    /// Longest pause before reconnecting.
    pub reconnect_max: Duration,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            keep_alive: Duration::from_secs(1),
            idle_timeout: IDLE_TIMEOUT,
            send_window_bytes: 8 << 20,
            udp_payload_initial: 1200,
            udp_payload_max: 1452,
            segments_max: 10,
            ack_every_packets: 8,
            // Ten datagrams of 1472 B, the RFC 9002 window.
            congestion_window_initial: 14_720,
            tolerates_loss: false,
            reconnect_initial: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(5),
        }
    }
}

impl ClientConfig {
    /// For a server on this machine: full-size datagrams from the start, long bursts, few acknowledgements.
    pub fn local() -> Self {
        Self {
            udp_payload_initial: 1472,
            udp_payload_max: 1472,
            segments_max: 32,
            ack_every_packets: 32,
            // As much as an unprivileged socket's receive buffer takes.
            congestion_window_initial: 64 << 10,
            ..Self::default()
        }
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_udp_payload(self.udp_payload_initial)?;
        check_udp_payload(self.udp_payload_max)?;
        if self.segments_max == 0 {
            return Err(ConfigError::OutOfRange { key: "segments_max", value: 0, range: "at least 1" });
        }
        Ok(())
    }

    pub(crate) fn transport(&self) -> TransportConfig {
        let mut cubic = CubicConfig::default();
        cubic.initial_window(self.congestion_window_initial);
        let cubic = Arc::new(cubic);
        let congestion: Arc<dyn ControllerFactory + Send + Sync> = match self.tolerates_loss {
            true => Arc::new(LossTolerantConfig(cubic)),
            false => cubic,
        };
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(self.ack_every_packets));
        let mtu = (self.udp_payload_max > self.udp_payload_initial).then(|| {
            let mut mtu = MtuDiscoveryConfig::default();
            mtu.upper_bound(self.udp_payload_max);
            mtu
        });
        let mut t = TransportConfig::default();
        t.max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .max_idle_timeout(Some(idle_timeout(self.idle_timeout)))
            .keep_alive_interval(Some(self.keep_alive))
            .send_fairness(false)
            .send_window(self.send_window_bytes)
            .initial_mtu(self.udp_payload_initial)
            .mtu_discovery_config(mtu)
            .ack_frequency_config(Some(acks))
            .congestion_controller_factory(congestion);
        t
    }
}

fn check_udp_payload(value: u16) -> Result<(), ConfigError> {
    let mut probe = EndpointConfig::default();
    match probe.max_udp_payload_size(value) {
        Ok(_) => Ok(()),
        Err(_) => {
            Err(ConfigError::OutOfRange { key: "udp_payload_max", value: u64::from(value), range: "1200 to 65527" })
        }
    }
}

fn idle_timeout(after: Duration) -> IdleTimeout {
    IdleTimeout::try_from(after).expect("an idle time-out is shorter than 2^62 ms")
}

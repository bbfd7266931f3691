//! The TPU server: admits connections and hands out whole transactions.
//!
//! The caller feeds datagrams and time, then calls [`Server::poll_transaction`] for as long as it
//! has room, then [`Server::poll_transmit`] until it is empty. Nothing is read from a connection
//! until the caller asks, so a caller without room fills the peers' flow-control windows and they
//! stop sending: back-pressure reaches the sender and nothing is dropped.
//!
//! reads   UDP payloads
//! writes  UDP payloads (acknowledgements, credit, closes), transactions with their [`Peer`]
//! memory  see [`crate::config`]
//! drops   connections and streams that break a limit, each counted in [`ServerCounters`]
//! source  RFC 9000; Agave 4.2's `solana-streamer`

mod connections;
mod held_datagrams;
mod streams;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{Connection, ConnectionHandle, Dir, EcnCodepoint, Endpoint};

use crate::admission::{Admission, PeerId, initial_token};
use crate::config::ServerConfig;
use crate::deadlines::Deadlines;
use crate::entropy::{Entropy, TokenClock};
use crate::stake::{Load, Stakes};
use crate::transport::Responses;
use crate::{ConfigError, ServerCounters, Transmit, entropy, tls};
use held_datagrams::{HeldDatagrams, marked_copy};
use streams::Streams;

/// The sender of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Number of the connection; never used twice by one server.
    pub connection: u64,
    /// The address the connection was made from.
    pub address: SocketAddr,
    /// The ed25519 key that the peer has proven to hold, if it showed one.
    pub key: Option<[u8; 32]>,
}

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The handshake is in progress, until this deadline.
    HalfOpen(Instant),
    Open,
    /// Over for the peer; finished streams may still wait for the caller.
    Ended,
}

struct Slot {
    quic: Connection,
    peer: Peer,
    stage: Stage,
    /// The peer's share of all stake, if it has any.
    share: Option<f64>,
    /// The key or address by which it is counted, once it is open.
    counted: Option<PeerId>,
    /// Whether it is among the `staked_connections_max`.
    is_staked: bool,
    /// Whether it is in `Server::to_transmit`.
    transmit_queued: bool,
    /// We have closed it: forget it as soon as the close is sent.
    closing: bool,
    /// When a transaction was last read from it, or it was made.
    used: Instant,
    streams: Streams,
    held: HeldDatagrams,
}

/// A TPU server for one UDP socket (or several with one address).
pub struct Server {
    config: ServerConfig,
    endpoint: Endpoint,
    slots: Vec<Option<Box<Slot>>>,
    slot_count: usize,
    half_open: usize,
    /// Counted connections: those in the share of the staked, and the others.
    staked_open: usize,
    unstaked_open: usize,
    connection_next: u64,
    /// No open connection has been unused for `evict_idle` before this time.
    evict_not_before: Instant,
    admission: Admission,
    deadlines: Deadlines,
    staked_load: Load,
    clock: Arc<TokenClock>,
    /// Connections that may have something to send.
    to_transmit: VecDeque<u32>,
    /// Connections that may have something to read.
    to_read: VecDeque<u32>,
    /// Answers that belong to no connection.
    responses: Responses,
    scratch: Vec<u8>,
    /// Bytes held in unfinished streams, over all connections.
    reassembly_bytes: usize,
    /// Bytes of datagrams that wait to be read, over all connections.
    held_bytes: usize,
    counters: ServerCounters,
}

impl Server {
    /// A server whose TLS key is `tls_seed` (its own, best ephemeral, as the validator's identity
    /// key need not be here), and whose other secrets all come from `entropy`. `now` is the start of
    /// the caller's clock.
    pub fn new(
        config: ServerConfig,
        tls_seed: &[u8; 32],
        entropy: &[u8; 32],
        now: Instant,
    ) -> Result<Self, ConfigError> {
        config.check()?;
        let entropy = Entropy::new(entropy);
        let crypto = QuicServerConfig::try_from(tls::server(tls_seed)?)?;
        let mut quic = quinn_proto::ServerConfig::new(Arc::new(crypto), Arc::new(entropy.token_key()));
        let clock = TokenClock::new(now);
        quic.transport_config(Arc::new(config.transport())).migration(false).time_source(clock.clone());
        let endpoint =
            Endpoint::new(Arc::new(entropy.endpoint(config.udp_payload_max)), Some(Arc::new(quic)), false, None);
        Ok(Self {
            admission: Admission::new(&config, now),
            config,
            endpoint,
            slots: Vec::new(),
            slot_count: 0,
            half_open: 0,
            staked_open: 0,
            unstaked_open: 0,
            connection_next: 0,
            evict_not_before: now,
            deadlines: Deadlines::default(),
            staked_load: Load::new(now),
            clock,
            to_transmit: VecDeque::new(),
            to_read: VecDeque::new(),
            responses: Responses::default(),
            scratch: Vec::with_capacity(2048),
            reassembly_bytes: 0,
            held_bytes: 0,
            counters: ServerCounters::default(),
        })
    }

    /// The limits in force.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Counts since the server was made, by outcome.
    pub fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// Connections now held, half-open and ended ones included.
    pub fn connection_count(&self) -> usize {
        self.slot_count
    }

    /// Connections whose handshake is under way.
    pub fn half_open_count(&self) -> usize {
        self.half_open
    }

    /// Bytes of datagrams that wait to be read, and of streams that came in part; bounded by
    /// [`ServerConfig::slots_max`] × [`ServerConfig::unread_bytes_max`].
    pub fn unread_bytes(&self) -> usize {
        self.held_bytes + self.reassembly_bytes
    }

    /// Applies another epoch's stakes, also to open connections. A peer whose stake grew may have more streams; one
    /// whose stake shrank keeps those that it was granted, and is read at its new rate.
    pub fn set_stakes(&mut self, stakes: Stakes) {
        self.config.stakes = stakes;
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots[index].as_deref_mut() else { continue };
            let Some(key) = slot.peer.key.filter(|_| slot.stage == Stage::Open && !slot.closing) else { continue };
            let granted = self.config.streams_of(slot.share);
            slot.share = self.config.stakes.counted_share(&key);
            let streams = self.config.streams_of(slot.share);
            if streams > granted {
                slot.held.raise_streams(streams);
                slot.quic.set_max_concurrent_streams(Dir::Uni, entropy::varint(streams));
                self.queue_transmit(index as u32);
            }
        }
    }

    /// Takes in one UDP payload from `from`. Copies it.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, ecn: Option<EcnCodepoint>, payload: &[u8]) {
        self.counters.datagrams_in += 1;
        self.clock.set(now);
        if let Some(has_token) = initial_token(payload)
            && !self.admission.initial(has_token, now)
        {
            self.counters.initials_dropped += 1;
            return;
        }
        self.receive(now, from, ecn, payload);
    }

    /// The time at which [`Self::handle_timeout`] is next wanted. Calling it early or late is safe.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.clock.set(now);
        while let Some(slot) = self.deadlines.pop_due(now) {
            self.timeout(slot, now);
        }
    }

    /// Writes the next datagram to be sent into `buffer` (cleared first) and says where it goes.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        buffer.clear();
        if let Some(transmit) = self.responses.pop(buffer) {
            self.counters.datagrams_out += 1;
            return Some(transmit);
        }
        while let Some(&index) = self.to_transmit.front() {
            let Some(slot) = &mut self.slots[index as usize] else {
                self.to_transmit.pop_front();
                continue;
            };
            if let Some(transmit) = slot.quic.poll_transmit(now, 1, buffer) {
                self.counters.datagrams_out += 1;
                if slot.closing {
                    self.to_transmit.pop_front();
                    self.forget(index);
                }
                return Some(Transmit::from_quinn(transmit));
            }
            slot.transmit_queued = false;
            self.to_transmit.pop_front();
            if slot.closing {
                self.forget(index);
            } else {
                self.after_activity(index, now);
            }
        }
        None
    }

    /// Passes the next whole transaction to `take`, and returns its result; `None` if there is none. To be called only
    /// if the caller has room for one.
    pub fn poll_transaction<R>(&mut self, now: Instant, take: impl FnOnce(&Peer, &[u8]) -> R) -> Option<R> {
        self.read_next(now, take)
    }

    /// Whether [`Self::poll_transaction`] might now return something.
    pub fn has_readable(&self) -> bool {
        !self.to_read.is_empty()
    }

    /// Whether [`Self::poll_transmit`] might now return something.
    pub fn has_transmit(&self) -> bool {
        !self.responses.is_empty() || !self.to_transmit.is_empty()
    }

    /// Closes a connection with an application code, as in [`crate::close_code`].
    fn close(&mut self, index: u32, now: Instant, code: u32, reason: &'static str) {
        let slot = self.slots[index as usize].as_mut().expect("an open slot");
        let code = crate::entropy::varint(code);
        slot.quic.close(now, code, Bytes::from_static(reason.as_bytes()));
        slot.closing = true;
        if let Stage::HalfOpen(_) = slot.stage {
            self.half_open -= 1;
            self.counters.handshakes_failed += 1;
        }
        slot.stage = Stage::Ended;
        self.queue_transmit(index);
    }

    fn queue_transmit(&mut self, index: u32) {
        if let Some(slot) = &mut self.slots[index as usize]
            && !slot.transmit_queued
        {
            slot.transmit_queued = true;
            self.to_transmit.push_back(index);
        }
    }

    /// Removes all state of a connection at once.
    fn forget(&mut self, index: u32) {
        let mut slot = self.slots[index as usize].take().expect("an occupied slot");
        self.slot_count -= 1;
        if let Stage::HalfOpen(_) = slot.stage {
            self.half_open -= 1;
        }
        self.admission.leave(slot.peer.address.ip());
        if let Some(peer) = slot.counted {
            self.admission.leave_peer(&peer);
            let open = if slot.is_staked { &mut self.staked_open } else { &mut self.unstaked_open };
            *open -= 1;
        }
        self.counters.streams_abandoned += slot.streams.unfinished() as u64;
        while slot.quic.streams().accept(Dir::Uni).is_some() {
            self.counters.streams_unread += 1;
        }
        self.reassembly_bytes -= slot.streams.held_bytes();
        self.held_bytes -= slot.held.bytes();
        self.deadlines.set(index, None);
        let handle = ConnectionHandle(index as usize);
        self.endpoint.handle_event(handle, quinn_proto::EndpointEvent::drained());
    }

    /// Releases a connection's datagrams that have been read.
    fn release(&mut self, index: u32) {
        if let Some(slot) = &mut self.slots[index as usize] {
            self.held_bytes -= slot.held.bytes();
            slot.held.release();
            self.held_bytes += slot.held.bytes();
        }
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)?.as_deref_mut()
    }
}

/// Maximum wait of a throttled connection.
const THROTTLE_WINDOW: Duration = Duration::from_millis(100);

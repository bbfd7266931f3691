//! The TPU client: many connections, each reconnecting by itself, with an exact account of every
//! transaction.
//!
//! A transaction taken by [`Client::send_transaction`] is later counted exactly once: acknowledged
//! by the server's transport, stopped by the server, or lost with its connection. A lost one may
//! have arrived; the client never sends a transaction twice by itself.
//!
//! reads   transactions, UDP payloads
//! writes  UDP payloads, in batches of equal segments
//! memory  `send_window_bytes` a connection, plus about 1 KiB a stream in flight
//! drops   nothing: without room `send_transaction` refuses, counted as `would_block`; a handshake that nobody signs
//!         fails like any other
//! source  RFC 9000; the behaviour of Agave 4.2's `solana-quic-client`

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::{self, rustls::QuicClientConfig};
use quinn_proto::{
    Connection, ConnectionHandle, ConnectionId, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointEvent, Event,
    StreamEvent, StreamId, TransportConfig, WriteError,
};

use crate::config::ClientConfig;
use crate::deadlines::Deadlines;
use crate::deferred::{self, HandshakeSignature, TO_SIGN_BYTES};
use crate::entropy::{Entropy, initial_cids, varint};
use crate::transport::{Responses, pass_events};
use crate::{ALPN_TPU, ClientCounters, ConfigError, Transmit, tls};

/// The name put into the TLS handshake; servers know each other by key, not by name.
const SERVER_NAME: &str = "localhost";

/// Transactions sent on one connection before it is the next one's turn: enough to fill datagrams.
const TURN: u32 = 64;

/// Bytes of transactions copied into one allocation. It is freed when all of them are
/// acknowledged, so it is also the most that one slow transaction can pin.
const ARENA_BYTES: usize = 32 << 10;

/// One of the client's connections, across reconnects, until [`Client::close`].
///
/// A closed connection's line is reused for the next one. The generation distinguishes the two: an outdated id names a
/// closed connection, never the one that has its line now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientConnectionId {
    line: u32,
    generation: u32,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// The handshake is under way.
    Connecting,
    /// The handshake is done, and transactions can be sent.
    Connected,
    /// Pausing before the next attempt.
    Waiting,
    /// Ended by [`Client::close`], and not dialled again.
    Closed,
}

/// A transaction was taken and will be counted as acknowledged, stopped or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendReceipt {
    /// The connection that carries it.
    pub connection: ClientConnectionId,
}

/// There is no room for the transaction now: not connected, or the server has yet to give credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no connection has room for a transaction now")]
pub struct WouldBlock;

/// The rest of a transaction whose stream the peer's flow control holds up.
struct RemainingBytes {
    id: StreamId,
    bytes: Bytes,
}

/// The handshake that a signature belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    line: u32,
    attempt: u32,
}

impl Handshake {
    /// The handshake as a number.
    pub fn to_bits(self) -> u64 {
        u64::from(self.attempt) << 32 | u64::from(self.line)
    }

    /// The inverse of [`Self::to_bits`].
    pub fn from_bits(bits: u64) -> Self {
        Self { line: bits as u32, attempt: (bits >> 32) as u32 }
    }
}

/// The client's proof of identity.
enum Identity {
    /// rustls has the key, or there is none.
    Settled(Arc<QuicClientConfig>),
    /// The caller has each handshake signed for this public key.
    Elsewhere([u8; 32]),
}

struct LeaderConnection {
    address: SocketAddr,
    /// Number of connections that had this line before.
    generation: u32,
    /// Handshakes begun so far, modulo 2^32. A signature names the one that it is for.
    attempt: u32,
    /// The pending signature of the current handshake, if the caller has it signed.
    wanted: Option<Arc<HandshakeSignature>>,
    state: ConnectionState,
    quic: Option<(ConnectionHandle, Box<Connection>)>,
    rest: Option<RemainingBytes>,
    in_flight: u64,
    pause: Duration,
    reconnect_at: Option<Instant>,
    transmit_queued: bool,
    last_error: Option<String>,
}

/// A TPU client for one UDP socket.
pub struct Client {
    config: ClientConfig,
    identity: Identity,
    transport: Arc<TransportConfig>,
    initial_cids: Arc<dyn Fn() -> ConnectionId + Send + Sync>,
    endpoint: Endpoint,
    lines: Vec<LeaderConnection>,
    /// The line of each endpoint handle.
    by_handle: Vec<Option<u32>>,
    deadlines: Deadlines,
    to_transmit: VecDeque<u32>,
    to_sign: VecDeque<(Handshake, [u8; TO_SIGN_BYTES])>,
    responses: Responses,
    scratch: Vec<u8>,
    /// Transactions copied for retransmission: one allocation for many.
    arena: BytesMut,
    turn_line: usize,
    turn_count: u32,
    counters: ClientCounters,
}

impl Client {
    /// A client that shows the identity of `identity_seed`, or none; all other random values come from `entropy`.
    pub fn new(
        config: ClientConfig,
        identity_seed: Option<&[u8; 32]>,
        entropy: &[u8; 32],
    ) -> Result<Self, ConfigError> {
        Self::with_alpn(config, identity_seed, entropy, ALPN_TPU)
    }

    /// As [`Self::new`], with another protocol name than a TPU server takes.
    pub fn with_alpn(
        config: ClientConfig,
        identity_seed: Option<&[u8; 32]>,
        entropy: &[u8; 32],
        alpn: &[u8],
    ) -> Result<Self, ConfigError> {
        Self::with_tls(config, tls::client(identity_seed, alpn)?, entropy)
    }

    /// As [`Self::new`], with the caller's own TLS settings.
    pub fn with_tls(config: ClientConfig, tls: rustls::ClientConfig, entropy: &[u8; 32]) -> Result<Self, ConfigError> {
        let identity = Identity::Settled(Arc::new(QuicClientConfig::try_from(tls)?));
        Self::with_identity(config, identity, entropy)
    }

    /// A client that shows the identity of `public_key`, whose private key is not here: the caller has each handshake
    /// signed, see [`Client::next_to_sign`].
    pub fn with_signer(config: ClientConfig, public_key: [u8; 32], entropy: &[u8; 32]) -> Result<Self, ConfigError> {
        Self::with_identity(config, Identity::Elsewhere(public_key), entropy)
    }

    /// Shows the identity of another public key from the next handshake on, if the caller has handshakes signed. Those
    /// that are under way fail: its key does not sign what the old one began.
    pub fn set_identity(&mut self, public_key: [u8; 32]) {
        if let Identity::Elsewhere(known) = &mut self.identity {
            *known = public_key;
            self.to_sign.clear();
        }
    }

    fn with_identity(config: ClientConfig, identity: Identity, entropy: &[u8; 32]) -> Result<Self, ConfigError> {
        config.check()?;
        let entropy = Entropy::new(entropy);
        let endpoint_config = entropy.endpoint(config.udp_payload_max.max(1472));
        Ok(Self {
            endpoint: Endpoint::new(Arc::new(endpoint_config), None, true, None),
            identity,
            transport: Arc::new(config.transport()),
            initial_cids: initial_cids(&entropy),
            config,
            lines: Vec::new(),
            by_handle: Vec::new(),
            deadlines: Deadlines::default(),
            to_transmit: VecDeque::new(),
            to_sign: VecDeque::new(),
            responses: Responses::default(),
            scratch: Vec::new(),
            arena: BytesMut::new(),
            turn_line: 0,
            turn_count: 0,
            counters: ClientCounters::default(),
        })
    }

    /// Counts since the client was made, by outcome.
    pub fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// Transactions taken and not yet acknowledged, stopped or lost.
    pub fn in_flight(&self) -> u64 {
        self.lines.iter().map(|line| line.in_flight).sum()
    }

    /// The state of a connection.
    pub fn state(&self, id: ClientConnectionId) -> ConnectionState {
        self.line(id).map_or(ConnectionState::Closed, |line| line.state)
    }

    /// Why a connection last ended, in words.
    pub fn last_error(&self, id: ClientConnectionId) -> Option<&str> {
        self.line(id)?.last_error.as_deref()
    }

    /// The line of a connection; `None` if another connection has it by now.
    fn line(&self, id: ClientConnectionId) -> Option<&LeaderConnection> {
        self.lines.get(id.line as usize).filter(|line| line.generation == id.generation)
    }

    /// The connection that currently has a line.
    fn id_of(&self, line: u32) -> ClientConnectionId {
        ClientConnectionId { line, generation: self.lines[line as usize].generation }
    }

    /// Adds a connection to `address`, and keeps it up from now on.
    pub fn connect(&mut self, now: Instant, address: SocketAddr) -> ClientConnectionId {
        // The place of a closed connection that is gone is reused.
        let gone = |line: &LeaderConnection| line.state == ConnectionState::Closed && line.quic.is_none();
        let place = self.lines.iter().position(gone);
        let attempt = place.map_or(0, |place| self.lines[place].attempt);
        let generation = place.map_or(0, |place| self.lines[place].generation.wrapping_add(1));
        let line = LeaderConnection {
            address,
            generation,
            attempt,
            wanted: None,
            state: ConnectionState::Connecting,
            quic: None,
            rest: None,
            in_flight: 0,
            pause: self.config.reconnect_initial,
            reconnect_at: None,
            transmit_queued: place.is_some_and(|place| self.lines[place].transmit_queued),
            last_error: None,
        };
        let id = match place {
            Some(place) => {
                self.lines[place] = line;
                place as u32
            }
            None => {
                self.lines.push(line);
                self.lines.len() as u32 - 1
            }
        };
        self.dial(id, now);
        ClientConnectionId { line: id, generation }
    }

    /// The next handshake that waits for a signature of the client's key, and the bytes to sign.
    pub fn next_to_sign(&mut self) -> Option<(Handshake, [u8; TO_SIGN_BYTES])> {
        self.to_sign.pop_front()
    }

    /// Continues a signed handshake. If it has ended meanwhile the signature is ignored.
    pub fn signed(&mut self, handshake: Handshake, signature: [u8; 64]) {
        let Some(line) = self.lines.get_mut(handshake.line as usize) else { return };
        if let (true, Some(wanted), Some((_, quic))) = (line.attempt == handshake.attempt, &line.wanted, &mut line.quic)
        {
            wanted.sign(signature);
            // quinn continues with the next packet from the server, which is its answer to this one.
            quic.ping();
            self.queue_transmit(handshake.line);
        }
    }

    /// A handshake will not be signed: it ends, and is retried like any failed one.
    pub fn refused(&mut self, now: Instant, handshake: Handshake) {
        let Some(line) = self.lines.get(handshake.line as usize) else { return };
        if let (true, Some(wanted)) = (line.attempt == handshake.attempt, &line.wanted) {
            wanted.refuse();
            self.give_up_failed(handshake.line, now);
            self.queue_transmit(handshake.line);
        }
    }

    /// Closes a connection for good. What is unacknowledged counts as lost.
    pub fn close(&mut self, now: Instant, id: ClientConnectionId) {
        if self.line(id).is_none() {
            return;
        }
        let line = &mut self.lines[id.line as usize];
        line.state = ConnectionState::Closed;
        line.reconnect_at = None;
        if let Some((_, quic)) = &mut line.quic {
            quic.close(now, varint(0), Bytes::new());
            self.settle(id.line);
            self.queue_transmit(id.line);
        }
    }

    /// Sends a transaction on whichever connection has room, in turns of 64 transactions.
    pub fn send_transaction(&mut self, bytes: &[u8]) -> Result<SendReceipt, WouldBlock> {
        for _ in 0..self.lines.len() {
            let line = self.turn_line;
            if self.turn_count < TURN && self.try_send(line as u32, bytes) {
                self.turn_count += 1;
                return Ok(SendReceipt { connection: self.id_of(line as u32) });
            }
            self.turn_line = (line + 1) % self.lines.len();
            self.turn_count = 0;
        }
        // All others are full; the one whose turn was over may not be.
        let line = self.turn_line;
        if !self.lines.is_empty() && self.try_send(line as u32, bytes) {
            self.turn_count += 1;
            return Ok(SendReceipt { connection: self.id_of(line as u32) });
        }
        self.counters.would_block += 1;
        Err(WouldBlock)
    }

    /// Sends a transaction on this connection.
    pub fn send_transaction_on(
        &mut self,
        connection: ClientConnectionId,
        bytes: &[u8],
    ) -> Result<SendReceipt, WouldBlock> {
        if self.line(connection).is_some() && self.try_send(connection.line, bytes) {
            return Ok(SendReceipt { connection });
        }
        self.counters.would_block += 1;
        Err(WouldBlock)
    }

    /// Takes in one UDP payload from `from`. Copies it.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, ecn: Option<EcnCodepoint>, payload: &[u8]) {
        self.counters.datagrams_in += 1;
        self.scratch.clear();
        let payload = BytesMut::from(payload);
        match self.endpoint.handle(now, from, None, ecn, payload, &mut self.scratch) {
            None => self.counters.datagrams_ignored += 1,
            Some(DatagramEvent::Response(transmit)) => {
                // Only stateless resets, and the endpoint limits their rate.
                self.responses.push(transmit, &self.scratch, usize::MAX);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(&Some(id)) = self.by_handle.get(handle.0) else {
                    return;
                };
                let (_, quic) = self.lines[id as usize].quic.as_mut().expect("a known handle");
                quic.handle_event(event);
                self.take_events(id, now);
                self.give_up_failed(id, now);
                self.queue_transmit(id);
                let line = &self.lines[id as usize];
                let message = line.wanted.as_ref().and_then(|wanted| wanted.take_message());
                let handshake = Handshake { line: id, attempt: line.attempt };
                self.to_sign.extend(message.map(|message| (handshake, message)));
            }
        }
    }

    /// The time at which [`Self::handle_timeout`] is next wanted. Calling it early or late is safe.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.next()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.deadlines.pop_due(now) {
            let line = &mut self.lines[id as usize];
            if line.reconnect_at.is_some_and(|at| at <= now) {
                line.reconnect_at = None;
                self.dial(id, now);
            } else if let Some((_, quic)) = &mut line.quic {
                quic.handle_timeout(now);
                self.take_events(id, now);
                self.queue_transmit(id);
            }
            self.after_activity(id, now);
        }
    }

    /// Whether there may be something for [`Self::poll_transmit`].
    pub fn has_transmit(&self) -> bool {
        !self.responses.is_empty() || !self.to_transmit.is_empty()
    }

    /// Writes the next datagrams to be sent into `buffer` (cleared first) and says where they go.
    pub fn poll_transmit(&mut self, now: Instant, buffer: &mut Vec<u8>) -> Option<Transmit> {
        buffer.clear();
        if let Some(transmit) = self.responses.pop(buffer) {
            self.counters.datagrams_out += 1;
            return Some(transmit);
        }
        while let Some(&id) = self.to_transmit.front() {
            let line = &mut self.lines[id as usize];
            if let Some((_, quic)) = &mut line.quic
                && let Some(transmit) = quic.poll_transmit(now, self.config.segments_max, buffer)
            {
                let transmit = Transmit::from_quinn(transmit);
                self.counters.datagrams_out += transmit.datagram_count() as u64;
                return Some(transmit);
            }
            line.transmit_queued = false;
            self.to_transmit.pop_front();
            let over = line.state != ConnectionState::Connected
                && line.quic.as_ref().is_some_and(|(_, quic)| quic.is_closed());
            if over {
                // The close, if any, is sent, so there is no reason to linger.
                self.hang_up(id);
            }
            self.after_activity(id, now);
        }
        None
    }

    /// Begins a handshake with the line's address.
    fn dial(&mut self, id: u32, now: Instant) {
        let address = self.lines[id as usize].address;
        self.counters.connects += 1;
        let (crypto, wanted): (Arc<dyn crypto::ClientConfig>, _) = match &self.identity {
            Identity::Settled(crypto) => (crypto.clone(), None),
            Identity::Elsewhere(public_key) => match deferred::config(public_key, ALPN_TPU) {
                Ok((crypto, wanted)) => (crypto, Some(wanted)),
                Err(error) => return self.disconnected(id, now, error.to_string()),
            },
        };
        let mut config = quinn_proto::ClientConfig::new(crypto);
        config.transport_config(Arc::clone(&self.transport)).initial_dst_cid_provider(Arc::clone(&self.initial_cids));
        match self.endpoint.connect(now, config, address, SERVER_NAME) {
            Ok((handle, quic)) => {
                if self.by_handle.len() <= handle.0 {
                    self.by_handle.resize(handle.0 + 1, None);
                }
                self.by_handle[handle.0] = Some(id);
                let line = &mut self.lines[id as usize];
                line.state = ConnectionState::Connecting;
                (line.wanted, line.attempt) = (wanted, line.attempt.wrapping_add(1));
                line.quic = Some((handle, Box::new(quic)));
                self.queue_transmit(id);
            }
            Err(error) => self.disconnected(id, now, error.to_string()),
        }
    }

    /// Frees the transport of a line.
    fn hang_up(&mut self, id: u32) {
        if let Some((handle, _)) = self.lines[id as usize].quic.take() {
            self.by_handle[handle.0] = None;
            self.endpoint.handle_event(handle, EndpointEvent::drained());
        }
    }

    /// Ends a handshake that failed after its signature, or will have none. quinn would notice the first only with the
    /// next handshake message and, as there is none, after its timeout; and the second no earlier.
    fn give_up_failed(&mut self, id: u32, now: Instant) {
        let line = &mut self.lines[id as usize];
        let Some(reason) = line.wanted.as_ref().and_then(|wanted| wanted.take_failure()) else { return };
        let Some((_, quic)) = &mut line.quic else { return };
        quic.close(now, varint(0), Bytes::new());
        if line.state == ConnectionState::Connecting {
            self.disconnected(id, now, reason);
        }
    }

    /// Handles the end of a connection: accounts for what was in flight, and schedules the next attempt.
    fn disconnected(&mut self, id: u32, now: Instant, error: String) {
        self.counters.disconnected += 1;
        self.settle(id);
        let line = &mut self.lines[id as usize];
        line.last_error = Some(error);
        if line.state != ConnectionState::Closed {
            line.state = ConnectionState::Waiting;
            let at = now + line.pause;
            line.reconnect_at = Some(at);
            line.pause = (line.pause * 2).min(self.config.reconnect_max);
            self.deadlines.advance(id, at);
        }
    }

    /// Counts everything in flight on a line as lost.
    fn settle(&mut self, id: u32) {
        let line = &mut self.lines[id as usize];
        self.counters.lost += std::mem::take(&mut line.in_flight);
        line.rest = None;
    }

    fn take_events(&mut self, id: u32, now: Instant) {
        loop {
            let line = &mut self.lines[id as usize];
            let Some((_, quic)) = &mut line.quic else {
                return;
            };
            match quic.poll() {
                Some(Event::Stream(StreamEvent::Finished { .. })) => {
                    // After a close of ours, what was in flight is already counted as lost.
                    if line.in_flight > 0 {
                        line.in_flight -= 1;
                        self.counters.acknowledged += 1;
                    }
                }
                Some(Event::Stream(StreamEvent::Stopped { id: stream, .. })) => {
                    if line.rest.as_ref().is_some_and(|rest| rest.id == stream) {
                        line.rest = None;
                    }
                    // If it fails, the stream was acknowledged meanwhile, and an event says so.
                    if quic.send_stream(stream).reset(varint(0)).is_ok() && line.in_flight > 0 {
                        line.in_flight -= 1;
                        self.counters.stopped += 1;
                    }
                }
                Some(Event::Stream(StreamEvent::Writable { .. })) => line.write_rest(),
                Some(Event::Connected) => {
                    self.counters.connected += 1;
                    line.state = ConnectionState::Connected;
                    line.pause = self.config.reconnect_initial;
                }
                Some(Event::ConnectionLost { reason }) => {
                    // A second reason may follow the first.
                    if matches!(line.state, ConnectionState::Connecting | ConnectionState::Connected) {
                        self.disconnected(id, now, reason.to_string());
                    }
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    fn try_send(&mut self, id: u32, bytes: &[u8]) -> bool {
        let line = &mut self.lines[id as usize];
        if line.state != ConnectionState::Connected || line.rest.is_some() {
            return false;
        }
        let Some((_, quic)) = &mut line.quic else {
            return false;
        };
        let Some(stream) = quic.streams().open(Dir::Uni) else {
            return false;
        };
        let mut send = quic.send_stream(stream);
        send.set_priority(oldest_first(stream)).expect("a stream just opened");
        if self.arena.capacity() < bytes.len() {
            self.arena = BytesMut::with_capacity(ARENA_BYTES.max(bytes.len()));
        }
        self.arena.extend_from_slice(bytes);
        let mut chunk = [self.arena.split().freeze()];
        // A partial write is followed by one that is refused: only then quinn reports when there is room again.
        while !chunk[0].is_empty() {
            match send.write_chunks(&mut chunk) {
                Ok(_) => {}
                Err(WriteError::Blocked) => break,
                Err(error) => unreachable!("a stream just opened takes bytes: {error}"),
            }
        }
        let [rest] = chunk;
        if rest.is_empty() {
            send.finish().expect("a stream just opened can be finished");
        } else {
            line.rest = Some(RemainingBytes { id: stream, bytes: rest });
        }
        line.in_flight += 1;
        self.counters.sent += 1;
        self.queue_transmit(id);
        true
    }

    fn queue_transmit(&mut self, id: u32) {
        let line = &mut self.lines[id as usize];
        if !line.transmit_queued {
            line.transmit_queued = true;
            self.to_transmit.push_back(id);
        }
    }

    /// Keeps the endpoint and the deadline of a line up to date.
    fn after_activity(&mut self, id: u32, now: Instant) {
        let line = &mut self.lines[id as usize];
        let mut deadline = line.reconnect_at;
        if let Some((handle, quic)) = &mut line.quic {
            if pass_events(&mut self.endpoint, *handle, quic) && !line.transmit_queued {
                line.transmit_queued = true;
                self.to_transmit.push_back(id);
            }
            deadline = [deadline, quic.poll_timeout()].into_iter().flatten().min();
        }
        if let Some(at) = deadline {
            self.deadlines.advance_after(id, at, now);
        }
    }
}

/// Priority of a stream's data: earlier streams are retransmitted first. At equal priority a lost transaction would
/// queue behind everything sent after it, and on a poor path reach the server after its stream time-out. In steps of 64
/// streams an `i32` lasts for 2^37 of them.
fn oldest_first(stream: StreamId) -> i32 {
    -((stream.index() >> 6).min(i32::MAX as u64) as i32)
}

impl LeaderConnection {
    /// Writes on a stream that flow control held up.
    fn write_rest(&mut self) {
        let (Some(rest), Some((_, quic))) = (&mut self.rest, &mut self.quic) else {
            return;
        };
        let mut send = quic.send_stream(rest.id);
        while !rest.bytes.is_empty() {
            // Leaves the unwritten rest in the slice. Stopped streams have their own event.
            if send.write_chunks(std::slice::from_mut(&mut rest.bytes)).is_err() {
                return;
            }
        }
        if send.finish().is_ok() {
            self.rest = None;
        }
    }
}

#[cfg(test)]
mod tests;

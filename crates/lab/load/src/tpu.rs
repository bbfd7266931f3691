//! Sends to TPUs: one UDP socket, and a QUIC connection to each leader.
//!
//! reads   UDP payloads; the leaders' addresses
//! writes  UDP payloads, in batches of equal segments
//! memory  the transport's send window of 8 MiB per connection; 16 receive buffers of 64 KiB
//! drops   nothing: without room it accepts no more
//! source  [`hearth_quic::Client`]

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hearth_quic::{Client, ClientConfig, ClientConnectionId, ClientCounters, ConfigError, ConnectionState};
use hearth_tile::sys::event::{EventFd, wait_readable};
use hearth_tile::sys::udp::{Message, Options, PortSharing, RecvBatch, UdpSocket};

const SLOTS: usize = 16;
const SOCKET_BUFFER: usize = 4 << 20;
/// The most runs of datagrams passed to the kernel in one turn.
const SENDS_PER_TURN: usize = 16;
/// How many connected leaders a transaction is sent to: the current one and the next.
const FANOUT: usize = 2;

/// Why TPUs cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum TpuError {
    /// The socket cannot be opened.
    #[error("no UDP port to send from: {0}")]
    Socket(#[from] io::Error),
    /// The transport rejects its configuration.
    #[error(transparent)]
    Quic(#[from] ConfigError),
    /// The system provides no random bytes.
    #[error("no random bytes for a connection: {0}")]
    Entropy(getrandom::Error),
}

/// A client of TPUs.
pub struct Tpu {
    client: Client,
    socket: UdpSocket,
    received: RecvBatch,
    event: EventFd,
    lines: Vec<(SocketAddr, ClientConnectionId)>,
    buffer: Vec<u8>,
    unsent: Option<(SocketAddr, Option<u16>)>,
    /// Sends that the kernel refused with an error other than a full buffer.
    refused: u64,
    error: Option<String>,
}

impl Tpu {
    /// Opens a socket for these addresses; sends nothing yet.
    pub fn open(targets: &[SocketAddr]) -> Result<Self, TpuError> {
        let is_v4 = targets.first().is_none_or(SocketAddr::is_ipv4);
        let any: SocketAddr = if is_v4 { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any, Options { sharing: PortSharing::None, buffer_bytes: SOCKET_BUFFER })?;
        let local = targets.iter().all(|target| target.ip().is_loopback());
        let config = if local { ClientConfig::local() } else { ClientConfig::default() };
        let segments_max = if socket.gso() { config.segments_max } else { 1 };
        let (mut identity, mut entropy) = ([0; 32], [0; 32]);
        getrandom::fill(&mut identity).map_err(TpuError::Entropy)?;
        getrandom::fill(&mut entropy).map_err(TpuError::Entropy)?;
        let client = Client::new(ClientConfig { segments_max, ..config }, Some(&identity), &entropy)?;
        Ok(Self {
            client,
            socket,
            received: RecvBatch::new(SLOTS),
            event: EventFd::new()?,
            lines: vec![],
            buffer: Vec::with_capacity(64 << 10),
            unsent: None,
            refused: 0,
            error: None,
        })
    }

    /// Sends to these addresses from now on, preferring the first.
    pub fn aim(&mut self, now: Instant, targets: &[SocketAddr]) {
        for (address, id) in &self.lines {
            if !targets.contains(address) {
                self.client.close(now, *id);
            }
        }
        let before = std::mem::take(&mut self.lines);
        for &target in targets {
            let known = before.iter().find(|(address, _)| *address == target).map(|(_, id)| *id);
            self.lines.push((target, known.unwrap_or_else(|| self.client.connect(now, target))));
        }
    }

    /// Returns the open connections, the nearest leader's first.
    fn connected(&self) -> impl Iterator<Item = ClientConnectionId> {
        let all = self.lines.iter().map(|(_, id)| *id);
        all.filter(|id| self.client.state(*id) == ConnectionState::Connected)
    }

    /// Returns whether any leader can be sent to: a dead leader leaves its slots to the next.
    pub fn is_connected(&self) -> bool {
        self.connected().next().is_some()
    }

    /// Passes a transaction to the transport. Returns whether there was room for it.
    pub fn send(&mut self, raw: &[u8]) -> bool {
        let mut taken = false;
        let mut nearest = [None; FANOUT];
        nearest.iter_mut().zip(self.connected()).for_each(|(place, id)| *place = Some(id));
        for id in nearest.into_iter().flatten() {
            taken |= self.client.send_transaction_on(id, raw).is_ok();
        }
        taken
    }

    /// Receives pending packets and handles timers. Returns whether there was anything.
    pub fn turn(&mut self, now: Instant) -> bool {
        let mut busy = false;
        match self.socket.receive(&mut self.received) {
            Ok(0) => {}
            Ok(_) => {
                for (from, data) in self.received.datagrams() {
                    self.client.handle_datagram(now, from, None, data);
                }
                busy = true;
            }
            Err(why) => self.error = Some(why.to_string()),
        }
        if self.client.next_timeout().is_some_and(|due| due <= now) {
            self.client.handle_timeout(now);
            busy = true;
        }
        self.transmit(now) || busy
    }

    /// Sends pending packets. Returns whether there were any.
    pub fn transmit(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for _ in 0..SENDS_PER_TURN {
            if self.unsent.is_none() {
                let Some(transmit) = self.client.poll_transmit(now, &mut self.buffer) else { break };
                self.unsent = Some((transmit.to, transmit.segment_size.map(|size| size as u16)));
            }
            let Some((to, segment)) = self.unsent else { break };
            match self.socket.send(&[Message { to, data: &self.buffer, segment }]) {
                Ok(0) => break,
                Ok(_) => {}
                Err(why) => {
                    self.refused += 1;
                    self.error = Some(format!("{to}: {why}"));
                }
            }
            self.unsent = None;
            moved = true;
        }
        moved
    }

    /// Sleeps until a packet arrives, a timer is due, or `longest` is over.
    pub fn wait(&self, longest: Duration) {
        let now = Instant::now();
        let due = self.client.next_timeout().map_or(longest, |due| due.saturating_duration_since(now));
        wait_readable(&self.event, &[self.socket.raw_fd()], due.min(longest).as_nanos() as u64);
    }

    /// Counts connections that ended or failed, and transactions that a server stopped or that were pending on a
    /// connection that ended.
    pub fn failures(&self) -> u64 {
        let ClientCounters { disconnected, stopped, lost, .. } = *self.client.counters();
        disconnected + stopped + lost + self.refused
    }

    /// Returns the most recent reason for a failure.
    pub fn last_error(&self) -> Option<String> {
        let of_line = |(address, id): &(SocketAddr, ClientConnectionId)| {
            self.client.last_error(*id).map(|why| format!("TPU {address}: {why}"))
        };
        self.lines.iter().find_map(of_line).or_else(|| self.error.clone())
    }
}

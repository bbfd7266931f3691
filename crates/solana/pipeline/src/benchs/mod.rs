//! benchs: sends transactions to a TPU over QUIC.
//!
//! reads   `benchg_benchs`, reliable: signed transactions; its UDP socket
//! writes  its UDP socket
//! memory  the client's send window per connection; 16 receive buffers × 64 KiB
//! drops   nothing by itself: without room it stops reading. Transactions that the transport gave up count as lost or
//!         stopped, so sent = acknowledged + stopped + lost + in flight
//! source  [`hearth_quic::Client`]

use std::net::SocketAddr;

use hearth_quic::{Client, ClientConfig};
use hearth_tile::sys::udp::{Message, Options, PortSharing, RecvBatch, UdpSocket};
use hearth_tile::{Clock, Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Tile, WaitFor};

use crate::links::{OUTGOING_MTU, TXN_MTU};

hearth_tile::counters! {
    /// The counters of benchs.
    pub struct Counters {
        /// Transactions accepted by the transport.
        sent: Counter,
        /// Transactions that the server's transport acknowledged in full.
        acknowledged: Counter,
        /// Transactions that the server refused to read on.
        stopped: Counter,
        /// Transactions without acknowledgement when their connection ended.
        lost: Counter,
        /// Transactions not yet acknowledged.
        in_flight: Gauge,
        /// Handshakes done with the node.
        connected: Counter,
        /// Connections that ended or could not be made.
        disconnected: Counter,
        /// QUIC datagrams received from the node.
        datagrams_in: Counter,
        /// QUIC datagrams sent to the node.
        datagrams_out: Counter,
        /// Sends that the kernel refused with an error other than a full buffer.
        send_errors: Counter,
        /// Receives that failed with an error.
        receive_errors: Counter,
    }
}

/// The configuration of benchs: the address to send to, and how to send.
#[derive(Clone, Debug)]
pub struct Config {
    /// The TPU's QUIC port.
    pub target: SocketAddr,
    /// Connections per benchs tile.
    pub connections: usize,
    /// Settings of the QUIC client.
    pub client: ClientConfig,
    /// The seed of the key that the connections present; `None` uses a key of their own.
    pub identity: Option<[u8; 32]>,
}

const SLOTS: usize = 16;
const SOCKET_BUFFER: usize = 4 << 20;
/// Maximum runs of datagrams passed to the kernel per turn.
const SENDS_PER_TURN: usize = 8;

/// Sends transactions through its QUIC client.
pub struct Benchs {
    client: Client,
    clock: Clock,
    socket: UdpSocket,
    batch: RecvBatch,
    /// Whether the core has found nothing to receive as it woke, and no turn has come since.
    is_drained: bool,
    waiting: Option<([u8; TXN_MTU], usize)>,
    unsent: Option<(SocketAddr, Option<u16>)>,
    buffer: Vec<u8>,
}

impl Tile for Benchs {
    const NAME: &'static str = "benchs";
    const BURST: usize = 0;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let any: SocketAddr = if config.target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().expect("an address");
        let options = Options { sharing: PortSharing::None, buffer_bytes: SOCKET_BUFFER };
        let socket = UdpSocket::bind(any, options).map_err(|e| host.socket_error("a UDP port to send from", e))?;
        let (identity, entropy) = (config.identity.unwrap_or_else(|| host.secret()), host.secret());
        let client_config = match socket.gso() {
            true => config.client,
            false => ClientConfig { segments_max: 1, ..config.client },
        };
        let mut client = Client::new(client_config, Some(&identity), &entropy).map_err(|e| host.error(e))?;
        let clock = host.clock().clone();
        for _ in 0..config.connections {
            client.connect(clock.instant(clock.now()), config.target);
        }
        let buffer = Vec::with_capacity(OUTGOING_MTU);
        let batch = RecvBatch::new(SLOTS);
        Ok(Self { client, clock, socket, batch, is_drained: false, waiting: None, unsent: None, buffer })
    }

    fn filter(&mut self, _: &FragMeta, _: In) -> Filter {
        if self.waiting.is_some() { Filter::Later } else { Filter::Take }
    }

    fn on_frag(&mut self, frag: Frag<'_>, _: &mut Out<'_, Self>) {
        if self.client.send_transaction(frag.payload()).is_err() {
            let mut bytes = [0; TXN_MTU];
            bytes[..frag.payload().len()].copy_from_slice(frag.payload());
            self.waiting = Some((bytes, frag.payload().len()));
        }
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.transmit(out);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let now = self.clock.instant(out.now());
        let mut busy = self.receive(out);
        if self.client.next_timeout().is_some_and(|due| due <= now) {
            self.client.handle_timeout(now);
            busy = true;
        }
        if let Some((bytes, len)) = &self.waiting
            && self.client.send_transaction(&bytes[..*len]).is_ok()
        {
            self.waiting = None;
            busy = true;
        }
        busy |= self.transmit(out);
        if busy { Poll::Busy } else { Poll::Idle }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        let c = self.client.counters();
        out.count.sent = c.sent;
        out.count.acknowledged = c.acknowledged;
        out.count.stopped = c.stopped;
        out.count.lost = c.lost;
        out.count.in_flight = self.client.in_flight();
        out.count.connected = c.connected;
        out.count.disconnected = c.disconnected;
        out.count.datagrams_in = c.datagrams_in;
        out.count.datagrams_out = c.datagrams_out;
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(self.client.next_timeout().map(|due| self.clock.at(due)));
        wait.descriptors([self.socket.raw_fd()]);
    }

    fn slept(&mut self, readable: u32) {
        self.is_drained = readable & 1 == 0;
    }
}

impl Benchs {
    /// Receives what has arrived, unless the core has just found that nothing has, or looks next, as it sleeps.
    fn receive(&mut self, out: &mut Out<'_, Self>) -> bool {
        if std::mem::take(&mut self.is_drained) || out.sleeps_next() {
            return false;
        }
        let now = self.clock.instant(out.now());
        match self.socket.receive(&mut self.batch) {
            Ok(0) => false,
            Ok(_) => {
                for (from, data) in self.batch.datagrams() {
                    self.client.handle_datagram(now, from, None, data);
                }
                true
            }
            Err(_) => {
                out.count.receive_errors += 1;
                false
            }
        }
    }

    fn transmit(&mut self, out: &mut Out<'_, Self>) -> bool {
        let now = self.clock.instant(out.fresh_now());
        let mut moved = false;
        for _ in 0..SENDS_PER_TURN {
            if self.unsent.is_none() {
                let Some(transmit) = self.client.poll_transmit(now, &mut self.buffer) else { break };
                self.unsent = Some((transmit.to, transmit.segment_size.map(|s| s as u16)));
            }
            let Some((to, segment)) = self.unsent else { break };
            match self.socket.send(&[Message { to, data: &self.buffer, segment }]) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => out.count.send_errors += 1,
            }
            self.unsent = None;
            moved = true;
        }
        moved
    }
}

#[cfg(test)]
mod tests;

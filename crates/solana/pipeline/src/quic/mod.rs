//! quic: the Solana TPU protocol: turns datagrams into whole transactions.
//!
//! reads   `net_quic` ×N, reliable: datagrams of the QUIC port and of the plain UDP port; in a cluster `txsend_quic`,
//!         reliable: the stakes of the current epoch
//! writes  `quic_verify` ×V, elective: a transaction's bytes, to the verify tile with the shortest queue; `quic_net`,
//!         elective: datagrams to send; copies of transactions for a [recording](crate::capture), where there is one
//! memory  the server's limits: connections × [`hearth_quic::ServerConfig::unread_bytes_max`]; in a cluster
//!         [`STAKES_BYTES_MAX`]
//! drops   over QUIC nothing for lack of room: without room downstream, streams wait in their connection's flow
//!         control; what is unread when we close a connection is counted. Over UDP a transaction that finds no room, or
//!         is longer than a packet. All counted
//! source  facts of Agave's streamer: a transaction per unidirectional stream, ALPN `solana-tpu`
//!
//! Transactions may overtake each other on their way through different verify tiles; pack orders by pay anyway.

use hearth_ledger::drop_log::DropReason;
use hearth_quic::{Server, ServerConfig, ServerCounters, Stakes};
use hearth_tile::latency::TAKEN;
use hearth_tile::{Clock, Frag, Host, In, InitError, LatencyDecl, Out, Poll, Port, Tile, WaitFor};

use crate::capture::Tap;
use crate::drops::DropLog;
use crate::links::{
    Datagram, NET_QUIC, OUTGOING_MTU, Outgoing, PortKind, QUIC_NET, QUIC_VERIFY, STAKED_MAX, StakesPiece, TXN_MTU,
    TXSEND_QUIC,
};

/// Declares the tile's own counters and all of the server's, which keep their names.
macro_rules! with_server_counters {
    ($($(#[doc = $help:literal])+ $field:ident,)*) => {
        hearth_tile::counters! {
            /// The counters of quic.
            pub struct Counters {
                /// Transactions passed on to verify.
                forwarded: Counter,
                /// Transactions received by plain UDP.
                udp_received: Counter,
                /// Transactions received by plain UDP and dropped, since no verify tile had room.
                udp_dropped_full: Counter,
                /// Datagrams on the plain UDP port that are empty or longer than a transaction may be.
                udp_dropped_size: Counter,
                /// QUIC connections held now, those in their handshake included.
                connections: Gauge,
                /// Connections whose handshake is under way.
                half_open: Gauge,
                /// Bytes of datagrams and unfinished streams that wait to be read.
                unread_bytes: Gauge,
                /// Identities with stake in the present epoch, as last learnt; 0 in a node alone.
                staked_identities: Gauge,
                $($(#[doc = $help])+ $field: Counter,)*
            }
        }

        /// Every counter of the server: one that is not listed here does not compile.
        fn copy_server_counters(to: &mut Counters, from: &ServerCounters) {
            let ServerCounters { $($field),* } = *from;
            $(to.$field = $field;)*
        }
    };
}

with_server_counters! {
    /// QUIC datagrams handed to the server.
    datagrams_in,
    /// QUIC datagrams that belong to no connection and start none.
    datagrams_ignored,
    /// QUIC datagrams sent.
    datagrams_out,
    /// Answers outside a connection that found the response queue full.
    responses_dropped,
    /// Connection attempts seen.
    connects,
    /// Connection attempts answered with a Retry, to have the address proven.
    retries_sent,
    /// Connection attempts left unanswered: too many half-open connections.
    refused_half_open,
    /// First packets of connections dropped unread: too many a second.
    initials_dropped,
    /// Connections refused: all are in use and none is idle.
    refused_connections_max,
    /// Connection attempts left unanswered: too many new connections in all.
    refused_rate,
    /// Connection attempts left unanswered: too many new connections from the address.
    refused_ip_rate,
    /// Connections closed: too many from the address, without stake.
    refused_ip_count,
    /// Connection attempts left unanswered: the table of addresses is full.
    refused_ip_table,
    /// Connection attempts whose first packet was malformed.
    refused_malformed,
    /// Connections closed after the handshake: too many with the same key.
    refused_key_count,
    /// QUIC handshakes started.
    handshakes_begun,
    /// Handshakes that failed: wrong protocol name, bad signature, transport error.
    handshakes_failed,
    /// Handshakes given up after the time allowed.
    handshakes_timed_out,
    /// Handshakes done: connections opened.
    connections_opened,
    /// Handshakes done in which the peer showed no usable key.
    connections_without_key,
    /// Handshakes done by a peer with stake.
    connections_with_stake,
    /// Open connections closed to make room.
    connections_evicted,
    /// Open connections that the peer closed.
    connections_closed_by_peer,
    /// Open connections that fell silent.
    connections_timed_out,
    /// Open connections ended by a protocol violation of the peer.
    connections_violated,
    /// Open connections closed because their unread datagrams held too much memory.
    connections_over_memory,
    /// Open connections closed because a stream, or the handshake, came in too many frames.
    connections_fragmented,
    /// Streams that peers opened and the server reads.
    streams_accepted,
    /// Transactions read from streams.
    transactions,
    /// Bytes of the transactions read from streams.
    transaction_bytes,
    /// Transactions put together from several reads.
    transactions_reassembled,
    /// Streams that ended without a byte.
    streams_empty,
    /// Streams that the peer took back.
    streams_reset,
    /// Streams never finished, stopped.
    streams_timed_out,
    /// Streams stopped because unfinished ones held too much memory.
    streams_over_memory,
    /// Streams longer than a transaction may be.
    streams_oversize,
    /// Streams unfinished when their connection ended.
    streams_abandoned,
    /// Streams not yet taken up when we closed their connection: evicted, or closed for an over-long stream.
    streams_unread,
    /// Times that a connection was not read until the next window of 100 ms.
    throttled,
}

/// Settings of the tile. The server creates a new TLS key at every start: only `sign` holds the identity key, and
/// clients do not compare the two.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits on connections, streams and memory.
    pub server: ServerConfig,
    /// Receives the tag and reason of each dropped transaction.
    pub drops: DropLog,
    /// Copies what is passed on, if the session is recorded.
    pub tap: Option<Tap>,
}

/// Maximum bytes for stakes: the table in force, and one arriving in chunks.
pub const STAKES_BYTES_MAX: usize = STAKED_MAX * (48 + 40);

/// Maximum transactions passed on, and datagrams sent, per turn.
const PER_TURN: usize = 128;

/// Runs the QUIC server between its links.
pub struct Quic {
    server: Server,
    clock: Clock,
    drops: DropLog,
    tap: Option<Tap>,
    verify: Queues,
    net: Port,
    /// The input for stakes, and the chunks of the next table so far.
    stakes: Option<In>,
    staked: Vec<([u8; 32], u64)>,
    buffer: Vec<u8>,
    /// When the first datagram of the current burst arrived, if nothing was left to read before it; else 0.
    received_us: u32,
}

impl Tile for Quic {
    const NAME: &'static str = "quic";
    const LATENCIES: &'static [LatencyDecl] = &[TAKEN];
    const BURST: usize = 0;
    type Config = Config;
    type Counters = Counters;

    fn new(config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let (tls_seed, entropy) = (host.secret(), host.secret());
        let clock = host.clock().clone();
        let server =
            Server::new(config.server, &tls_seed, &entropy, clock.instant(clock.now())).map_err(|e| host.error(e))?;
        let (verify, net) = (host.outputs(QUIC_VERIFY), host.output(QUIC_NET)?);
        for port in verify.iter().chain([&net]) {
            host.elective(*port);
        }
        host.input(NET_QUIC)?;
        let verify = Queues::new(verify);
        let stakes = host.inputs_named(TXSEND_QUIC).first().copied();
        let buffer = Vec::with_capacity(OUTGOING_MTU);
        Ok(Self {
            server,
            clock,
            drops: config.drops,
            tap: config.tap,
            verify,
            net,
            stakes,
            staked: vec![],
            buffer,
            received_us: 0,
        })
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        if self.stakes == Some(frag.input()) {
            return self.on_stakes(&StakesPiece::read(frag.payload()), out);
        }
        let datagram = Datagram::read(frag.payload());
        match datagram.port {
            PortKind::Quic => {
                if self.received_us == 0 && !self.server.has_readable() {
                    self.received_us = out.origin_us();
                }
                let now = self.clock.instant(out.now());
                self.server.handle_datagram(now, datagram.from, None, datagram.data);
            }
            PortKind::Udp => self.on_udp(datagram.data, out),
            PortKind::Tvu | PortKind::Repair | PortKind::ServeRepair | PortKind::Gossip | PortKind::TxSend => {
                unreachable!("net gives these to others")
            }
        }
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.pump(out);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        let now = self.clock.instant(out.now());
        if self.server.next_timeout().is_some_and(|due| due <= now) {
            self.server.handle_timeout(now);
        }
        if self.pump(out) { Poll::Busy } else { Poll::Idle }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        copy_server_counters(out.count, self.server.counters());
        out.count.connections = self.server.connection_count() as u64;
        out.count.half_open = self.server.half_open_count() as u64;
        out.count.unread_bytes = self.server.unread_bytes() as u64;
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        wait.until(self.server.next_timeout().map(|due| self.clock.at(due)));
    }
}

impl Quic {
    /// Takes a chunk of the epoch's table; the last one puts the table into force.
    fn on_stakes(&mut self, piece: &StakesPiece<'_>, out: &mut Out<'_, Self>) {
        if piece.first == 0 {
            self.staked = Vec::with_capacity(piece.total.min(STAKED_MAX));
        }
        assert_eq!(piece.first, self.staked.len(), "pieces of a table come in order");
        self.staked.extend(piece.entries());
        if self.staked.len() == piece.total {
            out.count.staked_identities = piece.total as u64;
            self.server.set_stakes(Stakes::new(std::mem::take(&mut self.staked)));
        }
    }

    fn on_udp(&mut self, data: &[u8], out: &mut Out<'_, Self>) {
        out.count.udp_received += 1;
        if data.is_empty() || data.len() > TXN_MTU {
            out.count.udp_dropped_size += 1;
            self.drops.record_bytes(data, DropReason::QuicSize, out);
            return out.filtered();
        }
        let Some(shortest) = self.verify.shortest(out) else {
            out.count.udp_dropped_full += 1;
            self.drops.record_bytes(data, DropReason::QuicFull, out);
            return out.filtered();
        };
        self.tap.iter().for_each(|tap| tap.transaction(out.now(), data));
        out.publish(self.verify.take(shortest), 0, data);
        out.count.forwarded += 1;
    }

    /// Passes transactions on and sends datagrams while there is room. Returns whether anything moved.
    fn pump(&mut self, out: &mut Out<'_, Self>) -> bool {
        let now = self.clock.instant(out.now());
        let mut moved = false;
        // Transactions that a turn leaves unread, for lack of room or of time, count as received when they are read:
        // until then the sender waits.
        match std::mem::take(&mut self.received_us) {
            0 => out.set_received(),
            received_us => out.set_origin(received_us),
        }
        for _ in 0..PER_TURN {
            if !self.server.has_readable() {
                break;
            }
            let Some(shortest) = self.verify.shortest(out) else {
                out.held_up();
                break;
            };
            let verify = &mut self.verify;
            let tap = &self.tap;
            let passed = self.server.poll_transaction(now, |_, bytes| {
                tap.iter().for_each(|tap| tap.transaction(out.now(), bytes));
                out.publish(verify.take(shortest), 0, bytes);
            });
            if passed.is_none() {
                break;
            }
            out.count.forwarded += 1;
            moved = true;
        }
        self.verify.looked = false;
        out.set_origin(0);
        for _ in 0..PER_TURN {
            if !self.server.has_transmit() {
                break;
            }
            if out.credits(self.net, 1) == 0 {
                out.held_up();
                break;
            }
            let Some(transmit) = self.server.poll_transmit(now, &mut self.buffer) else { break };
            let (segment, data) = (transmit.segment_size.unwrap_or(0), &self.buffer[..transmit.len]);
            out.publish_with(self.net, 0, |buffer| {
                buffer[Outgoing::HEADER..][..data.len()].copy_from_slice(data);
                Outgoing::write_header(buffer, (transmit.to, PortKind::Quic), segment as u16, data.len())
            });
            moved = true;
        }
        moved
    }
}

/// The verify links and the lengths of their queues: a verify tile whose core is busy with other work gets less.
struct Queues {
    ports: Vec<Port>,
    /// Each queue's length when first checked in this turn, plus what was sent since.
    lengths: Vec<usize>,
    looked: bool,
    /// Among equally short queues the first from this index on is used, so that all get their share.
    next: usize,
}

impl Queues {
    fn new(ports: Vec<Port>) -> Self {
        Self { lengths: vec![0; ports.len()], ports, looked: false, next: 0 }
    }

    /// Returns the shortest queue with room.
    fn shortest(&mut self, out: &mut Out<'_, Quic>) -> Option<usize> {
        if !self.looked {
            self.looked = true;
            self.lengths.iter_mut().zip(&self.ports).for_each(|(length, port)| *length = out.queued(*port));
        }
        let count = self.ports.len();
        let in_turn = (0..count).map(|i| (self.next + i) % count);
        // `min_by_key` returns the first of equal queues.
        in_turn.filter(|i| out.credits(self.ports[*i], 1) > 0).min_by_key(|i| self.lengths[*i])
    }

    /// Returns the port of a queue, and counts one more transaction in it.
    fn take(&mut self, index: usize) -> Port {
        self.lengths[index] += 1;
        self.next = (index + 1) % self.ports.len();
        self.ports[index]
    }
}

#[cfg(test)]
mod tests;

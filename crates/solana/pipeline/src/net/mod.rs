//! net: datagrams in and out of the node's UDP ports, in batches.
//!
//! reads   `quic_net` ×Q, `shred_net` ×S, `repair_net`, `gossip_net`, `rserve_net`, `txsend_net`, reliable: datagrams
//!         to send; its sockets
//! writes  `net_quic` ×Q, reliable: datagrams received, to the quic tile that the sender's address hashes to; in a
//!         cluster `net_shred` ×S, elective: shreds, to the tile that takes their slot; `net_repair`, elective:
//!         what comes to repair's port and is as long as a ping or as hashes of ancestors; `net_gossip`, elective: what
//!         comes to gossip; `net_rserve`, elective: requests for shreds; `net_txsend`, elective: what leaders answer;
//!         bytes by peer, for observers
//! memory  16 receive buffers × 64 KiB, which the sockets take in turn; one send queue of 64 messages; where links are
//!         emulated, what is under way there
//! drops   datagrams longer than the link's MTU; shreds where shred has no room, which come again by repair; what
//!         gossip has no room for, which is said again; requests where rserve has none, and pings and hashes of
//!         ancestors where repair has none, which are made again; what leaders answer where txsend has none, which
//!         QUIC sends again; the kernel's own (socket buffer full), read from the socket; outgoing ones that the
//!         kernel refuses, or whose address cannot be reached; what an emulated link loses. All counted
//! source  udp(7): recvmmsg with GRO, sendmmsg with GSO; several net tiles share the ports (SO_REUSEPORT)

pub mod links;
mod routes;

use std::net::{IpAddr, SocketAddr};

use hearth_netem::{Datagrams, Emulator};
use hearth_tile::bandwidth;
use hearth_tile::latency::stamp;
use hearth_tile::sys::udp::{MAX_POLLED, Message, Options, RecvBatch, Sharing, UdpSocket, is_unreachable, readable};
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Tile, WaitFor};

use crate::links::{DATAGRAM_MTU, Datagram, NET_TXSEND, Outgoing, PortKind};
use links::{LinksConfig, LinksWatch};

pub use routes::Routes;

hearth_tile::counters! {
    /// What net counts.
    pub struct Counters {
        /// Datagrams received from the sockets.
        received: Counter,
        /// Bytes of the datagrams received.
        received_bytes: Counter,
        /// Datagrams sent through the sockets.
        sent: Counter,
        /// Bytes of the datagrams sent.
        sent_bytes: Counter,
        /// Datagrams dropped because they were longer than a link carries.
        dropped_oversize: Counter,
        /// Shreds dropped because shred had no room for them.
        dropped_shreds: Counter,
        /// Pings of repair's servers, and hashes of ancestors, dropped because repair had no room for them.
        dropped_pings: Counter,
        /// Datagrams dropped because gossip had no room for them.
        dropped_gossip: Counter,
        /// Requests for shreds dropped because rserve had no room for them.
        dropped_requests: Counter,
        /// Datagrams of leaders dropped because txsend had no room for them.
        dropped_answers: Counter,
        /// Datagrams the kernel dropped because the socket's buffer was full.
        dropped_by_kernel: Counter,
        /// Datagrams not sent, since the kernel knows no way to their address or is told not to send there.
        dropped_unreachable: Counter,
        /// Sends that the kernel refused with another error than these and a full buffer.
        send_errors: Counter,
        /// Receives that failed with an error.
        receive_errors: Counter,
        /// Datagrams that an emulated link delayed (`development.links.file`).
        links_delayed: Counter,
        /// Datagrams that an emulated link lost, as its map wants it.
        links_lost: Counter,
        /// Datagrams not sent, since the emulated network is cut there.
        links_cut: Counter,
        /// Datagrams dropped because too many bytes were under way on emulated links.
        dropped_links_full: Counter,
        /// Files of emulated links that were wrong, so that what the last one said stayed.
        links_files_refused: Counter,
    }
}

/// Where net listens.
#[derive(Debug, Default)]
pub struct Config {
    /// The ports of transactions; `None` where the node takes none.
    pub transactions: Option<TransactionPorts>,
    /// The ports of shreds; `None` where the node is alone.
    pub shreds: Option<ShredPorts>,
    /// The port of gossip; `None` where the node is alone.
    pub gossip: Option<SocketAddr>,
    /// The address from which transactions are sent to leaders, from any port; `None` where the node is alone.
    pub sends_from: Option<IpAddr>,
    /// Kernel buffer asked for per socket and direction, bytes.
    pub socket_buffer_bytes: usize,
    /// What is between this node and others of this machine; `None` where nothing is emulated.
    pub links: Option<LinksConfig>,
    /// Sockets of these ports that are bound already; where there are several net tiles, with [`Sharing::First`].
    pub bound: Vec<(PortKind, UdpSocket)>,
}

/// Where transactions come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionPorts {
    /// TPU over QUIC.
    pub quic: SocketAddr,
    /// Plain UDP TPU port.
    pub udp: SocketAddr,
}

/// Where shreds come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShredPorts {
    /// Down Turbine's tree.
    pub tvu: SocketAddr,
    /// Those that were asked for.
    pub repair: SocketAddr,
    /// Requests of others for shreds.
    pub serve_repair: SocketAddr,
}

/// Receive buffers, for one socket at a time.
const SLOTS: usize = 16;
/// Sends that the kernel had no room for are tried again after this long.
const RETRY_NS: u64 = 500_000;
/// The kernel is asked what it has dropped at most this often, nanoseconds.
const COUNT_DROPS_NS: u64 = 100_000_000;
/// The longest queue of sends that wait for the kernel.
const MAX_UNSENT: usize = 64;

/// The tile.
pub struct Net {
    sockets: Vec<(PortKind, UdpSocket)>,
    batch: RecvBatch,
    /// Received but not yet published, since a link was full: datagrams of the batch from this one on.
    resume: Option<(usize, usize)>,
    routes: Routes,
    unsent: Vec<Unsent>,
    /// What is on its way to others, where links are emulated.
    links: Option<Box<Links>>,
    /// When the batch was received.
    received_us: u32,
    last_poll_ns: u64,
    next: usize,
    /// Sockets that may have something, a bit each.
    readable: u16,
    /// Something was received since the kernel was asked what it has dropped.
    may_have_dropped: bool,
    count_drops_at: u64,
}

/// What is to be sent, by the port it goes from.
type Unsent = Datagrams<PortKind>;

/// Counts what the kernel did not take.
fn refused(unsent: &Unsent, error: &std::io::Error, count: &mut Counters) {
    match is_unreachable(error) {
        true => count.dropped_unreachable += unsent.count(),
        false => count.send_errors += 1,
    }
}

/// An emulated network, and its file.
struct Links {
    emulator: Emulator<PortKind>,
    watch: LinksWatch,
    look_at_ns: u64,
}

impl Links {
    fn open(config: &LinksConfig, seed: u64) -> Result<Box<Self>, String> {
        let (watch, rules) = LinksWatch::open(config)?;
        Ok(Box::new(Self { emulator: Emulator::new(rules, seed), watch, look_at_ns: 0 }))
    }

    /// Reads the file again if it has changed, and tells what became of datagrams.
    fn housekeep(&mut self, now_ns: u64, count: &mut Counters) {
        let told = self.emulator.counters;
        (count.links_delayed, count.links_lost) = (told.delayed, told.lost);
        (count.links_cut, count.dropped_links_full) = (told.cut, told.full);
        if now_ns < self.look_at_ns {
            return;
        }
        self.look_at_ns = now_ns + links::LOOK_NS;
        match self.watch.look() {
            None => {}
            Some(Ok(rules)) => self.emulator.set_rules(rules),
            Some(Err(_)) => count.links_files_refused += 1,
        }
    }
}

/// Binds the ports that are listened at, but for those that are bound already.
fn listen(config: &mut Config, host: &Host<'_>) -> Result<Vec<(PortKind, UdpSocket)>, InitError> {
    let sharing = match (host.peers(), host.index()) {
        (1, _) => Sharing::None,
        (_, 0) => Sharing::First,
        _ => Sharing::Joins,
    };
    let options = Options { sharing, buffer_bytes: config.socket_buffer_bytes };
    let mut bind = |kind, addr: SocketAddr, what: &str| {
        let at = config.bound.iter().position(|(other, _)| *other == kind);
        let bound = at.map_or_else(|| UdpSocket::bind(addr, options), |at| Ok(config.bound.swap_remove(at).1));
        bound.map(|socket| (kind, socket)).map_err(|e| host.socket_error(format!("{what} {addr}"), e))
    };
    let mut sockets = vec![];
    if let Some(ports) = &config.transactions {
        sockets.push(bind(PortKind::Quic, ports.quic, "the QUIC TPU port")?);
        sockets.push(bind(PortKind::Udp, ports.udp, "the UDP TPU port")?);
    }
    // Their senders have given them up, or send them again.
    sockets.iter().for_each(|(_, socket)| socket.discard());
    if let Some(ports) = &config.shreds {
        sockets.push(bind(PortKind::Tvu, ports.tvu, "the port of shreds")?);
        sockets.push(bind(PortKind::Repair, ports.repair, "the port of repair")?);
        sockets.push(bind(PortKind::ServeRepair, ports.serve_repair, "the port of repair's server")?);
    }
    if let Some(gossip) = config.gossip {
        sockets.push(bind(PortKind::Gossip, gossip, "the port of gossip")?);
    }
    Ok(sockets)
}

impl Tile for Net {
    const NAME: &'static str = "net";
    const BURST: usize = 0;
    const FRAGS_PER_RUN: usize = MAX_UNSENT;
    const PEERS: usize = bandwidth::PLACES;
    type Config = Config;
    type Counters = Counters;

    fn new(mut config: Config, host: &mut Host<'_>) -> Result<Self, InitError> {
        let mut sockets = listen(&mut config, host)?;
        let has_txsend = !host.outputs(NET_TXSEND).is_empty();
        if let Some(ip) = config.sends_from.filter(|_| has_txsend) {
            let options = Options { sharing: Sharing::None, buffer_bytes: config.socket_buffer_bytes };
            let socket = UdpSocket::bind(SocketAddr::new(ip, 0), options);
            let socket = socket.map_err(|e| host.socket_error(format!("a UDP port of {ip} to send from"), e))?;
            sockets.push((PortKind::TxSend, socket));
        }
        let seed = host.entropy();
        let links = config.links.as_ref().map(|links| Links::open(links, seed)).transpose();
        let links = links.map_err(|why| host.error(format!("development.links.file: {why}")))?;
        let routes = Routes::new(host);
        let has_ports = (config.transactions.is_some(), config.shreds.is_some(), config.gossip.is_some());
        let fits = routes.fit(has_ports);
        assert!(sockets.len() <= MAX_POLLED, "a socket that nobody asks for is never read");
        if !fits || sockets.is_empty() {
            return Err(host.error("the ports of the configuration and the links of the topology go together"));
        }
        Ok(Self {
            sockets,
            batch: RecvBatch::new(SLOTS),
            resume: None,
            routes,
            unsent: Vec::new(),
            links,
            received_us: 0,
            last_poll_ns: 0,
            next: 0,
            readable: 0,
            may_have_dropped: false,
            count_drops_at: 0,
        })
    }

    fn filter(&mut self, _: &FragMeta, _: In) -> Filter {
        if self.unsent.len() < MAX_UNSENT { Filter::Take } else { Filter::Later }
    }

    fn on_frag(&mut self, frag: Frag<'_>, out: &mut Out<'_, Self>) {
        let Outgoing { to, port, segment, data } = Outgoing::read(frag.payload());
        let unsent = Unsent { to, segment, data: data.to_vec(), tag: port };
        self.unsent.extend(match &mut self.links {
            None => Some(unsent),
            Some(links) => links.emulator.offer(out.now(), unsent),
        });
    }

    fn end_burst(&mut self, out: &mut Out<'_, Self>) {
        self.send(out);
    }

    fn poll(&mut self, out: &mut Out<'_, Self>) -> Poll {
        self.last_poll_ns = out.now();
        if let Some(links) = &mut self.links {
            let room = MAX_UNSENT.saturating_sub(self.unsent.len());
            let emulator = &mut links.emulator;
            self.unsent.extend((0..room).map_while(|_| emulator.due(self.last_poll_ns)));
        }
        let sent = !self.unsent.is_empty() && self.send(out);
        let received = match self.resume.take() {
            Some((socket, datagram)) => self.publish(socket, datagram, out),
            None => self.receive(out),
        };
        if sent || received { Poll::Busy } else { Poll::Idle }
    }

    fn housekeep(&mut self, out: &mut Out<'_, Self>) {
        // A buffer that was full has something to receive.
        if (self.may_have_dropped || self.resume.is_some()) && out.now() >= self.count_drops_at {
            (self.may_have_dropped, self.count_drops_at) = (false, out.now() + COUNT_DROPS_NS);
            out.count.dropped_by_kernel = self.sockets.iter().map(|(_, s)| s.kernel_drops()).sum();
        }
        if let Some(links) = &mut self.links {
            links.housekeep(out.now(), out.count);
        }
    }

    fn wait_for(&self) -> WaitFor {
        // A full kernel buffer is no event to wait for: look again soon.
        let retry = (!self.unsent.is_empty()).then_some(self.last_poll_ns + RETRY_NS);
        let due = self.links.as_ref().and_then(|links| links.emulator.next_ns());
        let deadline = retry.into_iter().chain(due).min();
        // With a batch in hand no socket is read: it waits for room, which its readers announce.
        let sockets = if self.resume.is_some() { &[][..] } else { &self.sockets };
        WaitFor { readable: sockets.iter().map(|(_, s)| s.raw_fd()).collect(), deadline }
    }
}

impl Net {
    /// Receives from one of the sockets that have something. Where none is known to, all are polled.
    fn receive(&mut self, out: &mut Out<'_, Self>) -> bool {
        if self.readable == 0 {
            self.readable = readable(self.sockets.iter().map(|(_, socket)| socket));
        }
        for _ in 0..self.sockets.len() {
            let socket = self.next % self.sockets.len();
            self.next += 1;
            if self.readable >> socket & 1 == 0 {
                continue;
            }
            // One batch each, then all are polled again: a socket that never runs dry starves no other.
            self.readable &= !(1 << socket);
            match self.sockets[socket].1.receive(&mut self.batch) {
                Ok(0) => {}
                Ok(_) => {
                    self.received_us = stamp(out.now());
                    self.may_have_dropped = true;
                    return self.publish(socket, 0, out);
                }
                Err(_) => out.count.receive_errors += 1,
            }
        }
        false
    }

    /// Publishes the batch's datagrams from number `first` on, as far as there is room.
    fn publish(&mut self, socket: usize, first: usize, out: &mut Out<'_, Self>) -> bool {
        let kind = self.sockets[socket].0;
        out.set_origin(self.received_us);
        for (number, (from, data)) in self.batch.datagrams().enumerate().skip(first) {
            if data.len() > DATAGRAM_MTU - Datagram::HEADER {
                out.count.dropped_oversize += 1;
                continue;
            }
            let datagram = Datagram { from, port: kind, data };
            if !self.routes.deliver(datagram, out) {
                out.held_up();
                self.resume = Some((socket, number));
                return number > first;
            }
        }
        true
    }

    /// Hands queued datagrams to the kernel. True when it took any.
    fn send(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut done = 0;
        while done < self.unsent.len() {
            let port = self.unsent[done].tag;
            // A run of the same port is one call.
            let run = self.unsent[done..].iter().take_while(|u| u.tag == port);
            let batch: Vec<Message<'_>> = run
                .map(|u| Message { to: u.to, data: &u.data, segment: (u.segment > 0).then_some(u.segment) })
                .collect();
            let socket = self.sockets.iter().find(|(kind, _)| *kind == port).unwrap_or(&self.sockets[0]);
            match socket.1.send(&batch) {
                Ok(0) => break,
                Ok(sent) => {
                    for u in &self.unsent[done..done + sent] {
                        out.count.sent += u.count();
                        out.count.sent_bytes += u.data.len() as u64;
                        out.sent_to(u.to, u.data.len());
                    }
                    done += sent;
                }
                Err(error) => {
                    refused(&self.unsent[done], &error, out.count);
                    done += 1;
                }
            }
        }
        self.unsent.drain(..done);
        done > 0
    }
}

#[cfg(test)]
mod tests;

//! net: receives and sends datagrams on the node's UDP ports, in batches.
//!
//! reads   `quic_net` ×Q, `shred_net` ×S, `repair_net`, `gossip_net`, `rserve_net`, `txsend_net`, reliable: datagrams
//!         to send; its sockets
//! writes  `net_quic` ×Q, reliable: received datagrams, to the quic tile that the sender's address hashes to; in a
//!         cluster `net_shred` ×S, elective: shreds, to the tile responsible for their slot; `net_repair`, elective:
//!         datagrams at the repair port that are as long as a ping or as hashes of ancestors; `net_gossip`, elective:
//!         gossip; `net_rserve`, elective: repair requests; `net_txsend`, elective: responses of leaders; bytes by
//!         peer, for observers; copies for a [recording](crate::capture), where there is one
//! memory  16 receive buffers × 64 KiB, which the sockets use in turn; one send queue of 64 messages; with emulated
//!         links, the datagrams in flight there
//! drops   datagrams longer than the link's MTU; if a link is full: shreds, which repair fetches again, gossip, which
//!         peers repeat, requests, pings and hashes of ancestors, which are repeated, and responses of leaders, which
//!         QUIC sends again; datagrams that the kernel drops (socket buffer full), read from the socket; outgoing ones
//!         that the kernel refuses or whose address is unreachable; losses of an emulated link. All counted
//! source  udp(7): recvmmsg with GRO, sendmmsg with GSO; several net tiles share the ports (SO_REUSEPORT)

pub mod links;
mod routes;

use std::net::{IpAddr, SocketAddr};

use hearth_netem::{Datagrams, Emulator};
use hearth_tile::bandwidth;
use hearth_tile::latency::stamp;
use hearth_tile::sys::udp::{
    MAX_POLLED, Message, Options, PortSharing, RecvBatch, UdpSocket, is_unreachable, may_be_split, readable,
};
use hearth_tile::{Filter, Frag, FragMeta, Host, In, InitError, Out, Poll, Tile, WaitFor};

use crate::capture::Tap;
use crate::links::{DATAGRAM_MTU, Datagram, NET_TXSEND, Outgoing, PortKind};
use links::{LinksConfig, LinksWatch};

pub use routes::Routes;

hearth_tile::counters! {
    /// The counters of net.
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
        /// Datagrams not sent, since the kernel has no route to their address or a firewall rule refuses it.
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
        /// Invalid files of emulated links; the rules of the last valid one stay.
        links_files_refused: Counter,
    }
}

/// The ports and sockets of net.
#[derive(Debug, Default)]
pub struct Config {
    /// The ports for transactions; `None` if the node accepts none.
    pub transactions: Option<TransactionPorts>,
    /// The ports for shreds; `None` if the node is alone.
    pub shreds: Option<ShredPorts>,
    /// The gossip port; `None` if the node is alone.
    pub gossip: Option<SocketAddr>,
    /// The address from which transactions are sent to leaders, from any port; `None` if the node is alone.
    pub sends_from: Option<IpAddr>,
    /// Kernel buffer to request per socket and direction, in bytes.
    pub socket_buffer_bytes: usize,
    /// The emulated network between this node and others on this machine; `None` without emulation.
    pub links: Option<LinksConfig>,
    /// Copies what is received, if the session is recorded.
    pub tap: Option<Tap>,
    /// Already bound sockets of these ports; with several net tiles, bound with [`PortSharing::First`].
    pub bound: Vec<(PortKind, UdpSocket)>,
}

/// Ports that receive transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionPorts {
    /// TPU over QUIC: one transaction per unidirectional stream.
    pub quic: SocketAddr,
    /// Plain UDP TPU port.
    pub udp: SocketAddr,
}

/// Ports that receive shreds and repair requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShredPorts {
    /// Shreds from the Turbine tree.
    pub tvu: SocketAddr,
    /// Other nodes' responses to this node's repair requests.
    pub repair: SocketAddr,
    /// Other nodes' repair requests.
    pub serve_repair: SocketAddr,
}

/// Receive buffers, used by one socket at a time.
const SLOTS: usize = 16;
/// How long to wait before retrying sends for which the kernel had no room.
const RETRY_NS: u64 = 500_000;
/// Minimum interval between reads of the kernel's drop counter, in nanoseconds.
const COUNT_DROPS_NS: u64 = 100_000_000;
/// Maximum sends that wait for the kernel.
const MAX_UNSENT: usize = 64;

/// Moves datagrams between sockets and links.
pub struct Net {
    sockets: Vec<(PortKind, UdpSocket)>,
    batch: RecvBatch,
    /// Position in the batch of the first received datagram not yet published, because a link was full.
    resume: Option<(usize, usize)>,
    routes: Routes,
    unsent: Vec<UnsentDatagrams>,
    /// With emulated links: the datagrams in flight.
    links: Option<Box<Links>>,
    tap: Option<Tap>,
    /// When the batch was received.
    received_us: u32,
    last_poll_ns: u64,
    next: usize,
    /// Sockets that may have datagrams, one bit each.
    readable: u16,
    /// Whether anything was received since the last read of the kernel's drop counter.
    may_have_dropped: bool,
    count_drops_at: u64,
}

/// Datagrams to send, tagged with the port to send from.
type UnsentDatagrams = Datagrams<PortKind>;

/// Counts datagrams that the kernel refused.
fn refused(unsent: &UnsentDatagrams, error: &std::io::Error, count: &mut Counters) {
    match is_unreachable(error) {
        true => count.dropped_unreachable += unsent.count(),
        false => count.send_errors += 1,
    }
}

/// Replaces a run by its datagrams.
fn split(unsent: &mut Vec<UnsentDatagrams>, place: usize) {
    let UnsentDatagrams { to, data, segment, tag } = unsent.remove(place);
    let datagrams =
        data.chunks(segment.into()).map(|data| UnsentDatagrams { to, data: data.to_vec(), segment: 0, tag });
    drop(unsent.splice(place..place, datagrams));
}

/// An emulated network, and the file that describes it.
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

    /// Rereads the file if it has changed, and counts the fate of datagrams.
    fn housekeep(&mut self, now_ns: u64, wall_ns: u64, count: &mut Counters) {
        let emulated = self.emulator.counters;
        (count.links_delayed, count.links_lost) = (emulated.delayed, emulated.lost);
        (count.links_cut, count.dropped_links_full) = (emulated.cut, emulated.full);
        if now_ns < self.look_at_ns {
            return;
        }
        self.look_at_ns = now_ns + links::LOOK_NS;
        self.emulator.set_ahead(wall_ns.saturating_sub(now_ns));
        match self.watch.look() {
            None => {}
            Some(Ok(rules)) => self.emulator.set_rules(rules),
            Some(Err(_)) => count.links_files_refused += 1,
        }
    }
}

/// Binds the listening ports, except those already bound.
fn listen(config: &mut Config, host: &Host<'_>) -> Result<Vec<(PortKind, UdpSocket)>, InitError> {
    let sharing = match (host.peers(), host.index()) {
        (1, _) => PortSharing::None,
        (_, 0) => PortSharing::First,
        _ => PortSharing::Joins,
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
    // Their senders have given them up, or will send them again.
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
            let options = Options { sharing: PortSharing::None, buffer_bytes: config.socket_buffer_bytes };
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
            tap: config.tap,
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
        let unsent = UnsentDatagrams { to, segment, data: data.to_vec(), tag: port };
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
        // A full buffer means that there is something to receive.
        if (self.may_have_dropped || self.resume.is_some()) && out.now() >= self.count_drops_at {
            (self.may_have_dropped, self.count_drops_at) = (false, out.now() + COUNT_DROPS_NS);
            out.count.dropped_by_kernel = self.sockets.iter().map(|(_, s)| s.kernel_drops()).sum();
        }
        if let Some(links) = &mut self.links {
            links.housekeep(out.now(), out.wall_ns(), out.count);
        }
    }

    fn wait_for(&self, wait: &mut WaitFor) {
        // The end of a full kernel buffer is not an event to wait for: check again soon.
        wait.until((!self.unsent.is_empty()).then_some(self.last_poll_ns + RETRY_NS));
        wait.until(self.links.as_ref().and_then(|links| links.emulator.next_ns()));
        // With a pending batch no socket is read: the tile waits for room, which the consumers announce.
        if self.resume.is_none() {
            wait.descriptors(self.sockets.iter().map(|(_, socket)| socket.raw_fd()));
        }
    }

    fn slept(&mut self, readable: u32) {
        let of_sockets = (1 << self.sockets.len()) - 1;
        self.readable |= (readable & of_sockets) as u16;
    }
}

impl Net {
    /// Receives from one of the sockets that may have datagrams. If none is known to, polls all of them, unless the
    /// core does so next, as it sleeps.
    fn receive(&mut self, out: &mut Out<'_, Self>) -> bool {
        if self.readable == 0 {
            if out.sleeps_next() {
                return false;
            }
            self.readable = readable(self.sockets.iter().map(|(_, socket)| socket));
        }
        for _ in 0..self.sockets.len() {
            let socket = self.next % self.sockets.len();
            self.next += 1;
            if self.readable >> socket & 1 == 0 {
                continue;
            }
            // One batch each, then all are polled again: a socket that never runs dry does not starve the others.
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

    /// Publishes the batch's datagrams from index `first` on, as far as there is room.
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
            self.tap.iter().for_each(|tap| tap.received(out.now(), &datagram));
        }
        true
    }

    /// Passes queued datagrams to the kernel. Returns whether it took any.
    fn send(&mut self, out: &mut Out<'_, Self>) -> bool {
        let mut done = 0;
        while done < self.unsent.len() {
            let port = self.unsent[done].tag;
            // A run from the same port is one system call.
            let run = self.unsent[done..].iter().take_while(|u| u.tag == port);
            let batch: Vec<Message<'_>> = run
                .map(|u| Message { to: u.to, data: &u.data, segment: (u.segment > 0).then_some(u.segment) })
                .collect();
            let socket = self.sockets.iter().find(|(kind, _)| *kind == port).unwrap_or(&self.sockets[0]);
            let taken = socket.1.send(&batch);
            drop(batch);
            match taken {
                Ok(0) => break,
                Ok(sent) => {
                    for u in &self.unsent[done..done + sent] {
                        out.count.sent += u.count();
                        out.count.sent_bytes += u.data.len() as u64;
                        out.sent_to(u.to, u.data.len());
                    }
                    done += sent;
                }
                // Not every kernel and device splits runs.
                Err(error) if may_be_split(&error) && self.unsent[done].count() > 1 => split(&mut self.unsent, done),
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

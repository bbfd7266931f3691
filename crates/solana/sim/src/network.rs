//! The network between the nodes: who gets which datagram, and when.
//!
//! reads   datagrams, the faults of the network
//! writes  datagrams, at the times at which they arrive
//! memory  what is under way; of gossip and of requests for repair the last [`CAPTURED_MAX`] each, for floods
//! drops   what is lost, cut off, or for no node: counted

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use hearth_pipeline::links::PortKind;

use crate::digest::Digest;
use crate::net::{ArrivedDatagram, SentDatagram};

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;
/// Datagrams arrive at multiples of this: what comes together is handled together.
const GRID_NS: u64 = 4 * MS;
/// Datagrams that strangers have seen.
const CAPTURED_MAX: usize = 32;
/// The ports of every node, by kind.
const PORTS: [(PortKind, u16); 7] = [
    (PortKind::Gossip, 8001),
    (PortKind::Tvu, 8003),
    (PortKind::Repair, 8005),
    (PortKind::ServeRepair, 8007),
    (PortKind::Udp, 9001),
    (PortKind::Quic, 9007),
    (PortKind::TxSend, 9100),
];

/// The address of a node.
pub fn ip(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, node as u8 + 1)
}

/// The address of a port, at the address of its node.
pub fn port_at(ip: Ipv4Addr, kind: PortKind) -> SocketAddrV4 {
    let port = PORTS.iter().find(|(other, _)| *other == kind).map_or(0, |(_, port)| *port);
    SocketAddrV4::new(ip, port)
}

/// The address of a node's port.
pub fn address(node: usize, kind: PortKind) -> SocketAddrV4 {
    port_at(ip(node), kind)
}

/// Returns the node and the port that have an address.
fn place(address: SocketAddr, nodes: usize) -> Option<(usize, PortKind)> {
    let SocketAddr::V4(address) = address else { return None };
    let [10, 0, 0, last] = address.ip().octets() else { return None };
    let node = usize::from(last).checked_sub(1).filter(|node| *node < nodes)?;
    PORTS.iter().find(|(_, port)| *port == address.port()).map(|(kind, _)| (node, *kind))
}

/// The faults of the network that are in effect.
#[derive(Clone, Debug, Default)]
pub struct NetworkFaults {
    /// Datagrams lost, in a thousand.
    pub loss: u64,
    /// Datagrams that come twice, in a thousand.
    pub duplicate: u64,
    /// How much longer each takes, ms.
    pub delay: u64,
    /// How much longer it may take beside, each by itself, ms.
    pub jitter: u64,
    /// Nothing that this node sends arrives.
    pub mute: Option<usize>,
    /// Nothing that is sent to this node arrives.
    pub deaf: Option<usize>,
    /// A node, and how many in a thousand of the shreds that it sends are withheld.
    pub withhold: Option<(usize, u64)>,
    /// A node, and how many in a thousand of the shreds that it sends are changed.
    pub garbage: Option<(usize, u64)>,
}

/// Counts of datagrams, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams that nodes gave to the network, whatever became of them.
    pub sent: u64,
    /// Datagrams handed to nodes, copies included.
    pub arrived: u64,
    /// Lost by chance, or withheld.
    pub lost: u64,
    /// Lost since a node was cut off.
    pub cut: u64,
    /// Datagrams that the fault `duplicate` delivered a second time.
    pub doubled: u64,
    /// Shreds in which the fault `garbage` changed a byte.
    pub changed: u64,
    /// For an address that no node has.
    pub astray: u64,
}

/// The simulated network: it delays, loses, copies and changes datagrams, all by its seed.
pub struct Network {
    nodes: usize,
    random: fastrand::Rng,
    /// The faults that are in effect now.
    pub weather: NetworkFaults,
    /// Counts of all datagrams of the run so far.
    pub traffic: Traffic,
    /// Ms from one node to another, half the way there and back.
    latency: Vec<u64>,
    /// Under way, by the time of arrival and in the order of sending.
    under_way: BTreeMap<(u64, u64), (usize, ArrivedDatagram)>,
    next: u64,
    gossip: VecDeque<Vec<u8>>,
    requests: VecDeque<Vec<u8>>,
}

impl Network {
    /// Between so many nodes, each pair at a distance of its own.
    pub fn new(nodes: usize, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let latency = (0..nodes * nodes).map(|_| random.u64(2..25)).collect();
        Self {
            nodes,
            random,
            weather: NetworkFaults::default(),
            traffic: Traffic::default(),
            latency,
            under_way: BTreeMap::new(),
            next: 0,
            gossip: VecDeque::new(),
            requests: VecDeque::new(),
        }
    }

    /// When the next datagram arrives.
    pub fn next_ns(&self) -> Option<u64> {
        self.under_way.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next datagram that has arrived by now, and at which node.
    pub fn due(&mut self, now: u64) -> Option<(usize, ArrivedDatagram)> {
        let (at, _) = *self.under_way.first_key_value()?.0;
        if at > now {
            return None;
        }
        self.traffic.arrived += 1;
        self.under_way.pop_first().map(|(_, arrived)| arrived)
    }

    /// Takes what a node sends.
    pub fn send(&mut self, now: u64, from: usize, sent: SentDatagram, digest: &mut Digest) {
        self.traffic.sent += 1;
        let SentDatagram { from: port, to, mut data } = sent;
        digest.word(now);
        digest.word((from as u64) << 32 | u64::from(to.port()));
        // What is encrypted is other bytes in each run, since TLS draws its own keys, and as many.
        match port {
            PortKind::Quic | PortKind::TxSend => digest.word(data.len() as u64),
            _ => digest.bytes(&data),
        }
        let Some((node, kind)) = place(to, self.nodes) else {
            self.traffic.astray += 1;
            return;
        };
        self.capture(kind, &data);
        if self.is_cut(from, node) {
            self.traffic.cut += 1;
            return;
        }
        let is_shred = kind == PortKind::Tvu;
        let withheld = self.weather.withhold.filter(|(who, _)| is_shred && *who == from).map_or(0, |(_, rate)| rate);
        if self.chance(self.weather.loss) || self.chance(withheld) {
            self.traffic.lost += 1;
            return;
        }
        let changed = self.weather.garbage.filter(|(who, _)| is_shred && *who == from).map_or(0, |(_, rate)| rate);
        if self.chance(changed) && !data.is_empty() {
            let at = self.random.usize(0..data.len());
            data[at] ^= self.random.u8(1..);
            self.traffic.changed += 1;
        }
        let arrived = ArrivedDatagram { from: address(from, port).into(), port: kind, data };
        if self.chance(self.weather.duplicate) {
            self.traffic.doubled += 1;
            self.put(now, from, node, arrived.clone());
        }
        self.put(now, from, node, arrived);
    }

    /// A node sends a shred to another beside what its tiles send, and it is neither lost nor withheld.
    pub fn send_beside(&mut self, now: u64, from: usize, to: usize, data: Vec<u8>) {
        let port = PortKind::Tvu;
        self.put(now, from, to, ArrivedDatagram { from: address(from, port).into(), port, data });
    }

    /// A stranger sends something to a node's port.
    pub fn send_strange(&mut self, now: u64, node: usize, port: PortKind, data: Vec<u8>) {
        let stranger = SocketAddrV4::new(Ipv4Addr::new(10, 9, self.random.u8(..), self.random.u8(1..)), 4_000);
        self.put(now, node, node, ArrivedDatagram { from: stranger.into(), port, data });
    }

    /// A datagram of gossip, or a request for repair, that was sent before: a stranger may send it again.
    pub fn captured(&mut self, port: PortKind) -> Option<Vec<u8>> {
        let seen = if port == PortKind::Gossip { &self.gossip } else { &self.requests };
        if seen.is_empty() {
            return None;
        }
        Some(seen[self.random.usize(0..seen.len())].clone())
    }

    /// Bytes that are nothing.
    pub fn noise(&mut self) -> Vec<u8> {
        let length = self.random.usize(1..1_200);
        (0..length).map(|_| self.random.u8(..)).collect()
    }

    fn capture(&mut self, kind: PortKind, data: &[u8]) {
        let seen = match kind {
            PortKind::Gossip => &mut self.gossip,
            PortKind::ServeRepair => &mut self.requests,
            _ => return,
        };
        if seen.len() == CAPTURED_MAX {
            seen.pop_front();
        }
        seen.push_back(data.to_vec());
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.weather.mute == Some(from) || self.weather.deaf == Some(to)
    }

    fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.random.u64(0..1_000) < per_mille
    }

    fn put(&mut self, now: u64, from: usize, to: usize, arrived: ArrivedDatagram) {
        let jitter = self.random.u64(0..=self.weather.jitter);
        let ms = self.latency[from * self.nodes + to] + self.weather.delay + jitter;
        let at = ((now + ms * MS) / GRID_NS + 1) * GRID_NS;
        self.next += 1;
        self.under_way.insert((at, self.next), (to, arrived));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(to: usize) -> SentDatagram {
        SentDatagram { from: PortKind::Tvu, to: address(to, PortKind::Tvu).into(), data: vec![7; 9] }
    }

    #[test]
    fn a_datagram_arrives_once_and_where_it_was_sent() {
        let mut network = Network::new(3, 1);
        network.send(5, 0, sent(2), &mut Digest::default());
        let at = network.next_ns().unwrap();
        assert!(network.due(at - 1).is_none());
        let (node, arrived) = network.due(at).unwrap();
        assert_eq!((node, arrived.port, arrived.data), (2, PortKind::Tvu, vec![7; 9]));
        assert_eq!(arrived.from, address(0, PortKind::Tvu).into());
        assert!(network.due(u64::MAX).is_none());
    }

    #[test]
    fn partitioned_datagram_does_not_arrive() {
        let mut network = Network::new(3, 1);
        network.weather.mute = Some(0);
        network.weather.deaf = Some(2);
        let mut digest = Digest::default();
        for (from, to) in [(0, 1), (1, 2), (1, 0), (2, 1)] {
            network.send(0, from, sent(to), &mut digest);
        }
        assert_eq!((network.traffic.cut, network.under_way.len()), (2, 2));
    }
}

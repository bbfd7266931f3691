//! The ports of a configuration, the keys that set them, and which of them may move.
//!
//! reads   the configuration
//! writes  nothing: `BoundPorts::take` binds

use std::io::ErrorKind;
use std::net::{SocketAddr, SocketAddrV4};

use hearth_machine::port::{PortError, Protocol};

use super::Config;

/// The key of JSON-RPC's port; WebSocket uses the next.
pub const RPC: &str = "rpc.port";
const METRICS: &str = "tiles.metric.prometheus_listen_port";
const UDP: &str = "tiles.quic.regular_transaction_listen_port";
const QUIC: &str = "tiles.quic.quic_transaction_listen_port";

/// The addresses that the node listens on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Receives transactions over QUIC: the TPU.
    pub quic: SocketAddr,
    /// Receives transactions over plain UDP: the TPU.
    pub udp: SocketAddr,
    /// Serves JSON-RPC over HTTP, for clients.
    pub rpc: SocketAddr,
    /// WebSocket subscriptions: one port above JSON-RPC.
    pub websocket: SocketAddr,
    /// Serves the metrics as Prometheus text.
    pub metrics: SocketAddr,
    /// The ports of a node in a cluster.
    pub cluster: Option<ClusterPorts>,
}

/// The additional ports of a node in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterPorts {
    /// Gossip, UDP; the IP echo server, TCP.
    pub gossip: SocketAddrV4,
    /// Receives shreds from Turbine, over UDP.
    pub tvu: SocketAddrV4,
    /// Sends repair requests and receives the responses, over UDP.
    pub repair: SocketAddrV4,
    /// Repair requests from others.
    pub serve_repair: SocketAddrV4,
}

impl ClusterPorts {
    /// The cluster ports of a configuration, if the node is in a cluster.
    pub fn of(config: &Config) -> Option<Self> {
        let (gossip, tiles) = (&config.gossip, &config.tiles);
        let ip = gossip.bind_address;
        gossip.enabled.then(|| Self {
            gossip: SocketAddrV4::new(ip, gossip.port),
            tvu: SocketAddrV4::new(ip, tiles.shred.shred_listen_port),
            repair: SocketAddrV4::new(ip, tiles.repair.repair_client_listen_port),
            serve_repair: SocketAddrV4::new(ip, tiles.repair.repair_serve_listen_port),
        })
    }

    /// The advertised address of another listener: one on all addresses is reached at gossip's. Gossip supports only
    /// IPv4.
    pub fn advertised(&self, listener: SocketAddr) -> Option<SocketAddrV4> {
        match listener {
            _ if listener.ip().is_unspecified() => Some(SocketAddrV4::new(*self.gossip.ip(), listener.port())),
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        }
    }
}

/// The purpose of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Gossip,
    Echo,
    Tvu,
    Repair,
    ServeRepair,
    Rpc,
    WebSocket,
    Metrics,
    Udp,
    Quic,
}

/// A port's purpose, and the key that sets it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub purpose: Purpose,
    what: &'static str,
    key: &'static str,
    address_key: &'static str,
    pub address: SocketAddr,
    pub protocol: Protocol,
}

impl Ports {
    /// The numbers of the named ports, with each one's purpose.
    pub fn numbers(&self, names: &[&str]) -> String {
        let Self { rpc, quic, udp, metrics, .. } = self;
        let ports = NAMES.iter().zip([rpc, quic, udp, metrics]).filter(|((_, name), _)| names.contains(name));
        let numbers: Vec<_> = ports.map(|((_, name), address)| format!("{name} {}", address.port())).collect();
        numbers.join(", ")
    }

    /// The ports of a parsed configuration.
    pub fn of(config: &Config) -> Self {
        let at = SocketAddr::new;
        let (tiles, rpc) = (&config.tiles, &config.rpc);
        Self {
            quic: at(tiles.net.bind_address, tiles.quic.quic_transaction_listen_port),
            udp: at(tiles.net.bind_address, tiles.quic.regular_transaction_listen_port),
            rpc: at(rpc.bind_address, rpc.port),
            // Port 0 is any free port, for both.
            websocket: at(rpc.bind_address, if rpc.port == 0 { 0 } else { rpc.port.saturating_add(1) }),
            metrics: at(tiles.metric.prometheus_listen_address, tiles.metric.prometheus_listen_port),
            cluster: ClusterPorts::of(config),
        }
    }

    /// Changes the address of one port.
    pub(crate) fn set(&mut self, purpose: Purpose, address: SocketAddr) {
        if let (Some(cluster), SocketAddr::V4(v4)) = (&mut self.cluster, address) {
            match purpose {
                Purpose::Gossip => cluster.gossip = v4,
                Purpose::Tvu => cluster.tvu = v4,
                Purpose::Repair => cluster.repair = v4,
                Purpose::ServeRepair => cluster.serve_repair = v4,
                _ => {}
            }
        }
        match purpose {
            Purpose::Rpc => self.rpc = address,
            Purpose::WebSocket => self.websocket = address,
            Purpose::Metrics => self.metrics = address,
            Purpose::Udp => self.udp = address,
            Purpose::Quic => self.quic = address,
            _ => {}
        }
    }

    /// All ports that the node listens on.
    pub(crate) fn uses(&self) -> Vec<Use> {
        use Protocol::{Tcp, Udp};
        let (net, ip) = ("tiles.net.bind_address", "gossip.bind_address");
        let of = |purpose, what, key, address_key, address, protocol| Use {
            purpose,
            what,
            key,
            address_key,
            address,
            protocol,
        };
        let cluster = self.cluster.iter().flat_map(|&ClusterPorts { gossip, tvu, repair, serve_repair }| {
            let [shreds, client, server] = [
                "tiles.shred.shred_listen_port",
                "tiles.repair.repair_client_listen_port",
                "tiles.repair.repair_serve_listen_port",
            ];
            [
                of(Purpose::Gossip, "gossip", "gossip.port", ip, gossip.into(), Udp),
                of(Purpose::Echo, "the IP echo server", "gossip.port", ip, gossip.into(), Tcp),
                of(Purpose::Tvu, "shreds", shreds, ip, tvu.into(), Udp),
                of(Purpose::Repair, "repair", client, ip, repair.into(), Udp),
                of(Purpose::ServeRepair, "repair's server", server, ip, serve_repair.into(), Udp),
            ]
        });
        let metrics = "tiles.metric.prometheus_listen_address";
        let own = [
            of(Purpose::Rpc, "HTTP (JSON-RPC)", RPC, "rpc.bind_address", self.rpc, Tcp),
            of(Purpose::WebSocket, "WebSocket (one above HTTP)", RPC, "rpc.bind_address", self.websocket, Tcp),
            of(Purpose::Metrics, "the metrics port", METRICS, metrics, self.metrics, Tcp),
            of(Purpose::Udp, "the UDP TPU port", UDP, net, self.udp, Udp),
            of(Purpose::Quic, "the QUIC TPU port", QUIC, net, self.quic, Udp),
        ];
        cluster.chain(own).collect()
    }

    /// Two keys with the same port, if any; the second should be changed.
    pub fn clash(&self) -> Option<(&'static str, &'static str, u16)> {
        let uses = self.uses();
        let same = |a: &Use, b: &Use| {
            let (ip_a, ip_b) = (a.address.ip(), b.address.ip());
            let meet = ip_a == ip_b || ip_a.is_unspecified() || ip_b.is_unspecified();
            // Port 0 is any free port.
            a.protocol == b.protocol && a.address.port() == b.address.port() && a.address.port() != 0 && meet
        };
        let pairs = uses.iter().enumerate().flat_map(|(i, a)| uses[i + 1..].iter().map(move |b| (a, b)));
        let found = pairs.into_iter().find(|(a, b)| a.key != b.key && same(a, b));
        found.map(|(a, b)| (a.key, b.key, b.address.port()))
    }
}

impl Use {
    /// The error for a port that cannot be bound.
    pub(crate) fn error(&self, source: std::io::Error) -> PortError {
        let key = if source.kind() == ErrorKind::AddrNotAvailable { self.address_key } else { self.key };
        PortError::of(self.address, self.protocol, self.what, key, source)
    }
}

/// The ports that may move if they have their defaults: their keys, and their places in the configuration.
pub(crate) fn movable(config: &mut Config) -> [(&'static str, &mut u16); 4] {
    let (rpc, tiles) = (&mut config.rpc, &mut config.tiles);
    [
        (RPC, &mut rpc.port),
        (METRICS, &mut tiles.metric.prometheus_listen_port),
        (UDP, &mut tiles.quic.regular_transaction_listen_port),
        (QUIC, &mut tiles.quic.quic_transaction_listen_port),
    ]
}

/// The names of the ports that may move, by key.
const NAMES: [(&str, &str); 4] = [(RPC, "RPC"), (QUIC, "QUIC"), (UDP, "UDP"), (METRICS, "metrics")];

/// The name of a key's port, if it may move.
pub(crate) fn name_of(key: &'static str) -> Option<&'static str> {
    NAMES.iter().find(|(other, _)| *other == key).map(|(_, name)| *name)
}

/// The keys of the ports that do move.
pub(crate) fn moving(config: &Config, asked: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let (mut config, mut default) = (config.clone(), Config::default());
    let both = movable(&mut config).into_iter().zip(movable(&mut default));
    both.filter(|((key, port), (_, default))| port == default && !asked(key)).map(|((key, _), _)| key).collect()
}

/// Whether the port of a key is among those that move.
pub(crate) fn moves(config: &Config, key: &str, asked: &dyn Fn(&str) -> bool) -> bool {
    moving(config, asked).contains(&key)
}

/// The configuration with its movable defaults moved up by this much.
pub(crate) fn moved_up(config: &Config, by: u16, asked: &dyn Fn(&str) -> bool) -> Config {
    let (keys, mut moved) = (moving(config, asked), config.clone());
    for (_, port) in movable(&mut moved).into_iter().filter(|(key, _)| keys.contains(key)) {
        *port += by;
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcard_listener_gets_the_gossip_address() {
        let mut config = Config::default();
        (config.gossip.enabled, config.gossip.bind_address) = (true, "203.0.113.7".parse().unwrap());
        let ports = ClusterPorts::of(&config).unwrap();
        let advertised =
            |listener: &str| ports.advertised(listener.parse().unwrap()).map(|address| address.to_string());
        assert_eq!(advertised("0.0.0.0:8899").as_deref(), Some("203.0.113.7:8899"));
        assert_eq!(advertised("[::]:8899").as_deref(), Some("203.0.113.7:8899"));
        assert_eq!(advertised("198.51.100.1:8899").as_deref(), Some("198.51.100.1:8899"));
        assert_eq!(advertised("[2001:db8::1]:8899"), None);
        config.gossip.enabled = false;
        assert_eq!(ClusterPorts::of(&config), None);
    }
}

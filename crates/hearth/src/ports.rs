//! The node's ports: where it listens, and whether it can.
//!
//! reads   the configuration; opens each port and closes it again
//! writes  nothing; [`choose`] and [`choose_beside`] the configuration
//!
//! Looked at before a chain is made or replayed: a port in use is better known in the first moment. The tiles and the
//! RPC open them again at boot, and say so if somebody was quicker.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use crate::config::Config;
use crate::peers::ClusterPorts;

/// The key of JSON-RPC's port; WebSocket has the next.
pub const RPC: &str = "rpc.port";
const METRICS: &str = "tiles.metric.prometheus_listen_port";
const UDP: &str = "tiles.quic.regular_transaction_listen_port";
const QUIC: &str = "tiles.quic.quic_transaction_listen_port";

/// Where the node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// TPU over QUIC.
    pub quic: SocketAddr,
    /// TPU over UDP.
    pub udp: SocketAddr,
    /// JSON-RPC over HTTP.
    pub rpc: SocketAddr,
    /// Prometheus.
    pub metrics: SocketAddr,
    /// Those of the cluster, where the node is in one.
    pub cluster: Option<ClusterPorts>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

/// One port: what for, and the key that sets it.
struct Use {
    what: &'static str,
    key: &'static str,
    address_key: &'static str,
    address: SocketAddr,
    protocol: Protocol,
}

/// Why the node cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Somebody else does.
    #[error(
        "cannot listen on {address} for {what}: the port is in use. Stop the other program (`{tool}` names it), or \
         choose another port ({key})"
    )]
    InUse {
        /// Where.
        address: SocketAddr,
        /// What for.
        what: &'static str,
        /// The program that lists who listens.
        tool: &'static str,
        /// The configuration's key.
        key: &'static str,
    },
    /// Another reason.
    #[error("cannot listen on {address} for {what}: {source} ({key})")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What for.
        what: &'static str,
        /// The key that is wrong.
        key: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

impl Ports {
    /// Each by what it is for.
    pub fn numbers(&self) -> String {
        let Self { rpc, quic, udp, metrics, .. } = self;
        let [rpc, quic, udp, metrics] = [rpc, quic, udp, metrics].map(SocketAddr::port);
        format!("RPC {rpc}, QUIC {quic}, UDP {udp}, metrics {metrics}")
    }

    /// The ports of a configuration that was read.
    pub fn of(config: &Config) -> Self {
        let at = |address: &str, port| {
            let ip: IpAddr = address.parse().expect("checked when the configuration was read");
            SocketAddr::new(ip, port)
        };
        let (tiles, rpc) = (&config.tiles, &config.rpc);
        Self {
            quic: at(&tiles.net.bind_address, tiles.quic.quic_transaction_listen_port),
            udp: at(&tiles.net.bind_address, tiles.quic.regular_transaction_listen_port),
            rpc: at(&rpc.bind_address, rpc.port),
            metrics: at(&tiles.metric.prometheus_listen_address, tiles.metric.prometheus_listen_port),
            cluster: ClusterPorts::of(config),
        }
    }

    fn uses(&self) -> Vec<Use> {
        // Port 0 is whichever is free, for both.
        let above = if self.rpc.port() == 0 { 0 } else { self.rpc.port().saturating_add(1) };
        let websocket = SocketAddr::new(self.rpc.ip(), above);
        let of = |what, key, address_key, address, protocol| Use { what, key, address_key, address, protocol };
        let net = "tiles.net.bind_address";
        let mut uses = self
            .cluster
            .iter()
            .flat_map(|cluster| {
                let ClusterPorts { gossip, tvu, repair, serve_repair } = *cluster;
                let ip = "gossip.bind_address";
                [
                    of("gossip", "gossip.port", ip, gossip.into(), Protocol::Udp),
                    of("the IP echo server", "gossip.port", ip, gossip.into(), Protocol::Tcp),
                    of("shreds", "tiles.shred.shred_listen_port", ip, tvu.into(), Protocol::Udp),
                    of("repair", "tiles.repair.repair_client_listen_port", ip, repair.into(), Protocol::Udp),
                    of(
                        "repair's server",
                        "tiles.repair.repair_serve_listen_port",
                        ip,
                        serve_repair.into(),
                        Protocol::Udp,
                    ),
                ]
            })
            .collect::<Vec<_>>();
        uses.extend([
            of("HTTP (JSON-RPC)", RPC, "rpc.bind_address", self.rpc, Protocol::Tcp),
            of("WebSocket (one above HTTP)", RPC, "rpc.bind_address", websocket, Protocol::Tcp),
            of("the metrics port", METRICS, "tiles.metric.prometheus_listen_address", self.metrics, Protocol::Tcp),
            of("the UDP TPU port", UDP, net, self.udp, Protocol::Udp),
            of("the QUIC TPU port", QUIC, net, self.quic, Protocol::Udp),
        ]);
        uses
    }

    /// Two keys that want the same port, if any; the second is to be changed.
    pub fn clash(&self) -> Option<(&'static str, &'static str, u16)> {
        let uses = self.uses();
        let same = |a: &Use, b: &Use| {
            let (ip_a, ip_b) = (a.address.ip(), b.address.ip());
            let meet = ip_a == ip_b || ip_a.is_unspecified() || ip_b.is_unspecified();
            // Port 0 is whichever is free.
            a.protocol == b.protocol && a.address.port() == b.address.port() && a.address.port() != 0 && meet
        };
        let pairs = uses.iter().enumerate().flat_map(|(i, a)| uses[i + 1..].iter().map(move |b| (a, b)));
        let found = pairs.into_iter().find(|(a, b)| a.key != b.key && same(a, b));
        found.map(|(a, b)| (a.key, b.key, b.address.port()))
    }

    /// Opens every port and closes it again.
    pub fn check(&self) -> Result<(), PortError> {
        self.uses().iter().try_for_each(|port| {
            let opened = match port.protocol {
                Protocol::Tcp => TcpListener::bind(port.address).map(drop),
                Protocol::Udp => UdpSocket::bind(port.address).map(drop),
            };
            opened.map_err(|source| port.error(source))
        })
    }
}

impl Use {
    fn error(&self, source: std::io::Error) -> PortError {
        let Use { what, key, address_key, address, protocol } = *self;
        match source.kind() {
            ErrorKind::AddrInUse => {
                let tool = if protocol == Protocol::Tcp { "ss -ltnp" } else { "ss -lunp" };
                PortError::InUse { address, what, tool, key }
            }
            ErrorKind::AddrNotAvailable => PortError::Listen { address, what, key: address_key, source },
            _ => PortError::Listen { address, what, key, source },
        }
    }
}

/// Where ports have their defaults and somebody listens on one, moves those with defaults up by the same hundreds.
/// True when it did. Another's port is left alone where the configuration names it: [`Ports::check`] tells.
pub fn choose(config: &mut Config) -> bool {
    choose_beside(config, &|_| false)
}

/// The same; a port whose key is one of those `asked` for is left alone too, though it is asked for at its default.
pub fn choose_beside(config: &mut Config, asked: &dyn Fn(&str) -> bool) -> bool {
    if Ports::of(config).check().is_ok() {
        return false;
    }
    let moved = (1..=100).map(|hundreds| moved_up(config, 100 * hundreds, asked)).find(|moved| {
        let ports = Ports::of(moved);
        ports.clash().is_none() && ports.check().is_ok()
    });
    let found = moved.is_some();
    if let Some(moved) = moved {
        *config = moved;
    }
    found
}

fn moved_up(config: &Config, by: u16, asked: &dyn Fn(&str) -> bool) -> Config {
    let (mut moved, default) = (config.clone(), Config::default());
    let (to, from) = (&mut moved, &default);
    let quic = (&mut to.tiles.quic, &from.tiles.quic);
    for (key, port, default) in [
        (RPC, &mut to.rpc.port, from.rpc.port),
        (METRICS, &mut to.tiles.metric.prometheus_listen_port, from.tiles.metric.prometheus_listen_port),
        (UDP, &mut quic.0.regular_transaction_listen_port, quic.1.regular_transaction_listen_port),
        (QUIC, &mut quic.0.quic_transaction_listen_port, quic.1.quic_transaction_listen_port),
    ] {
        if *port == default && !asked(key) {
            *port += by;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ports_with_defaults_move() {
        let mut config = Config::default();
        config.rpc.port = 12_345;
        let ports = Ports::of(&moved_up(&config, 300, &|_| false));
        let numbers = [ports.rpc, ports.metrics, ports.udp, ports.quic].map(|address| address.port());
        assert_eq!(numbers, [12_345, 8_299, 9_301, 9_307]);
        let asked = moved_up(&Config::default(), 300, &|key| key == RPC);
        assert_eq!((asked.rpc.port, asked.tiles.quic.quic_transaction_listen_port), (8_899, 9_307));
    }

    #[test]
    fn a_taken_default_moves_them_all_and_a_taken_choice_is_told() {
        // Whether we take it or somebody has: it is taken.
        let _taken = TcpListener::bind(("127.0.0.1", Config::default().rpc.port));
        let mut config = Config::default();
        assert!(choose(&mut config));
        let moved = config.rpc.port - Config::default().rpc.port;
        assert!(moved > 0 && moved.is_multiple_of(100), "{moved}");
        assert_eq!(config.tiles.quic.quic_transaction_listen_port, 9007 + moved);

        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut config = Config::default();
        config.tiles.metric.prometheus_listen_port = taken.local_addr().unwrap().port();
        let before = config.clone();
        assert!(!choose(&mut config) && config == before);
        assert!(Ports::of(&config).check().is_err());
    }

    #[test]
    fn two_keys_for_one_port_clash() {
        let mut config = Config::default();
        assert_eq!(Ports::of(&config).clash(), None);
        config.tiles.metric.prometheus_listen_port = config.rpc.port + 1;
        let expected = Some(("rpc.port", "tiles.metric.prometheus_listen_port", 8900));
        assert_eq!(Ports::of(&config).clash(), expected);
        // Another address of this machine has ports of its own; all addresses include each.
        config.rpc.bind_address = "127.0.0.2".into();
        assert_eq!(Ports::of(&config).clash(), None);
        config.rpc.bind_address = "0.0.0.0".into();
        assert_eq!(Ports::of(&config).clash(), expected);
        // TCP and UDP do not meet.
        let mut config = Config::default();
        config.tiles.quic.quic_transaction_listen_port = config.rpc.port;
        assert_eq!(Ports::of(&config).clash(), None);
    }

    #[test]
    fn a_port_in_use_names_its_key_and_who_to_ask() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut config = Config::default();
        config.tiles.quic.quic_transaction_listen_port = taken.local_addr().unwrap().port();
        let quic = Ports::of(&config).uses().into_iter().next_back().unwrap();
        let error = UdpSocket::bind(quic.address).unwrap_err();
        let said = quic.error(error).to_string();
        let parts = ["the QUIC TPU port", "in use", "`ss -lunp`", "(tiles.quic.quic_transaction_listen_port)"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

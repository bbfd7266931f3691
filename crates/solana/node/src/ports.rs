//! Binds the node's ports before its chain is opened.
//!
//! reads   the configuration
//! writes  the node's sockets; the configuration, if default ports are in use and others are free
//! memory  the kernel's buffers of the UDP sockets
//!
//! Checking whether a port is free and binding it later would lose it to another program: of several nodes that start
//! together all but one would fail. So sockets are bound once, and each is handed to the tile or thread that uses it.

use std::io;
use std::net::TcpListener;

use hearth_machine::port::{PortError, Protocol, ReservedTcp};
use hearth_pipeline::links::PortKind;
use hearth_tile::sys::udp::{Options, PortSharing, UdpSocket};

use crate::config::ports::{Purpose, Use, moved_up, moves, moving, name_of};
use crate::config::{Config, Ports};
use crate::peers::join::scout::GossipSockets;

/// How many steps of 100 above the defaults are tried.
const HUNDREDS_MAX: u16 = 100;

/// The bound ports of a node.
#[derive(Debug)]
pub struct BoundPorts {
    /// The addresses that were bound, after any move.
    pub ports: Ports,
    /// The purposes of the ports that moved because their defaults are in use.
    pub moved: Vec<&'static str>,
    sockets: Vec<(Use, Socket)>,
}

#[derive(Debug)]
enum Socket {
    Tcp(ReservedTcp),
    Udp(UdpSocket),
}

impl BoundPorts {
    /// Binds the ports of a configuration for `net_tiles` net tiles. If another program uses a default port, all ports
    /// with defaults move up together by the same number of hundreds, in the configuration too. A port whose key is in
    /// `asked` does not move, even if it has its default value.
    ///
    /// # Errors
    ///
    /// Another program uses a port that the configuration names.
    pub fn take(config: &mut Config, net_tiles: usize, asked: &dyn Fn(&str) -> bool) -> Result<Self, PortError> {
        let mut refused = match Self::bind(config, net_tiles) {
            Ok(bound) => return Ok(bound),
            Err(refused) => refused,
        };
        for hundreds in 1..=HUNDREDS_MAX {
            if !moves(config, refused.key(), asked) {
                break;
            }
            let moved = moved_up(config, 100 * hundreds, asked);
            if Ports::of(&moved).clash().is_some() {
                continue;
            }
            match Self::bind(&moved, net_tiles) {
                Ok(bound) => {
                    let names = moving(config, asked).into_iter().filter_map(name_of).collect();
                    *config = moved;
                    return Ok(Self { moved: names, ..bound });
                }
                Err(why) => refused = why,
            }
        }
        Err(refused.explained())
    }

    /// Binds all ports, or none.
    fn bind(config: &Config, net_tiles: usize) -> Result<Self, PortError> {
        let mut ports = Ports::of(config);
        let is_used = |port: &Use| !(config.follows() && matches!(port.purpose, Purpose::Udp | Purpose::Quic));
        let mut sockets = vec![];
        for port in ports.uses().into_iter().filter(is_used) {
            let bound = match port.protocol {
                Protocol::Tcp => ReservedTcp::hold(port.address).map(Socket::Tcp),
                Protocol::Udp => UdpSocket::bind(port.address, options(config, net_tiles)).map(Socket::Udp),
            };
            sockets.push((port, bound.map_err(|source| port.error(source))?));
        }
        for (port, socket) in &sockets {
            let address = match socket {
                Socket::Tcp(held) => held.address(),
                Socket::Udp(socket) => socket.local_addr(),
            };
            ports.set(port.purpose, address);
        }
        Ok(Self { ports, moved: vec![], sockets })
    }

    fn remove(&mut self, purpose: Purpose) -> (Use, Socket) {
        let at = self.sockets.iter().position(|(port, _)| port.purpose == purpose);
        self.sockets.swap_remove(at.expect("each socket is taken once, by who uses it"))
    }

    fn tcp(&mut self, purpose: Purpose) -> (Use, ReservedTcp) {
        match self.remove(purpose) {
            (port, Socket::Tcp(held)) => (port, held),
            (_, Socket::Udp(_)) => unreachable!("the port speaks UDP"),
        }
    }

    fn udp(&mut self, purpose: Purpose) -> UdpSocket {
        match self.remove(purpose).1 {
            Socket::Udp(socket) => socket,
            Socket::Tcp(_) => unreachable!("the port speaks TCP"),
        }
    }

    fn listen(&mut self, purpose: Purpose) -> Result<TcpListener, PortError> {
        let (port, held) = self.tcp(purpose);
        held.listen().map_err(|source| port.error(source).explained())
    }

    /// The listener of the metrics.
    pub fn metrics(&mut self) -> Result<TcpListener, PortError> {
        self.listen(Purpose::Metrics)
    }

    /// The listeners of JSON-RPC over HTTP and of WebSocket.
    pub fn rpc(&mut self) -> Result<[TcpListener; 2], PortError> {
        Ok([self.listen(Purpose::Rpc)?, self.listen(Purpose::WebSocket)?])
    }

    /// The sockets of the net tiles.
    pub fn net(&mut self) -> Vec<(PortKind, UdpSocket)> {
        let kinds = [
            (Purpose::Quic, PortKind::Quic),
            (Purpose::Udp, PortKind::Udp),
            (Purpose::Tvu, PortKind::Tvu),
            (Purpose::Repair, PortKind::Repair),
            (Purpose::Gossip, PortKind::Gossip),
            (Purpose::ServeRepair, PortKind::ServeRepair),
        ];
        let has = |purpose, ports: &Self| ports.sockets.iter().any(|(port, _)| port.purpose == purpose);
        let mut found = vec![];
        for (purpose, kind) in kinds {
            if has(purpose, self) {
                found.push((kind, self.udp(purpose)));
            }
        }
        found
    }

    /// The listener of the IP echo server.
    pub fn echo(&mut self) -> ReservedTcp {
        self.tcp(Purpose::Echo).1
    }

    /// Shares gossip's sockets with a thread that joins before the node runs.
    pub fn share_gossip(&self) -> io::Result<GossipSockets> {
        let find = |purpose| self.sockets.iter().find(|(port, _)| port.purpose == purpose).map(|(_, socket)| socket);
        match (find(Purpose::Gossip), find(Purpose::Echo)) {
            (Some(Socket::Udp(udp)), Some(Socket::Tcp(echo))) => {
                Ok(GossipSockets { udp: udp.try_clone()?, echo: echo.share()? })
            }
            _ => unreachable!("a node that joins is in a cluster, and has not begun to gossip"),
        }
    }

    /// After that thread has ended: the IP echo server's port refuses connections again until the node runs.
    pub fn hold_gossip(&mut self) -> io::Result<()> {
        let (port, echo) = self.tcp(Purpose::Echo);
        self.sockets.push((port, Socket::Tcp(echo.again()?)));
        Ok(())
    }
}

fn options(config: &Config, net_tiles: usize) -> Options {
    Options {
        sharing: if net_tiles > 1 { PortSharing::First } else { PortSharing::None },
        buffer_bytes: config.tiles.net.socket_buffer_bytes,
    }
}

#[cfg(test)]
mod tests;
